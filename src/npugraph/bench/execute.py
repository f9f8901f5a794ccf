"""Run the cells of a plan, several at once; finished ones are skipped.

Whoever runs the cells (processes of this machine, or Ray) starts them and says what happens; this
module decides what starts when, and writes the results.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from npugraph.bench.cell import result_line
from npugraph.bench.plan import BenchPlan, Cell, distinct
from npugraph.bench.sources import source_hash
from npugraph.bench.store import Store
from npugraph.errors import SettingsError, nearest

Say = Callable[[str], object]
# Seconds between two looks at the clock.
TICK = 0.5
# Epochs that are told of one by one, so that a reader sees early how long a cell will take.
FIRST_EPOCHS = 2


@dataclass(frozen=True)
class Event:
    """What happened to a cell: an epoch, an end with a result and a cost, or an error."""

    cell: Cell
    epoch: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    cost: dict[str, Any] | None = None
    error: str | None = None


class Runner(Protocol):
    """Whoever runs the cells."""

    def start(self, cell: Cell) -> None:
        """Start a cell."""

    def wait(self, seconds: float) -> list[Event]:
        """Return what happened; waits at most so long for something to happen."""

    def stop(self, *cells: Cell) -> None:
        """Stop cells that run; nothing more is heard of them."""

    def close(self) -> None:
        """Stop all."""


@dataclass(frozen=True)
class Limits:
    """How many cells run, and how long.

    Attributes:
        workers: cells at once.
        cell_seconds: a cell that takes longer has failed.
        stop_after: seconds after which no cell starts and those that run are stopped.
    """

    workers: int = 1
    cell_seconds: float | None = None
    stop_after: float | None = None

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        if self.workers < 1:
            raise SettingsError(f"workers={self.workers} is too small; the least is 1.")


@dataclass(frozen=True)
class Standing:
    """How a plan stands: its distinct cells by what became of them."""

    done: list[Cell]
    failed: list[Cell]
    waiting: list[Cell]

    @property
    def total(self) -> int:
        """Return how many distinct cells the plan has."""
        return len(self.done) + len(self.failed) + len(self.waiting)


def standing(plan: BenchPlan, store: Store) -> Standing:
    """Sort the cells of a plan by what the store has of them."""
    results = store.results()
    groups: dict[str, list[Cell]] = {"done": [], "failed": [], "waiting": []}
    for cell in distinct(plan.cells()):
        groups[results.get(cell.key, {"status": "waiting"})["status"]].append(cell)
    return Standing(**groups)


def choose(
    plan: BenchPlan,
    store: Store,
    only: Sequence[str] = (),
    retry_failed: bool = False,
    current: bool = False,
) -> list[Cell]:
    """Return the cells to run, in the plan's order.

    Args:
        plan: whose cells.
        store: what is finished already.
        only: keys, or their first digits; these cells run whether they are finished or not.
        retry_failed: cells that failed are run again.
        current: finished cells are run again whose numeric sources were not those of now.
    """
    cells = distinct(plan.cells())
    if only:
        return [cell for cell in cells if cell.key in {_find(cells, key) for key in only}]
    now = standing(plan, store)
    wanted = {cell.key for cell in (*now.waiting, *(now.failed if retry_failed else ()))}
    if current:
        results, source = store.results(), source_hash()
        wanted |= {c.key for c in now.done if results[c.key].get("source") != source}
    return [cell for cell in cells if cell.key in wanted]


def _find(cells: Sequence[Cell], start: str) -> str:
    keys = [cell.key for cell in cells]
    found = [key for key in keys if key.startswith(start)]
    if len(found) == 1:
        return found[0]
    hint = nearest(start, keys) or " 'npugraph bench plan' lists the keys."
    count = f"{len(found)} cells" if found else "no cell"
    raise SettingsError(f"The plan has {count} whose key begins with {start!r}.{hint}")


def execute(
    plan: BenchPlan, cells: Sequence[Cell], store: Store, runner: Runner, limits: Limits, say: Say
) -> Standing:
    """Run cells and add their results to the store, which is tidy afterwards.

    Ctrl-C and SIGTERM stop the cells that run. They keep their checkpoints, as do those that are
    stopped by ``limits.stop_after``, and go on when the plan is run again.
    """
    with store.alone(), _terminable():
        try:
            _Execution(cells, store, runner, limits, say).run()
        finally:
            runner.close()
            store.tidy(plan)
    return standing(plan, store)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass
class _Execution:
    cells: Sequence[Cell]
    store: Store
    runner: Runner
    limits: Limits
    say: Say
    running: dict[str, tuple[Cell, float]] = field(default_factory=dict)

    def run(self) -> None:
        """Start cells as places get free, until none is left or the time is up."""
        started = time.monotonic()
        pending = deque(self.cells)
        while pending or self.running:
            if self._is_over(started):
                self.say(f"The time is up: {len(self.running)} cells stopped, {len(pending)} left.")
                self.runner.stop(*(cell for cell, _ in self.running.values()))
                return
            while pending and len(self.running) < self.limits.workers:
                self._start(pending.popleft())
            for event in self.runner.wait(TICK):
                self._handle(event)
            self._end_late_ones()

    def _is_over(self, started: float) -> bool:
        limit = self.limits.stop_after
        return limit is not None and time.monotonic() - started >= limit

    def _start(self, cell: Cell) -> None:
        self.running[cell.key] = (cell, time.monotonic())
        self.runner.start(cell)
        self._tell(cell, "started")

    def _handle(self, event: Event) -> None:
        cell = event.cell
        if event.epoch is not None:
            self._tell_epoch(cell, event.epoch)
            return
        _, started = self.running.pop(cell.key)
        seconds = time.monotonic() - started
        if event.result is not None:
            self.store.add(event.result, event.cost)
            found = [f"{k} {v['mrr']:.4f}" for k, v in event.result["metrics"].items()]
            self._tell(cell, f"done in {seconds:.0f} s, test MRR {', '.join(found)}")
        else:
            error = event.error or "It ended without a result."
            self.store.add(result_line(cell, None, error))
            self._tell(cell, f"FAILED: {error.splitlines()[-1]}")

    def _end_late_ones(self) -> None:
        limit = self.limits.cell_seconds
        for cell, started in list(self.running.values()):
            if limit is not None and time.monotonic() - started >= limit:
                self.runner.stop(cell)
                error = f"It took longer than the limit of {limit:g} seconds."
                self._handle(Event(cell, error=error))

    def _tell_epoch(self, cell: Cell, record: dict[str, Any]) -> None:
        epoch, of = record["epoch"], cell.settings["epochs"]
        if epoch > FIRST_EPOCHS and "valid_mrr" not in record:
            return
        figures = f"epoch {epoch} of {of}, {record['seconds']:.2f} s, loss {record['loss']:.4f}"
        if "valid_mrr" in record:
            figures += f", valid MRR {record['valid_mrr']:.4f} (best {record['best_mrr']:.4f})"
        self._tell(cell, figures)

    def _tell(self, cell: Cell, what: str) -> None:
        self.say(f"[{cell.key[:8]}] {cell.title}: {what}")
