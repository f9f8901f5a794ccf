"""path: paths between the two ends of a fact, and nothing learned by heart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from npugraph.errors import SettingsError
from npugraph.graph import KnowledgeGraph
from npugraph.recipes.base import Choices, LogRange, Range, Recipe
from npugraph.recipes.path.batch_loss import PathTraining, Schedule
from npugraph.recipes.path.members import MembersTraining
from npugraph.recipes.path.model import PathModel
from npugraph.recipes.path.thinned import DRAWS, MOST_FACTS, PER_ENTITY
from npugraph.seeds import number
from npugraph.settings import TrainSettings, setting


@dataclass(frozen=True)
class PathSettings(TrainSettings):
    """Settings of path; the defaults suit graphs of some thousand facts on a CPU."""

    d: int = setting(8, "numbers per entity and question", low=1)
    layers: int = setting(4, "the longest path", low=1)
    answers: int = setting(4, "facts with the same question that share one pass, at most", low=1)
    hide_pair_share: float = setting(
        0.0, "share of a batch's facts whose ends lose every edge between them", low=0, high=1
    )
    edge_dropout: float = setting(0.4, "share of the edges left out in a step", low=0, high=1)
    epoch_share: float = setting(
        1.0, "share of the questions that one epoch asks", low=1e-6, high=1
    )
    members: int = setting(
        1,
        "models that are trained side by side, each by a seed of its own; the score is the mean",
        low=1,
    )
    nodes: int = setting(
        0, "nodes that send messages per question and layer, the best ones; 0 means all", low=0
    )
    reached_only: bool = setting(
        False,
        "keep the states of nodes that no path has reached at 0: much faster on sparse graphs on a "
        "CPU",
    )
    draws: int | None = setting(
        None,
        "how often a stored fact is also judged on a graph without a third of the facts, for its "
        f"probability; none: {DRAWS} on graphs of up to {MOST_FACTS:,} facts, {PER_ENTITY} per "
        "entity or more, and 0 on others",
        low=0,
    )
    deterministic: bool = setting(True, "on a GPU, add up gradients in one order")
    compiled: bool = setting(False, "compile the dense part of a layer; for GPUs")
    epochs: int = setting(6, "epochs; each asks epoch_share of the questions", low=1)
    batch_size: int = setting(32, "questions per step", low=1)
    learning_rate: float = setting(0.01, "step size at the start", low=0)
    schedule: Schedule = setting("linear", "the step size stays constant or falls to 0 linearly")
    validate_every: int = setting(1, "epochs between validations and checkpoints", low=1)
    precision: Literal["float32", "tf32", "bf16"] = setting(
        "float32", "arithmetic on a GPU; with bf16 states are kept in 16 bits"
    )

    def __post_init__(self) -> None:
        """Refuse what cannot be recorded."""
        super().__post_init__()
        if self.cuda_graph:
            raise SettingsError(
                "cuda_graph=true: a step of path cannot be recorded, for its step size changes; "
                "set cuda_graph=false."
            )
        if self.reached_only and self.nodes:
            raise SettingsError(
                f"nodes={self.nodes}: the best nodes are among those that a path has reached, so "
                "set reached_only=false or nodes=0."
            )


Kind = TypeVar("Kind", bound=PathSettings)


def build(settings: PathSettings, train: KnowledgeGraph) -> PathTraining | MembersTraining:
    """Make the model of the paths along the training facts, and its training."""
    return together(build_one, settings, train)


def build_one(settings: PathSettings, train: KnowledgeGraph) -> PathTraining:
    """Make one model and its training."""
    sizes = (train.num_entities, train.num_relations)
    system = PathModel(train.facts, *sizes, **model_options(settings))
    return PathTraining(system, train, **training_options(settings))


def together(
    build: Callable[[Kind, KnowledgeGraph], PathTraining],
    settings: Kind,
    train: KnowledgeGraph,
) -> PathTraining | MembersTraining:
    """Make as many models as there are to be members; the first has the seed of the settings."""
    if settings.members == 1:
        return build(settings, train)
    seeds = [settings.seed]
    seeds += [number(settings.seed, "member", place) for place in range(1, settings.members)]
    return MembersTraining([build(replace(settings, seed=seed), train) for seed in seeds])


def model_options(settings: PathSettings) -> dict[str, Any]:
    """Return what the settings say of the model."""
    return {
        "d": settings.d,
        "layers": settings.layers,
        "group_size": settings.batch_size,
        "half": settings.precision == "bf16",
        "compiled": settings.compiled,
        "deterministic": settings.deterministic,
        "nodes": settings.nodes,
        "reached_only": settings.reached_only,
        "draws": settings.draws,
        "seed": settings.seed,
    }


def training_options(settings: PathSettings) -> dict[str, Any]:
    """Return what the settings say of the training."""
    names = ("answers", "epoch_share", "hide_pair_share", "edge_dropout", "schedule", "seed")
    return {name: getattr(settings, name) for name in names}


PATH = Recipe(
    name="path",
    summary="Messages along the paths of a question; no entity vectors, nothing by heart.",
    source="Zhu et al.: Neural Bellman-Ford Networks (NeurIPS 2021)",
    settings=PathSettings,
    build=build,
    parts={
        "encoder": "messages from where the question starts, along facts in both directions",
        "scorer": "perceptron on the state and the query",
        "sampler": "every entity; the other stored answers are left out",
        "objective": "softmax over the entities, own facts hidden",
        "posterior": "of stored facts, own edges hidden, beside corruptions judged likewise",
    },
    space={
        "learning_rate": LogRange(1e-3, 3e-2),
        "d": Choices((8, 16, 32)),
        "layers": Choices((3, 4, 6)),
        "edge_dropout": Range(0.0, 0.5),
        "hide_pair_share": Choices((0.0, 0.5, 1.0)),
    },
)
