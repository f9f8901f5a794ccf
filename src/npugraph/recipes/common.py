"""What several recipes are made of: the margin loss of TransE, the self-adversarial one of RotatE.

Recipes do not import each other; what two of them need is here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from npugraph.encoders import Lookup
from npugraph.errors import SettingsError
from npugraph.graph import KnowledgeGraph
from npugraph.model import Sparse, System
from npugraph.objectives import Margin, SelfAdversarial
from npugraph.recipes.base import Choices, Dimension, LogRange
from npugraph.samplers import Sampler, Uniform
from npugraph.scorers import ComplEx, RotatE, Scorer
from npugraph.seeds import generator
from npugraph.settings import OptimizerName, TrainSettings, setting
from npugraph.training.batch_loss import PlainTraining, Sides, Training

# Width of the normal distribution that the vectors of ComplEx-N3 start from.
N3_INIT_SCALE = 1e-3
ROTATE_SOURCE = "Sun et al.: RotatE: Knowledge Graph Embedding by Relational Rotation (2019)"
# One vector per entity and relation, nothing else: what most recipes have for an encoder.
FREE_VECTORS = "one vector an entity and a relation"


@dataclass(frozen=True)
class MarginSettings(TrainSettings):
    """What recipes with a margin loss share: transe and transr."""

    d: int = setting(200, "numbers per entity and relation", low=1)
    p: int = setting(1, "norm of the distance, 1 or 2", low=1, high=2)
    margin: float = setting(5.0, "how much closer a fact must be than a candidate", low=0)
    temperature: float = setting(
        0.0, "how strongly plausible candidates count; 0: all alike", low=0
    )
    negatives: int = setting(25, "candidates beside each fact", low=1)
    share: int = setting(1, "facts that share their candidates", low=1)
    sides: Literal["both", "halves", "bernoulli"] = setting(
        "bernoulli", "which end is replaced: both, either, or by how many answers it has"
    )
    epochs: int = setting(200, "passes over the training facts", low=1)
    batch_size: int = setting(128, "facts per step", low=1)
    optimizer: OptimizerName = setting("sgd", "the optimiser")
    learning_rate: float = setting(1.0, "step size", low=0)


def sparsity(settings: TrainSettings, looked_up: int, num_entities: int) -> Sparse:
    """Tell whether steps that look up so many vectors touch few of them, and leave the rest alone.

    Adagrad does not move what has no gradient, so a sparse one gives the same steps; a norm of the
    gradient needs all of it. On a GPU small steps are recorded, and a sparse one cannot be.
    """
    if settings.clip or 4 * looked_up > num_entities:
        return "never"
    kinds: dict[str, Sparse] = {"adagrad": "cpu", "rowwise-adagrad": "always"}
    return kinds.get(settings.optimizer, "never")


def check_sides(sides: Sides, cuda_graph: bool) -> None:
    """Refuse to record steps whose shapes change."""
    if sides == "bernoulli" and cuda_graph:
        raise SettingsError(
            "cuda_graph=true cannot record steps with sides=bernoulli, where the number of facts "
            "with either end replaced changes; use sides=halves or cuda_graph=false."
        )


def make_tables(settings: MarginSettings, train: KnowledgeGraph) -> Lookup:
    """Return vectors of d numbers for every entity and relation."""
    shapes = (train.num_entities, settings.d), (train.num_relations, settings.d)
    return Lookup.xavier_uniform(*shapes, generator(settings.seed, "init"))


def margin_parts(
    settings: MarginSettings, scorer: Scorer, tables: Lookup, train: KnowledgeGraph
) -> tuple[System, Uniform, Margin]:
    """Return a scorer's system, uniform candidates and the margin loss."""
    check_sides(settings.sides, settings.cuda_graph)
    sizes = train.num_entities, train.num_relations
    sampler = Uniform(train.facts, *sizes, settings.negatives, settings.share)
    facts = settings.batch_size * (2 if settings.sides == "both" else 1)
    sparse = sparsity(settings, 2 * facts + sampler.looked_up(facts), train.num_entities)
    system = System(tables, scorer, *sizes, sparse=sparse)
    return system, sampler, Margin(settings.margin, settings.temperature)


@dataclass(frozen=True)
class AdversarialSettings(TrainSettings):
    """What recipes with the self-adversarial loss share.

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
class RotationSettings(AdversarialSettings):
    """What recipes that score by RotatE share: rotate and sans."""

    d: int = setting(100, "complex numbers per entity, angles per relation", low=1)
    gamma: float = setting(9.0, "score of a perfect fit; the start is even in +-(gamma + 2) / d")


def reciprocal_complex(
    train: KnowledgeGraph,
    d: int,
    init_scale: float,
    seed: int,
    sparse: Sparse = "never",
    dtype: torch.dtype = torch.float32,
) -> System:
    """Return ComplEx with a twin of every relation, as ComplEx-N3 has it; see ``System``."""
    scorer = ComplEx()
    encoder = Lookup.normal(
        (train.num_entities, scorer.entity_width(d)),
        (2 * train.num_relations, scorer.relation_width(d)),
        init_scale,
        generator(seed, "init"),
        dtype,
    )
    sizes = train.num_entities, train.num_relations
    return System(encoder, scorer, *sizes, reciprocal=True, sparse=sparse)


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
    groups = -(-settings.batch_size // settings.share)
    looked_up = 2 * settings.batch_size + groups * settings.negatives
    sparse = sparsity(settings, looked_up, train.num_entities)
    return System(tables, scorer, train.num_entities, train.num_relations, sparse=sparse)


def rotate_scorer(settings: RotationSettings) -> RotatE:
    """Return RotatE whose angles start evenly in +-pi, counted in units of limit / pi."""
    return RotatE(settings.gamma, unit=math.pi / settings.limit)


def build_scorer(settings: AdversarialSettings, scorer: Scorer, train: KnowledgeGraph) -> Training:
    """Put a scorer, uniform candidates and the self-adversarial loss together."""
    sizes = train.num_entities, train.num_relations
    sampler = Uniform(train.facts, *sizes, settings.negatives, settings.share)
    return adversarial_training(settings, make_system(settings, scorer, train), sampler, train)


def adversarial_parts(scorer: str, sampler: str = "drawn evenly") -> dict[str, str]:
    """Say what such a recipe is made of."""
    return {
        "encoder": FREE_VECTORS,
        "scorer": scorer,
        "sampler": sampler,
        "objective": "logistic loss; plausible candidates and facts of rare queries count more",
    }


ADVERSARIAL_SPACE: dict[str, Dimension] = {
    "learning_rate": LogRange(5e-4, 0.02),
    "temperature": Choices((0.5, 1.0)),
    "negatives": Choices((32, 64, 128, 256)),
}
BILINEAR_SPACE: dict[str, Dimension] = {**ADVERSARIAL_SPACE, "penalty": LogRange(1e-4, 0.3)}
# The published grids of temperature and gamma.
ROTATE_SPACE: dict[str, Dimension] = {
    **ADVERSARIAL_SPACE,
    "gamma": Choices((3.0, 6.0, 9.0, 12.0, 18.0, 24.0, 30.0)),
}
