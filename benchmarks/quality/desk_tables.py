"""The tables on the review desk in docs/review.md, from the lines of results/desk.jsonl.

A cell that was run again counts once, by its last line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SIZES = ("0", "50", "100", "200")
KINDS = ("typed", "hard", "near-duplicate", "verified")
Line = dict[str, Any]


def read(path: Path) -> list[Line]:
    """Return the last line of each cell; none where nothing was measured yet."""
    cells: dict[tuple[Any, ...], Line] = {}
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        line = json.loads(text)
        cells[line["graph"], line["noise"], line["seed"]] = line
    order = {kind: place for place, kind in enumerate(KINDS)}
    return sorted(cells.values(), key=lambda one: (one["graph"], order.get(one["noise"], 9)))


def desk_learned(lines: list[Line]) -> list[str]:
    """Return how good the order and the probabilities are after some answers."""
    rows = [
        "| graph | wrong facts | verdict | AP of the wrong before | among the unanswered: "
        "learned / not, after 50, 100, 200 answers | ECE after 0, 50, 100, 200 |",
        "|---|---|---|---|---|---|",
    ]
    for line in lines:
        after = line["after"]
        precision = ", ".join(
            f"{after[size]['average_precision']:.3f} / {after[size]['unlearned_precision']:.3f}"
            for size in SIZES[1:]
        )
        calibration = ", ".join(
            f"{after[size]['ece']:.3f}" if "ece" in after[size] else "-" for size in SIZES
        )
        rows.append(
            f"| {line['graph']} | {line['noise']} | {line['verdict']} | "
            f"{after[SIZES[0]]['average_precision']:.3f} | {precision} | {calibration} |"
        )
    return rows


def desk_found(lines: list[Line]) -> list[str]:
    """Return how many wrong facts 100 answers find."""
    rows = [
        "| graph | wrong facts | first 100 answers: desk, order of the audit, random | second 100 "
        "|",
        "|---|---|---|---|",
    ]
    for line in lines:
        cells = [
            ", ".join(f"{part[name]:.1f}" for name in ("desk", "unlearned", "random"))
            for part in line["found_per_100"].values()
        ]
        rows.append(f"| {line['graph']} | {line['noise']} | {' | '.join(cells)} |")
    return rows


def desk_estimated(lines: list[Line]) -> list[str]:
    """Return what estimate mode needs, and whether it holds."""
    rows = [
        "| graph | wrong facts | AUROC | facts | wrong | interval held the truth | answers | "
        "random order | ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        found = line["estimate"]
        rows.append(
            f"| {line['graph']} | {line['noise']} | {line['auroc']:.3f} | {line['facts']:,} | "
            f"{line['wrong'] / line['facts']:.1%} | {found['covered']:.1%} | "
            f"{found['answers']:.0f} | {found['answers_simple']:.0f} | {found['ratio']:.2f} |"
        )
    return rows


TABLES = (desk_learned, desk_found, desk_estimated)


def all_tables(path: Path) -> str:
    """Return every table as text."""
    lines = read(path)
    return "\n\n".join("\n".join([table.__name__, *table(lines)]) for table in TABLES)
