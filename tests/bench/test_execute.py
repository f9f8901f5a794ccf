"""What starts when, and what is written: with a runner that only pretends to run cells."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.tiny import made_up, made_up_cost, tiny_plan
from npugraph.bench import execute as module
from npugraph.bench.cell import result_line
from npugraph.bench.execute import Event, Limits, choose, execute, standing
from npugraph.bench.plan import Cell
from npugraph.bench.sources import source_hash
from npugraph.bench.store import Store
from npugraph.errors import SettingsError

PLAN = tiny_plan(seeds=[0, 1, 2])
CELLS = PLAN.cells()


def done(cell: Cell) -> Event:
    return Event(cell, result=made_up(cell), cost=made_up_cost(cell))


@dataclass
class Pretender:
    """Ends the oldest of its cells whenever it is asked."""

    end: Callable[[Cell], Event] = done
    running: list[Cell] = field(default_factory=list)
    most: int = 0
    started: list[Cell] = field(default_factory=list)
    stopped: list[Cell] = field(default_factory=list)
    closed: bool = False

    def start(self, cell: Cell) -> None:
        self.running.append(cell)
        self.started.append(cell)
        self.most = max(self.most, len(self.running))

    def wait(self, seconds: float) -> list[Event]:
        return [self.end(self.running.pop(0))] if self.running else []

    def stop(self, *cells: Cell) -> None:
        self.stopped += cells
        self.running = [cell for cell in self.running if cell not in cells]

    def close(self) -> None:
        self.closed = True


def silent(_: str) -> None:
    """Say nothing."""


@pytest.mark.parametrize("workers", [1, 2, 4, 99])
def test_all_cells_run_so_many_at_once(tmp_path: Path, workers: int) -> None:
    runner, store = Pretender(), Store(tmp_path)
    now = execute(PLAN, CELLS, store, runner, Limits(workers), silent)
    assert (len(now.done), now.failed, now.waiting, now.total) == (6, [], [], 6)
    assert runner.started == CELLS
    assert runner.most == min(workers, 6)
    assert runner.closed
    assert list(store.results()) == list(store.costs()) == [cell.key for cell in CELLS]


def test_a_failed_cell_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    def end(cell: Cell) -> Event:
        return Event(cell, error="a\nbad\nday") if cell is CELLS[1] else done(cell)

    said: list[str] = []
    store = Store(tmp_path)
    now = execute(PLAN, CELLS, store, Pretender(end), Limits(), said.append)
    assert (len(now.done), now.failed) == (5, [CELLS[1]])
    assert store.results()[CELLS[1].key]["error"] == "a\nbad\nday"
    assert any("FAILED: day" in line for line in said)
    assert choose(PLAN, store) == []
    assert choose(PLAN, store, retry_failed=True) == [CELLS[1]]
    execute(PLAN, [CELLS[1]], store, Pretender(), Limits(), silent)
    assert standing(PLAN, store).failed == []


def test_finished_cells_are_skipped_unless_asked_for(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(made_up(CELLS[0]))
    store.add(result_line(CELLS[3], None, "broken"))
    assert choose(PLAN, store) == [CELLS[1], CELLS[2], CELLS[4], CELLS[5]]
    assert choose(PLAN, store, only=[CELLS[4].key[:10], CELLS[0].key]) == [CELLS[0], CELLS[4]]
    with pytest.raises(SettingsError, match="no cell whose key begins with 'xyz'"):
        choose(PLAN, store, only=["xyz"])
    with pytest.raises(SettingsError, match="6 cells whose key begins with ''"):
        choose(PLAN, store, only=[""])


def test_finished_cells_of_other_sources_run_again_only_when_asked_for(tmp_path: Path) -> None:
    store = Store(tmp_path)
    lines = [made_up(cell) for cell in CELLS]
    assert {line["source"] for line in lines} == {source_hash()}
    store.add(lines[0])
    store.add({**lines[1], "source": "other"})
    store.add({name: value for name, value in lines[2].items() if name != "source"})
    store.add({**result_line(CELLS[3], None, "broken"), "source": "other"})
    assert choose(PLAN, store) == [*CELLS[4:]]
    assert choose(PLAN, store, current=True) == [*CELLS[1:3], *CELLS[4:]]


@dataclass
class Clock:
    """Moves by ten seconds whenever a runner waits."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Slow(Pretender):
    """A cell of seed 1 takes a hundred seconds, any other thirty."""

    clock: Clock = field(default_factory=Clock)
    ages: dict[str, float] = field(default_factory=dict)

    def wait(self, seconds: float) -> list[Event]:
        self.clock.now += 10
        events = []
        for cell in list(self.running):
            self.ages[cell.key] = self.ages.get(cell.key, 0) + 10
            if self.ages[cell.key] >= (100 if cell.seed == 1 else 30):
                self.running.remove(cell)
                events.append(done(cell))
        return events


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    runner = Slow()
    monkeypatch.setattr(module, "time", runner.clock)
    return runner


def test_a_cell_that_takes_too_long_has_failed(slow: Slow, tmp_path: Path) -> None:
    store = Store(tmp_path)
    now = execute(PLAN, CELLS, store, slow, Limits(2, cell_seconds=50), silent)
    late = [cell for cell in CELLS if cell.seed == 1]
    assert slow.stopped == late
    assert now.failed == late
    assert len(now.done) == 4
    error = store.results()[late[0].key]["error"]
    assert error == "It took longer than the limit of 50 seconds."


def test_when_the_time_is_up_nothing_starts_and_nothing_fails(slow: Slow, tmp_path: Path) -> None:
    said: list[str] = []
    store = Store(tmp_path)
    now = execute(PLAN, CELLS, store, slow, Limits(2, stop_after=60), said.append)
    # Seeds 0 and 2 of the first system are through, one after the other; seed 1 still runs.
    assert [cell.seed for cell in now.done] == [0, 2]
    assert slow.stopped == [CELLS[1]]
    assert now.failed == []
    assert len(now.waiting) == 4
    assert any("The time is up" in line for line in said)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Signals as Python starts with them.

    A process that was started in the background ignores Ctrl-C, and Ray, where another test has
    started it in this process, ends it by a handler of its own.
    """
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {kind: signal.signal(kind, handler) for kind, handler in usual.items()}
    yield
    for kind, handler in before.items():
        signal.signal(kind, handler)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_cells_and_leaves_the_store_tidy(kind: int, tmp_path: Path) -> None:
    def end(cell: Cell) -> Event:
        if cell is CELLS[2]:
            signal.raise_signal(kind)
        return done(cell)

    store = Store(tmp_path)
    for cell in reversed(CELLS[:2]):
        store.add(made_up(cell))
    runner = Pretender(end)
    with pytest.raises(KeyboardInterrupt):
        execute(PLAN, CELLS[2:], store, runner, Limits(), silent)
    assert runner.closed
    assert list(store.results()) == [cell.key for cell in CELLS[:2]]
    # The signal means again what it meant before.
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    execute(PLAN, CELLS[2:], store, Pretender(), Limits(), silent)
    assert list(store.results()) == [cell.key for cell in CELLS]


def test_epochs_are_told_of_first_ones_and_validations(tmp_path: Path) -> None:
    cell = CELLS[0]
    told = []
    execution = module._Execution([], Store(tmp_path), Pretender(), Limits(), told.append)
    for epoch in range(1, 7):
        record = {"epoch": epoch, "loss": 1.0, "seconds": 2.5}
        if epoch in (1, 5):
            record |= {"valid_mrr": 0.25, "best_mrr": 0.5}
        execution._handle(Event(cell, epoch=record))
    assert [line.split("epoch ")[1][0] for line in told] == ["1", "2", "5"]
    assert told[0].startswith(f"[{cell.key[:8]}] DistMult, umls 0.3, seed 0: epoch 1 of 4, 2.50 s")
    assert "valid MRR 0.2500 (best 0.5000)" in told[2]


def test_no_workers_no_bench() -> None:
    with pytest.raises(SettingsError, match="workers=0 is too small"):
        Limits(0)
