"""nPUGraph, as the paper describes it, and its ablations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn

from npugraph.encoders import Lookup, NeighbourAttention
from npugraph.errors import SettingsError
from npugraph.graph import KnowledgeGraph
from npugraph.recipes.base import Choices, Recipe
from npugraph.recipes.npugraph.heads import BilinearHeads, MLPHeads, TwoHeads
from npugraph.recipes.npugraph.model import SelfTraining, SpeculativeSystem, SpeculativeTraining
from npugraph.recipes.npugraph.objective import NoisyPU, WithoutPU
from npugraph.recipes.npugraph.posterior import Posterior, RunningPosterior
from npugraph.scorers import ComplEx, DistMult
from npugraph.seeds import generator
from npugraph.settings import TrainSettings, setting

SOURCE = "Wang et al.: Noisy Positive-Unlabeled Learning with Self-Training (Findings of ACL 2023)"


@dataclass(frozen=True)
class NPUGraphSettings(TrainSettings):
    """Settings of nPUGraph; the defaults are the paper's where it gives them."""

    d: int = setting(128, "numbers per entity and relation", low=1)
    heads: Literal["mlp", "distmult", "complex"] = setting("mlp", "the two score functions")
    hidden: int = setting(128, "hidden units of a perceptron head", low=1)
    encoder: Literal["attention", "none"] = setting("attention", "how entities are represented")
    layers: int = setting(1, "attention layers", low=1)
    neighbours: int = setting(32, "most credible facts an entity attends to; 0 means all", low=0)
    choose_neighbours: bool = setting(True, "choose neighbours by the posterior in self-training")
    dropout: float = setting(0.5, "dropout on the embeddings", low=0, high=1)
    hidden_dropout: float = setting(0.5, "dropout on hidden units of a head", low=0, high=1)
    level_weight: float = setting(0.01, "penalty that keeps scores from saturating", low=0)
    penalty: float = setting(0.0, "weight of the N3 penalty; for bilinear heads", low=0)
    objective: Literal["npu", "margin", "pairwise", "pointwise"] = setting("npu", "the loss")
    margin: float = setting(1.0, "of the margin loss", low=0)
    reading: Literal["exception", "printed"] = setting("exception", "what class 1 means")
    unlabeled_form: Literal["literal", "phi"] = setting(
        "literal", "form of the unlabeled posterior"
    )
    estimate: Literal["em", "closed"] = setting("em", "how the free weights W are found")
    kl_weight: float = setting(1.0, "weight of the KL term (closed)", low=0)
    reg_weight: float = setting(1.0, "weight of the L1 term (closed)", low=0)
    beta: float = setting(0.96, "share of true facts among the collected", low=1e-6, high=1 - 1e-6)
    alpha: float = setting(0.001, "share of true facts among the uncollected", low=1e-9, high=0.999)
    posterior_momentum: float = setting(
        0.9, "of the mean over epochs of the collected facts' posterior", low=0, high=1
    )
    negatives: int = setting(50, "K, uncollected facts beside each collected one", low=2)
    share: int = setting(1, "facts that share their random uncollected ones", low=1)
    self_training: bool = setting(True, "choose uncollected facts by the posterior after warm-up")
    warmup: int = setting(50, "epochs before self-training", low=0)
    top_share: float = setting(0.5, "share of K chosen by the posterior", low=0, high=1)
    pool: int = setting(4, "pool to choose from, as a multiple of K", low=1)
    init_scale: float = setting(0.1, "width of the normal distribution at the start", low=0)
    epochs: int = setting(200, "passes over the training facts", low=1)
    batch_size: int = setting(256, "facts per step", low=1)
    learning_rate: float = setting(1e-3, "step size", low=0)
    validate_every: int = setting(10, "epochs between validations and checkpoints", low=1)
    cuda_graph: bool = setting(True, "on a GPU, record a step once and replay it")


def make_heads(settings: NPUGraphSettings, rng: torch.Generator) -> TwoHeads:
    """Return the two score functions."""
    if settings.heads == "mlp":
        return MLPHeads(settings.d, settings.hidden, settings.hidden_dropout, rng)
    return BilinearHeads(DistMult() if settings.heads == "distmult" else ComplEx())


def make_objective(settings: NPUGraphSettings, posterior: Posterior) -> nn.Module:
    """Return the loss."""
    if settings.objective == "npu":
        return NoisyPU(posterior, settings.estimate, settings.kl_weight, settings.reg_weight)
    if posterior.reading == "printed":
        raise SettingsError(
            f"objective={settings.objective} trains psi0 alone, which reading=printed ranks "
            "backwards; use reading=exception."
        )
    return WithoutPU(settings.objective, settings.margin)


def build(settings: NPUGraphSettings, train: KnowledgeGraph) -> SpeculativeTraining:
    """Put encoder, heads, posterior, objective and self-training together."""
    rng = generator(settings.seed, "init")
    sizes = (train.num_entities, train.num_relations)
    heads = make_heads(settings, rng)
    tables = Lookup.normal(
        (train.num_entities, heads.entity_width(settings.d)),
        (2 * train.num_relations, heads.relation_width(settings.d)),
        settings.init_scale,
        rng,
    )
    encoder: NeighbourAttention | Lookup = tables
    if settings.encoder == "attention":
        encoder = NeighbourAttention(
            train.facts,
            tables,
            train.num_relations,
            layers=settings.layers,
            cap=settings.neighbours or 2 * len(train),
            dropout=settings.dropout,
            rng=rng,
        )
    posterior = Posterior(settings.reading, settings.beta, settings.alpha, settings.unlabeled_form)
    system = SpeculativeSystem(
        encoder,
        heads,
        posterior,
        RunningPosterior(train.facts, *sizes, settings.posterior_momentum),
        *sizes,
        one_head=settings.objective != "npu",
    )
    plan = SelfTraining(
        settings.negatives,
        settings.warmup if settings.self_training else None,
        settings.top_share,
        settings.pool,
        settings.share,
    )
    return SpeculativeTraining(
        system,
        make_objective(settings, posterior),
        train.facts,
        plan,
        settings.choose_neighbours,
        settings.level_weight,
        settings.penalty,
    )


@dataclass(frozen=True)
class WithoutPUSettings(NPUGraphSettings):
    """nPUGraph trained with a margin loss instead of the nPU objective."""

    objective: Literal["npu", "margin", "pairwise", "pointwise"] = setting("margin", "the loss")


@dataclass(frozen=True)
class WithoutEncoderSettings(NPUGraphSettings):
    """nPUGraph whose encoder takes all neighbours, whatever their posterior."""

    neighbours: int = setting(0, "most credible facts an entity attends to; 0 means all", low=0)
    choose_neighbours: bool = setting(False, "choose neighbours by the posterior in self-training")


@dataclass(frozen=True)
class WithoutSelfTrainingSettings(NPUGraphSettings):
    """nPUGraph with random uncollected facts and first neighbour sets throughout."""

    self_training: bool = setting(False, "choose uncollected facts by the posterior after warm-up")


@dataclass(frozen=True)
class PrintedSettings(NPUGraphSettings):
    """nPUGraph in the reading that the paper prints."""

    reading: Literal["exception", "printed"] = setting("printed", "what class 1 means")
    unlabeled_form: Literal["literal", "phi"] = setting("phi", "form of the unlabeled posterior")


@dataclass(frozen=True)
class BilinearSettings(NPUGraphSettings):
    """nPUGraph with ComplEx heads on free vectors."""

    heads: Literal["mlp", "distmult", "complex"] = setting("complex", "the two score functions")
    encoder: Literal["attention", "none"] = setting("none", "how entities are represented")


PARTS = {
    "encoder": "attention over the most credible neighbours",
    "scorer": "two perceptron heads over [head; relation; tail]",
    "sampler": "K uncollected facts, drawn evenly, later also by the posterior",
    "objective": "noisy positive-unlabeled likelihood",
    "posterior": "from both heads and the priors alpha and beta",
}
# The paper's grids. Its beta grid {.3, .2, .1, .005, .001} is the share of wrong facts: 1 - beta.
SPACE = {
    "learning_rate": Choices((0.02, 0.01, 0.005, 0.001, 0.0005)),
    "alpha": Choices((0.1, 0.05, 0.01, 0.005, 0.001, 0.0005, 0.0001, 0.00005)),
    "beta": Choices((0.7, 0.8, 0.9, 0.995, 0.999)),
    "negatives": Choices((10, 20, 30, 40, 50)),
}
NPUGRAPH = Recipe(
    name="npugraph",
    summary="Posterior-aware attention, two perceptron heads, nPU objective, self-training.",
    source=SOURCE,
    settings=NPUGraphSettings,
    build=build,
    parts=PARTS,
    space=SPACE,
)


def variant(name: str, kind: type[NPUGraphSettings], **parts: str) -> Recipe:
    """Return nPUGraph with other defaults; ``parts`` says what they change."""
    return replace(
        NPUGRAPH,
        name=f"npugraph/{name}",
        summary=(kind.__doc__ or ""),
        settings=kind,
        parts={**PARTS, **parts},
    )


# The priors do not enter the margin loss, and do not change what self-training chooses.
WITHOUT_PU = replace(
    variant(
        "no-npu",
        WithoutPUSettings,
        scorer="one perceptron head",
        objective="margin loss",
        posterior="from the one head and the priors alpha and beta",
    ),
    space={
        "learning_rate": SPACE["learning_rate"],
        "negatives": SPACE["negatives"],
        "margin": Choices((0.5, 1.0, 2.0, 5.0)),
    },
)
VARIANTS = (
    WITHOUT_PU,
    variant("no-lp-encoder", WithoutEncoderSettings, encoder="attention over all neighbours"),
    variant(
        "no-self-training",
        WithoutSelfTrainingSettings,
        encoder="attention over neighbours that are chosen once",
        sampler="K uncollected facts, drawn evenly",
    ),
    variant("printed", PrintedSettings, posterior="as printed: class 1 is the true facts"),
    variant(
        "bilinear",
        BilinearSettings,
        encoder="one vector an entity and a relation",
        scorer="two ComplEx heads",
    ),
)
