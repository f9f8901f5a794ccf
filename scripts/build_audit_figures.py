"""Draws docs/figures/audit-promises.svg and .png from benchmarks/results/promises.jsonl.

    python scripts/build_audit_figures.py

Every audit that promised a count: how many of the first suspects should be wrong, with the interval
that was promised, and how many were.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# A script is run from anywhere; the benchmarks are a package of the repository, not installed.
sys.path.insert(0, str(ROOT))

import matplotlib as mpl  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from benchmarks.quality.promises_tables import kept, promised, read  # noqa: E402
from npugraph.bench.paper.figures import STYLE, Drawing, write_figures  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "promises.jsonl"
FIGURES = ROOT / "docs" / "figures"
FOUND, EXPECTED, MISSED = "#0072b2", "#555555", "#d55e00"


def panel(axes: Axes, name: str, cells: list[dict[str, Any]]) -> None:
    """Draw the promises of one graph, by what was expected."""
    cells = sorted(cells, key=lambda x: (x["expected_wrong"], x["found"]))
    places = range(len(cells))
    low, high = ([x[f"expected_wrong_{end}"] for x in cells] for end in ("low", "high"))
    axes.vlines(places, low, high, color="#cccccc", linewidth=3, label="90% interval")
    expected = [x["expected_wrong"] for x in cells]
    axes.plot(places, expected, "_", color=EXPECTED, markersize=6, label="expected")
    for inside, colour in ((True, FOUND), (False, MISSED)):
        shown = [(i, x["found"]) for i, x in enumerate(cells) if kept(x) is inside]
        if shown or inside:
            label = "found" if inside else "found, outside"
            axes.plot(*zip(*shown, strict=True), ".", color=colour, markersize=5, label=label)
    axes.set_title(f"{name}\n{len(cells)} audits")
    axes.set_xticks([])
    axes.set_xlim(-1, len(cells))
    axes.set_ylim(0, 104)


def draw(lines: list[dict[str, Any]]) -> Drawing:
    """Return the figure of all promises, a panel per graph."""
    said = [line for line in lines if promised(line)]
    graphs = sorted({line["graph"] for line in said})
    by_graph = {graph: [x for x in said if x["graph"] == graph] for graph in graphs}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.2), layout="constrained")
        widths = [max(len(cells), 10) for cells in by_graph.values()]
        every = figure.subplots(1, len(graphs), sharey=True, width_ratios=widths, squeeze=False)[0]
        for axes, (graph, cells) in zip(every, by_graph.items(), strict=True):
            panel(axes, graph, cells)
        every[0].set_ylabel("wrong among the suspects")
        figure.supxlabel("audits that promise a count, by what is expected", fontsize="medium")
        handles = {h.get_label(): h for axes in every for h in axes.get_legend_handles_labels()[0]}
        figure.legend(handles.values(), handles.keys(), loc="outside right center")
    return Drawing("audit-promises", figure)


def main() -> None:
    """Write the figure."""
    write_figures([draw(read(RESULTS))], FIGURES)


if __name__ == "__main__":
    main()
