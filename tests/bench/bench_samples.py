"""A plan and made-up results of it, for tests of tables, figures and claims."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

from npugraph.bench.cell import result_line
from npugraph.bench.plan import BenchPlan, Cell

Lines = dict[str, dict[str, Any]]
MACHINE = "made-up processor"


def sample_plan(**changes: Any) -> BenchPlan:
    """Three systems of the paper and one of our own on FB15k-237, three seeds, one sweep."""
    values: dict[str, Any] = {
        "name": "sample",
        "title": "A sample.",
        "graphs": ["fb15k-237"],
        "rates": [0.3],
        "seeds": [0, 1, 2],
        "systems": [
            {"label": "ComplEx-N3", "recipe": "complex-n3"},
            {"label": "nPUGraph", "recipe": "npugraph", "note": "20 epochs; published: 200"},
            {"label": "RotatE", "recipe": "rotate"},
            {"label": "UKGE", "recipe": "ukge"},
        ],
    }
    return BenchPlan.from_values({**values, **changes}, "sample")


def sweep_plan(setting: str, values: list[Any], **changes: Any) -> BenchPlan:
    """nPUGraph with one setting varied."""
    return sample_plan(
        systems=[{"label": "nPUGraph", "recipe": "npugraph"}],
        sweeps=[{"label": "nPUGraph", "setting": setting, "values": values}],
        **changes,
    )


def chance(cell: Cell, purpose: str) -> float:
    """A number in [0, 1) that depends on the cell and the purpose alone."""
    text = f"{cell.label} {cell.graph} {cell.rate} {cell.sweep} {cell.seed} {purpose}"
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**32


def made_up(cell: Cell) -> float:
    """An MRR by the length of the label, falling with the rate, a little different per seed."""
    return 0.15 + 0.01 * len(cell.label) - 0.1 * cell.rate + 0.01 * chance(cell, "mrr")


def result(cell: Cell, mrr: float) -> dict[str, Any]:
    """A line of results; the clean filter lies above the perturbed one."""

    def metrics(base: float) -> dict[str, float]:
        hits = {f"hits@{k}": base * (0.7 + 0.1 * i) for i, k in enumerate(sorted(cell.hits), 1)}
        return {"mrr": base, **hits, "mean_rank": 1 / base}

    bayesian = cell.recipe.startswith("npugraph")
    curve = [{"epoch": e, "loss": 1 / e, "valid_mrr": mrr * (1 - 0.8**e)} for e in (1, 2, 4, 8, 16)]
    found = {
        "metrics": {name: metrics(mrr * (1.2 if name == "clean" else 1)) for name in cell.filters},
        "noise_auroc": 0.8 + 0.1 * chance(cell, "auroc") if cell.rate else None,
        "noise_ap": 0.4 if cell.rate else None,
        "noise_auroc_held_out": 0.95 if cell.rate else None,
        "noise_ap_held_out": 0.6 if cell.rate else None,
        "ece": 0.03 if bayesian else None,
        "ece_held_out": 0.02 if bayesian else None,
        "valid_mrr": mrr,
        "best_epoch": 16,
        "epochs": 16,
        "curve": curve,
    }
    return {**result_line(cell, found), "source": None}


def cost(cell: Cell) -> dict[str, Any]:
    """A line of costs; training time grows with K."""
    train = 10 + 2.0 * cell.settings.get("negatives", 5) + chance(cell, "seconds")
    return {
        "key": cell.key,
        "seconds": {"train": train, "rank": 1.5, "total": train + 2},
        "memory_mb": 1234,
        "machine": MACHINE,
        "torch": "2",
        "workers": 1,
        "date": "2000-01-01",
        "command": f"npugraph bench run sample --only {cell.key}",
    }


def lines(cells: Iterable[Cell], mrr: Callable[[Cell], float] = made_up) -> tuple[Lines, Lines]:
    """Results and costs of cells, by key."""
    chosen = list(cells)
    results = {cell.key: result(cell, mrr(cell)) for cell in chosen}
    return results, {cell.key: cost(cell) for cell in chosen}


def failure(cell: Cell, error: str) -> dict[str, Any]:
    """A line of a cell that failed."""
    blank = {name: None for name in result(cell, 0.5) if name not in ("key", "settings")}
    return {**blank, "key": cell.key, "status": "failed", "error": error, "label": cell.label}
