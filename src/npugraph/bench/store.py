"""The results of cells: two files of JSON lines in one folder.

    results.jsonl   one line per cell: its figures and all settings; no times, no dates
    costs.jsonl     one line per cell: seconds, memory, machine, date, and the command that runs it

A line is added when a cell ends. The last line of a key counts, and a line that a kill cut short
does not. Results hold nothing that changes from one run to the next, so that a plan that was
killed and gone on with leaves the same file as one that was not.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npugraph.bench.plan import BenchPlan, distinct
from npugraph.data.io import write_text
from npugraph.errors import DataError, RunError

Line = dict[str, Any]
RESULTS = "results.jsonl"
COSTS = "costs.jsonl"


class Store:
    """The results and costs in one folder."""

    def __init__(self, folder: Path) -> None:
        """Use a folder; it is made when the first line is added."""
        self.folder = folder

    def results(self) -> dict[str, Line]:
        """Return the line of results of every key."""
        return _read(self.folder / RESULTS)

    def costs(self) -> dict[str, Line]:
        """Return the line of costs of every key."""
        return _read(self.folder / COSTS)

    def add(self, result: Line, cost: Line | None = None) -> None:
        """Add what a cell gave; the cost first, so that no result is without one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if cost is not None:
            _append(self.folder / COSTS, cost)
        _append(self.folder / RESULTS, result)

    def tidy(self, plan: BenchPlan) -> None:
        """Write both files again: the plan's cells in its order, then all others by key.

        The cells get the labels and notes that the plan has now.
        """
        cells = {cell.key: cell for cell in distinct(plan.cells())}
        results, costs = self.results(), self.costs()
        for key in cells.keys() & results.keys():
            cell = cells[key]
            now = {"label": cell.label, "note": cell.note, "changes": cell.changes}
            results[key] = {**results[key], **now}
        for name, lines in ((RESULTS, results), (COSTS, costs)):
            order = [key for key in cells if key in lines] + sorted(lines.keys() - cells.keys())
            _write(self.folder / name, {key: lines[key] for key in order})

    def merge(self, other: Store) -> int:
        """Take over the cells that another store has finished and this one has not."""
        mine, theirs, costs = self.results(), other.results(), other.costs()
        added = 0
        for key, line in theirs.items():
            old = mine.get(key)
            if old is None or (old["status"] == "failed" and line["status"] == "done"):
                self.add(line, costs.get(key))
                added += 1
        return added

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Refuse a second bench in this folder; one that dies lets go of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / ".lock", wait=False) as mine:
            if not mine:
                raise RunError(
                    f"Another bench is running in {self.folder}; wait for it, or take another "
                    "folder and merge the two later with 'npugraph bench merge'."
                )
            yield


@contextlib.contextmanager
def locked(path: Path, wait: bool) -> Iterator[bool]:
    """Hold a lock file; yields whether we have it. The system frees it when we die."""
    try:
        import fcntl
    except ImportError:  # Windows: there the user must see to it.
        yield True
        return
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            yield False
            return
        yield True


def _read(path: Path) -> dict[str, Line]:
    """Return the lines of a file by key; what stands after the last line end was cut short."""
    if not path.is_file():
        return {}
    lines: dict[str, Line] = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], 1):
        try:
            line = json.loads(text)
            key = line["key"]
        except (ValueError, TypeError, KeyError):
            raise DataError(
                f"{path}, line {number}: not a JSON object with a key; remove the line."
            ) from None
        # A later line of a key takes its own place in the order.
        lines.pop(key, None)
        lines[key] = line
    return lines


def _append(path: Path, line: Line) -> None:
    """Add a line; what a kill left of one is taken away first."""
    text = (json.dumps(line, allow_nan=False) + "\n").encode()
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        if file.read() not in (b"", b"\n"):
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _write(path: Path, lines: Mapping[str, Line]) -> None:
    if lines or path.exists():
        write_text(
            path, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines.values())
        )
