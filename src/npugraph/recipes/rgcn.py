"""R-GCN with DistMult: convolution over the graph without the facts that are scored."""

from __future__ import annotations

from dataclasses import dataclass

from npugraph import encoders
from npugraph.graph import KnowledgeGraph
from npugraph.model import System
from npugraph.objectives import Logistic
from npugraph.recipes.base import Choices, LogRange, Range, Recipe
from npugraph.samplers import Uniform
from npugraph.scorers import DistMult
from npugraph.seeds import generator
from npugraph.settings import TrainSettings, setting
from npugraph.training.batch_loss import PlainTraining, Training


@dataclass(frozen=True)
class RGCNSettings(TrainSettings):
    """Settings of rgcn; the defaults are the public code's, but for the batch.

    There a step takes 30,000 facts, half of them as graph. Here the graph is every training fact
    that the step does not score, so that a smaller batch leaves more of it.
    """

    d: int = setting(100, "numbers per entity and relation", low=1)
    layers: int = setting(2, "convolutions", low=1)
    bases: int = setting(4, "matrices that those of all relations are made of", low=1)
    dropout: float = setting(0.2, "dropout between convolutions", low=0, high=1)
    negatives: int = setting(1, "uncollected facts beside each collected one", low=1)
    l2: float = setting(0.01, "weight of the mean squares of representations", low=0)
    epochs: int = setting(100, "passes over the training facts", low=1)
    batch_size: int = setting(2048, "facts per step", low=1)
    cuda_graph: bool = setting(True, "on a GPU, record a step once and replay it")
    learning_rate: float = setting(0.01, "step size", low=0)
    clip: float = setting(1.0, "largest norm of the gradient; 0 means any", low=0)


def build(settings: RGCNSettings, train: KnowledgeGraph) -> Training:
    """Put the convolution, DistMult, uniform candidates and the logistic loss together."""
    num_entities, num_relations = train.num_entities, train.num_relations
    rng = generator(settings.seed, "init")
    sizes = (num_entities, settings.d), (num_relations, settings.d)
    encoder = encoders.RGCN(
        train.facts,
        encoders.Lookup.xavier_uniform(*sizes, rng),
        num_relations,
        layers=settings.layers,
        bases=settings.bases,
        dropout=settings.dropout,
        rng=rng,
    )
    system = System(encoder, DistMult(), num_entities, num_relations, link="sigmoid")
    sampler = Uniform(train.facts, num_entities, num_relations, settings.negatives)
    return PlainTraining(system, sampler, Logistic(settings.l2), train, sides="halves")


RGCN = Recipe(
    name="rgcn",
    summary="R-GCN encoder, DistMult, uniform candidates, logistic loss.",
    source="Schlichtkrull et al.: Modeling Relational Data with Graph Convolution (2018)",
    settings=RGCNSettings,
    build=build,
    parts={
        "encoder": "R-GCN: relational graph convolutions with basis matrices",
        "scorer": "DistMult",
        "sampler": "drawn evenly",
        "objective": "logistic loss, mean squares as penalty",
        "posterior": "sigmoid of the score",
    },
    space={
        "learning_rate": LogRange(1e-3, 0.03),
        "l2": LogRange(1e-4, 0.1),
        "dropout": Range(0.0, 0.5),
        "bases": Choices((2, 4, 8, 16)),
        "negatives": Choices((1, 4, 16)),
    },
)
