"""ComplEx with the N3 penalty, full softmax and reciprocal relations: a strong reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from npugraph.errors import SettingsError
from npugraph.graph import KnowledgeGraph
from npugraph.model import Sparse
from npugraph.objectives import SoftmaxN3
from npugraph.recipes.base import Choices, LogRange, Recipe
from npugraph.recipes.common import N3_INIT_SCALE, reciprocal_complex, sparsity
from npugraph.samplers import AllEntities, Sampler, Uniform
from npugraph.settings import OptimizerName, TrainSettings, setting
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
    optimizer: OptimizerName = setting("adagrad", "the optimiser")
    cuda_graph: bool = setting(True, "on a GPU, record a step once and replay it")
    learning_rate: float = setting(0.1, "step size", low=0)
    table_precision: Literal["float32", "bf16"] = setting(
        "float32", "how vectors are kept; bf16 takes half the memory, rounded at random"
    )

    def __post_init__(self) -> None:
        """Refuse vectors of 16 bits where they would not be rounded at random."""
        super().__post_init__()
        if self.table_precision == "bf16":
            needed = {
                "optimizer=rowwise-adagrad": self.optimizer == "rowwise-adagrad",
                "negatives above 0": self.negatives > 0,
                "clip=0": self.clip == 0,
            }
            for name, is_so in needed.items():
                if not is_so:
                    raise SettingsError(f"table_precision=bf16 needs {name}; set it, too.")


def build(settings: ComplexN3Settings, train: KnowledgeGraph) -> Training:
    """Put ComplEx, every entity as candidate, softmax and N3 together."""
    shape = settings.d, settings.init_scale, settings.seed
    small = settings.table_precision == "bf16"
    sampler: Sampler = AllEntities()
    sparse: Sparse = "never"
    if settings.negatives:
        sizes = train.num_entities, train.num_relations
        sampler = Uniform(train.facts, *sizes, settings.negatives, settings.share)
        looked_up = 4 * settings.batch_size + 2 * sampler.looked_up(settings.batch_size)
        # Gradients of 16 bits are summed in 32 where they are sparse.
        sparse = "always" if small else sparsity(settings, looked_up, train.num_entities)
    dtype = torch.bfloat16 if small else torch.float32
    system = reciprocal_complex(train, *shape, sparse, dtype)
    return PlainTraining(system, sampler, SoftmaxN3(settings.n3), train)


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
