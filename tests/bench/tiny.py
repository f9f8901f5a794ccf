"""A tiny graph in a folder, and plans on it that run in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npugraph.bench.cell import FIGURES, Circumstances, result_line
from npugraph.bench.plan import BenchPlan, Cell
from npugraph.data.io import write_splits
from recipe_cases import groups

SETTINGS = {"device": "cpu", "epochs": 4, "validate_every": 1, "batch_size": 64}


def tiny_graph(folder: Path) -> str:
    """Write the graph of groups into a folder; returns its path, as a plan names it."""
    write_splits(groups(), folder)
    return str(folder)


def tiny_values(graph: str = "umls", **changes: Any) -> dict[str, Any]:
    """Two systems on one graph, as a TOML file would hold them."""
    values: dict[str, Any] = {
        "name": "tiny",
        "title": "A plan for tests.",
        "graphs": [graph],
        "rates": [0.3],
        "seeds": [0],
        "settings": dict(SETTINGS),
        "systems": [
            {"label": "DistMult", "recipe": "distmult", "settings": {"d": 8}},
            {"label": "nPUGraph", "recipe": "npugraph", "settings": {"d": 8, "warmup": 2}},
        ],
    }
    return {**values, **changes}


def tiny_plan(graph: str = "umls", **changes: Any) -> BenchPlan:
    """Return the plan of ``tiny_values``."""
    return BenchPlan.from_values(tiny_values(graph, **changes), "tiny.toml")


def one_cell(graph: str, recipe: str, rate: float = 0.3, **settings: Any) -> Cell:
    """Return the one cell of a plan with one system."""
    system = {"label": recipe, "recipe": recipe, "settings": settings}
    return tiny_plan(graph, systems=[system], rates=[rate]).cells()[0]


def calm(work: Path) -> Circumstances:
    """Circumstances under which every validation leaves a checkpoint."""
    return Circumstances(work, checkpoint_seconds=0.0)


def made_up(cell: Cell, mrr: float = 0.5) -> dict[str, Any]:
    """A line of results that was never measured."""
    figures = dict.fromkeys(FIGURES, None)
    metrics = {name: {"mrr": mrr} for name in cell.filters}
    return result_line(cell, {**figures, "metrics": metrics, "epochs": cell.settings["epochs"]})


def made_up_cost(
    cell: Cell, seconds: float | dict[str, float] = 10.0, **changes: Any
) -> dict[str, Any]:
    """A line of costs that was never measured: seconds of training alone, or of each part."""
    if not isinstance(seconds, dict):
        seconds = {"train": seconds, "rank": 0.0, "total": seconds}
    cost = {
        "key": cell.key,
        "seconds": seconds,
        "machine": "made-up processor",
        "workers": 1,
    }
    return {**cost, **changes}
