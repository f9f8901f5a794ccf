"""The tables on answers in docs/audit_figures.md, from the lines of results/answers.jsonl.

A run that was made again counts once, by its last line. Seeds of one graph and kind are averaged.
How often an interval from random answers holds the share is a sum over what may be found, and is
counted without any draw; the draws are shown beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.quality.audit_tables import mean
from npugraph.auditing.statistics.answers import random_share

GRAPHS = ("umls", "kinships", "codex-s")
KINDS = ("typed", "hard", "near-duplicate")
SIZES = ("50", "100", "200")
Line = dict[str, Any]


def read(path: Path) -> list[Line]:
    """Return the last line of each run; none where nothing was measured yet."""
    runs: dict[tuple[Any, ...], Line] = {}
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        line = json.loads(text)
        how = line.get("perturbation", {})
        runs[(line["graph"], line["task"], how.get("noise"), how.get("seed"))] = line
    return list(runs.values())


def _cells(lines: Sequence[Line]) -> dict[tuple[str, str], list[Line]]:
    """Return the runs with planted facts, all seeds of a graph and kind together."""
    cells: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        if line["task"] == "planted":
            cells.setdefault((line["graph"], line["perturbation"]["noise"]), []).append(line)
    order = {name: place for place, name in enumerate((*GRAPHS, *KINDS))}
    return dict(sorted(cells.items(), key=lambda one: [order.get(name, 99) for name in one[0]]))


def answers_learned(lines: list[Line]) -> list[str]:
    """Return what answers bring: order and probabilities before and after."""
    rows = [
        "| graph | wrong facts | seeds | answers | AUROC before, after | AP of the wrong before, "
        "after | ECE before, after | ECE from the order alone |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (graph, noise), runs in _cells(lines).items():
        for size in SIZES:
            figures = [
                f"{mean(runs, 'learned', size, 'before', name):.3f}, "
                f"{mean(runs, 'learned', size, 'by_probability', name):.3f}"
                for name in ("auroc", "average_precision", "ece")
            ]
            by_order = mean(runs, "learned", size, "by_order", "ece")
            rows.append(
                f"| {graph} | {noise} | {len(runs)} | {size} | {' | '.join(figures)} | "
                f"{by_order:.3f} |"
            )
    return rows


@lru_cache
def coverage(wrong: int, facts: int, answers: int) -> float:
    """Return how often the 90% interval of random answers holds the share, over all draws.

    >>> round(coverage(293, 6161, 100), 3)
    0.908
    """
    from scipy.stats import hypergeom

    held = 0.0
    for found in range(min(wrong, answers) + 1):
        _, low, high = random_share(found, answers, facts)
        if low <= wrong / facts <= high:
            held += float(hypergeom.pmf(found, facts, wrong, answers))
    return held


def answers_share(lines: list[Line]) -> list[str]:
    """Return how often the interval of the share of wrong facts holds it, and its width."""
    rows = [
        "| graph | wrong facts | seeds | answers | half of them random: held (counted exactly), "
        "width | all random: held (counted exactly), width | drawn by the posterior: held, width |",
        "|---|---|---|---|---|---|---|",
    ]
    for (graph, noise), runs in _cells(lines).items():
        for size in SIZES:
            figures = []
            for name, part in (("half_random", 2), ("random", 1), ("drawn", 0)):
                held, width = (mean(runs, "share", size, name, of) for of in ("covered", "width"))
                exact = f" ({_exactly(runs, int(size) // part):.1%})" if part else ""
                figures.append(f"{held:.1%}{exact}, {width:.1%}")
            rows.append(f"| {graph} | {noise} | {len(runs)} | {size} | {' | '.join(figures)} |")
    return rows


def _exactly(runs: Sequence[Line], answers: int) -> float:
    """Return the mean coverage of random answers over some runs."""
    held = [
        coverage(round(run["wrong_share"] * run["facts"]), run["facts"], answers) for run in runs
    ]
    return sum(held) / len(held)


TABLES = (answers_learned, answers_share)


def all_tables(path: Path) -> str:
    """Return all tables of a file of results."""
    lines = read(path)
    return "\n\n".join("\n".join(table(lines)) for table in TABLES)
