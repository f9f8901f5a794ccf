"""The tables of docs/paths_figures.md from the lines of results/paths.jsonl.

Seeds from 10 on were looked at while settings were chosen and are in no table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from npugraph.bench.paper import printed
from npugraph.significance import mean_and_deviation

SEEN = 10
# Kinds of lines with a ranking; one of a recipe is named after it.
RANKED = {"complex-n3": "complex-n3", "ranking": None, "combined": "mean of path and complex-n3"}
FILTERS = ("clean", "perturbed")
# The part of a line where the validation facts are evidence, too.
MORE = "paths, validation facts as evidence"
VALUES = {"raw_sum": "score", "among_all_sum": "log-softmax", "among_new_sum": "the same, new"}
# One number for all kinds of noise; lines of the first runs do not have it.
VALUES |= {"credibility": "credibility"}
# Sources of the first form of the credibility (all kinds count the same), which is in no table.
FORMER = "3ea880383faf"

Line = dict[str, Any]


def read(path: Path) -> list[Line]:
    """Return the lines of all runs but those that settings were chosen by; none without a file."""
    if not path.is_file():
        return []
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["seed"] < SEEN]


def is_weighed(recipe: str, settings: dict[str, Any]) -> bool:
    """Tell whether facts count by a posterior, as evidence and as answers, from all kinds."""
    wanted = {"question_weights": "posterior", "posterior_kinds": "all"}
    found = recipe == "npugraph-path" or settings.get("paths") == "npugraph-path"
    return found and wanted.items() <= settings.items()


def system_of(line: Line) -> str:
    """Name what a line is about: a recipe, or one part of it; lines of path did not say so."""
    recipe, part = line.get("recipe", "path"), line.get("part", "whole")
    settings = line.get("settings", {})
    members = settings.get("members", 1)
    named = recipe if members == 1 else f"{recipe}, {members} members"
    named += ", within reach" if settings.get("reached_only") else ""
    named += ", weighed" if is_weighed(recipe, settings) else ""
    if part != "whole":
        named += f": {part}" if part == MORE else f": {part} alone"
    return RANKED.get(line["kind"]) or named


def cells(
    lines: Iterable[Line], kinds: Iterable[str]
) -> dict[tuple[str, float, str, str], list[Line]]:
    """Return the lines of some kinds by graph, rate, noise and system, in order of their seeds.

    Of two runs with the same seed the later one counts.
    """
    found: dict[tuple[str, float, str, str], dict[int, Line]] = {}
    for line in lines:
        if line["kind"] in kinds:
            cell = (line["graph"], line["rate"], line["noise"], system_of(line))
            found.setdefault(cell, {})[line["seed"]] = line
    return {cell: [of[seed] for seed in sorted(of)] for cell, of in sorted(found.items())}


def seeds_of(group: Iterable[Line]) -> str:
    """Write the seeds of some lines."""
    return ", ".join(str(line["seed"]) for line in group)


def figure(values: Iterable[float]) -> str:
    """Write a mean, with the deviation where there are several seeds.

    >>> figure([0.25, 0.35]), figure([0.25])
    ('.300 ± .071', '.250')
    """
    spread = mean_and_deviation(list(values))
    mean = f"{spread.mean:.3f}".lstrip("0").replace("-0.", "-.")
    if spread.deviation is None:
        return mean
    return f"{mean} ± {spread.deviation:.3f}".replace("± 0.", "± .")


def ranking(lines: list[Line]) -> Iterator[str]:
    """Yield test MRR by graph, rate and system, under both filters, beside the paper's nPUGraph."""
    filters = " | ".join(f"{name} filter" for name in FILTERS)
    yield f"| graph | rate | system | seeds | {filters} | paper's nPUGraph, perturbed |"
    yield "|---" * 7 + "|"
    ours = (entry for entry in printed.entries() if entry.system == printed.NPUGRAPH)
    paper = {(entry.graph, entry.rate): entry.figures["mrr"] for entry in ours}
    for (graph, rate, noise, system), group in cells(lines, RANKED).items():
        if noise != "random":
            continue
        row = [graph, f"{rate:g}", system, seeds_of(group)]
        # A graph as published has one filter.
        row += [figure(x[f]["mrr"] for x in group) if f in group[0] else "" for f in FILTERS]
        value = paper.get((graph, rate))
        row.append("" if value is None else f"{value:.3f}".lstrip("0"))
        yield f"| {' | '.join(row)} |"


def is_former(line: Line, value: str) -> bool:
    """Tell whether a value of a line is what another form of it said."""
    return value == "credibility" and line.get("source") == FORMER


def detection(lines: list[Line]) -> Iterator[str]:
    """Yield AUROC / AP of the planted training facts, by graph, noise, system and value."""
    yield f"| graph | noise | system | seeds | {' | '.join(VALUES.values())} |"
    yield "|---" * (len(VALUES) + 4) + "|"
    for (graph, _, noise, system), group in cells(lines, ["detection"]).items():
        row = [graph, noise, system, seeds_of(group)]
        for value in VALUES:
            some = [line for line in group if value in line and not is_former(line, value)]
            parts = [figure(x[value][name] for x in some) for name in ("auroc", "ap") if some]
            which = f" (seed {seeds_of(some)})" if 0 < len(some) < len(group) else ""
            row.append(" / ".join(parts) + which or "not run")
        yield f"| {' | '.join(row)} |"


TABLES = (ranking, detection)
