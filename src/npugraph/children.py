"""Processes that this package starts: what they are told, how they are ended, how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# Seconds that a process gets to end by itself.
GRACE = 5.0


def environment(threads: int | None = None, workers: int = 1) -> dict[str, str]:
    """Return the environment of one of several processes: this package, and its share of the cores.

    Without ``threads`` the cores are shared evenly, unless OMP_NUM_THREADS says otherwise.
    """
    variables = dict(os.environ)
    if threads is None and "OMP_NUM_THREADS" not in variables:
        threads = max(1, (os.cpu_count() or 1) // workers)
    if threads is not None:
        variables |= dict.fromkeys(THREAD_VARIABLES, str(threads))
    # The package that runs now, wherever the children start.
    root = str(Path(__file__).resolve().parents[1])
    paths = [root, *filter(None, [variables.get("PYTHONPATH")])]
    variables["PYTHONPATH"] = os.pathsep.join(paths)
    return variables


def end(*processes: subprocess.Popen[Any]) -> None:
    """End processes, by force where asking does not help."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def how_it_ended(code: int) -> str:
    """Say how a process ended that gave this exit code.

    >>> how_it_ended(3), how_it_ended(-9)
    ('ended with code 3', 'was ended by SIGKILL; perhaps the memory did not suffice')
    """
    if code >= 0:
        return f"ended with code {code}"
    name = signal.Signals(-code).name
    hint = "; perhaps the memory did not suffice" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"
