"""The tables of docs/paths.md from the lines of results/paths.jsonl.

Seed 10 was looked at while the settings were chosen and is in no table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from npugraph.bench.paper import printed
from npugraph.significance import mean_and_deviation

SEEN = 10
SYSTEMS = {"complex-n3": "ComplEx-N3", "ranking": "path", "combined": "mean of both"}
FILTERS = ("clean", "perturbed")
VALUES = {"raw_sum": "score", "among_all_sum": "log-softmax", "among_new_sum": "the same, new"}

Line = dict[str, Any]


def read(path: Path) -> list[Line]:
    """Return the lines of all runs but those that the settings were chosen by."""
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["seed"] != SEEN]


def cells(lines: Iterable[Line], kinds: Iterable[str]) -> dict[tuple[str, float, str], list[Line]]:
    """Return the lines of some kinds by graph, rate and noise, graphs and rates in order."""
    found: dict[tuple[str, float, str], list[Line]] = {}
    for line in lines:
        if line["kind"] in kinds:
            found.setdefault((line["graph"], line["rate"], line["noise"]), []).append(line)
    return dict(sorted(found.items()))


def figure(values: Iterable[float]) -> str:
    """Write a mean, with the deviation where there are several seeds.

    >>> figure([0.25, 0.35]), figure([0.25])
    ('.300 ± .071', '.250')
    """
    spread = mean_and_deviation(list(values))
    mean = f"{spread.mean:.3f}".lstrip("0")
    if spread.deviation is None:
        return mean
    return f"{mean} ± {spread.deviation:.3f}".replace("± 0.", "± .")


def ranking(lines: list[Line]) -> Iterator[str]:
    """Yield test MRR by graph, rate and system, under both filters, beside the paper's nPUGraph."""
    names = [f"{name}, {filt}" for name in SYSTEMS.values() for filt in FILTERS]
    yield f"| graph | rate | seeds | {' | '.join(names)} | paper's nPUGraph, perturbed |"
    yield "|---" * (len(names) + 4) + "|"
    ours = (entry for entry in printed.entries() if entry.system == printed.NPUGRAPH)
    paper = {(entry.graph, entry.rate): entry.figures["mrr"] for entry in ours}
    for (graph, rate, noise), group in cells(lines, SYSTEMS).items():
        if noise != "random":
            continue
        seeds = sorted({line["seed"] for line in group})
        row = [graph, f"{rate:g}", ", ".join(map(str, seeds))]
        for kind in SYSTEMS:
            mine = [line for line in group if line["kind"] == kind]
            row += [figure(x[f]["mrr"] for x in mine) if mine else "not run" for f in FILTERS]
        value = paper.get((graph, rate))
        row.append("" if value is None else f"{value:.3f}".lstrip("0"))
        yield f"| {' | '.join(row)} |"


def detection(lines: list[Line]) -> Iterator[str]:
    """Yield AUROC / AP of the planted training facts, by graph, noise and value."""
    yield f"| graph | noise | seeds | {' | '.join(VALUES.values())} |"
    yield "|---" * (len(VALUES) + 3) + "|"
    for (graph, _, noise), group in cells(lines, ["detection"]).items():
        seeds = ", ".join(str(line["seed"]) for line in sorted(group, key=lambda x: x["seed"]))
        row = [graph, noise, seeds]
        for value in VALUES:
            parts = (figure(line[value][name] for line in group) for name in ("auroc", "ap"))
            row.append(" / ".join(parts))
        yield f"| {' | '.join(row)} |"


TABLES = (ranking, detection)
