"""NSCaching: candidates from caches of hard ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from npugraph.encoders import Lookup
from npugraph.graph import KnowledgeGraph, Side
from npugraph.model import System
from npugraph.objectives import Margin, Objective, SelfAdversarial
from npugraph.recipes.base import Choices, LogRange, Recipe
from npugraph.recipes.common import FREE_VECTORS, check_sides
from npugraph.samplers import Candidates, NSCaching
from npugraph.scorers import ComplEx, DistMult, Scorer, TransE
from npugraph.seeds import generator
from npugraph.settings import TrainSettings, setting
from npugraph.training.batch_loss import PlainTraining, Training


@dataclass(frozen=True)
class NSCachingSettings(TrainSettings):
    """Settings of nscaching. Published with ComplEx: d=100, batches of 4096, Adam at 3e-4."""

    scorer: Literal["complex", "distmult", "transe"] = setting("complex", "the score function")
    d: int = setting(100, "numbers per entity and relation; complex ones for complex", low=1)
    cache: int = setting(30, "N1, entities in the cache of a query", low=1)
    extra: int = setting(30, "N2, fresh entities that join when a cache is renewed", low=1)
    negatives: int = setting(1, "candidates drawn from the cache beside each fact", low=1)
    margin: float = setting(5.0, "of the margin loss (transe)", low=0)
    penalty: float = setting(0.01, "weight of the mean square (complex, distmult)", low=0)
    sides: Literal["both", "halves", "bernoulli"] = setting(
        "bernoulli", "which end is replaced: both, either, or by how many answers it has"
    )
    epochs: int = setting(100, "passes over the training facts", low=1)
    batch_size: int = setting(256, "facts per step", low=1)
    learning_rate: float = setting(1e-3, "step size", low=0)


def build(settings: NSCachingSettings, train: KnowledgeGraph) -> Training:
    """Put a scorer, caches, and the logistic or the margin loss together."""
    check_sides(settings.sides, settings.cuda_graph)
    scorers: dict[str, Scorer] = {"complex": ComplEx(), "distmult": DistMult()}
    scorer = scorers.get(settings.scorer, TransE(normalize=True))
    sizes = train.num_entities, train.num_relations
    widths = scorer.entity_width(settings.d), scorer.relation_width(settings.d)
    shapes = (sizes[0], widths[0]), (sizes[1], widths[1])
    tables = Lookup.xavier_uniform(*shapes, generator(settings.seed, "init"))
    system = System(tables, scorer, *sizes)

    @torch.no_grad()
    def score(facts: Tensor, side: Side, ids: Tensor) -> Tensor:
        return system.scored(facts, side, Candidates(ids)).scores[:, 1:]

    sampler = NSCaching(
        train.facts,
        *sizes,
        score,
        generator(settings.seed, "cache"),
        count=settings.negatives,
        cache=settings.cache,
        extra=settings.extra,
    )
    # Temperature 0: the plain logistic loss.
    objective: Objective = SelfAdversarial(0.0, settings.penalty / settings.d, power=2)
    if settings.scorer == "transe":
        objective = Margin(settings.margin)
    return PlainTraining(system, sampler, objective, train, sides=settings.sides)


NSCACHING = Recipe(
    name="nscaching",
    summary="ComplEx (or DistMult, TransE), candidates from caches of hard ones.",
    source="Zhang et al.: NSCaching: Simple and Efficient Negative Sampling (2019)",
    settings=NSCachingSettings,
    build=build,
    parts={
        "encoder": FREE_VECTORS,
        "scorer": "ComplEx, or DistMult, or TransE",
        "sampler": "from a cache of hard candidates for each query",
        "objective": "logistic loss (TransE: margin loss)",
    },
    space={
        "learning_rate": LogRange(1e-4, 0.02),
        "penalty": LogRange(1e-4, 0.3),
        "cache": Choices((10, 30, 50, 70, 90)),
        "extra": Choices((10, 30, 50, 70, 90)),
    },
)
