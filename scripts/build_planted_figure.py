"""Draws docs/figures/planted-share.svg and .png from benchmarks/results/planted_share.jsonl.

    python scripts/build_planted_figure.py

Test MRR by the share of wrong facts: edges that all weigh the same, by the posterior, by the truth.
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

from benchmarks.quality.planted_tables import read  # noqa: E402
from npugraph.bench.paper.figures import STYLE, Drawing, write_figures  # noqa: E402
from npugraph.significance import mean_and_deviation  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "planted_share.jsonl"
FIGURES = ROOT / "docs" / "figures"
# What edges weigh, with its words and colour.
WAYS = {
    "none": ("all the same", "#555555"),
    "posterior": ("by the posterior", "#0072b2"),
    "truth": ("by the truth", "#d55e00"),
}


def panel(axes: Axes, lines: list[dict[str, Any]]) -> None:
    """Draw the lines of one graph and one kind of noise."""
    for way, (label, colour) in WAYS.items():
        mine = [line for line in lines if line["way"] == way]
        shares = sorted({line["share"] for line in mine})
        found = [
            mean_and_deviation([x["clean"]["mrr"] for x in mine if x["share"] == share])
            for share in shares
        ]
        axes.errorbar(
            [100 * share for share in shares],
            [each.mean for each in found],
            [each.deviation or 0.0 for each in found],
            color=colour,
            label=label,
            marker=".",
            capsize=2,
            linewidth=1,
        )
    axes.set_xlabel("wrong among the stored facts, %")


def draw(lines: list[dict[str, Any]]) -> Drawing:
    """Return the figure, a panel per graph and kind of noise."""
    cells = sorted({(line["graph"], line["noise"]) for line in lines})
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 2.8), layout="constrained")
        every = figure.subplots(1, len(cells), sharey=True, squeeze=False)[0]
        for axes, (graph, noise) in zip(every, cells, strict=True):
            panel(axes, [x for x in lines if (x["graph"], x["noise"]) == (graph, noise)])
            axes.set_title(f"{graph}, {noise} errors")
        every[0].set_ylabel("test MRR, clean filter")
        every[0].legend(title="edges weigh", fontsize="small", title_fontsize="small")
    return Drawing("planted-share", figure)


def main() -> None:
    """Write the figure."""
    write_figures([draw(read(RESULTS))], FIGURES)


if __name__ == "__main__":
    main()
