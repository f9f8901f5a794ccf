"""ComplEx with the N3 penalty, full softmax and reciprocal relations: a strong reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from npugraph.graph import KnowledgeGraph
from npugraph.objectives import SoftmaxN3
from npugraph.recipes.base import Choices, LogRange, Recipe
from npugraph.recipes.common import N3_INIT_SCALE, reciprocal_complex
from npugraph.samplers import AllEntities, Sampler, Uniform
from npugraph.settings import TrainSettings, setting
from npugraph.training.batch_loss import PlainTraining, Training


@dataclass(frozen=True)
class ComplexN3Settings(TrainSettings):
    """Settings of complex-n3; the defaults suit graphs from a thousand to a million facts."""

    d: int = setting(256, "complex numbers per entity and relation", low=1)
    n3: float = setting(0.01, "weight of the N3 penalty", low=0)
    negatives: int = setting(0, "entities drawn to compare with; 0 means all entities", low=0)
    share: int = setting(64, "facts that share their drawn entities", low=1)
    init_scale: float = setting(
        N3_INIT_SCALE, "width of the normal distribution at the start", low=0
    )
    epochs: int = setting(100, "passes over the training facts", low=1)
    optimizer: Literal["adagrad", "adam", "sgd"] = setting("adagrad", "the optimiser")
    cuda_graph: bool = setting(True, "on a GPU, record a step once and replay it")
    learning_rate: float = setting(0.1, "step size", low=0)


def build(settings: ComplexN3Settings, train: KnowledgeGraph) -> Training:
    """Put ComplEx, every entity as candidate, softmax and N3 together."""
    sparse = _touches_few(settings, train.num_entities)
    system = reciprocal_complex(train, settings.d, settings.init_scale, settings.seed, sparse)
    sampler: Sampler = AllEntities()
    if settings.negatives:
        drawn = settings.negatives, settings.share
        sampler = Uniform(train.facts, train.num_entities, train.num_relations, *drawn)
    return PlainTraining(system, sampler, SoftmaxN3(settings.n3), train)


def _touches_few(settings: ComplexN3Settings, num_entities: int) -> bool:
    """Tell whether a step changes few of the vectors, and the optimiser can leave the rest alone.

    Adagrad does not move what has no gradient, so a sparse one gives the same steps.
    """
    takes_sparse = settings.optimizer == "adagrad" and not settings.clip
    groups = -(-settings.batch_size // settings.share)
    looked_up = 4 * settings.batch_size + 2 * groups * settings.negatives
    return takes_sparse and settings.negatives > 0 and 4 * looked_up <= num_entities


COMPLEX_N3 = Recipe(
    name="complex-n3",
    summary="ComplEx, full softmax over entities, reciprocal relations, N3 penalty.",
    source="Lacroix, Usunier, Obozinski: Canonical Tensor Decomposition for KB Completion (2018)",
    settings=ComplexN3Settings,
    build=build,
    parts={
        "encoder": "one vector an entity, one a relation and one for its reverse",
        "scorer": "ComplEx",
        "sampler": "every entity, or some drawn evenly (negatives)",
        "objective": "softmax over the candidates, N3 penalty",
    },
    space={
        "learning_rate": LogRange(0.02, 0.5),
        "n3": LogRange(1e-3, 0.3),
        "d": Choices((128, 256, 512)),
        "batch_size": Choices((128, 256, 512, 1024)),
    },
)
