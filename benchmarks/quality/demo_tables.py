"""The table of benchmarks/results/demo.jsonl for docs/audit_figures.md."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality.promises_tables import kept, promised

Lines = list[dict[str, Any]]
# Seeds that were looked at while anything was chosen.
LOOKED_AT = (10, 11, 12)


def read(path: Path) -> Lines:
    """Return the lines, but for seeds that were looked at; the last one of each seed counts."""
    if not path.is_file():
        return []
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    fresh = {(line["replaced"], line["seed"]): line for line in lines}
    return [line for _, line in sorted(fresh.items()) if line["seed"] not in LOOKED_AT]


def demos(lines: Lines) -> Iterable[str]:
    """Return what the demo finds, promises and corrects, mean over seeds."""
    yield (
        "| what planted facts were made of | seeds | planted among 100 suspects, mean (least) | "
        "count promised | kept | planted suspects with a correction | right | names a true fact | "
        "CPU seconds, mean (most) |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for gone, name in ((False, "is stored beside them"), (True, "is gone")):
        runs = [line for line in lines if line["replaced"] == gone]
        if not runs:
            continue
        found = [line["found"] for line in runs]
        made = [line for line in runs if promised(line)]
        fixes = [line["corrections"] for line in runs]
        given = sum(fix["new"] + fix["stored"] for fix in fixes)
        right = sum(fix["new_right"] + fix["stored_right"] for fix in fixes)
        true = sum(fix["true"] for fix in fixes)
        seconds = [line["cpu_seconds"] for line in runs]
        yield (
            f"| {name} | {len(runs)} | {np.mean(found):.1f} ({min(found)}) | {len(made)} | "
            f"{sum(map(kept, made))} of {len(made)} | {given / max(sum(found), 1):.0%} | "
            f"{_share(right, given)} | {_share(true, given)} | {np.mean(seconds):.0f} "
            f"({max(seconds):.0f}) |"
        )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


TABLES = (demos,)
