"""The view ``embedding``: systems with a vector per entity, one per fold.

Such a system learns a fact by heart that it is trained on. So for each fold one is trained on the
facts of the others, and only that system judges the facts of the fold.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torch import Tensor

from npugraph.auditing.features import FEATURES, Comparer
from npugraph.auditing.folds import Folds
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.views.base import ViewInputs
from npugraph.errors import RunError
from npugraph.fitting import Fitted, fit
from npugraph.graph import Splits
from npugraph.model import Model
from npugraph.recipes import get_recipe
from npugraph.seeds import generator, number
from npugraph.settings import TrainSettings
from npugraph.training.loop import Report
from npugraph.training.run_folder import Run


class EmbeddingView:
    """Compares each fact with other answers, by the system that never saw it."""

    name = "embedding"
    columns = FEATURES
    score = ("score_tail", "score_head")

    def __init__(self, folds: Folds, systems: tuple[Model, ...], settings: AuditSettings) -> None:
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
) -> tuple[Model, ...]:
    """Train one system per fold on the facts of the others; every fold has a seed of its own."""
    count, epochs = inputs.folds.count, inputs.training.epochs
    recipe = recipe or inputs.settings.recipe
    inputs.say("training", {"view": view, "systems": count, "epochs": epochs})
    return tuple(_fit_fold(inputs, fold, folder, recipe) for fold in range(count))


def _fit_fold(inputs: ViewInputs, fold: int, within: str, recipe: str) -> Model:
    settings = inputs.settings
    own = replace(inputs.training, seed=number(settings.seed, "fold", fold) % 2**31)
    splits = inputs.folds.splits(fold, settings.thresholds.valid_share, settings.seed)
    folder = None if inputs.out is None else inputs.out / within / f"fold-{fold + 1}"
    fitted = fit_or_resume(
        splits,
        recipe,
        own,
        folder,
        lambda record: inputs.say("epoch", {"fold": fold, **record}),
    )
    return fitted.system


def fit_or_resume(
    splits: Splits, recipe: str, settings: TrainSettings, folder: Path | None, report: Report
) -> Fitted:
    """Train, or go on with the run in ``folder`` where there is one; refuse one of another kind."""
    resume = folder is not None and (folder / "settings.json").is_file()
    if folder is not None and resume:
        try:
            Run.open(folder).check_same(get_recipe(recipe).name, settings, splits)
        except RunError as error:
            raise RunError(
                f"{folder} belongs to another graph, or to other folds, settings or seed; repeat "
                f"what was asked for then, or write to another folder. ({error})"
            ) from None
    return fit(splits, recipe, settings, folder, resume=resume, report=report)
