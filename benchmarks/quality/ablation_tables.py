"""The ablation table of docs/method.md, from the lines of results/ablation.jsonl.

Seeds from 10 on were looked at while recipes were made and are in no table.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.quality.paths_tables import Line, figure, read
from npugraph.significance import holm, paired_test

BASE = "path"
NAMES = {
    BASE: "path",
    "edges": "path, edges by the posterior",
    "questions": "path, questions by the posterior",
    "both": "path, edges and questions by the posterior",
    "weighed": "path, edges and questions by the posterior, all kinds",
    "npu": "path, nPU objective",
    "soft": "path, soft facts",
    "all": "path, edges, nPU and soft facts",
    "plus": "path and ComplEx-N3",
    "members": "path, three members",
    "plus, members": "path, three members, and ComplEx-N3",
}
ROOM = "not run"
# Of this graph and rate every row is wanted; elsewhere only those that were run are listed.
WANTED = "fb15k-237", 0.3


def by_seed(lines: list[Line], row: str, name: str) -> dict[int, float]:
    """Return the MRR of a row by seed; of several runs the last counts."""
    return {line["seed"]: line[name]["mrr"] for line in lines if line["row"] == row}


def over_seeds(lines: list[Line], row: str) -> tuple[str, float | None]:
    """Return the gain over path in MRR, and the p value of a paired test over seeds."""
    mine, base = (by_seed(lines, one, "clean") for one in (row, BASE))
    seeds = sorted(mine.keys() & base.keys())
    if not seeds:
        return "", None
    gain = figure([mine[seed] - base[seed] for seed in seeds])
    test = paired_test([mine[seed] for seed in seeds], [base[seed] for seed in seeds])
    return gain, None if test is None else test.p_value


def over_facts(lines: list[Line], row: str) -> str:
    """Return the p values of the paired test over facts, seed by seed."""
    found = {
        line["seed"]: line["against_path"]["clean"]["p_value"]
        for line in lines
        if line["row"] == row and "against_path" in line
    }
    return ", ".join(f"{found[seed]:.1g}" for seed in sorted(found))


def of_graph(graph: str, rate: float, lines: list[Line]) -> Iterator[str]:
    """Yield the rows of one graph; the p values over seeds are corrected for their number."""
    gains = {row: over_seeds(lines, row) for row in NAMES if row != BASE}
    tested = {row: p for row, (_, p) in gains.items() if p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    for row, name in NAMES.items():
        mine = [line for line in lines if line["row"] == row]
        if not mine:
            if (graph, rate) == WANTED:
                yield f"| {graph} | {rate:g} | {name} | {ROOM} | | | | | | |"
            continue
        seeds = ", ".join(map(str, sorted({line["seed"] for line in mine})))
        values = [figure(by_seed(lines, row, kind).values()) for kind in ("clean", "perturbed")]
        gain = gains[row][0] if row in gains else ""
        sure = f"{adjusted[row]:.2g}" if row in adjusted else ""
        seconds = f"{sum(line['training_seconds'] for line in mine) / len(mine):.0f}"
        place = graph, f"{rate:g}", name, seeds
        cells = (*place, *values, gain, sure, over_facts(lines, row), seconds)
        yield f"| {' | '.join(cells)} |"


def ablation(lines: list[Line]) -> Iterator[str]:
    """Yield MRR of every row by graph and rate, its gain over path, and how sure that is."""
    yield (
        "| graph | rate | recipe | seeds | MRR clean | perturbed | gain, clean "
        "| p over seeds (Holm) | p over facts, by seed | training, s |"
    )
    yield "|---" * 10 + "|"
    for place in sorted({(line["graph"], line["rate"]) for line in lines}):
        yield from of_graph(*place, [one for one in lines if (one["graph"], one["rate"]) == place])


__all__ = ["TABLES", "read"]
TABLES = (ablation,)
