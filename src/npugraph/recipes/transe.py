"""TransE: a relation is a step from head to tail."""

from __future__ import annotations

from dataclasses import dataclass

from npugraph.graph import KnowledgeGraph
from npugraph.recipes.base import Choices, LogRange, Recipe
from npugraph.recipes.common import MarginSettings, make_tables, margin_parts
from npugraph.scorers import TransE
from npugraph.training.batch_loss import PlainTraining, Training


@dataclass(frozen=True)
class TransESettings(MarginSettings):
    """Settings of transe.

    Published: d=200, 100 batches an epoch, plain gradient descent at 1.0, 1000 epochs.
    """


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
