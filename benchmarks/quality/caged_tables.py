"""The table of benchmarks/results/caged.jsonl for docs/audit_figures.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Lines = list[dict[str, Any]]
# Shares of the N facts that are looked at.
SHARES = (0.01, 0.02, 0.03, 0.04, 0.05)
# Precision at these shares, rate 5%, seed 0, by graph: CAGED (Zhang et al., CIKM 2022) and ADKGD;
# on FB15k-237 ADKGD was run again.
PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    "wn18rr": {
        "CAGED": (0.813, 0.695, 0.612, 0.542, 0.489),
        "ADKGD": (0.943, 0.845, 0.725, 0.635, 0.560),
    },
    "fb15k-237": {"ADKGD": (0.958, 0.884, 0.785, 0.693, 0.615)},
}


def read(path: Path) -> Lines:
    """Return the lines; none without a file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def caged(lines: Lines) -> Iterator[str]:
    """Yield the mean precision by graph and rate, the published figures below it."""
    runs: dict[tuple[str, float], dict[int, list[float]]] = {}
    for line in lines:
        how = line["perturbation"]
        # A seed that ran again counts once, as it was last.
        runs.setdefault((line["graph"], how["rate"]), {})[how["seed"]] = line["precision"]
    yield "| graph | rate | system | seeds | " + " | ".join(f"{s:.0%}" for s in SHARES) + " |"
    yield "|" + "---|" * (4 + len(SHARES))
    for (graph, rate), by_seed in sorted(runs.items()):
        cell = f"| {graph} | {rate:.0%} |"
        seeds = ", ".join(map(str, sorted(by_seed)))
        yield f"{cell} audit | {seeds} | {_figures(np.mean(list(by_seed.values()), 0))} |"
        if rate == 0.05:
            for system, values in PUBLISHED.get(graph, {}).items():
                yield f"{cell} {system}, published | 0 | {_figures(values)} |"


def _figures(values: Iterable[float]) -> str:
    return " | ".join(f"{value:.3f}" for value in values)


TABLES = (caged,)
