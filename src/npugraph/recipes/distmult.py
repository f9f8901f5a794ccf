"""DistMult with self-adversarial candidates, as in RotatE's public code."""

from __future__ import annotations

from dataclasses import dataclass

from npugraph.graph import KnowledgeGraph
from npugraph.recipes.base import Recipe
from npugraph.recipes.common import (
    BILINEAR_SPACE,
    ROTATE_SOURCE,
    AdversarialSettings,
    adversarial_parts,
    build_scorer,
)
from npugraph.scorers import DistMult
from npugraph.settings import setting
from npugraph.training.batch_loss import Training


@dataclass(frozen=True)
class DistMultSettings(AdversarialSettings):
    """Settings of distmult. Published: d=2000, gamma=200; penalty 1e-5 on whole tables."""

    penalty: float = setting(0.005, "weight of the N3 penalty", low=0)


def build(settings: DistMultSettings, train: KnowledgeGraph) -> Training:
    """Put DistMult, uniform candidates and the self-adversarial loss together."""
    return build_scorer(settings, DistMult(), train)


DISTMULT = Recipe(
    name="distmult",
    summary="DistMult, uniform candidates, self-adversarial loss, N3 penalty.",
    source="Yang et al.: Embedding Entities and Relations (2015), trained as in " + ROTATE_SOURCE,
    settings=DistMultSettings,
    build=build,
    parts=adversarial_parts("DistMult"),
    space=BILINEAR_SPACE,
)
