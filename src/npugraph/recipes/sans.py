"""SANS: RotatE whose candidates come from the neighbourhood of the known entity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from npugraph.graph import KnowledgeGraph
from npugraph.recipes.base import Choices, Recipe
from npugraph.recipes.common import (
    ROTATE_SPACE,
    RotationSettings,
    adversarial_parts,
    adversarial_training,
    make_system,
    rotate_scorer,
)
from npugraph.samplers import SANS, neighbourhoods
from npugraph.settings import setting
from npugraph.training.batch_loss import Training


@dataclass(frozen=True)
class SansSettings(RotationSettings):
    """Settings of sans: those of rotate, and the neighbourhood.

    Published: hops=2 and walks=4000 on FB15k-237, hops=2 and walks=3000 on wn18; whole
    neighbourhoods for kind=hops. ``share`` does not apply: neighbourhoods are each fact's own.
    """

    kind: Literal["hops", "walks"] = setting("hops", "all entities near, or ends of random walks")
    hops: int = setting(2, "steps from the known entity", low=1)
    cap: int = setting(2000, "most neighbours kept of an entity (kind=hops)", low=1)
    walks: int = setting(1000, "random walks from each entity (kind=walks)", low=1)


def build(settings: SansSettings, train: KnowledgeGraph) -> Training:
    """Put RotatE, candidates from the neighbourhood and the self-adversarial loss together."""
    limit = settings.cap if settings.kind == "hops" else settings.walks
    where = (settings.kind, settings.hops, limit, settings.seed)
    near = neighbourhoods(train.facts, train.num_entities, *where)
    sizes = train.num_entities, train.num_relations
    sampler = SANS(train.facts, *sizes, near, settings.negatives)
    system = make_system(settings, rotate_scorer(settings), train)
    return adversarial_training(settings, system, sampler, train)


SANS_RECIPE = Recipe(
    name="sans",
    summary="RotatE, candidates from the k-hop neighbourhood, self-adversarial loss.",
    source="Ahrabian et al.: Structure Aware Negative Sampling in Knowledge Graphs (2020)",
    settings=SansSettings,
    build=build,
    parts=adversarial_parts("RotatE", "drawn from the neighbourhood of the known entity"),
    space={**ROTATE_SPACE, "kind": Choices(("hops", "walks")), "hops": Choices((2, 3))},
)
