"""The tables of docs/method.md on the planted share, from the lines of results/planted_share.jsonl.

Seeds from 10 on were looked at while the recipe was made and are in no table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.quality.paths_tables import Line, figure, read

WAYS = ("none", "posterior", "truth", "posterior, both", "truth, both")
Value = Callable[[list[Line]], str]


def table(lines: list[Line], value: Value) -> Iterator[str]:
    """Yield one row per graph, noise and share, with a value of the lines of each way.

    A way that was not run on every seed of the row says on which. Of two runs the later counts.
    """
    yield f"| graph | noise | wrong | seeds | {' | '.join(WAYS)} |"
    yield "|---" * (len(WAYS) + 4) + "|"
    cells = sorted({(line["graph"], line["noise"], line["share"]) for line in lines})
    for cell in cells:
        group = [x for x in lines if (x["graph"], x["noise"], x["share"]) == cell]
        seeds = sorted({line["seed"] for line in group})
        row = [cell[0], cell[1], f"{cell[2]:.0%}", ", ".join(map(str, seeds))]
        for way in WAYS:
            mine = {line["seed"]: line for line in group if line["way"] == way}
            some = "" if len(mine) == len(seeds) else f" (seed {', '.join(map(str, sorted(mine)))})"
            row.append(value(list(mine.values())) + some if mine else "not run")
        yield f"| {' | '.join(row)} |"


def planted_ranking(lines: list[Line]) -> Iterator[str]:
    """Yield test MRR under the clean filter."""
    yield from table(lines, lambda mine: figure(line["clean"]["mrr"] for line in mine))


def planted_detection(lines: list[Line]) -> Iterator[str]:
    """Yield AUROC / AP of the planted facts, own edges hidden."""

    def both(mine: list[Line]) -> str:
        return " / ".join(figure(line[name] for line in mine) for name in ("auroc", "ap"))

    yield from table(lines, both)


__all__ = ["TABLES", "read"]
TABLES = (planted_ranking, planted_detection)
