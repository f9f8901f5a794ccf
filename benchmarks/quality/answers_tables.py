"""The tables on answers in docs/audit.md, from the lines of results/answers.jsonl.

A run that was made again counts once, by its last line. Seeds of one graph and kind are averaged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.quality.audit_tables import mean

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


def answers_share(lines: list[Line]) -> list[str]:
    """Return how often the interval of the share of wrong facts holds it, and its width."""
    rows = [
        "| graph | wrong facts | seeds | answers | half of them random: held, width | all random: "
        "held, width | drawn by the posterior: held, width |",
        "|---|---|---|---|---|---|---|",
    ]
    for (graph, noise), runs in _cells(lines).items():
        for size in SIZES:
            figures = [
                f"{mean(runs, 'share', size, name, 'covered'):.1%}, "
                f"{mean(runs, 'share', size, name, 'width'):.1%}"
                for name in ("half_random", "random", "drawn")
            ]
            rows.append(f"| {graph} | {noise} | {len(runs)} | {size} | {' | '.join(figures)} |")
    return rows


TABLES = (answers_learned, answers_share)


def all_tables(path: Path) -> str:
    """Return all tables of a file of results."""
    lines = read(path)
    return "\n\n".join("\n".join(table(lines)) for table in TABLES)
