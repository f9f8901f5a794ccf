"""The lines of results put together: the cells of one system on one graph become one row."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from npugraph.significance import PairedTest, Spread, holm, mean_and_deviation, paired_test

if TYPE_CHECKING:
    from npugraph.bench.plan import BenchPlan, Cell

Lines = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Quantity:
    """A figure of a cell.

    Attributes:
        name: how a table calls it.
        path: where it stands in the line of results, or of costs.
        better: 1 where more is better, -1 where less is, 0 where neither.
        cost: whether it stands in the line of costs.
        digits: places after the point.
    """

    name: str
    path: tuple[str, ...]
    better: int = 1
    cost: bool = False
    digits: int = 3


def ranking(metric: str, filter_name: str) -> Quantity:
    """Return a ranking metric under a filter.

    >>> ranking("hits@10", "clean").name
    'H@10'
    """
    name = metric.upper().replace("HITS", "H")
    return Quantity(name, ("metrics", filter_name, metric))


# In-sample: the training facts; held out: the validation facts. Planted facts are among both.
AUROC = Quantity("noise AUROC", ("noise_auroc",))
AUROC_HELD_OUT = Quantity("noise AUROC", ("noise_auroc_held_out",))
AP = Quantity("noise AP", ("noise_ap",))
AP_HELD_OUT = Quantity("noise AP", ("noise_ap_held_out",))
ECE = Quantity("ECE", ("ece",), better=-1)
ECE_HELD_OUT = Quantity("ECE", ("ece_held_out",), better=-1)
TRAIN_SECONDS = Quantity("training, s", ("seconds", "train"), better=0, cost=True, digits=1)
RANK_SECONDS = Quantity("ranking, s", ("seconds", "rank"), better=0, cost=True, digits=1)
MEMORY = Quantity("memory, MB", ("memory_mb",), better=0, cost=True, digits=0)


@dataclass(frozen=True)
class Row:
    """The cells of one system on one graph at one rate: one cell per seed.

    Attributes:
        cells: in the order of the plan, all of one system, graph, rate and sweep value.
        results: lines of results by key, of all cells that have one.
        costs: lines of costs by key.
    """

    cells: tuple[Cell, ...]
    results: Lines
    costs: Lines

    @property
    def first(self) -> Cell:
        """A cell that stands for what all have in common."""
        return self.cells[0]

    @property
    def done(self) -> tuple[Cell, ...]:
        """The cells with figures."""
        return tuple(cell for cell in self.cells if self._status(cell) == "done")

    @property
    def failed(self) -> tuple[Cell, ...]:
        """The cells that ended with an error."""
        return tuple(cell for cell in self.cells if self._status(cell) == "failed")

    def _status(self, cell: Cell) -> str:
        return str(self.results.get(cell.key, {}).get("status", "not run"))

    def error(self, cell: Cell) -> str:
        """Return the error of a failed cell, on one line."""
        return " ".join(str(self.results[cell.key].get("error") or "no message").split())

    @property
    def sources(self) -> list[str | None]:
        """The numeric sources of each finished cell; None where they were not recorded."""
        return [self.results[cell.key].get("source") for cell in self.done]

    @property
    def mixed(self) -> bool:
        """Tell whether the seeds ran with different numeric sources."""
        return len(set(self.sources)) > 1

    def of_one_source(self) -> Row:
        """Return the row without the finished cells of other sources than most have."""
        if not self.mixed:
            return self
        ((most, _),) = Counter(self.sources).most_common(1)
        others = {c.key for c in self.done if self.results[c.key].get("source") != most}
        return replace(self, cells=tuple(c for c in self.cells if c.key not in others))

    def figures(self, quantity: Quantity) -> dict[int, float]:
        """Return the figure of each seed that has one."""
        lines = self.costs if quantity.cost else self.results
        found = {cell.seed: _at(lines.get(cell.key), quantity.path) for cell in self.done}
        return {seed: figure for seed, figure in found.items() if figure is not None}

    def spread(self, quantity: Quantity) -> Spread | None:
        """Return mean and deviation over the seeds, or None where no seed has the figure."""
        figures = self.figures(quantity)
        return mean_and_deviation(list(figures.values())) if figures else None

    def mean(self, quantity: Quantity) -> float | None:
        """Return the mean over the seeds, or None where no seed has the figure."""
        spread = self.spread(quantity)
        return None if spread is None else spread.mean


def _at(line: Mapping[str, Any] | None, path: tuple[str, ...]) -> float | None:
    """Return the number at a path of a line, or None where there is none."""
    value: Any = line
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    if value is None or not math.isfinite(value):
        return None
    return float(value)


def rows(plan: BenchPlan, results: Lines, costs: Lines) -> list[Row]:
    """Return the rows of a plan in its order: graph, rate, system; then those of its sweeps."""
    found: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in plan.cells():
        found.setdefault((cell.graph, cell.rate, cell.label, cell.sweep), []).append(cell)
    return [Row(tuple(cells), results, costs) for cells in found.values()]


def blocks(all_rows: Iterable[Row]) -> dict[tuple[str, float], list[Row]]:
    """Return the rows that are compared with each other, by graph and rate; no sweeps."""
    found: dict[tuple[str, float], list[Row]] = {}
    for row in all_rows:
        if row.first.sweep is None:
            found.setdefault((row.first.graph, row.first.rate), []).append(row)
    return found


def sweeps(all_rows: Iterable[Row]) -> dict[tuple[str, str, str, float], list[Row]]:
    """Return the rows of each sweep: by setting, label, graph and rate."""
    found: dict[tuple[str, str, str, float], list[Row]] = {}
    for row in all_rows:
        cell = row.first
        if cell.sweep is not None:
            found.setdefault((cell.sweep[0], cell.label, cell.graph, cell.rate), []).append(row)
    return found


def best(compared: Sequence[Row], quantity: Quantity) -> Row | None:
    """Return the row with the best mean, the first of equals; None where none has the figure."""
    measured = [(row, row.mean(quantity)) for row in compared]
    ranked = [(row, mean * quantity.better) for row, mean in measured if mean is not None]
    return max(ranked, key=lambda pair: pair[1])[0] if ranked and quantity.better else None


@dataclass(frozen=True)
class BlockComparison:
    """The best row of a block against each other one.

    Attributes:
        best: the row with the best mean.
        tests: for the rows, in their order: the test, or None (the best one, too few seeds).
        adjusted: Holm's p value of each test, over all tests of the block.
    """

    best: Row
    tests: tuple[PairedTest | None, ...]
    adjusted: tuple[float | None, ...]


def compare(compared: Sequence[Row], quantity: Quantity) -> BlockComparison | None:
    """Test the best row against each other one, over the seeds both have; None without figures."""
    winner = best(compared, quantity)
    if winner is None:
        return None
    tests = [None if row is winner else compare_two(winner, row, quantity) for row in compared]
    corrected = iter(holm([test.p_value for test in tests if test is not None]))
    adjusted = tuple(None if test is None else next(corrected) for test in tests)
    return BlockComparison(winner, tuple(tests), adjusted)


def compare_two(first: Row, second: Row, quantity: Quantity) -> PairedTest | None:
    """Test two rows over the seeds that both have."""
    one, other = first.figures(quantity), second.figures(quantity)
    seeds = [seed for seed in one if seed in other]
    return paired_test([one[seed] for seed in seeds], [other[seed] for seed in seeds])


def command(plan: BenchPlan, cell: Cell) -> str:
    """Return the line that runs one cell again."""
    return f"npugraph bench run {shlex.quote(plan.source or plan.name)} --only {cell.key}"


def machines(compared: Iterable[Row]) -> list[str]:
    """Say which machines the rows ran on, the most cells first."""
    found: Counter[str] = Counter()
    for row in compared:
        for cell in row.done:
            cost = row.costs.get(cell.key)
            if cost is not None:
                found[_circumstances(cost)] += 1
    return [f"{name} ({count})" for name, count in found.most_common()]


def timed_alike(compared: Iterable[Row]) -> bool:
    """Tell whether the seconds of all rows were measured in one way, and undisturbed."""
    costs = [row.costs[cell.key] for row in compared for cell in row.done if cell.key in row.costs]
    undisturbed = not any(cost.get("shared") for cost in costs)
    return undisturbed and len({_circumstances(cost) for cost in costs}) == 1


def _circumstances(cost: Mapping[str, Any]) -> str:
    """Name the machine of a cell and what else ran on it."""
    at_once = cost.get("workers") or 1
    beside = f", {at_once} cells at once" if at_once > 1 else ""
    other = ", shared with other work" if cost.get("shared") else ""
    return f"{cost.get('machine', 'an unnamed machine')}{beside}{other}"
