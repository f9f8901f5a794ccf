"""The view ``embedding``: systems with a vector per entity, one per fold.

Such a system learns a fact by heart that it is trained on. So for each fold one is trained on the
facts of the others, and only that system judges the facts of the fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from npugraph.auditing.features import FEATURES, Comparer
from npugraph.auditing.folds import Folds
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.trainings import Train, begin_run, open_systems
from npugraph.auditing.views.base import ViewInputs
from npugraph.model import Model
from npugraph.seeds import generator, number


class EmbeddingView:
    """Compares each fact with other answers, by the system that never saw it."""

    name = "embedding"
    columns = FEATURES
    score = ("score_tail", "score_head")

    def __init__(self, folds: Folds, systems: Sequence[Model], settings: AuditSettings) -> None:
        """Judge by systems that were trained without one fold each."""
        self.folds = folds
        self.systems = systems
        self.settings = settings
        self._comparer: tuple[int, Comparer] | None = None

    def features(self, facts: Tensor, fold: int) -> Tensor:
        """Return the features of facts [n, 3] by the system of a fold: float32 [n, f]."""
        # Folds are judged one after the other; what a comparer holds is not small.
        if self._comparer is None or self._comparer[0] != fold:
            # Counts and roles come from the other folds alone, the validation facts among them.
            self._comparer = None
            others = self.folds.others(fold)
            rng = generator(self.settings.seed, "compare", fold)
            made = Comparer(self.systems[fold], others, self.settings.compared, rng)
            self._comparer = fold, made
        return self._comparer[1].features(facts).cpu()


def embedding_view(inputs: ViewInputs) -> EmbeddingView:
    """Train one system per fold."""
    return EmbeddingView(inputs.folds, fit_systems(inputs), inputs.settings)


def fit_systems(
    inputs: ViewInputs,
    view: str = "embedding",
    folder: str = "folds",
    recipe: str | None = None,
    keep: int = 1,
) -> Sequence[Model]:
    """Train one system per fold on the facts of the others; every fold has a seed of its own.

    The systems are opened when they are asked for; ``keep`` of them are held at once.
    """
    home, count = inputs.home, inputs.folds.count
    recipe = recipe or inputs.settings.recipe
    runs = [home.path / folder / f"fold-{fold + 1}" for fold in range(count)]
    if inputs.tasks is not None:
        epochs = inputs.training.epochs
        inputs.say("training", {"view": view, "systems": count, "epochs": epochs})
        for fold, run in enumerate(runs):
            _begin_fold(inputs, fold, run, recipe)
        told = [{"fold": fold} for fold in range(count)]
        seconds = home.checkpoint_seconds
        jobs = [Train(run, recipe, t, seconds) for run, t in zip(runs, told, strict=True)]
        inputs.run(jobs)
    return open_systems(home, runs, recipe, inputs.training.device, keep)


def _begin_fold(inputs: ViewInputs, fold: int, folder: Path, recipe: str) -> None:
    settings = inputs.settings
    own = replace(inputs.training, seed=number(settings.seed, "fold", fold) % 2**31)
    splits = inputs.folds.splits(fold, settings.thresholds.valid_share, settings.seed)
    begin_run(folder, splits, recipe, own)
