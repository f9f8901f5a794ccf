"""Writes docs/results.md and its figures from the plans and the lines of results.

    python scripts/build_results_docs.py            # write them
    python scripts/build_results_docs.py --check    # fail where the page is not up to date

Figures come from benchmarks/results/bench/{results,costs}.jsonl, the paper's from the package, and
the verdicts are computed. What we think is behind them is written by hand in docs/results_notes.md.
A test checks that the page is up to date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from npugraph.bench.paper import printed
from npugraph.bench.paper.claims import Finding, findings
from npugraph.bench.paper.figures import Drawing, make_figures, write_figures
from npugraph.bench.paper.tables import graph_title, make_table
from npugraph.bench.plan import BenchPlan, packaged
from npugraph.bench.store import Store
from npugraph.bench.summary import rows
from npugraph.data.catalogue import CATALOGUE

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "results.md"
NOTES = ROOT / "docs" / "results_notes.md"
FIGURES = ROOT / "docs" / "figures"
RESULTS = ROOT / "benchmarks" / "results" / "bench"
# In the order of the paper; plans that are not named here follow by name.
ORDER = ("table-0.3", "sweep-rates", "ablation", "k-sweep", "alpha-sweep", "twitter", "clean")
# A check of the machinery, not a result.
LEFT_OUT = ("smoke",)

HEAD = """\
# Results

<!-- Made by scripts/build_results_docs.py: change the results or docs/results_notes.md, and run it
again. -->

The paper's tables and figures, run again with `npugraph bench`. *here* is this package, *paper* is
what the paper prints. Both rank the same untouched test facts; the paper's figures go with the
filter we call perturbed, which leaves removed true facts among the candidates (see
[protocol](protocol.md)). The clean filter removes every known true fact and is the honest one.
Every cell can be run again by the one command that its table lists.
"""
VERDICTS = {
    "agrees": "Agrees",
    "disagrees": "Does not agree",
    "undecided": "Undecided",
}
CLAIMS = """\
## What agrees with the paper, and what does not

Computed from the tables below: mean MRR over seeds, perturbed filter. One rule holds for all
claims: a verdict needs at least three seeds on each side. Two sides must differ by a paired t test
over the seeds with p < 0.05 (without correction: each line is one question); a figure must lie
further from a line that we drew than the seeds spread. All else is undecided, and a claim about all
baselines cannot be confirmed until all have run. "A tenth", the rank correlation and the share of
variance are our readings of the paper's words."""
IMPOSSIBLE = """\
## Entries of the paper that cannot be

Hits never fall as k rises, and hits bound MRR from both sides. With room for rounding to three
places, these entries of the paper break one of the rules. They are marked † below and left out of
the verdicts."""
TWITTER = """\
## The Twitter table is about another graph

The paper's Twitter graph is not public. In its place stands **twitter-ego**, which is another
graph: users of public ego networks, the hashtags they used and the accounts they mentioned. It has
{entities:,} entities and {facts:,} facts; the paper's has 17,839 entities. The paper's figures are
printed beside ours because the table is laid out like the paper's, and for no other reason: they
cannot be compared. At most the order of the systems can."""


def plans() -> list[BenchPlan]:
    """Return the packaged plans in the order of the page."""
    names = [name for name in packaged() if name not in LEFT_OUT]
    known = [name for name in ORDER if name in names]
    return [BenchPlan.read(name) for name in (*known, *(n for n in names if n not in ORDER))]


def grid(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    every = [columns, ["---"] * len(columns), *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', '') for cell in line)} |" for line in every)


def claims_section(found: Sequence[Finding]) -> str:
    """Return the verdicts, by verdict."""
    pieces = [CLAIMS]
    for verdict, title in VERDICTS.items():
        lines = [[f.claim, f.where, f.evidence] for f in found if f.verdict == verdict]
        if lines:
            heading = f"### {title}"
            pieces += [heading, grid(("the paper's claim", "where", "measured here"), lines)]
    waiting: dict[str, list[str]] = {}
    for finding in found:
        if finding.verdict == "not run":
            waiting.setdefault(finding.claim, []).append(finding.where)
    if waiting:
        listed = "\n".join(f"- {claim}: {'; '.join(where)}" for claim, where in waiting.items())
        pieces += ["### Not run yet", listed]
    return "\n\n".join(pieces)


def impossible_section() -> str:
    """Return the paper's entries that cannot be right."""
    lines = [
        [
            str(entry.table),
            f"{graph_title(entry.graph)}, {entry.rate:g}",
            entry.system,
            " and ".join(printed.impossible(entry)),
        ]
        for entry in printed.impossible_entries()
    ]
    return f"{IMPOSSIBLE}\n\n{grid(('table', 'graph, rate', 'system', 'why'), lines)}"


def twitter_section() -> str:
    """Return the warning about twitter-ego."""
    info = CATALOGUE["twitter-ego"]
    return TWITTER.format(entities=info.entities, facts=sum(info.counts.values()))


def figures_section(drawings: Sequence[Drawing]) -> str:
    """Return the figures, learning curves folded away."""
    if not drawings:
        return "## Figures\n\nNone yet: nothing that could be drawn has run."

    def links(chosen: Sequence[Drawing]) -> str:
        return "\n\n".join(f"![{d.name}](figures/{d.name}.png)" for d in chosen)

    curves = [drawing for drawing in drawings if "-curves-" in drawing.name]
    others = [drawing for drawing in drawings if "-curves-" not in drawing.name]
    pieces = ["## Figures", "Bars are one standard deviation over the seeds."]
    if others:
        pieces.append(links(others))
    if curves:
        folded = f"<details><summary>Learning curves</summary>\n\n{links(curves)}\n\n</details>"
        pieces.append(folded)
    return "\n\n".join(pieces)


def page(folder: Path = RESULTS, notes: Path = NOTES) -> tuple[str, list[Drawing]]:
    """Return the whole page and its figures; ``folder`` holds the lines of results."""
    store, every = Store(folder), plans()
    results, costs = store.results(), store.costs()
    everything = [row for plan in every for row in rows(plan, results, costs)]
    drawings = make_figures(every, results, costs)
    pieces = [
        HEAD.rstrip(),
        claims_section(findings(everything)),
        notes.read_text(encoding="utf-8").strip(),
        impossible_section(),
        twitter_section(),
        figures_section(drawings),
        "## Tables",
        *(make_table(plan, results, costs).markdown(level=3).rstrip() for plan in every),
    ]
    return "\n\n".join(pieces) + "\n", drawings


def main() -> None:
    """Write the page and its figures, or check the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail where it is not up to date")
    check = parser.parse_args().check
    text, drawings = page()
    if not check:
        PAGE.write_text(text, encoding="utf-8")
        write_figures(drawings, FIGURES)
        kept = {drawing.name for drawing in drawings}
        for path in FIGURES.glob("*.*"):
            if path.stem not in kept:
                path.unlink()
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        sys.exit("docs/results.md is not up to date: run python scripts/build_results_docs.py")


if __name__ == "__main__":
    main()
