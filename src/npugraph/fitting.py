"""Fit a recipe to a graph, and open what was fitted."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from npugraph.data.io import ReadOptions
from npugraph.data.sources import GraphLike, load_graph, load_splits
from npugraph.display import Shown
from npugraph.errors import DataError, RunError
from npugraph.graph import KnowledgeGraph, Splits, Vocabulary
from npugraph.model import Model
from npugraph.peers import ALONE, Peers
from npugraph.recipes import find_recipe, get_recipe
from npugraph.recipes.base import Recipe
from npugraph.recipes.origin import Found, open_origin
from npugraph.settings import TrainSettings, as_path, as_settings, make_settings
from npugraph.training.batch_loss import Training
from npugraph.training.checkpoints import Checkpoints
from npugraph.training.loop import Judge, Report, choose_device, precision, train, validate_start
from npugraph.training.memory import check_memory
from npugraph.training.optimizers import make_optimizer
from npugraph.training.run_folder import Progress, Run, fingerprint
from npugraph.training.split import split
from npugraph.training.warm import Start, start_from
from npugraph.version import __version__

log = logging.getLogger(__name__)


@dataclass(repr=False)
class Fitted(Shown):
    """A trained system, at its best epoch, and how it got there."""

    system: Model
    splits: Splits
    settings: TrainSettings
    progress: Progress
    metrics: list[dict[str, Any]] = field(default_factory=list)
    run: Run | None = None
    recipe: str = ""

    def shown(self) -> tuple[str, Mapping[str, object]]:
        """Show what was trained on what, and how far it came."""
        rows: dict[str, object] = {
            "recipe": self.recipe,
            "graph": self.splits.name,
            "epochs": f"{self.progress.epoch}, the best is {self.progress.best_epoch}",
            "validation MRR": self.progress.best_mrr,
        }
        if self.run is not None:
            rows["run folder"] = self.run.folder
        return f"Fitted {self.recipe} on {self.splits.name!r}", rows


def fit(
    graph: GraphLike,
    recipe: str | os.PathLike[str] | Recipe = "complex-n3",
    settings: TrainSettings | Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    *,
    resume: bool = False,
    report: Report | None = None,
    judge: Judge | None = None,
    on_built: Callable[[Training], object] | None = None,
    checkpoint_seconds: float = 0.0,
    peers: Peers = ALONE,
    start: Start | None = None,
) -> Fitted:
    """Train a recipe on the train part of a graph; the best epoch by its validation MRR is kept.

    Without validation facts nothing tells epochs apart: all are trained, and the last is kept.

    Args:
        graph: what ``load_graph`` takes; where it has no parts they are drawn by the settings'
            seed. Test facts and the hidden truth are never looked at.
        recipe: a name of RECIPES, a Python file with a variable RECIPE, an installed recipe's
            name, or a Recipe.
        settings: the recipe's settings, or a dict of those that are not the defaults.
        out: the run folder; nothing is written where None.
        resume: go on with the run in ``out`` instead of starting one.
        report: called after every epoch with that epoch's line of metrics.
        judge: called after every epoch; what it returns is logged and changes nothing else.
        on_built: called once with what will be trained, before anything is written or trained;
            ``npugraph.training.memory.plan_memory`` tells from it what memory training takes.
        checkpoint_seconds: least time between two checkpoints of the run folder; 0 writes one at
            every validation. The last epoch is always written.
        peers: the processes that train together, each some of the dimensions or, for path and
            npugraph-path, of the questions: all of them call this with the same arguments.
            ``npugraph.peers.join`` finds them where torchrun has started this process.
        start: a run of the same recipe, perhaps of another graph, whose weights the training begins
            with, for all names that both know; they are validated first. The others are drawn.

    Returns:
        The system with the weights of its best epoch, in evaluation mode.
    """
    found = find_recipe(recipe)
    chosen = found.recipe
    settings = as_settings(chosen.settings, settings)
    folder = None if out is None else as_path(out, "the run folder")
    splits = leave_out_wrong(load_splits(graph, settings.seed))
    if len(splits.train) == 0:
        raise DataError(f"{splits.name!r} has no training facts, so there is nothing to learn.")
    device = peers.own_device(choose_device(settings.device))
    training = _build(chosen, settings, splits, peers)
    check_memory(training, settings, len(splits.valid), device)
    training.to(device)
    if on_built is not None:
        on_built(training)
    optimizer = make_optimizer(training, settings)
    if start is not None:
        _check_recipe(start.run, chosen)
        start_from(start.run, training, optimizer, splits.train)
    run, progress = _open_run(splits, found, settings, folder, resume, training, optimizer, peers)
    checkpoints = Checkpoints(run, checkpoint_seconds)
    parts = (training, optimizer, splits, settings, progress, checkpoints)
    log.info("training %s on %s, %s", chosen.name, splits.name, device)
    with precision(settings.precision, device):
        if start is not None and not progress.epoch and not progress.finished:
            validate_start(*parts, ends=not start.trains)
        metrics = train(*parts, report=report, judge=judge)
    log.info("trained %d epochs; the best is %d", progress.epoch, progress.best_epoch)
    return Fitted(training.system, splits, settings, progress, metrics, run, chosen.name)


def _build(chosen: Recipe, settings: TrainSettings, splits: Splits, peers: Peers) -> Training:
    """Return what this process trains: all of it, or a rank's share."""
    if peers.size == 1:
        return chosen.build(settings, splits.train)
    versions = {"npugraph": __version__, "torch": torch.__version__, "recipe": chosen.name}
    peers.check_same(versions)
    peers.check_same({**asdict(settings), "the facts' hash": fingerprint(splits)[:12]})
    with peers.in_turn():
        training = chosen.build(settings, splits.train)
        split(training, settings, peers)
    return training


def leave_out_wrong(splits: Splits) -> Splits:
    """Return a graph without the facts that it labels as wrong, and say so."""
    kept = splits.without_wrong()
    if kept is not splits:
        wrong = kept.left_out - splits.left_out
        log.warning("%s facts are labelled as wrong (label 0) and left out.", f"{wrong:,}")
    return kept


def load(
    folder: str | os.PathLike[str] | Fitted,
    device: str = "auto",
    *,
    recipe: str | os.PathLike[str] | Recipe | None = None,
    trust: bool = False,
) -> Fitted:
    """Open a run folder and return its system at its best epoch.

    Args:
        folder: the run folder; something fitted is returned as it is.
        device: where the system goes.
        recipe: the run's recipe, where it is one of your own and lies elsewhere now.
        trust: execute the run's recipe file although it has changed.
    """
    if isinstance(folder, Fitted):
        return folder
    run = Run.open(as_path(folder, "a run"))
    chosen = _recipe_of(run, recipe, trust)
    settings = make_settings(chosen.settings, {**run.settings, "device": device})
    splits = run.splits()
    system = chosen.build(settings, splits.train).system
    run.load_best(system)
    system.to(choose_device(device)).eval()
    return Fitted(system, splits, settings, run.progress(), run.metrics(), run, chosen.name)


def on_graph(fitted: Fitted, graph: GraphLike, options: ReadOptions | None = None) -> Fitted:
    """Return what was fitted with the facts of another graph as its evidence, without training.

    Entities may be new, relations may not. The recipe must have no entity vectors, as ``path``.

    Args:
        fitted: what was trained.
        graph: the other graph. Its train facts are the evidence; all facts where it has no parts.
        options: how to read a file or folder.
    """
    given = load_graph(graph, options)
    if given.part is None:
        given = replace(given, part=torch.zeros(len(given), dtype=torch.int8))
    splits = leave_out_wrong(given.split())
    words = fitted.splits.train.relations
    unknown = [name for name in splits.train.relations.labels.to_pylist() if name not in words]
    if unknown:
        raise DataError(
            f"{splits.name!r} has the relation {unknown[0]!r}, which the run was not trained on; "
            "take out its facts, or train again."
        )
    number = words.ids(splits.train.relations.labels)
    train, valid, test = (_renumbered(part, words, number) for part in splits.parts().values())
    splits = replace(splits, train=train, valid=valid, test=test)
    return replace(fitted, system=fitted.system.on_graph(splits.train), splits=splits)


def along_validation(fitted: Fitted) -> Fitted:
    """Return what was fitted with the validation facts as evidence, too; nothing is trained.

    For recipes of paths. Settings were chosen by these facts, so they must not be ranked then.
    """
    splits = fitted.splits
    both = splits.train.with_facts(torch.cat([splits.train.facts, splits.valid.facts]))
    return replace(fitted, system=fitted.system.along(both))


def _renumbered(graph: KnowledgeGraph, words: Vocabulary, number: Tensor) -> KnowledgeGraph:
    """Return a graph with another vocabulary of relations; ``number`` [r] has their ids there."""
    head, relation, tail = graph.facts.unbind(1)
    facts = torch.stack([head, number[relation], tail], 1)
    return replace(graph, relations=words, facts=facts)


def _recipe_of(run: Run, recipe: str | os.PathLike[str] | Recipe | None, trust: bool) -> Recipe:
    """Return the recipe that made a run: the one given, or the one it remembers."""
    if recipe is not None:
        given = get_recipe(recipe)
        _check_recipe(run, given)
        return given
    # Folders of earlier versions know the name alone.
    if run.origin.get("kind", "built-in") == "built-in":
        return get_recipe(run.recipe)
    return open_origin(run.recipe, run.origin, str(run.folder), trust=trust)


def _check_recipe(run: Run, recipe: Recipe) -> None:
    if recipe.name != run.recipe:
        raise RunError(f"{run.folder} was made by recipe {run.recipe!r}, not {recipe.name!r}.")


def _open_run(
    splits: Splits,
    found: Found,
    settings: TrainSettings,
    out: Path | None,
    resume: bool,
    training: Training,
    optimizer: torch.optim.Optimizer,
    peers: Peers,
) -> tuple[Run | None, Progress]:
    if out is None:
        if resume:
            raise RunError("Resuming needs the run folder.")
        return None, Progress()
    recipe, origin = found.recipe.name, found.origin
    if not resume:
        run = None
        if peers.rank == 0:
            run = Run.create(out, recipe, settings, splits, origin.record())
            run = replace(run, peers=peers)
        peers.wait()
        return run or _open_shared(out, peers), Progress()
    run = _open_shared(out, peers)
    run.check_same(recipe, settings, splits)
    if run.origin.get("sha256") != origin.sha256:
        raise RunError(
            f"{out} was begun with another version of the recipe {recipe!r} ({origin.path}); go on "
            "with the same file, or start a new run."
        )
    progress = run.load_last(training, optimizer)
    run.forget_after(progress.epoch)
    return run, progress


def _open_shared(folder: Path, peers: Peers) -> Run:
    """Open a run folder that every rank must see."""
    if peers.rank and not (folder / "settings.json").is_file():
        raise RunError(f"Rank {peers.rank} does not see {folder}; all ranks need it on one disk.")
    return Run.open(folder, peers)
