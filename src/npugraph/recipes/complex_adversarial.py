"""ComplEx with self-adversarial candidates, as in RotatE's public code."""

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
from npugraph.scorers import ComplEx
from npugraph.settings import setting
from npugraph.training.batch_loss import Training


@dataclass(frozen=True)
class ComplexSettings(AdversarialSettings):
    """Settings of complex. Published: d=1000, gamma=200; penalty 1e-5 on whole tables."""

    d: int = setting(100, "complex numbers per entity and relation", low=1)
    penalty: float = setting(0.005, "weight of the N3 penalty", low=0)


def build(settings: ComplexSettings, train: KnowledgeGraph) -> Training:
    """Put ComplEx, uniform candidates and the self-adversarial loss together."""
    return build_scorer(settings, ComplEx(), train)


COMPLEX = Recipe(
    name="complex",
    summary="ComplEx, uniform candidates, self-adversarial loss, N3 penalty.",
    source="Trouillon et al.: Complex Embeddings (2016), trained as in " + ROTATE_SOURCE,
    settings=ComplexSettings,
    build=build,
    parts=adversarial_parts("ComplEx"),
    space=BILINEAR_SPACE,
)
