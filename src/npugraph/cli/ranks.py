"""fit --ranks: start the command once per rank and end all when one dies; and be such a rank."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npugraph.children import GRACE, end, environment, how_it_ended
from npugraph.errors import RankError, SettingsError

if TYPE_CHECKING:
    from npugraph.peers import Peers

RanksOption = Annotated[
    int,
    typer.Option(
        "--ranks",
        help="Train in so many processes on this machine (on a GPU: one GPU each). Each has its "
        "share of the dimensions or, for path and npugraph-path, of a step's questions. Several "
        "machines: start it by torchrun instead.",
        min=1,
    ),
]
# Tells a process that this module has started it, and sees to its end.
STARTED = "NPUGRAPH_RANK_STARTED"
# Exit code of a rank that ends because another is gone.
LOST = 75
# Seconds between two looks at the ranks.
LOOK = 0.05


def must_start(ranks: int) -> bool:
    """Tell whether this process is to start the ranks; else it is one of them, or alone."""
    told = os.environ.get("WORLD_SIZE", "1") if "RANK" in os.environ else None
    if ranks > 1 and told is not None and told != str(ranks):
        raise SettingsError(
            f"--ranks {ranks}, but this process was started as one of {told} (WORLD_SIZE); leave "
            "--ranks out where torchrun starts them."
        )
    return ranks > 1 and told is None


def start(ranks: int) -> None:
    """Run this command as so many ranks; the first speaks for all."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port, STARTED: 1}
    base = environment(workers=ranks) | {"MASTER_ADDR": "127.0.0.1"}
    base |= {name: str(value) for name, value in shared.items()}
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"{rank}.log" for rank in range(ranks)]
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank, log in enumerate(logs):
                processes.append(_started(rank, log, base))
            _watch(processes, logs)
        finally:
            running = [process for process in processes if process.poll() is None]
            # The first before the others: it has something to say.
            end(*running[:1])
            end(*running[1:])


def _started(rank: int, log: Path, base: dict[str, str]) -> subprocess.Popen[bytes]:
    with log.open("wb") as quiet:
        return subprocess.Popen(
            [sys.executable, "-m", "npugraph", *sys.argv[1:]],
            # It stays open as long as this process lives.
            stdin=subprocess.PIPE,
            stdout=None if rank == 0 else subprocess.DEVNULL,
            stderr=None if rank == 0 else quiet,
            env={**base, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            # Ctrl-C is for this process, which then ends the others.
            start_new_session=True,
        )


def _watch(processes: list[subprocess.Popen[bytes]], logs: list[Path]) -> None:
    """Return when all ranks are done; where one dies, say so."""
    noticed: float | None = None
    while any(process.poll() is None for process in processes):
        now = time.monotonic()
        if noticed is None and any(process.returncode for process in processes):
            noticed = now
        # The others end by themselves in a moment, and one of them may know more.
        if noticed is not None and now - noticed > GRACE:
            break
        time.sleep(LOOK)
    codes = [process.poll() or 0 for process in processes]
    failed = [rank for rank, code in enumerate(codes) if code]
    if failed:
        cause = min(failed, key=lambda rank: codes[rank] == LOST)
        raise _failure(cause, codes[cause], logs[cause])


def _failure(rank: int, code: int, log: Path) -> RankError | SystemExit:
    """Return what to raise for a rank that ended with a code."""
    said = log.read_text(encoding="utf-8", errors="replace").strip()
    if code > 0 and code != LOST and (rank == 0 or said.startswith("error: ")):
        # The first rank has said it itself.
        sys.stderr.write(f"{said}\n" if said else "")
        return SystemExit(code)
    why = how_it_ended(code) if code != LOST else "lost the others"
    last = f" ({said.splitlines()[-1]})" if said else ""
    return RankError(
        f"Rank {rank} {why}{last}, so all ranks were ended; go on with the same command and "
        "--resume."
    )


@contextlib.contextmanager
def as_rank(device: str) -> Iterator[Peers]:
    """Be one of the ranks that the environment names, or alone; only the first speaks."""
    from npugraph.peers import join
    from npugraph.training.loop import choose_device

    started = STARTED in os.environ
    if started:
        threading.Thread(target=_end_with_the_starter, daemon=True).start()
    try:
        peers = join(choose_device(device))
        if peers.rank:
            for name in ("npugraph", "npugraph.cli"):
                logging.getLogger(name).setLevel(logging.ERROR)
        yield peers
        peers.leave()
    except RankError:
        if started:
            # Who started it knows which rank is gone.
            raise SystemExit(LOST) from None
        raise


def _end_with_the_starter() -> None:
    # Not sys.stdin: it may not be held by a thread when Python ends.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
