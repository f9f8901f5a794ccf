"""What the benchmarks share: where results go, and what a line says of its circumstances."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from npugraph import __version__
from npugraph.bench.sources import provenance

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
# Keeps freed memory in the process: without it, large fresh tensors cost one fault per page.
ALLOCATOR = (
    "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296:"
    "glibc.malloc.top_pad=268435456"
)
Record = dict[str, Any]


def append(path: Path, record: Record) -> None:
    """Write a result as one more line of a file, with the sources it came from."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**record, **provenance()}) + "\n")


def command(module: str, words: Sequence[str]) -> str:
    """Return what gives a result again; where it was written does not matter."""
    kept = list(words)
    if "--out" in kept:
        place = kept.index("--out")
        kept = kept[:place] + kept[place + 2 :]
    return shlex.join(["python", "-m", module, *kept])


def circumstances(packages: Iterable[str]) -> Record:
    """Return versions, processor and cores."""
    return {
        "versions": {
            "npugraph": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
        },
        "cpu": _cpu(),
        "cores": os.cpu_count(),
    }


def machine(cuda: bool) -> str:
    """Name the processor that does the work."""
    if cuda:
        return torch.cuda.get_device_name()
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def others_time() -> float:
    """Return the processor seconds that all other processes have used since the machine started.

    Those that this one has started and that have ended are not among them.
    """
    ticks = [int(x) for x in Path("/proc/stat").read_text(encoding="ascii").split()[1:9]]
    own = sum(os.times()[:4])
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK") - own


def in_own_process(module: str, words: Sequence[str], variables: Mapping[str, str]) -> Any:
    """Run ``python -m module words`` and return the JSON value of its last line.

    A process of its own, because settings of the allocator and of threads are read when one starts.

    Raises:
        RuntimeError: the process failed, for want of memory for instance.
    """
    line = [sys.executable, "-m", module, *words]
    done = subprocess.run(
        line, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise RuntimeError(f"failed ({done.returncode}) {' '.join(last)}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def launch(module: str, task: Record, label: str, unit: str) -> Record | None:
    """Run one measurement in a process of its own, and say how it went.

    Args:
        module: to run; it takes the task as ``--worker JSON``.
        task: its ``allocator`` and ``threads`` are set for the process.
        label: names the measurement.
        unit: what is done per second; the record has it as ``unit_per_second``.

    Returns:
        The record, or None where the process failed.
    """
    label = f"{label}, allocator setting {'on' if task['allocator'] else 'off'}"
    variables = {
        "GLIBC_TUNABLES": ALLOCATOR if task["allocator"] else "",
        "OMP_NUM_THREADS": str(task["threads"]),
    }
    try:
        record: Record = in_own_process(module, ["--worker", json.dumps(task)], variables)
    except RuntimeError as error:
        print(f"  {label}: {error}", file=sys.stderr)
        return None
    print(f"  {label}: {record[f'{unit}_per_second']:,.1f} {unit}/s", file=sys.stderr)
    return record


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
