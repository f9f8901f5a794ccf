"""Figures of a plan's results: learning curves, the rate of perturbation, sweeps; PNG and SVG.

Every figure is drawn on an object of its own, without pyplot: no window, no shared state. The same
results give the same SVG, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npugraph.bench.paper import printed
from npugraph.bench.paper.tables import PAPER_FILTER, graph_title
from npugraph.bench.summary import (
    TRAIN_SECONDS,
    Lines,
    Quantity,
    Row,
    blocks,
    ranking,
    rows,
    sweeps,
    timed_alike,
)
from npugraph.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from npugraph.bench.plan import BenchPlan

SUFFIXES = (".png", ".svg")
# Okabe and Ito's colours, which people with any kind of colour vision tell apart; the pale
# yellow is left out, since it does not show on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#595959")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", ":", "-.")
BLACK = "#000000"
# Any, since the names that matplotlib takes differ by its version.
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    # Names inside an SVG are random otherwise.
    "svg.hashsalt": "npugraph",
    "svg.fonttype": "none",
}
# How the paper writes a setting.
SETTING_TITLES = {
    "negatives": "number of unlabeled samples, K",
    "alpha": "class prior α",
}
# Values that lie this many times apart are drawn on a scale of powers.
POWERS_FROM = 30
Look = dict[str, Any]


@dataclass(frozen=True)
class Drawing:
    """A figure and the name of its files."""

    name: str
    figure: Figure


def make_figures(plans: Sequence[BenchPlan], results: Lines, costs: Lines) -> list[Drawing]:
    """Draw what the results of some plans allow; what has no results is left out.

    Args:
        plans: figures over the rate put the rates of all plans together.
        results: lines of results by key.
        costs: lines of costs by key.
    """
    import matplotlib as mpl

    by_plan = {plan.name: rows(plan, results, costs) for plan in plans}
    found: list[Drawing] = []
    drawn: set[str] = set()
    with mpl.rc_context(STYLE):
        for name, everything in by_plan.items():
            found += learning_curves(name, everything, drawn)
            found += sweep_figures(name, everything)
        everything = [row for some in by_plan.values() for row in some]
        found += rate_figures(plans[0].name if len(plans) == 1 else "all", everything)
    return found


def write_figures(drawings: Sequence[Drawing], folder: Path) -> list[Path]:
    """Write each figure as PNG and SVG and return the paths."""
    import matplotlib as mpl

    written: list[Path] = []
    if not drawings:
        return written
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context(STYLE):
            for drawing in drawings:
                for suffix in SUFFIXES:
                    path = folder / f"{drawing.name}{suffix}"
                    # Without a date equal results give equal files.
                    dated = {"Date": None} if suffix == ".svg" else {}
                    drawing.figure.savefig(path, dpi=160, metadata=dated)
                    written.append(path)
    except OSError as error:
        raise DataError(
            f"{folder}: the figures cannot be written ({error.strerror}); choose another folder."
        ) from None
    return written


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """Give each system a colour, a marker and a line that no other one has together.

    nPUGraph is black and thick, as the one that all others are compared with.
    """
    found: dict[str, Look] = {}
    for label in dict.fromkeys(labels):
        if label == printed.NPUGRAPH:
            found[label] = {"color": BLACK, "marker": "o", "linestyle": "-", "linewidth": 2.2}
            continue
        place = sum(other != printed.NPUGRAPH for other in found)
        found[label] = {
            "color": COLOURS[place % len(COLOURS)],
            "marker": MARKERS[place % len(MARKERS)],
            "linestyle": DASHES[place // len(COLOURS) % len(DASHES)],
        }
    return found


# --- learning curves


def learning_curves(plan: str, everything: Sequence[Row], drawn: set[str]) -> Iterator[Drawing]:
    """Draw MRR on validation facts against the epoch: one figure per graph and rate.

    Every seed has a line.
    Where all cells are ``drawn`` already, in the figure of a plan that shares them, there is none.
    """
    for (graph, rate), compared in blocks(everything).items():
        curves = {row.first.label: list(_curves(row)) for row in compared}
        keys = {cell.key for row in compared for cell in row.done}
        if not any(curves.values()) or keys <= drawn:
            continue
        drawn |= keys
        look = looks([row.first.label for row in compared])
        figure, (axes,) = _panels(1, wide=6.4)
        for label, seeds in curves.items():
            for i, (epochs, scores) in enumerate(seeds):
                # One entry of the legend stands for all seeds.
                axes.plot(
                    epochs,
                    scores,
                    **look[label],
                    markevery=[-1],
                    alpha=0.85 if i == 0 else 0.45,
                    label=label if i == 0 else None,
                )
        axes.set(xlabel="epoch", ylabel="validation MRR", title=_where(graph, rate))
        axes.set_ylim(bottom=0)
        _legend(figure, axes, [label for label, seeds in curves.items() if seeds])
        yield Drawing(f"{plan}-curves-{_slug(graph, rate)}", figure)


def _curves(row: Row) -> Iterator[tuple[list[float], list[float]]]:
    """Yield epochs and MRR of each seed."""
    for cell in row.done:
        line = row.results[cell.key].get("curve") or []
        points = [(p["epoch"], p["valid_mrr"]) for p in line if p.get("valid_mrr") is not None]
        if points:
            yield [epoch for epoch, _ in points], [score for _, score in points]


# --- the rate of perturbation


def rate_figures(plan: str, everything: Sequence[Row]) -> Iterator[Drawing]:
    """Draw MRR against the rate, ours and the paper's side by side: one figure per graph.

    Only systems with results at two rates or more. A system is known by its label; where two plans
    have it at one rate, the first one counts.
    """
    by_graph: dict[str, dict[str, dict[float, Row]]] = {}
    for (graph, rate), compared in blocks(everything).items():
        for row in compared:
            if row.done and rate:
                found = by_graph.setdefault(graph, {}).setdefault(row.first.label, {})
                found.setdefault(rate, row)
    for graph, everyone in by_graph.items():
        systems = {label: found for label, found in everyone.items() if len(found) > 1}
        if not systems:
            continue
        rates = sorted({rate for found in systems.values() for rate in found})
        look = looks(list(systems))
        figure, panels = _panels(2 if _has_paper(systems) else 1, wide=4.0, share_y=True)
        for label, found in systems.items():
            _spread_line(panels[0], found, ranking("mrr", PAPER_FILTER), look[label], label)
            if len(panels) > 1:
                _paper_line(panels[1], next(iter(found.values())), look[label])
        titles = ("here, perturbed filter", "as the paper prints it")
        for axes, title in zip(panels, titles, strict=False):
            axes.set(xlabel="rate of perturbation", title=title)
            axes.set_xticks(sorted({0.1, 0.3, 0.5, 0.7} if len(panels) > 1 else rates))
        panels[0].set_ylabel(f"MRR on {graph_title(graph)}")
        panels[0].set_ylim(bottom=0)
        _legend(figure, panels[-1], list(systems), source=panels[0])
        yield Drawing(f"{plan}-rates-{_slug(graph)}", figure)


def _has_paper(systems: Mapping[str, Mapping[float, Row]]) -> bool:
    return any(_paper_points(next(iter(found.values()))) for found in systems.values())


def _paper_points(row: Row) -> list[tuple[float, float]]:
    """Return (rate, MRR) of the paper for a row's system and graph, at all its rates."""
    cell = row.first
    if cell.graph in printed.STAND_INS:
        return []
    rates = sorted({entry.rate for entry in printed.entries()})
    found = ((rate, printed.beside(cell.graph, rate, cell.recipe)) for rate in rates)
    return [(rate, entry.figures["mrr"]) for rate, entry in found if entry is not None]


def _paper_line(axes: Axes, row: Row, look: Look) -> None:
    points = _paper_points(row)
    if points:
        axes.plot(*zip(*points, strict=True), **{**look, "markerfacecolor": "white"})


def _spread_line(
    axes: Axes, found: Mapping[Any, Row], quantity: Quantity, look: Look, label: str
) -> None:
    """Draw means with a bar of one standard deviation each way."""
    points = []
    for place, row in sorted(found.items()):
        spread = row.spread(quantity)
        if spread is not None:
            points.append((place, spread.mean, spread.deviation or 0.0))
    if points:
        x, y, bars = zip(*points, strict=True)
        axes.errorbar(x, y, yerr=bars, capsize=2.5, elinewidth=0.9, label=label, **look)


# --- sweeps of one setting


def sweep_figures(plan: str, everything: Sequence[Row]) -> Iterator[Drawing]:
    """Draw MRR against one setting, and the seconds of training where they are comparable."""
    for (setting, label, graph, rate), swept in sweeps(everything).items():
        found = {row.first.sweep[1]: row for row in swept if row.done and row.first.sweep}
        if len(found) < 2 or not all(_is_number(value) for value in found):
            continue
        timed = setting == "negatives" and timed_alike(found.values())
        figure, panels = _panels(2 if timed else 1, wide=4.0)
        for name, look in zip(
            swept[0].first.filters, looks(["a", "b", "c"]).values(), strict=False
        ):
            _spread_line(panels[0], found, ranking("mrr", name), look, f"{name} filter")
        panels[0].set(ylabel="MRR", title=f"{label} on {_where(graph, rate)}")
        _headroom(panels[0])
        panels[0].legend(loc="upper center", ncols=3, bbox_to_anchor=(0.5, 1.0))
        if timed:
            look = {"color": BLACK, "marker": "o", "linestyle": "-"}
            _spread_line(panels[1], found, TRAIN_SECONDS, look, "seconds")
            panels[1].set(ylabel="seconds of training", title="time")
            panels[1].set_ylim(bottom=0)
        for axes in panels:
            _setting_axis(axes, setting, sorted(found))
        yield Drawing(f"{plan}-{setting}-{_slug(graph, rate)}", figure)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _headroom(axes: Axes) -> None:
    """Make room above the lines for the legend, and show differences against the whole height."""
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.0), high + 0.22 * (high - min(low, 0.0)))


def _setting_axis(axes: Axes, setting: str, values: Sequence[float]) -> None:
    """Label the axis of a setting with the values that were run."""
    axes.set_xlabel(SETTING_TITLES.get(setting, setting))
    if min(values) > 0 and max(values) / min(values) >= POWERS_FROM:
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(values, [f"{value:g}" for value in values])
    if max(len(f"{value:g}") for value in values) > 4:
        axes.tick_params(axis="x", labelrotation=45)


# --- the frame


def _panels(count: int, wide: float, share_y: bool = False) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(wide * count, 3.4), layout="constrained")
    axes = figure.subplots(1, count, sharey=share_y, squeeze=False)
    return figure, list(axes[0])


def _legend(figure: Figure, axes: Axes, labels: Sequence[str], source: Axes | None = None) -> None:
    """Put the legend right of a panel, where it covers nothing."""
    handles, named = (source or axes).get_legend_handles_labels()
    order = sorted(range(len(named)), key=lambda i: labels.index(named[i]))
    figure.legend(
        [handles[i] for i in order],
        [named[i] for i in order],
        loc="outside right center",
        fontsize=8,
    )


def _where(graph: str, rate: float) -> str:
    return f"{graph_title(graph)}, rate {rate:g}" if rate else graph_title(graph)


def _slug(graph: str, rate: float | None = None) -> str:
    """Return the part of a file's name that stands for a graph.

    >>> _slug("my/graph.tsv", 0.3)
    'graph-0.3'
    """
    name = Path(graph).stem if "/" in graph else graph
    return name if rate is None else f"{name}-{rate:g}"
