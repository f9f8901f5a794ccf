"""One cell: perturb the graph, train, rank the test facts, judge the posterior."""

from __future__ import annotations

import math
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from npugraph.bench.graphs import graph_of, without_test
from npugraph.bench.plan import Cell
from npugraph.bench.sources import provenance
from npugraph.data.io import write_text
from npugraph.errors import RunError
from npugraph.fitting import Fitted, fit
from npugraph.graph import Splits
from npugraph.ranking.evaluate import noise_metrics, rank_part
from npugraph.recipes import get_recipe
from npugraph.settings import TrainSettings, make_settings
from npugraph.training.loop import choose_device
from npugraph.training.run_folder import Run
from npugraph.version import __version__

Line = dict[str, Any]
Report = Callable[[dict[str, Any]], object]
FIGURES = (
    "metrics",
    "noise_auroc",
    "noise_ap",
    "noise_auroc_held_out",
    "noise_ap_held_out",
    "ece",
    "ece_held_out",
    "valid_mrr",
    "best_epoch",
    "epochs",
    "curve",
)
# Digits after the point: fine enough for any table, and short.
DIGITS = 6


@dataclass(frozen=True)
class Circumstances:
    """How a cell is run: what changes nothing in its figures.

    Attributes:
        work: folder for perturbed graphs and checkpoints.
        device: in place of the plan's, or None.
        workers: cells that run at once on this machine.
        plan: the name or path of the plan, for the command in the costs.
        checkpoint_seconds: least time between two checkpoints.
        shared: whether other work runs on the machine meanwhile, so that seconds say little.
    """

    work: Path
    device: str | None = None
    workers: int = 1
    plan: str = "PLAN"
    checkpoint_seconds: float = 30.0
    shared: bool = False


def run_cell(cell: Cell, how: Circumstances, report: Report | None = None) -> tuple[Line, Line]:
    """Run a cell, or go on with it where its checkpoint is, and return its result and its cost.

    Args:
        cell: what to run.
        how: where and on what.
        report: called after every epoch with that epoch's line of metrics.
    """
    started = time.perf_counter()
    # Read now: the sources may be edited while the cell runs.
    source = provenance()["source"]
    device = choose_device(how.device or cell.device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    kind = get_recipe(cell.recipe).settings
    settings = make_settings(kind, {**cell.settings, "device": str(device)})
    splits = graph_of(cell, how.work)
    folder = how.work / "cells" / cell.key
    blind = without_test(splits)
    mark = _mark_sources(folder, source)
    earlier = _seconds_of(folder, cell, settings, blind)
    fitted = fit(
        blind,
        cell.recipe,
        settings,
        folder,
        resume=earlier is not None,
        report=report,
        checkpoint_seconds=how.checkpoint_seconds,
    )
    assert fitted.run is not None
    fitted = replace(fitted, splits=splits, metrics=fitted.run.metrics())
    ranking = time.perf_counter()
    result = result_line(cell, figures(cell, fitted))
    ended = time.perf_counter()
    seconds = {
        "train": sum(line["seconds"] for line in fitted.metrics),
        "rank": ended - ranking,
        "total": ended - started + (earlier or 0.0),
    }
    shutil.rmtree(folder)
    mark.unlink()
    return result, _cost_line(cell, how, seconds, device)


def _mark_sources(folder: Path, source: str) -> Path:
    """Remove what other sources began, and return the file that says which ones begin now."""
    mark = folder.with_suffix(".source")
    if not mark.is_file() or mark.read_text(encoding="utf-8") != source:
        shutil.rmtree(folder, ignore_errors=True)
        mark.parent.mkdir(parents=True, exist_ok=True)
        write_text(mark, source)
    return mark


def _seconds_of(folder: Path, cell: Cell, settings: TrainSettings, splits: Splits) -> float | None:
    """Return the training time a killed run has behind it, or None where none can go on.

    A folder that was left by another machine's device, or that a kill left half made, is removed.
    """
    try:
        run = Run.open(folder)
        run.check_same(cell.recipe, settings, splits)
    except RunError:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return float(sum(line["seconds"] for line in run.metrics()))


def figures(cell: Cell, fitted: Fitted) -> Line:
    """Return what is measured of a trained cell, by name of FIGURES."""
    ranks = rank_part(fitted, cell.filters)
    names = ("mrr", *(f"hits@{k}" for k in cell.hits), "mean_rank")
    metrics = {}
    for name in cell.filters:
        found = ranks.metrics(name, hits=cell.hits)
        metrics[name] = {key: _short(found[key]) for key in names}
    noise = {name: _short(value) for name, value in noise_metrics(fitted).items()}
    progress = fitted.progress
    return {
        "metrics": metrics,
        **noise,
        "valid_mrr": _short(progress.best_mrr),
        "best_epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "curve": [
            {name: _short(line[name]) for name in ("epoch", "loss", "valid_mrr")}
            for line in fitted.metrics
            if "valid_mrr" in line
        ],
    }


def _short(value: Any) -> Any:
    """Round a number for the results; what is not finite is None."""
    if not isinstance(value, float):
        return value
    return round(value, DIGITS) if math.isfinite(value) else None


def result_line(cell: Cell, found: Line | None, error: str | None = None) -> Line:
    """Return the line of results of a cell, with its figures or with its error."""
    return {
        "key": cell.key,
        "status": "failed" if found is None else "done",
        "error": error,
        "label": cell.label,
        "note": cell.note,
        "recipe": cell.recipe,
        "graph": cell.graph,
        "rate": cell.rate,
        "noise": cell.noise,
        "seed": cell.seed,
        **{name: None if found is None else found[name] for name in FIGURES},
        "settings": cell.settings,
        "changes": cell.changes,
        "data": cell.data,
        "version": __version__,
        **provenance(),
    }


def _cost_line(
    cell: Cell, how: Circumstances, seconds: dict[str, float], device: torch.device
) -> Line:
    return {
        "key": cell.key,
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "memory_mb": round(_peak_memory(device) / 2**20),
        "machine": machine(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "workers": how.workers,
        "shared": how.shared,
        "date": time.strftime("%Y-%m-%d"),
        "command": f"npugraph bench run {how.plan} --only {cell.key}",
    }


def machine(device: torch.device) -> str:
    """Name the processor that does the work."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {os.cpu_count()} cores"


def _peak_memory(device: torch.device) -> int:
    """Return the most bytes held: on the GPU by tensors, else by this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
