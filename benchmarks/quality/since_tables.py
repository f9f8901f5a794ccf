"""The tables of benchmarks/results/since.jsonl for docs/scale.md."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Lines = list[dict[str, Any]]


def read(path: Path) -> Lines:
    """Return the lines; nothing where there is no file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _both(line: dict[str, Any], name: str, digits: int) -> str:
    """Return a figure of both ways, the one that goes on first."""
    return ", ".join(f"{line[way][name]:.{digits}f}" for way in ("since", "full"))


def _what(line: dict[str, Any]) -> list[str]:
    new = f"{line['added'] / line['facts']:.0%}, by {line['new']}"
    return [line["graph"], new, str(line["seed"])]


def since_audits(lines: Lines) -> Iterable[str]:
    """Return whole audits: those that go on from an earlier one beside full ones."""
    audits = [line for line in lines if not line.get("fold")]
    if not audits:
        yield "Whole audits were not measured yet."
        return
    yield _row(
        (
            "graph",
            "new facts",
            "seed",
            "wrong",
            "AUROC since, full",
            "AP since, full",
            "CPU s since, full",
            "promised; wrong among the listed",
            "full audit due",
        )
    )
    yield "|" + "---|" * 9
    for line in audits:
        since, told = line["since"], line["since"]["expected_wrong"]
        promise = "nothing" if told is None else f"{told[1]:.0f} to {told[2]:.0f}"
        yield _row(
            (
                *_what(line),
                str(since["wrong"]),
                _both(line, "auroc", 3),
                _both(line, "ap", 3),
                _both(line, "cpu_seconds", 0),
                f"{promise}; {since['listed_wrong']} of {since['listed']}",
                "yes" if since["due"] else "no",
            )
        )


def since_folds(lines: Lines) -> Iterable[str]:
    """Return single systems: those that go on from an earlier one beside new ones."""
    yield _row(
        (
            "graph",
            "new facts",
            "seed",
            "judged, wrong",
            "AUROC since, anew",
            "AP since, anew",
            "validation MRR since, anew",
            "CPU s of training since, anew",
        )
    )
    yield "|" + "---|" * 8
    for line in (line for line in lines if line.get("fold")):
        yield _row(
            (
                *_what(line),
                f"{line['judged']}, {line['since']['wrong']}",
                _both(line, "auroc", 3),
                _both(line, "ap", 3),
                _both(line, "mrr", 3),
                _both(line, "cpu_seconds", 1),
            )
        )


TABLES = (since_audits, since_folds)
