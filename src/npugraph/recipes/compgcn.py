"""CompGCN with ConvE, DistMult or TransE, trained on every query against every entity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from npugraph.encoders import CompGCN, Lookup
from npugraph.graph import KnowledgeGraph
from npugraph.model import System
from npugraph.objectives import SmoothedLogistic
from npugraph.recipes.base import Choices, LogRange, Range, Recipe
from npugraph.scorers import Affine, ConvE, DistMult, Scorer, TransE
from npugraph.seeds import generator
from npugraph.settings import TrainSettings, setting
from npugraph.training.batch_loss import QueryTraining, Training

# An entity that answers no query, or every one, starts as if it were so close to that.
LEAST_RATE = 1e-6


@dataclass(frozen=True)
class CompGCNSettings(TrainSettings):
    """Settings of compgcn; the defaults are those of the public code for FB15k-237."""

    d: int = setting(100, "numbers per entity and relation before the first layer", low=1)
    width: int = setting(200, "numbers per entity and relation after it", low=1)
    layers: int = setting(1, "convolutions", low=1)
    composition: Literal["sub", "mult", "corr"] = setting(
        "corr", "how a neighbour meets its relation: difference, product, circular correlation"
    )
    decoder: Literal["conve", "distmult", "transe"] = setting("conve", "the score function")
    dropout: float = setting(0.1, "dropout on what neighbours bring", low=0, high=1)
    hidden_dropout: float = setting(0.3, "dropout on entities after a layer", low=0, high=1)
    height: int = setting(10, "rows that ConvE lays a vector out in", low=1)
    filters: int = setting(200, "filters of ConvE", low=1)
    kernel: int = setting(7, "rows and columns of a filter of ConvE", low=1)
    feature_dropout: float = setting(0.3, "dropout on feature maps of ConvE", low=0, high=1)
    decoder_dropout: float = setting(0.3, "dropout on the last layer of ConvE", low=0, high=1)
    gamma: float = setting(40.0, "score of a perfect fit of TransE at the start")
    smoothing: float = setting(0.1, "label smoothing", low=0, high=0.999)
    epochs: int = setting(500, "passes over the training queries", low=1)
    batch_size: int = setting(128, "queries per step", low=1)
    cuda_graph: bool = setting(True, "on a GPU, record a step once and replay it")
    patience: int = setting(25, "stop after this many validations without a better MRR", low=1)


def make_decoder(settings: CompGCNSettings, rng: torch.Generator) -> Scorer:
    """Return the score function."""
    if settings.decoder == "distmult":
        return DistMult()
    if settings.decoder == "transe":
        # Distances alone would make every probability less than a half.
        scorer = Affine(TransE(p=1))
        torch.nn.init.constant_(scorer.bias, settings.gamma)
        return scorer
    conve = ConvE(
        settings.width,
        settings.height,
        filters=settings.filters,
        kernel=settings.kernel,
        feature_dropout=settings.feature_dropout,
        hidden_dropout=settings.decoder_dropout,
        interleave=True,
        rng=rng,
    )
    # From 1, as in the public code, the first scores spread so far (some +-6) that thousands of
    # steps only draw them together.
    torch.nn.init.constant_(conve.hidden_norm.weight, settings.width**-0.5)
    return conve


def build(settings: CompGCNSettings, train: KnowledgeGraph) -> Training:
    """Put the convolution, the decoder and the logistic loss over all entities together."""
    num_entities, num_relations = train.num_entities, train.num_relations
    rng = generator(settings.seed, "init")
    scorer = make_decoder(settings, rng)
    sizes = (num_entities, settings.d), (2 * num_relations, settings.d)
    encoder = CompGCN(
        train.facts,
        Lookup.xavier_uniform(*sizes, rng),
        num_relations,
        width=settings.width,
        layers=settings.layers,
        composition=settings.composition,
        dropout=settings.dropout,
        hidden_dropout=settings.hidden_dropout,
        entity_bias=settings.decoder == "conve",
        rng=rng,
    )
    system = System(encoder, scorer, num_entities, num_relations, reciprocal=True, link="sigmoid")
    training = QueryTraining(system, SmoothedLogistic(settings.smoothing), train)
    if encoder.bias is not None:
        # From 0, as in the public code, the first thousands of steps only learn that most answers
        # are wrong. This is the best that scores can be which do not depend on the query.
        rate = (1 - settings.smoothing) * training.answer_rate() + (
            1 / num_entities if settings.smoothing else 0.0
        )
        encoder.bias.data = rate.clamp(LEAST_RATE, 1 - LEAST_RATE).logit().unsqueeze(1)
    return training


COMPGCN = Recipe(
    name="compgcn",
    summary="CompGCN encoder, ConvE (or DistMult, TransE), logistic loss over all entities.",
    source="Vashishth et al.: Composition-based Multi-Relational Graph Convolution (2020)",
    settings=CompGCNSettings,
    build=build,
    parts={
        "encoder": "CompGCN: convolutions of neighbours composed with their relations",
        "scorer": "ConvE, or DistMult, or TransE",
        "sampler": "every entity",
        "objective": "logistic loss with label smoothing, every query with all its answers",
        "posterior": "sigmoid of the score",
    },
    space={
        "learning_rate": LogRange(3e-4, 3e-3),
        "composition": Choices(("sub", "mult", "corr")),
        "dropout": Range(0.0, 0.3),
        "hidden_dropout": Range(0.0, 0.5),
        "feature_dropout": Range(0.0, 0.5),
        "decoder_dropout": Range(0.0, 0.5),
        "smoothing": Choices((0.0, 0.1)),
    },
)
