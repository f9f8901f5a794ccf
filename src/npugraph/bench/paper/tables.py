"""Tables of a plan's results, laid out as the paper's, with its figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from npugraph.bench.layout import Block, Column, Group, Item, Line, Part, Table
from npugraph.bench.page import to_html
from npugraph.bench.paper import printed
from npugraph.bench.paper.notes import MIXED, block_notes, sweep_notes
from npugraph.bench.render import to_latex, to_markdown
from npugraph.bench.summary import (
    AP,
    AP_HELD_OUT,
    AUROC,
    AUROC_HELD_OUT,
    ECE,
    ECE_HELD_OUT,
    MEMORY,
    RANK_SECONDS,
    TRAIN_SECONDS,
    BlockComparison,
    Lines,
    Quantity,
    Row,
    best,
    blocks,
    command,
    compare,
    ranking,
    rows,
    sweeps,
)
from npugraph.data.catalogue import CATALOGUE

if TYPE_CHECKING:
    from npugraph.bench.plan import BenchPlan

NOT_RUN, FAILED, NO_FIGURE = "not run", "failed", "–"
# The filter that the paper's figures go with; see docs/protocol.md.
PAPER_FILTER = "perturbed"
FILTER_TITLES = {
    "perturbed": "Ranking, perturbed filter",
    "clean": "Ranking, clean filter",
    "raw": "Ranking, no filter",
}
# Of one column: what stands in it for each row.
Fill = tuple[Column, list[Item]]


def make_table(plan: BenchPlan, results: Lines, costs: Lines) -> Table:
    """Lay out the results of a plan.

    Args:
        plan: what was to be run; cells without a result are shown as not run.
        results: lines of results by key; those of other plans are ignored.
        costs: lines of costs by key.
    """
    everything = rows(plan, results, costs)
    made = [_block(plan, compared) for compared in blocks(everything).values()]
    made += [_sweep(plan, swept) for swept in sweeps(everything).values()]
    return Table(plan.name, plan.title, _state(everything), tuple(made))


def graph_title(graph: str) -> str:
    """Return how papers call a graph.

    >>> graph_title("fb15k-237"), graph_title("my/graph.tsv")
    ('FB15k-237', 'my/graph.tsv')
    """
    return CATALOGUE[graph].title if graph in CATALOGUE else graph


def beside_paper(graph: str) -> str:
    """Return how to call a graph beside the paper's figures, which may be of another one.

    >>> beside_paper("wn18")
    'WN18'
    """
    other = " (another graph than the paper's)" if graph in printed.STAND_INS else ""
    return f"{graph_title(graph)}{other}"


def _state(everything: Sequence[Row]) -> str:
    """Say how many cells have run."""
    cells = {cell.key for row in everything for cell in row.cells}
    done = {cell.key for row in everything for cell in row.done}
    failed = {cell.key for row in everything for cell in row.failed}
    waiting = len(cells) - len(done) - len(failed)
    counts = {"done": len(done), "failed": len(failed), "not run": waiting}
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{len(cells)} cells: {said}."


# --- one graph at one rate


def _block(plan: BenchPlan, compared: Sequence[Row]) -> Block:
    """Lay out one graph at one rate: a grid for each filter, one for noise and costs."""
    grouped = _in_groups(compared)
    in_order = [row for _, group in grouped for row in group]
    cell = in_order[0].first
    order = _filters(plan, cell.rate)
    comparisons = {name: compare(in_order, ranking("mrr", name)) for name in order}
    parts = [
        _part(FILTER_TITLES[name], grouped, _ranking(plan, in_order, name, comparisons[name]))
        for name in order
    ]
    parts.append(_part("Noise, calibration, cost", grouped, _other(in_order, cell.rate)))
    if not any(row.done for row in in_order):
        # One grid that says so is enough.
        del parts[1:]
    title = f"{beside_paper(cell.graph)}, {_rate(cell.rate, cell.noise)}"
    notes = block_notes(in_order, comparisons)
    return Block(title, tuple(parts), notes, _commands(plan, in_order))


def _filters(plan: BenchPlan, rate: float) -> list[str]:
    """Return the filters to show, the paper's first, since that grid is read first.

    On a graph as published the clean filter and the perturbed one are the same.
    """
    if not rate and "clean" in plan.filters:
        return [name for name in plan.filters if name != PAPER_FILTER]
    return sorted(plan.filters, key=lambda name: name != PAPER_FILTER)


def _rate(rate: float, noise: str) -> str:
    return f"rate {rate:g}, {noise} noise" if rate else "as published"


def _in_groups(compared: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Return the rows by group in the paper's order; within a group in the plan's."""
    found: dict[str, list[Row]] = {group: [] for group in (*printed.GROUPS, printed.OURS)}
    for row in compared:
        found[printed.group_of(row.first.recipe)].append(row)
    return [(group, members) for group, members in found.items() if members]


def _part(title: str, grouped: list[tuple[str, list[Row]]], filled: Sequence[Fill]) -> Part:
    """Cut columns of items into the groups of lines."""
    columns = tuple(column for column, _ in filled)
    groups, place = [], 0
    for heading, members in grouped:
        lines = []
        for row in members:
            lines.append(Line(row.first.label, tuple(items[place] for _, items in filled)))
            place += 1
        groups.append(Group(heading, tuple(lines)))
    return Part(title, "System", columns, tuple(groups))


def _ranking(
    plan: BenchPlan, compared: Sequence[Row], name: str, comparison: BlockComparison | None
) -> list[Fill]:
    """Fill the grid of one filter: seeds, each metric (the paper's beside it), p against best."""
    metrics = ("mrr", *(f"hits@{k}" for k in sorted(plan.hits, reverse=True)))
    cited = [_entry(row) for row in compared] if name == PAPER_FILTER else []
    beside = any(entry is not None for entry in cited)
    filled = [(Column("seeds"), [_seeds(row) for row in compared])]
    for metric in metrics:
        quantity = ranking(metric, name)
        ours = _measured(compared, quantity, say=metric == "mrr")
        filled.append((Column(quantity.name, "here" if beside else ""), ours))
        if beside:
            filled.append((Column(quantity.name, "paper"), _cited(cited, metric)))
    if len(plan.seeds) > 1:
        filled.append((Column("p against best"), _p_values(compared, comparison)))
    return filled


def _other(compared: Sequence[Row], rate: float) -> list[Fill]:
    """Fill the grid of noise, calibration and cost; nothing is planted at rate 0."""
    noise = [
        (AUROC, "train"),
        (AUROC_HELD_OUT, "held out"),
        (AP, "train"),
        (AP_HELD_OUT, "held out"),
        (ECE, "train"),
        (ECE_HELD_OUT, "held out"),
    ]
    costs = [(TRAIN_SECONDS, ""), (RANK_SECONDS, ""), (MEMORY, "")]
    return [
        (Column(quantity.name, sub), _measured(compared, quantity, say=i == 0))
        for i, (quantity, sub) in enumerate([*noise, *costs] if rate else costs)
    ]


def _entry(row: Row) -> printed.PaperEntry | None:
    cell = row.first
    return printed.beside(cell.graph, cell.rate, cell.recipe)


def _seeds(row: Row) -> Item:
    done, planned = len(row.done), len(row.cells)
    text = str(done) if done == planned else f"{done} of {planned}"
    return Item(f"{text} {MIXED}" if row.mixed else text)


def _measured(compared: Sequence[Row], quantity: Quantity, say: bool) -> list[Item]:
    """Return the items of one quantity; ``say`` whether to tell why a row has none."""
    winner = best(compared, quantity)
    # The only figure of a column is not the best of anything.
    alone = sum(row.mean(quantity) is not None for row in compared) < 2
    top = None if winner is None or alone else winner.mean(quantity)
    items = []
    for row in compared:
        mean = row.mean(quantity)
        if mean is not None:
            # Means of equal figures may differ in the last digit of a float.
            is_best = top is not None and abs(mean - top) < 1e-9
            items.append(Item(shown(row, quantity), best=is_best))
        elif say and not row.done:
            items.append(Item(FAILED if row.failed else NOT_RUN, missing=True))
        else:
            items.append(Item(NO_FIGURE, missing=True))
    return items


def shown(row: Row, quantity: Quantity) -> str:
    """Write mean and deviation of a row's figure; of a cost, the mean alone."""
    spread = row.spread(quantity)
    if spread is None:
        return NO_FIGURE
    mean = f"{spread.mean:,.{quantity.digits}f}"
    if spread.deviation is None or quantity.cost:
        return mean
    return f"{mean} ± {spread.deviation:,.{quantity.digits}f}"


def _cited(cited: Sequence[printed.PaperEntry | None], metric: str) -> list[Item]:
    """Return the paper's figures of one metric."""
    figures = [None if entry is None else entry.figures.get(metric) for entry in cited]
    known = [figure for figure in figures if figure is not None]
    top = max(known) if len(known) > 1 else None
    items = []
    for entry, figure in zip(cited, figures, strict=True):
        if entry is None or figure is None:
            items.append(Item(NO_FIGURE, missing=True))
        else:
            wrong = bool(printed.impossible(entry))
            items.append(Item(as_printed(figure), figure == top, impossible=wrong))
    return items


def as_printed(figure: float) -> str:
    """Write a figure of the paper as it stands there.

    >>> as_printed(0.25), as_printed(0.1115)
    ('0.250', '0.1115')
    """
    return f"{figure:.3f}" if round(figure, 3) == figure else str(figure)


def _p_values(compared: Sequence[Row], comparison: BlockComparison | None) -> list[Item]:
    """Return Holm's p value of each row against the best one."""
    items = []
    for i, row in enumerate(compared):
        adjusted = None if comparison is None else comparison.adjusted[i]
        if comparison is not None and row is comparison.best:
            items.append(Item("best"))
        elif adjusted is None:
            items.append(Item(NO_FIGURE, missing=True))
        else:
            items.append(Item(p_value(adjusted)))
    return items


def p_value(value: float) -> str:
    """Write a p value.

    >>> p_value(0.0351), p_value(0.0000012)
    ('0.035', '<0.001')
    """
    return f"{value:.3f}" if value >= 0.0005 else "<0.001"


def _commands(plan: BenchPlan, shown_rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    return tuple((cell.title, command(plan, cell)) for row in shown_rows for cell in row.cells)


# --- sweeps


def _sweep(plan: BenchPlan, swept: Sequence[Row]) -> Block:
    """Lay out one sweep: a line per value of the setting."""
    cell = swept[0].first
    assert cell.sweep is not None
    setting = cell.sweep[0]
    filled: list[Fill] = [(Column("seeds"), [_seeds(row) for row in swept])]
    for name in _filters(plan, cell.rate):
        filled.append((Column("MRR", name), _measured(swept, ranking("mrr", name), say=True)))
    if cell.rate:
        for quantity, sub in ((AUROC_HELD_OUT, "held out"), (ECE_HELD_OUT, "held out")):
            filled.append((Column(quantity.name, sub), _measured(swept, quantity, say=False)))
    filled.append((Column(TRAIN_SECONDS.name), _measured(swept, TRAIN_SECONDS, say=False)))
    lines = [
        Line(_value(row), tuple(items[i] for _, items in filled)) for i, row in enumerate(swept)
    ]
    part = Part("", setting, tuple(column for column, _ in filled), (Group("", tuple(lines)),))
    where = f"{graph_title(cell.graph)}, {_rate(cell.rate, cell.noise)}"
    title = f"{cell.label}: {setting} varied on {where}"
    return Block(title, (part,), sweep_notes(swept), _commands(plan, swept))


def _value(row: Row) -> str:
    assert row.first.sweep is not None
    value = row.first.sweep[1]
    return f"{value:g}" if isinstance(value, float) else str(value)


Writer = Callable[[Table], str]
# The formats of the command line, by the suffix of their files.
FORMATS: dict[str, Writer] = {
    "md": to_markdown,
    "tex": to_latex,
    "html": to_html,
}
