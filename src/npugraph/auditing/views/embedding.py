"""The view ``embedding``: systems with a vector per entity, one per fold.

Such a system learns a fact by heart that it is trained on. So for each fold one is trained on the
facts of the others, and only that system judges the facts of the fold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from npugraph.auditing.earlier import validated
from npugraph.auditing.features import FEATURES, Comparer
from npugraph.auditing.folds import Folds
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.trainings import Systems, Train, begin_run
from npugraph.auditing.views.base import ViewInputs
from npugraph.model import Model
from npugraph.seeds import generator, number


class EmbeddingView:
    """Compares each fact with other answers, by the system that never saw it."""

    name = "embedding"
    columns = FEATURES
    score = ("score_tail", "score_head")

    def __init__(
        self,
        folds: Folds,
        systems: Sequence[Model],
        settings: AuditSettings,
        mrr: float = math.nan,
    ) -> None:
        """Judge by systems that were trained without one fold each; ``mrr`` is of validation."""
        self.folds = folds
        self.systems = systems
        self.mrr = mrr
        self.settings = settings
        self._comparer: tuple[int, Comparer] | None = None

    def features(self, facts: Tensor, fold: int, more: Tensor | None = None) -> Tensor:
        """Return the features of facts [n, 3] by the system of a fold: float32 [n, f]."""
        # Folds are judged one after the other; what a comparer holds is not small.
        if self._comparer is None or self._comparer[0] != fold:
            # Counts and roles come from the other folds alone, the validation facts among them.
            self._comparer = None
            others = self.folds.others(fold)
            rng = generator(self.settings.seed, "compare", fold)
            made = Comparer(self.systems[fold], others, self.settings.compared, rng)
            self._comparer = fold, made
        return self._comparer[1].features(facts, more).cpu()


def embedding_view(inputs: ViewInputs) -> EmbeddingView:
    """Train one system per fold."""
    systems = fit_systems(inputs)
    return EmbeddingView(inputs.folds, systems, inputs.settings, systems.mrr)


def fit_systems(
    inputs: ViewInputs,
    view: str = "embedding",
    folder: str = "folds",
    recipe: str | None = None,
    keep: int = 1,
    *,
    trains: bool = True,
) -> Systems:
    """Train one system per fold on the facts of the others; every fold has a seed of its own.

    Where there is an earlier audit each starts from the system of its fold there; without
    ``trains`` it stays as it is. The systems are opened when they are asked for; ``keep`` of them
    are held at once.
    """
    home, count = inputs.home, inputs.folds.count
    recipe = recipe or inputs.settings.recipe
    runs = [home.path / folder / f"fold-{fold + 1}" for fold in range(count)]
    if inputs.tasks is not None:
        epochs = inputs.training.epochs
        inputs.say("training", {"view": view, "systems": count, "epochs": epochs})
        inputs.run(
            [_begin_fold(inputs, fold, run, recipe, trains) for fold, run in enumerate(runs)]
        )
    return Systems(home, runs, recipe, inputs.training.device, keep)


def _begin_fold(inputs: ViewInputs, fold: int, folder: Path, recipe: str, trains: bool) -> Train:
    """Write what the system of a fold is trained on; return the job that trains it."""
    settings, since = inputs.settings, inputs.since
    own = replace(inputs.training, seed=number(settings.seed, "fold", fold) % 2**31)
    start = None if since is None else since.earlier.start(folder.parent.name, fold, trains)
    valid = None if start is None else validated(start, inputs.folds.graph)
    splits = inputs.folds.splits(fold, settings.thresholds.valid_share, settings.seed, valid)
    begin_run(folder, splits, recipe, own)
    told = {"fold": fold}
    begins = None if start is None else start.run.folder.absolute()
    return Train(folder, recipe, told, inputs.home.checkpoint_seconds, begins, trains)
