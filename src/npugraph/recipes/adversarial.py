"""DistMult, ComplEx and RotatE with self-adversarial candidates, as in RotatE's public code."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from npugraph.encoders import Lookup
from npugraph.graph import KnowledgeGraph
from npugraph.model import System
from npugraph.objectives import SelfAdversarial
from npugraph.recipes.base import Choices, Dimension, LogRange, Recipe
from npugraph.samplers import Sampler, Uniform
from npugraph.scorers import ComplEx, DistMult, RotatE, Scorer
from npugraph.seeds import generator
from npugraph.settings import TrainSettings, setting
from npugraph.training.batch_loss import PlainTraining, Training

SOURCE = "Sun et al.: RotatE: Knowledge Graph Embedding by Relational Rotation (2019)"


@dataclass(frozen=True)
class AdversarialSettings(TrainSettings):
    """What the three recipes share.

    Published on FB15k-237: batches of 1024, 256 candidates, 100,000 steps (about 375 epochs).
    """

    d: int = setting(200, "numbers per entity and relation", low=1)
    gamma: float = setting(10.0, "the start is even in +-(gamma + 2) / d", low=0)
    temperature: float = setting(1.0, "how strongly plausible candidates count", low=0)
    negatives: int = setting(64, "candidates beside each fact", low=1)
    share: int = setting(1, "facts that share their candidates; 1 is as published", low=1)
    penalty: float = setting(0.0, "weight of the N3 penalty", low=0)
    epochs: int = setting(100, "passes over the training facts", low=1)
    decay_at: float = setting(
        0.5, "after this share of the epochs the step size is a tenth; 0: never", low=0, high=1
    )
    batch_size: int = setting(256, "facts per step", low=1)
    cuda_graph: bool = setting(True, "on a GPU, record a step once and replay it")
    learning_rate: float = setting(5e-3, "step size", low=0)

    @property
    def limit(self) -> float:
        """Where the start of a coordinate ends."""
        return (self.gamma + 2) / self.d


@dataclass(frozen=True)
class DistMultSettings(AdversarialSettings):
    """Settings of distmult. Published: d=2000, gamma=200; penalty 1e-5 on whole tables."""

    penalty: float = setting(0.005, "weight of the N3 penalty", low=0)


@dataclass(frozen=True)
class ComplexSettings(AdversarialSettings):
    """Settings of complex. Published: d=1000, gamma=200; penalty 1e-5 on whole tables."""

    d: int = setting(100, "complex numbers per entity and relation", low=1)
    penalty: float = setting(0.005, "weight of the N3 penalty", low=0)


@dataclass(frozen=True)
class RotateSettings(AdversarialSettings):
    """Settings of rotate. Published on FB15k-237: d=1000, gamma=9, temperature 1, 5e-5."""

    d: int = setting(100, "complex numbers per entity, angles per relation", low=1)
    gamma: float = setting(9.0, "score of a perfect fit; the start is even in +-(gamma + 2) / d")


def subsampling_weight(facts: Tensor, num_relations: int) -> Tensor:
    """Return 1 / sqrt(count(h, r) + count(r, t)) of each fact [n], counts from 4 on.

    Facts of frequent queries count less, as frequent words do in word2vec.

    >>> subsampling_weight(torch.tensor([[0, 0, 1], [0, 0, 2]]), 1)  # 1 / sqrt(5 + 4)
    tensor([0.3333, 0.3333])
    """
    total = torch.zeros(len(facts))
    for known in (facts[:, 0], facts[:, 2]):
        pair = known * num_relations + facts[:, 1]
        _, query, count = torch.unique(pair, return_inverse=True, return_counts=True)
        total += count[query] + 3
    return total.rsqrt()


def adversarial_training(
    settings: AdversarialSettings, system: System, sampler: Sampler, train: KnowledgeGraph
) -> PlainTraining:
    """Put the self-adversarial loss around a system and a sampler."""
    return PlainTraining(
        system,
        sampler,
        SelfAdversarial(settings.temperature, settings.penalty),
        train,
        sides="halves",
        weight=subsampling_weight(train.facts, train.num_relations),
    )


def make_system(settings: AdversarialSettings, scorer: Scorer, train: KnowledgeGraph) -> System:
    """Put a scorer on tables drawn evenly from +-(gamma + 2) / d."""
    tables = Lookup.uniform(
        (train.num_entities, scorer.entity_width(settings.d)),
        (train.num_relations, scorer.relation_width(settings.d)),
        (settings.limit, settings.limit),
        generator(settings.seed, "init"),
    )
    return System(tables, scorer, train.num_entities, train.num_relations)


def rotate_scorer(settings: RotateSettings) -> RotatE:
    """Return RotatE whose angles start evenly in +-pi, counted in units of limit / pi."""
    return RotatE(settings.gamma, unit=math.pi / settings.limit)


def build_scorer(settings: AdversarialSettings, scorer: Scorer, train: KnowledgeGraph) -> Training:
    """Put a scorer, uniform candidates and the self-adversarial loss together."""
    sizes = train.num_entities, train.num_relations
    sampler = Uniform(train.facts, *sizes, settings.negatives, settings.share)
    return adversarial_training(settings, make_system(settings, scorer, train), sampler, train)


def build_distmult(settings: DistMultSettings, train: KnowledgeGraph) -> Training:
    """Put DistMult, uniform candidates and the self-adversarial loss together."""
    return build_scorer(settings, DistMult(), train)


def build_complex(settings: ComplexSettings, train: KnowledgeGraph) -> Training:
    """Put ComplEx, uniform candidates and the self-adversarial loss together."""
    return build_scorer(settings, ComplEx(), train)


def build_rotate(settings: RotateSettings, train: KnowledgeGraph) -> Training:
    """Put RotatE, uniform candidates and the self-adversarial loss together."""
    return build_scorer(settings, rotate_scorer(settings), train)


def make_parts(scorer: str, sampler: str = "drawn evenly") -> dict[str, str]:
    """Say what such a recipe is made of."""
    return {
        "encoder": "one vector an entity and a relation",
        "scorer": scorer,
        "sampler": sampler,
        "objective": "logistic loss; plausible candidates and facts of rare queries count more",
    }


SPACE: dict[str, Dimension] = {
    "learning_rate": LogRange(5e-4, 0.02),
    "temperature": Choices((0.5, 1.0)),
    "negatives": Choices((32, 64, 128, 256)),
}
BILINEAR_SPACE: dict[str, Dimension] = {**SPACE, "penalty": LogRange(1e-4, 0.3)}
# The published grids of temperature and gamma.
ROTATE_SPACE: dict[str, Dimension] = {
    **SPACE,
    "gamma": Choices((3.0, 6.0, 9.0, 12.0, 18.0, 24.0, 30.0)),
}
DISTMULT = Recipe(
    name="distmult",
    summary="DistMult, uniform candidates, self-adversarial loss, N3 penalty.",
    source="Yang et al.: Embedding Entities and Relations (2015), trained as in " + SOURCE,
    settings=DistMultSettings,
    build=build_distmult,
    parts=make_parts("DistMult"),
    space=BILINEAR_SPACE,
)
COMPLEX = Recipe(
    name="complex",
    summary="ComplEx, uniform candidates, self-adversarial loss, N3 penalty.",
    source="Trouillon et al.: Complex Embeddings (2016), trained as in " + SOURCE,
    settings=ComplexSettings,
    build=build_complex,
    parts=make_parts("ComplEx"),
    space=BILINEAR_SPACE,
)
ROTATE = Recipe(
    name="rotate",
    summary="RotatE, uniform candidates, self-adversarial loss.",
    source=SOURCE,
    settings=RotateSettings,
    build=build_rotate,
    parts=make_parts("RotatE"),
    space=ROTATE_SPACE,
)
