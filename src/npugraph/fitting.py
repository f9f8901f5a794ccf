"""Fit a recipe to a graph, and open what was fitted."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from npugraph.data.sources import load_splits
from npugraph.errors import DataError, RunError
from npugraph.graph import KnowledgeGraph, Splits
from npugraph.model import Model
from npugraph.recipes import get_recipe
from npugraph.settings import TrainSettings, make_settings
from npugraph.training.batch_loss import Training
from npugraph.training.checkpoints import Checkpoints
from npugraph.training.loop import Judge, Report, choose_device, make_optimizer, precision, train
from npugraph.training.run_folder import Progress, Run

log = logging.getLogger(__name__)


@dataclass
class Fitted:
    """A trained system, at its best epoch, and how it got there."""

    system: Model
    splits: Splits
    settings: TrainSettings
    progress: Progress
    metrics: list[dict[str, Any]] = field(default_factory=list)
    run: Run | None = None


def fit(
    graph: str | Path | KnowledgeGraph | Splits,
    recipe: str,
    settings: TrainSettings | None = None,
    out: Path | None = None,
    *,
    resume: bool = False,
    report: Report | None = None,
    judge: Judge | None = None,
    checkpoint_seconds: float = 0.0,
) -> Fitted:
    """Train a recipe on the train part of a graph; the best epoch by MRR on valid is kept.

    Without validation facts nothing tells epochs apart: all are trained, and the last is kept.

    Args:
        graph: what ``load_graph`` takes; where it has no parts they are drawn by the settings'
            seed. Test facts and the hidden truth are never looked at.
        recipe: a name of RECIPES.
        settings: the recipe's settings; its defaults where None.
        out: the run folder; nothing is written where None.
        resume: go on with the run in ``out`` instead of starting one.
        report: called after every epoch with that epoch's line of metrics.
        judge: called after every epoch; what it returns is logged and changes nothing else.
        checkpoint_seconds: least time between two checkpoints of the run folder; 0 writes one at
            every validation. The last epoch is always written.

    Returns:
        The system with the weights of its best epoch, in evaluation mode.
    """
    chosen = get_recipe(recipe)
    settings = settings or chosen.settings()
    splits = load_splits(graph, settings.seed)
    if len(splits.train) == 0:
        raise DataError(f"{splits.name!r} has no training facts, so there is nothing to learn.")
    device = choose_device(settings.device)
    training = chosen.build(settings, splits.train)
    training.to(device)
    optimizer = make_optimizer(training, settings)
    run, progress = _open_run(splits, recipe, settings, out, resume, training, optimizer)
    checkpoints = Checkpoints(run, checkpoint_seconds)
    parts = (training, optimizer, splits, settings, progress, checkpoints)
    log.info("training %s on %s, %s", recipe, splits.name, device)
    with precision(settings.precision, device):
        metrics = train(*parts, report=report, judge=judge)
    log.info("trained %d epochs; the best is %d", progress.epoch, progress.best_epoch)
    return Fitted(training.system, splits, settings, progress, metrics, run)


def load(folder: Path, device: str = "auto") -> Fitted:
    """Open a run folder and return its system at its best epoch."""
    run = Run.open(folder)
    recipe = get_recipe(run.recipe)
    settings = make_settings(recipe.settings, {**run.settings, "device": device})
    splits = run.splits()
    system = recipe.build(settings, splits.train).system
    run.load_best(system)
    system.to(choose_device(device)).eval()
    return Fitted(system, splits, settings, run.progress(), run.metrics(), run)


def _open_run(
    splits: Splits,
    recipe: str,
    settings: TrainSettings,
    out: Path | None,
    resume: bool,
    training: Training,
    optimizer: torch.optim.Optimizer,
) -> tuple[Run | None, Progress]:
    if out is None:
        if resume:
            raise RunError("Resuming needs the run folder.")
        return None, Progress()
    if not resume:
        return Run.create(out, recipe, settings, splits), Progress()
    run = Run.open(out)
    run.check_same(recipe, settings, splits)
    progress = run.load_last(training, optimizer)
    run.forget_after(progress.epoch)
    return run, progress
