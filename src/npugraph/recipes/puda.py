"""PUDA: DistMult with a positive-unlabeled risk and an adversarial generator of candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from npugraph.encoders import Lookup
from npugraph.graph import KnowledgeGraph
from npugraph.model import System
from npugraph.objectives import PURisk
from npugraph.recipes.base import Choices, LogRange, Recipe
from npugraph.recipes.common import FREE_VECTORS
from npugraph.samplers import Generated, Uniform
from npugraph.scorers import DistMult
from npugraph.seeds import generator
from npugraph.settings import TrainSettings, setting
from npugraph.training.batch_loss import PlainTraining, Training


@dataclass(frozen=True)
class PudaSettings(TrainSettings):
    """Settings of puda. Published: d=1024, batches of 512, 8 and 8 candidates, 1e-5."""

    d: int = setting(128, "numbers per entity and relation", low=8)
    prior: float = setting(1e-5, "share of true facts among the unlabeled", low=0, high=1)
    negatives: int = setting(8, "drawn candidates beside each fact and side", low=1)
    generated: int = setting(8, "generated candidates beside each fact and side", low=1)
    generator_rate: float = setting(1e-3, "step size of the generator", low=0)
    epochs: int = setting(100, "passes over the training facts", low=1)
    batch_size: int = setting(256, "facts per step", low=1)
    cuda_graph: bool = setting(True, "on a GPU, record a step once and replay it")
    learning_rate: float = setting(3e-3, "step size", low=0)


class AdversarialTraining(PlainTraining):
    """Trains a system to lower the loss, and the generator of its candidates to raise it."""

    sampler: Generated

    def __init__(self, *parts: Any, generator_rate: float) -> None:
        """As for the plain training; ``generator_rate`` is the step size of the generator."""
        super().__init__(*parts)
        self.generator_rate = generator_rate

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the generator apart, to be moved against the loss."""
        against = self.sampler.generator_parameters()
        known = {id(parameter) for parameter in against}
        others = [parameter for parameter in self.parameters() if id(parameter) not in known]
        raised = {"params": against, "maximize": True, "lr": self.generator_rate}
        return [{"params": others}, raised]


def build(settings: PudaSettings, train: KnowledgeGraph) -> Training:
    """Put DistMult, drawn and generated candidates and the risk together."""
    sizes = train.num_entities, train.num_relations
    shapes = (sizes[0], settings.d), (sizes[1], settings.d)
    tables = Lookup.xavier_uniform(*shapes, generator(settings.seed, "init"))
    sampler = Generated(
        Uniform(train.facts, *sizes, settings.negatives),
        settings.d,
        settings.generated,
        generator(settings.seed, "generator"),
    )
    return AdversarialTraining(
        System(tables, DistMult(), *sizes),
        sampler,
        PURisk(settings.prior),
        train,
        generator_rate=settings.generator_rate,
    )


PUDA = Recipe(
    name="puda",
    summary="DistMult, positive-unlabeled risk, drawn and adversarially generated candidates.",
    source="Tang et al.: Positive-Unlabeled Learning with Adversarial Data Augmentation (2022)",
    settings=PudaSettings,
    build=build,
    parts={
        "encoder": FREE_VECTORS,
        "scorer": "DistMult",
        "sampler": "drawn evenly, and vectors made by an adversarial generator",
        "objective": "positive-unlabeled risk",
    },
    space={
        "learning_rate": LogRange(3e-4, 0.02),
        "generator_rate": LogRange(1e-4, 0.01),
        "prior": LogRange(1e-6, 0.01),
        "d": Choices((128, 256, 512)),
    },
)
