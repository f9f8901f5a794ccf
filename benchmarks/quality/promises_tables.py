"""Tables of benchmarks/results/promises.jsonl for docs/audit_figures.md.

Lines of promises_before.jsonl were measured with the score before it was learnt twice, and have
tables of their own; those of promises_older.jsonl with pools of five kinds, without ``crowded``, or
with earlier rules for promises.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from npugraph.auditing.settings import KINDS

Lines = list[dict[str, Any]]
AS_PUBLISHED = "none"


def read(path: Path) -> Lines:
    """Return the lines; the last one of each cell counts."""
    if not path.is_file():
        return []
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return list({_cell(line): line for line in lines}.values())


def _cell(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["graph"], line["noise"], line["seed"], line["left_out"]


def promised(line: dict[str, Any]) -> bool:
    """Tell whether a cell promises a count."""
    return line["expected_wrong"] is not None


def kept(line: dict[str, Any]) -> bool:
    """Tell whether the count that was found lies in the interval that was promised."""
    low, high = line["expected_wrong_low"], line["expected_wrong_high"]
    return bool(low <= line["found"] <= high)


def _groups(lines: Lines) -> Iterator[tuple[tuple[str, str], Lines]]:
    keys = sorted({(line["graph"], _sort(line)) for line in lines})
    for key in keys:
        yield key, [line for line in lines if (line["graph"], _sort(line)) == key]


def _sort(line: dict[str, Any]) -> str:
    if line["noise"] == AS_PUBLISHED:
        return "as published"
    if line["left_out"]:
        return "family left out"
    return "kind in the pools" if line["noise"] in KINDS else "kind without a pool"


def share_kept(line: dict[str, Any]) -> bool:
    """Tell whether the share of wrong facts lies in the interval that was told."""
    share = line["wrong"] / line["facts"]
    return bool(line["wrong_share_low"] <= share <= line["wrong_share_high"])


def promises(lines: Lines) -> Iterable[str]:
    """Return, by graph and sort of cell, how many promise a count and how many keep it.

    The share of wrong facts is told in the same cells, but for those where it may be most facts.
    """
    yield "| graph | errors | cells | count promised | kept | share of wrong facts held |"
    yield "|---|---|---|---|---|---|"
    groups = [*_groups(lines), (("all", "all"), lines)]
    for (graph, sort), cells in groups:
        said = [line for line in cells if promised(line)]
        told = [line for line in said if line["wrong_share_low"] is not None]
        pairs = ((kept, said), (share_kept, told))
        good = (f"{sum(map(of, some))} of {len(some)}" if some else "–" for of, some in pairs)
        held = " | ".join(good)
        yield f"| {graph} | {sort} | {len(cells)} | {len(said)} | {held} |"


def expected_and_found(lines: Lines) -> Iterable[str]:
    """Return, by graph and kind, expected against found in the first suspects, mean of seeds."""
    yield "| graph | errors | left out | seeds | promised | expected | found | AUROC | AP |"
    yield "|---|---|---|---|---|---|---|---|---|"
    keys = sorted({(line["graph"], line["noise"], line["left_out"]) for line in lines})
    for graph, noise, left_out in keys:
        cells = [
            x for x in lines if (x["graph"], x["noise"], x["left_out"]) == (graph, noise, left_out)
        ]
        said = [line for line in cells if promised(line)]
        expected = "–"
        if said:
            names = ("expected_wrong", "expected_wrong_low", "expected_wrong_high")
            value, low, high = (sum(x[name] for x in said) / len(said) for name in names)
            expected = f"{value:.0f} ({low:.0f} to {high:.0f})"
        found = sum(line["found"] for line in cells) / len(cells)
        known = [line for line in cells if line["auroc"] is not None]
        quality = (
            " | ".join(f"{sum(x[n] for x in known) / len(known):.3f}" for n in ("auroc", "ap"))
            if known
            else "– | –"
        )
        yield (
            f"| {graph} | {noise} | {'yes' if left_out else ''} | {len(cells)} | {len(said)} | "
            f"{expected} | {found:.0f} | {quality} |"
        )


def promises_before(lines: Lines) -> Iterable[str]:
    """Return what :func:`promises` does, of lines that were measured with earlier rules."""
    return promises(lines)


def expected_and_found_before(lines: Lines) -> Iterable[str]:
    """Return what :func:`expected_and_found` does, likewise."""
    return expected_and_found(lines)


TABLES: tuple[Callable[[Lines], Iterable[str]], ...] = (promises, expected_and_found)
BEFORE: tuple[Callable[[Lines], Iterable[str]], ...] = (promises_before, expected_and_found_before)
