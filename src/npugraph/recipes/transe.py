"""TransE: a relation is a step from head to tail."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from npugraph.encoders import Lookup
from npugraph.errors import SettingsError
from npugraph.graph import KnowledgeGraph
from npugraph.model import System
from npugraph.objectives import Margin
from npugraph.recipes.base import Choices, LogRange, Recipe
from npugraph.samplers import Uniform
from npugraph.scorers import Scorer, TransE
from npugraph.seeds import generator
from npugraph.settings import TrainSettings, setting
from npugraph.training.batch_loss import PlainTraining, Sides, Training


@dataclass(frozen=True)
class TransESettings(TrainSettings):
    """Settings of transe.

    Published: d=200, 100 batches an epoch, plain gradient descent at 1.0, 1000 epochs.
    """

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
    optimizer: Literal["adagrad", "adam", "sgd"] = setting("sgd", "the optimiser")
    learning_rate: float = setting(1.0, "step size", low=0)


def xavier(entities: tuple[int, int], relations: tuple[int, int], seed: int) -> Lookup:
    """Return tables of the given shapes, drawn evenly from +-sqrt(6 / (rows + columns))."""
    limits = math.sqrt(6 / sum(entities)), math.sqrt(6 / sum(relations))
    return Lookup.uniform(entities, relations, limits, generator(seed, "init"))


def check_sides(sides: Sides, cuda_graph: bool) -> None:
    """Refuse to record steps whose shapes change."""
    if sides == "bernoulli" and cuda_graph:
        raise SettingsError(
            "cuda_graph=true cannot record steps with sides=bernoulli, where the number of facts "
            "with either end replaced changes; use sides=halves or cuda_graph=false."
        )


def make_tables(settings: TransESettings, train: KnowledgeGraph) -> Lookup:
    """Return vectors of d numbers for every entity and relation."""
    shapes = (train.num_entities, settings.d), (train.num_relations, settings.d)
    return xavier(*shapes, settings.seed)


def margin_parts(
    settings: TransESettings, scorer: Scorer, tables: Lookup, train: KnowledgeGraph
) -> tuple[System, Uniform, Margin]:
    """Return a scorer's system, uniform candidates and the margin loss."""
    check_sides(settings.sides, settings.cuda_graph)
    sizes = train.num_entities, train.num_relations
    sampler = Uniform(train.facts, *sizes, settings.negatives, settings.share)
    return System(tables, scorer, *sizes), sampler, Margin(settings.margin, settings.temperature)


def build(settings: TransESettings, train: KnowledgeGraph) -> Training:
    """Put TransE on vectors of length 1, uniform candidates and the margin loss together."""
    scorer = TransE(settings.p, normalize=True)
    parts = margin_parts(settings, scorer, make_tables(settings, train), train)
    return PlainTraining(*parts, train, sides=settings.sides)


TRANSE = Recipe(
    name="transe",
    summary="TransE on vectors of length 1, uniform candidates, margin loss.",
    source="Bordes et al.: Translating Embeddings for Modeling Multi-relational Data (2013)",
    settings=TransESettings,
    build=build,
    parts={
        "encoder": "one vector of length 1 an entity, one vector a relation",
        "scorer": "TransE",
        "sampler": "drawn evenly",
        "objective": "margin loss",
    },
    space={
        "learning_rate": LogRange(0.1, 3.0),
        "margin": Choices((1.0, 2.0, 5.0, 10.0)),
        "temperature": Choices((0.0, 0.5, 1.0)),
        "p": Choices((1, 2)),
        "d": Choices((100, 200, 400)),
        "negatives": Choices((1, 10, 25, 50)),
    },
)
