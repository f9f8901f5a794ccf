"""UKGE: DistMult that fits the confidence of each fact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from npugraph.encoders import Lookup
from npugraph.graph import KnowledgeGraph
from npugraph.model import Link, System
from npugraph.objectives import ConfidenceMSE
from npugraph.recipes.base import Choices, LogRange, Recipe
from npugraph.recipes.common import FREE_VECTORS
from npugraph.samplers import Uniform
from npugraph.scorers import Affine, DistMult
from npugraph.seeds import generator
from npugraph.settings import TrainSettings, setting
from npugraph.training.batch_loss import PlainTraining, Training


@dataclass(frozen=True)
class UkgeSettings(TrainSettings):
    """Settings of ukge. Published: d=128, batches of 1024, 100 epochs."""

    d: int = setting(128, "numbers per entity and relation", low=1)
    link: Literal["logi", "rect"] = setting("logi", "sigmoid of the score, or cut to [0, 1]")
    negatives: int = setting(10, "candidates beside each fact and side", low=1)
    l2: float = setting(5e-4, "weight of the squared lengths (link=rect)", low=0)
    use_confidence: bool = setting(True, "fit the graph's confidences where it has any; else 1")
    epochs: int = setting(100, "passes over the training facts", low=1)
    batch_size: int = setting(256, "facts per step", low=1)
    cuda_graph: bool = setting(True, "on a GPU, record a step once and replay it")
    learning_rate: float = setting(1e-3, "step size", low=0)


def build(settings: UkgeSettings, train: KnowledgeGraph) -> Training:
    """Put DistMult with a link, uniform candidates and the squared error together."""
    sizes = train.num_entities, train.num_relations
    shapes = (sizes[0], settings.d), (sizes[1], settings.d)
    tables = Lookup.xavier_uniform(*shapes, generator(settings.seed, "init"))
    link: Link = "sigmoid" if settings.link == "logi" else "clip"
    system = System(tables, Affine(DistMult()), *sizes, link=link)
    return PlainTraining(
        system,
        Uniform(train.facts, *sizes, settings.negatives),
        ConfidenceMSE(link, settings.l2 if settings.link == "rect" else 0.0),
        train,
        use_confidence=settings.use_confidence,
    )


UKGE = Recipe(
    name="ukge",
    summary="DistMult with a link to confidences, uniform candidates, squared error.",
    source="Chen et al.: Embedding Uncertain Knowledge Graphs (2019)",
    settings=UkgeSettings,
    build=build,
    parts={
        "encoder": FREE_VECTORS,
        "scorer": "DistMult, scaled and shifted",
        "sampler": "drawn evenly",
        "objective": "squared error of the confidence; 0 for candidates",
        "posterior": "the confidence that the link makes of the score",
    },
    space={
        "learning_rate": LogRange(1e-4, 0.02),
        "d": Choices((64, 128, 256)),
        "negatives": Choices((1, 5, 10, 20)),
        "batch_size": Choices((128, 256, 512, 1024)),
    },
)
