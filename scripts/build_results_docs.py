"""Writes docs/results.md, docs/results/ and docs/figures/ from the plans and the lines of results.

    python scripts/build_results_docs.py            # write them
    python scripts/build_results_docs.py --check    # fail where a page is not up to date

Figures come from benchmarks/results/bench/{results,costs}.jsonl, those of the recipes of paths from
benchmarks/results/paths.jsonl, the paper's from the package, and the verdicts are computed. What we
think is behind them is written by hand in docs/results_notes.md. The page is a summary; every cell,
claim and table is in docs/results/. A test checks that all of it is up to date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from doc_files import (
    BENCH,
    DOCS,
    RESULTS,
    Everything,
    asked_to_check,
    check,
    csv_text,
    grid,
    paragraph,
    write,
)
from npugraph.bench.layout import Table
from npugraph.bench.page import to_html
from npugraph.bench.paper import printed
from npugraph.bench.paper.claims import MRR, Finding, Measured, findings
from npugraph.bench.paper.figures import Drawing, make_figures, write_figures
from npugraph.bench.paper.tables import as_printed, graph_title, make_table, shown
from npugraph.bench.plan import Cell
from npugraph.bench.sources import named
from npugraph.bench.summary import Row, ranking, rows
from npugraph.ranking.evaluate import FILTERS

# A script is run from anywhere; the benchmarks are a package of the repository, not installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.quality import paths_tables  # noqa: E402

PAGE = DOCS / "results.md"
FOLDER = DOCS / "results"
NOTES = DOCS / "results_notes.md"
FIGURES = DOCS / "figures"
# The rate of the paper's main table.
MAIN_RATE = 0.3

HEAD = """\
# Results

<!-- Made by scripts/build_results_docs.py: change the results or docs/results_notes.md, and run it
again. -->

The paper's tables and figures, run again with [`npugraph bench`](bench.md). *here* is this package,
*paper* is what the paper prints. This page is the summary. All figures, settings and commands are
in the folder `docs/results`:

- [cells.csv](results/cells.csv): every run with its figures, settings, seconds, machine, sources,
  and the command that runs it again;
- [claims.csv](results/claims.csv): every verdict with the figures behind it;
- [impossible.csv](results/impossible.csv): entries of the paper that cannot be;
- [tables.html](results/tables.html): the tables of all plans, with both filters, noise,
  calibration, cost and p values."""
MAIN = """\
## The main table: MRR at rate 0.3

Mean ± standard deviation over three seeds; without ± it is one seed. The filter is the perturbed
one, which the paper's figures go with: it leaves removed true facts among the candidates
([protocol](protocol.md)). Under the clean filter, the honest one, all figures are higher;
tables.html has both. Twitter-ego is **another graph** than the paper's, which is not public: only
the order of systems may be compared. † cannot be (see impossible.csv)."""
PATHS = """\
## Recipes of paths: MRR at rate 0.3

Perturbed filter, random noise, as above; the paper's figure is that of its nPUGraph. These are no
cells of a plan: `benchmarks/results/paths.jsonl` has commands, seeds and settings, and
[the figures of paths](paths_figures.md) both filters, other rates, graphs as published, and how
settings came about."""
PATH_RECIPES = (
    "path",
    "npugraph-path",
    "npugraph-plus",
    "npugraph-plus, 3 members",
    "npugraph-plus, 2 members, weighed",
)
RATES = """\
## By rate: MRR on {graph}

Three seeds, perturbed filter; the paper's figure in brackets."""
PUBLISHED = """\
## Graphs as published: MRR

One seed, nothing planted or removed. The paper has no such table."""
VERDICTS = {
    "agrees": "agrees",
    "disagrees": "does not agree",
    "undecided": "undecided",
    "not run": "not run",
}
CLAIMS = """\
## What agrees with the paper, and what does not

One rule holds for all claims: a verdict needs at least three seeds on each side. Two sides must
differ by a paired t test over the seeds with p < 0.05 (without correction: each line is one
question); a figure must lie further from a line that we drew than the seeds spread. All else is
undecided, and a claim about all baselines cannot be confirmed until all have run. "A tenth", the
rank correlation and the share of variance are our readings of the paper's words."""


# --- the summary


def plans_section(found: Everything) -> str:
    """Return what was run: a line per plan."""
    lines, block = [], 1
    for plan in found.plans:
        table = make_table(plan, found.results, found.costs)
        lines.append([f"[{plan.name}](results/tables.html#b{block})", plan.title, table.state])
        block += len(table.blocks)
    sources = [line.get("source") for line in found.results.values() if line["status"] == "done"]
    about = f"Numeric sources of all finished cells: {named(sources) or 'none'}."
    shown_plans = grid(("plan", "what", "state"), lines)
    return f"## What was run\n\n{shown_plans}\n\n{paragraph(about)}"


def main_section(measured: Measured) -> str:
    """Return the main table: a line per system, each graph with the paper's figures."""
    graphs = [graph for graph in printed.GRAPHS if (graph, MAIN_RATE) in measured.rows]
    columns = ["MRR"]
    for graph in graphs:
        columns += [graph_title(graph).partition(",")[0], "paper"]
    lines = []
    for recipe, label in _systems(measured, graphs):
        line = [label]
        for graph in graphs:
            row = measured.rows[graph, MAIN_RATE].get(recipe)
            line += [_ours(row), _theirs(graph, MAIN_RATE, recipe)]
        lines.append(line)
    return f"{MAIN}\n\n{grid(columns, lines)}"


def paths_section(results: Path = RESULTS / "paths.jsonl") -> str:
    """Return the recipes of paths beside the paper's nPUGraph, or nothing where none has run."""
    cells = paths_tables.cells(paths_tables.read(results), ["ranking"])
    graphs = [
        graph
        for graph in printed.GRAPHS
        if any((graph, MAIN_RATE, "random", recipe) in cells for recipe in PATH_RECIPES)
    ]
    columns = ["MRR"]
    for graph in graphs:
        columns += [graph_title(graph).partition(",")[0], "paper"]
    lines = []
    for recipe in PATH_RECIPES:
        line = [recipe]
        for graph in graphs:
            group = cells.get((graph, MAIN_RATE, "random", recipe))
            ours = paths_tables.figure(x["perturbed"]["mrr"] for x in group) if group else "not run"
            line += [ours, _theirs(graph, MAIN_RATE, "npugraph")]
        lines.append(line)
    return f"{PATHS}\n\n{grid(columns, lines)}" if graphs else ""


def rates_section(measured: Measured) -> str:
    """Return a table for each graph that was run at several rates."""
    pieces = []
    for graph, rates in measured.rates().items():
        if len(rates) < 2:
            continue
        lines = []
        for recipe, label in _systems(measured, [graph]):
            ours = [measured.rows[graph, rate].get(recipe) for rate in rates]
            if sum(row is not None and bool(row.done) for row in ours) > 1:
                lines.append(
                    [label]
                    + [
                        f"{_ours(row)} ({_theirs(graph, rate, recipe)})"
                        for rate, row in zip(rates, ours, strict=True)
                    ]
                )
        heading = RATES.format(graph=graph_title(graph))
        columns = ("MRR (paper)", *(f"rate {rate:g}" for rate in rates))
        pieces.append(f"{heading}\n\n{grid(columns, lines)}" if lines else "")
    return "\n\n".join(filter(None, pieces))


def published_section(found: Everything) -> str:
    """Return MRR on graphs as published: a line per system, a column per graph."""
    by_system: dict[str, dict[str, Row]] = {}
    for row in found.rows:
        if row.first.rate == 0 and row.done:
            by_system.setdefault(row.first.label, {})[row.first.graph] = row
    graphs = list(dict.fromkeys(graph for every in by_system.values() for graph in every))
    if not graphs:
        return ""
    quantity = ranking("mrr", "clean")
    lines = [
        [label, *(shown(every[graph], quantity) if graph in every else "–" for graph in graphs)]
        for label, every in by_system.items()
    ]
    columns = ("MRR", *(graph_title(graph) for graph in graphs))
    return f"{PUBLISHED}\n\n{grid(columns, lines)}"


def _systems(measured: Measured, graphs: Sequence[str]) -> list[tuple[str, str]]:
    """Return (recipe, label) of the systems that have run, in the order of the paper's groups."""
    labels: dict[str, str] = {}
    for (graph, _), compared in measured.rows.items():
        if graph in graphs:
            labels |= {recipe: row.first.label for recipe, row in compared.items() if row.done}
    order = (*printed.GROUPS, printed.OURS)
    return sorted(labels.items(), key=lambda pair: order.index(printed.group_of(pair[0])))


def _ours(row: Row | None) -> str:
    return "–" if row is None else shown(row, MRR)


def _theirs(graph: str, rate: float, recipe: str) -> str:
    entry = printed.beside(graph, rate, recipe)
    if entry is None:
        return "–"
    return as_printed(entry.figures["mrr"]) + (" †" if printed.impossible(entry) else "")


def claims_section(found: Sequence[Finding]) -> str:
    """Return one bullet per claim: the verdicts and where they hold."""
    by_claim: dict[str, dict[str, list[str]]] = {}
    for finding in found:
        places = by_claim.setdefault(finding.claim, {}).setdefault(finding.verdict, [])
        places.append(finding.where)
    bullets = []
    for claim, verdicts in by_claim.items():
        said = [
            f"**{word}** on {_places(verdicts[verdict])}"
            for verdict, word in VERDICTS.items()
            if verdict in verdicts
        ]
        bullets.append(paragraph(f"{claim}: {'; '.join(said)}.", bullet=True))
    return f"{CLAIMS}\n\n" + "\n".join(bullets)


def _places(where: Sequence[str]) -> str:
    """Put the rates of one graph together."""
    graphs: dict[str, list[str]] = {}
    for place in where:
        graph, _, rate = place.rpartition(", ")
        graphs.setdefault(graph, []).append(rate)
    return ", ".join(f"{graph} at {', '.join(rates)}" for graph, rates in graphs.items())


def waiting_section(found: Everything) -> str:
    """Return what was not run, by plan, graph and seeds."""
    waiting: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for plan in found.plans:
        for row in rows(plan, found.results, found.costs):
            seeds = [cell.seed for cell in row.cells if cell not in row.done]
            if seeds:
                where = (plan.name, graph_title(row.first.graph), ", ".join(map(str, seeds)))
                labels = waiting.setdefault(plan.name, {}).setdefault(where, [])
                labels.append(row.first.label)
    if not waiting:
        return "## What was not run\n\nNothing: all cells of all plans have figures."
    bullets = [
        paragraph(f"{plan}: {graph}, seed {seeds}: {', '.join(labels)}.", bullet=True)
        for groups in waiting.values()
        for (plan, graph, seeds), labels in groups.items()
    ]
    return "## What was not run\n\n" + "\n".join(bullets)


def figures_section(drawings: Sequence[Drawing]) -> str:
    """Return the figures; learning curves are named only."""
    if not drawings:
        return "## Figures\n\nNone yet: nothing that could be drawn has run."
    others = [drawing for drawing in drawings if "-curves-" not in drawing.name]
    text = "Bars are one standard deviation. The folder `docs/figures` has the learning curves."
    links = [f"![{drawing.name}](figures/{drawing.name}.png)" for drawing in others]
    return "\n\n".join(["## Figures", text, *links])


def page(found: Everything, drawings: Sequence[Drawing], notes: Path = NOTES) -> str:
    """Return the summary."""
    measured = Measured(found.rows)
    pieces = [
        HEAD,
        plans_section(found),
        main_section(measured),
        paths_section(),
        rates_section(measured),
        published_section(found),
        claims_section(findings(found.rows)),
        notes.read_text(encoding="utf-8").strip(),
        waiting_section(found),
        figures_section(drawings),
    ]
    return "\n\n".join(filter(None, pieces)) + "\n"


# --- all of it, beside the summary


def cell_lines(found: Everything) -> Iterator[dict[str, Any]]:
    """Yield every cell of every plan, and every finished cell that is in none, as lines of CSV."""
    cells: dict[str, Cell] = {}
    plans: dict[str, list[str]] = {}
    for plan in found.plans:
        for cell in plan.cells():
            cells.setdefault(cell.key, cell)
            if plan.name not in plans.setdefault(cell.key, []):
                plans[cell.key].append(plan.name)
    for key in (*cells, *(key for key in found.results if key not in cells)):
        line = found.results.get(key) or _not_run(cells[key])
        yield {
            "key": key,
            "plans": " ".join(plans.get(key, [])),
            **{name: line.get(name) for name in PLAIN},
            **_metrics(line),
            **_spent(found.costs.get(key), plans.get(key, [])[:1], key),
            "settings": json.dumps(line["settings"], sort_keys=True),
        }


PLAIN = (
    "label", "recipe", "graph", "rate", "noise", "seed", "status", "error", "note", "valid_mrr",
    "best_epoch", "epochs", "noise_auroc", "noise_ap", "noise_auroc_held_out", "noise_ap_held_out",
    "ece", "ece_held_out", "version", "commit", "dirty", "source", "data",
)  # fmt: skip
SPENT = ("train_seconds", "rank_seconds", "memory_mb", "machine", "at_once", "shared", "date")


def _not_run(cell: Cell) -> dict[str, Any]:
    return {**cell.to_json(), "status": "not run", "metrics": None}


def _metrics(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ranking figures, named by metric and filter."""
    return {
        f"{metric} {name}": figure
        for name, figures in (line.get("metrics") or {}).items()
        for metric, figure in figures.items()
    }


def _spent(cost: Mapping[str, Any] | None, plan: Sequence[str], key: str) -> dict[str, Any]:
    """Return what a cell took, and the command that runs it again."""
    again = {"command": f"npugraph bench run {plan[0]} --only {key}"} if plan else {}
    if cost is None:
        return again
    values = (
        cost["seconds"]["train"], cost["seconds"]["rank"], cost["memory_mb"], cost["machine"],
        cost.get("workers"), bool(cost.get("shared")), cost["date"],
    )  # fmt: skip
    return {"command": cost["command"], **dict(zip(SPENT, values, strict=True)), **again}


def cells_csv(found: Everything) -> str:
    """Return every cell as CSV."""
    lines = list(cell_lines(found))
    every = dict.fromkeys(name for line in lines for name in line)
    metrics = [name for name in every if name.partition(" ")[2] in FILTERS]
    columns = ("key", "plans", *PLAIN[:9], *metrics, *PLAIN[9:], *SPENT, "command", "settings")
    return csv_text(columns, lines)


def all_tables(found: Everything) -> Table:
    """Return the tables of all plans as one."""
    made = [make_table(plan, found.results, found.costs) for plan in found.plans]
    blocks = [
        replace(block, title=f"{table.name}: {block.title}")
        for table in made
        for block in table.blocks
    ]
    state = " ".join(f"{table.name}: {table.state}" for table in made)
    return Table("results", "All tables", state, tuple(blocks))


def files(found: Everything) -> dict[Path, str]:
    """Return what stands in the folder beside the page, by path."""
    claims = [vars(finding) for finding in findings(found.rows)]
    wrong = [
        {
            "table": entry.table,
            "graph": graph_title(entry.graph),
            "rate": entry.rate,
            "system": entry.system,
            "why": " and ".join(printed.impossible(entry)),
        }
        for entry in printed.impossible_entries()
    ]
    made = {
        "cells.csv": cells_csv(found),
        "claims.csv": csv_text(("claim", "where", "verdict", "evidence"), claims),
        "impossible.csv": csv_text(("table", "graph", "rate", "system", "why"), wrong),
        "tables.html": to_html(all_tables(found)),
    }
    return {FOLDER / name: text for name, text in made.items()}


def build(folder: Path = BENCH, notes: Path = NOTES) -> tuple[dict[Path, str], list[Drawing]]:
    """Return all files by path, and the figures; ``folder`` holds the lines of results."""
    found = Everything.read(folder)
    drawings = make_figures(found.plans, found.results, found.costs)
    return {PAGE: page(found, drawings, notes), **files(found)}, drawings


def main() -> None:
    """Write everything, or check it."""
    checking = asked_to_check(__doc__)
    made, drawings = build()
    if checking:
        check(made)
        return
    write(made, FOLDER)
    write_figures(drawings, FIGURES)
    kept = {drawing.name for drawing in drawings}
    for path in FIGURES.glob("*.*"):
        # Pictures of the desk and of the audit have scripts of their own.
        if path.stem not in kept and not path.stem.startswith(("desk-", "audit-")):
            path.unlink()


if __name__ == "__main__":
    main()
