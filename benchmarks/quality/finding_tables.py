"""The table of benchmarks/results/finding_before.jsonl, beside the same cells of promises.jsonl."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.quality import promises_tables

Lines = list[dict[str, Any]]
RESULTS = Path(__file__).resolve().parent.parent / "results"


def read(path: Path) -> Lines:
    """Return the lines of before, each with the line of now as ``now``."""
    now = {_cell(line): line for line in promises_tables.read(RESULTS / "promises.jsonl")}
    before = promises_tables.read(path)
    return [{**line, "now": now[_cell(line)]} for line in before if _cell(line) in now]


def _cell(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["graph"], line["noise"], line["seed"], line["left_out"]


def finding(lines: Lines) -> Iterable[str]:
    """Return, by kind of error, AUROC, AP and the first suspects before and now, over graphs."""
    yield (
        "| errors | graphs | AUROC before, mean (worst) | now | AP before, mean (worst) | now | "
        "wrong among the first 100 before | now |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for noise in sorted({line["noise"] for line in lines}):
        cells = [line for line in lines if line["noise"] == noise]
        columns = [str(len({line["graph"] for line in cells}))]
        for name in ("auroc", "ap"):
            for values in ([x[name] for x in cells], [x["now"][name] for x in cells]):
                columns.append(f"{sum(values) / len(values):.3f} ({min(values):.3f})")
        for found in ([x["found"] for x in cells], [x["now"]["found"] for x in cells]):
            columns.append(f"{sum(found) / len(found):.0f}")
        yield f"| {noise} | {' | '.join(columns)} |"


TABLES = (finding,)
