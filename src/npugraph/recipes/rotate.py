"""RotatE with self-adversarial candidates."""

from __future__ import annotations

from dataclasses import dataclass

from npugraph.graph import KnowledgeGraph
from npugraph.recipes.base import Recipe
from npugraph.recipes.common import (
    ROTATE_SOURCE,
    ROTATE_SPACE,
    RotationSettings,
    adversarial_parts,
    build_scorer,
    rotate_scorer,
)
from npugraph.training.batch_loss import Training


@dataclass(frozen=True)
class RotateSettings(RotationSettings):
    """Settings of rotate. Published on FB15k-237: d=1000, gamma=9, temperature 1, 5e-5."""


def build(settings: RotateSettings, train: KnowledgeGraph) -> Training:
    """Put RotatE, uniform candidates and the self-adversarial loss together."""
    return build_scorer(settings, rotate_scorer(settings), train)


ROTATE = Recipe(
    name="rotate",
    summary="RotatE, uniform candidates, self-adversarial loss.",
    source=ROTATE_SOURCE,
    settings=RotateSettings,
    build=build,
    parts=adversarial_parts("RotatE"),
    space=ROTATE_SPACE,
)
