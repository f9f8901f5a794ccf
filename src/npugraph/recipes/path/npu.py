"""npugraph-path: paths, and what nPUGraph adds to them, each part a switch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from npugraph.errors import SettingsError
from npugraph.graph import KnowledgeGraph
from npugraph.recipes.npugraph.objective import NoisyPU
from npugraph.recipes.npugraph.posterior import Posterior
from npugraph.recipes.path.batch_loss import PathTraining
from npugraph.recipes.path.members import MembersTraining
from npugraph.recipes.path.npu_model import WeightedPathModel
from npugraph.recipes.path.npu_training import Refresh, WeightedPathTraining
from npugraph.recipes.path.posterior import KINDS, PLAUSIBLE
from npugraph.recipes.path.recipe import (
    PATH,
    PathSettings,
    model_options,
    together,
    training_options,
)
from npugraph.settings import setting


@dataclass(frozen=True)
class NPUPathSettings(PathSettings):
    """Settings of npugraph-path: those of path, and one switch per part of nPUGraph."""

    edge_weights: Literal["none", "posterior"] = setting(
        "posterior", "what the edges of stored facts weigh after the warm-up"
    )
    question_weights: Literal["none", "posterior"] = setting(
        "none",
        "how much stored facts count as answers after the warm-up (softmax); in npugraph-plus "
        "also for the vectors",
    )
    objective: Literal["softmax", "npu"] = setting("softmax", "the loss; npu trains two heads")
    soft_facts: float = setting(
        0.0, "self-training: probable new facts as edges, at most this share of the stored", low=0
    )
    warmup: int = setting(2, "epochs before the posterior is found", low=0)
    refresh: int = setting(0, "epochs after which it is found again; 0: once", low=0)
    posterior_facts: int = setting(
        10_000, "stored facts, and corruptions, that it is fitted to at most", low=1
    )
    posterior_kinds: Literal["plausible", "all"] = setting(
        "plausible",
        "corruptions it is fitted to: an end that fits the relation; or random parts and any "
        "entity as well, by the shares that seem to be there",
    )
    judged_share: float = setting(
        1.0, "share of the stored facts that get a posterior; the others weigh 1", low=0, high=1
    )
    posterior_momentum: float = setting(
        0.0, "of the mean over the times it was found; 0 keeps the latest", low=0, high=1
    )
    beta: float = setting(
        0.96, "share of true facts among the collected (npu)", low=1e-6, high=1 - 1e-6
    )
    alpha: float = setting(
        0.001, "share of true facts among the uncollected (npu)", low=1e-9, high=0.999
    )
    level_weight: float = setting(0.01, "penalty that keeps scores from saturating (npu)", low=0)

    def __post_init__(self) -> None:
        """Refuse two heads on a part of the nodes."""
        super().__post_init__()
        if self.nodes and self.objective == "npu":
            raise SettingsError(
                f"nodes={self.nodes}: the nPU objective needs the states of all nodes; set nodes=0 "
                "or objective=softmax."
            )
        if self.reached_only and self.objective == "npu":
            raise SettingsError(
                "reached_only=true: the nPU objective needs the states of all nodes; set "
                "reached_only=false or objective=softmax."
            )


def build(settings: NPUPathSettings, train: KnowledgeGraph) -> PathTraining | MembersTraining:
    """Make the model with its weights of evidence, and its training."""
    return together(build_one, settings, train)


def build_one(settings: NPUPathSettings, train: KnowledgeGraph) -> WeightedPathTraining:
    """Make one model and its training."""
    system = WeightedPathModel(
        train.facts,
        train.num_entities,
        train.num_relations,
        weigh_edges=settings.edge_weights == "posterior",
        two_heads=settings.objective == "npu",
        soft_facts=round(settings.soft_facts * len(train)),
        momentum=settings.posterior_momentum,
        **model_options(settings),
    )
    refresh = Refresh(
        settings.warmup,
        settings.refresh,
        settings.posterior_facts,
        KINDS if settings.posterior_kinds == "all" else PLAUSIBLE,
        settings.judged_share,
        settings.edge_weights == "posterior",
        settings.question_weights == "posterior",
    )
    objective = None
    if settings.objective == "npu":
        objective = NoisyPU(Posterior("exception", settings.beta, settings.alpha))
    return WeightedPathTraining(
        system, train, refresh, objective, settings.level_weight, **training_options(settings)
    )


NPUGRAPH_PATH = replace(
    PATH,
    name="npugraph-path",
    summary="path with its facts weighed by their posterior; nPU objective and self-training.",
    source=f"{PATH.source}; Wang et al.: Noisy Positive-Unlabeled Learning with Self-Training "
    "(Findings of ACL 2023)",
    settings=NPUPathSettings,
    build=build,
    parts={
        **PATH.parts,
        "encoder": "messages along facts in both directions, each weighed by its posterior",
    },
)
