"""The short way to a recipe of one's own: a scorer, trained as DistMult, ComplEx and RotatE are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npugraph.graph import KnowledgeGraph
from npugraph.recipes.base import Dimension, Recipe
from npugraph.recipes.common import (
    BILINEAR_SPACE,
    AdversarialSettings,
    adversarial_parts,
    build_scorer,
)
from npugraph.scorers import Scorer
from npugraph.training.batch_loss import Training

__all__ = ["AdversarialSettings", "scorer_recipe"]


def scorer_recipe(
    name: str,
    make: Callable[[Any], Scorer],
    *,
    summary: str,
    source: str = "none",
    settings: type[AdversarialSettings] = AdversarialSettings,
    space: Mapping[str, Dimension] = BILINEAR_SPACE,
) -> Recipe:
    """Return a recipe around a scorer: one vector per entity and relation, uniform candidates.

    The loss is the self-adversarial one of RotatE's public code, with an N3 penalty.

    Args:
        name: what to call it.
        make: makes the scorer from the settings.
        summary: one line on what it is.
        source: the paper it follows.
        settings: its settings; a dataclass that adds to these where it needs more.
        space: what ``npugraph tune`` searches.

    >>> from npugraph.scorers import DistMult
    >>> scorer_recipe("mine", lambda settings: DistMult(), summary="DistMult again.").name
    'mine'
    """

    def build(chosen: AdversarialSettings, train: KnowledgeGraph) -> Training:
        return build_scorer(chosen, make(chosen), train)

    # The recipe lies where its scorer is made, not here.
    build.__module__ = make.__module__
    parts = adversarial_parts(name)
    return Recipe(name, summary, source, settings, build, parts, dict(space))
