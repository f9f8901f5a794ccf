"""Cells in processes of their own: a crash or a kill of one leaves the others alone."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from npugraph.bench.cell import Circumstances
from npugraph.bench.execute import Event
from npugraph.bench.graphs import remove_unused
from npugraph.bench.plan import Cell
from npugraph.children import end, environment, how_it_ended

COMMAND = (sys.executable, "-m", "npugraph.bench.worker")
# Lines of stderr that an error keeps.
LAST_LINES = 5


@dataclass
class _Child:
    cell: Cell
    process: subprocess.Popen[str]
    log: Path
    outcome: dict[str, Any] | None = None


class Processes:
    """Runs cells as child processes of the bench."""

    def __init__(self, how: Circumstances, threads: int | None = None) -> None:
        """Run cells under some circumstances, each with so many CPU threads.

        Without ``threads`` the cores are shared evenly, unless OMP_NUM_THREADS says otherwise.
        """
        self.how = how
        self.environment = environment(threads, how.workers)
        self.children: dict[str, _Child] = {}
        self.events: queue.Queue[tuple[_Child, dict[str, Any] | None]] = queue.Queue()

    def start(self, cell: Cell) -> None:
        """Start the process of a cell."""
        folder = self.how.work / "cells"
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"{cell.key}.log"
        with log.open("w") as stderr:
            process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                encoding="utf-8",
                env=self.environment,
                # Ctrl-C is for the bench, which then ends its children.
                start_new_session=True,
            )
        child = _Child(cell, process, log)
        self.children[cell.key] = child
        threading.Thread(target=self._listen, args=(child,), daemon=True).start()
        how = {**asdict(self.how), "work": str(self.how.work)}
        order = {"cell": cell.to_json(), "how": how, "sent": time.time()}
        assert process.stdin is not None
        # If it died at once, the listener will say so.
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()

    def _listen(self, child: _Child) -> None:
        """Pass on what a child writes, and at the end that it ended."""
        assert child.process.stdout is not None
        for text in child.process.stdout:
            # A line that is cut short is of a process that was killed, any other strange one of a
            # library that prints while it is imported.
            with contextlib.suppress(ValueError):
                self.events.put((child, json.loads(text)))
        child.process.wait()
        self.events.put((child, None))

    def wait(self, seconds: float) -> list[Event]:
        """Return what happened; waits at most so long for something to happen."""
        found = []
        try:
            while True:
                child, line = self.events.get(timeout=seconds)
                found += self._event(child, line)
                seconds = 0.0
        except queue.Empty:
            return found

    def _event(self, child: _Child, line: dict[str, Any] | None) -> list[Event]:
        if self.children.get(child.cell.key) is not child:
            return []  # It was stopped.
        if line is None:
            self._forget(child)
            if child.outcome is None:
                return [Event(child.cell, error=_last_words(child))]
            if "result" in child.outcome:
                child.log.unlink()
                child.log.with_suffix(".lock").unlink(missing_ok=True)
            return [Event(child.cell, **child.outcome)]
        if "epoch" in line:
            return [Event(child.cell, epoch=line["epoch"])]
        child.outcome = line
        return []

    def _forget(self, child: _Child) -> None:
        del self.children[child.cell.key]
        assert child.process.stdin is not None
        assert child.process.stdout is not None
        # What could not be sent to a dead process cannot be flushed either.
        with contextlib.suppress(OSError):
            child.process.stdin.close()
        child.process.stdout.close()

    def stop(self, *cells: Cell) -> None:
        """End the processes of some cells; they keep their checkpoints."""
        children = [self.children[cell.key] for cell in cells if cell.key in self.children]
        end(*(child.process for child in children))
        for child in children:
            del self.children[child.cell.key]

    def close(self) -> None:
        """End all processes."""
        self.stop(*(child.cell for child in list(self.children.values())))
        remove_unused(self.how.work)


def _last_words(child: _Child) -> str:
    """Say why a process ended without a result."""
    lines = [line for line in child.log.read_text(errors="replace").splitlines() if line.strip()]
    said = "\n".join(lines[-LAST_LINES:])
    return f"The process {how_it_ended(child.process.returncode)}.\n{said}".strip()
