"""The training settings that suit a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from npugraph.auditing.settings import AuditSettings, has_paths
from npugraph.graph import KnowledgeGraph
from npugraph.kernels.paths import Edges
from npugraph.recipes import get_recipe
from npugraph.recipes.path.reached import reached_share
from npugraph.recipes.path.recipe import PathSettings
from npugraph.settings import TrainSettings, make_settings
from npugraph.training.loop import choose_device

# The recipe that has presets; others keep their own defaults.
PRESET = "complex-n3"
# From so many facts on, a step on a CPU must be cheap.
LARGE = 400_000
# Settings of complex-n3 by size: the most facts they are meant for, on a CPU, and what differs on
# a GPU. Six passes leave no time to get worse twice, and three none to get worse at all; these need
# larger steps, or the first two of them teach nothing.
PRESETS: tuple[tuple[float, dict[str, Any], dict[str, Any]], ...] = (
    (
        19_999,
        {"d": 128, "n3": 0.02, "epochs": 40, "batch_size": 512, "validate_every": 5, "patience": 2},
        {},
    ),
    (
        LARGE,
        {"d": 128, "n3": 0.05, "epochs": 12, "batch_size": 1000, "validate_every": 4}
        | {"patience": 2},
        {"d": 256},
    ),
    (
        4_000_000,
        {"d": 64, "n3": 0.05, "epochs": 6, "batch_size": 4096, "validate_every": 2, "patience": 1},
        {},
    ),
    (
        float("inf"),
        {"d": 64, "n3": 0.05, "epochs": 3, "batch_size": 4096, "validate_every": 3, "patience": 1}
        | {"learning_rate": 0.3},
        {},
    ),
)
VALID_FACTS = 2000
# Settings of path on a GPU. An epoch asks a quarter of the questions: validation falls between.
PATH_ON_GPU: dict[str, Any] = {
    "d": 32,
    "layers": 6,
    "answers": 1,
    "learning_rate": 3e-3,
    "edge_dropout": 0.1,
    "epoch_share": 0.25,
    "epochs": 3,
    "precision": "bf16",
}
# On a CPU, for graphs beyond the defaults' size of which questions reach little in so many layers.
PATH_WITHIN_REACH: dict[str, Any] = {
    "reached_only": True,
    "answers": 1,
    "batch_size": 64,
    "learning_rate": 3e-3,
    "edge_dropout": 0.1,
    "epoch_share": 0.25,
    "epochs": 3,
}
SMALL = 20_000
# With more entities than this, by device, each fact is compared with a sample of them. On a CPU a
# step of a large graph must be cheap; its sample is seen by many facts instead.
ALL_ENTITIES = {"cuda": 20_000, "cpu": 4000}
NEGATIVES, FEW_NEGATIVES = 1024, 256

# On small graphs validation chooses among these strengths of the penalty.
SEARCH: tuple[dict[str, Any], ...] = ({"n3": 0.005}, {"n3": 0.02}, {"n3": 0.1})
# What was tried, and its validation MRR.
Tried = tuple[tuple[dict[str, Any], float], ...]


def path_settings(
    graph: KnowledgeGraph, settings: AuditSettings, training: TrainSettings
) -> tuple[str, PathSettings]:
    """Return the recipe of the view ``path`` and its settings: the audit's own where it has paths.

    Otherwise it is the recipe ``path``: with its defaults, which are for small graphs on a CPU, or
    with settings for large ones on a GPU, or for large sparse ones on a CPU.
    """
    if isinstance(training, PathSettings):
        return settings.recipe, training
    values: dict[str, Any] = {"device": settings.device, "valid_facts": VALID_FACTS}
    return "path", make_settings(PathSettings, values | _suited_path(graph, PathSettings(**values)))


def _suited_path(graph: KnowledgeGraph, given: PathSettings) -> dict[str, Any]:
    """Return settings of path for a large graph, beside those that are given.

    See docs/paths_figures.md for how they came about.
    """
    if choose_device(given.device).type == "cuda":
        return _path_on_gpu(graph)
    every = given.nodes or getattr(given, "objective", "softmax") != "softmax"
    if every or len(graph) <= SMALL or share_within_reach(graph, given) is None:
        return {}
    return PATH_WITHIN_REACH


def share_within_reach(graph: KnowledgeGraph, training: PathSettings) -> float | None:
    """Return the share of all states that is worked on within reach, on a CPU; None: all are."""
    edges = Edges.of(graph.facts, graph.num_entities, graph.num_relations)
    return reached_share(edges, training.layers, training.d, torch.float32)


def _path_on_gpu(graph: KnowledgeGraph) -> dict[str, Any]:
    pair = graph.facts[:, [0, 2]].sort(1).values
    _, of_fact, count = torch.unique(pair, dim=0, return_inverse=True, return_counts=True)
    linked = float((count[of_fact] > 1).float().mean())
    return PATH_ON_GPU | {
        "batch_size": 128 if graph.num_entities <= ALL_ENTITIES["cuda"] else 64,
        # Where most facts have a second one between the same ends, that one is the evidence.
        "hide_pair_share": 0.5 if linked < 0.5 else 0.0,
    }


def suited_settings(
    graph: KnowledgeGraph, settings: AuditSettings, changes: Mapping[str, Any] | None = None
) -> TrainSettings:
    """Return the recipe's settings for a graph of this size; ``changes`` win.

    For complex-n3: small graphs get more passes, large ones fewer numbers per name, and beyond some
    20,000 entities on a GPU, or a few thousand on a CPU, a sample of entities to compare with.
    Other recipes keep their own defaults.
    """
    values: dict[str, Any] = {"device": settings.device}
    device = choose_device(settings.device).type
    if settings.recipe == PRESET:
        values |= _preset(graph, device)
    elif has_paths(settings.recipe):
        given = make_settings(get_recipe(settings.recipe).settings, values | dict(changes or {}))
        assert isinstance(given, PathSettings)
        values |= _suited_path(graph, given)
    values |= dict(changes or {})
    return make_settings(get_recipe(settings.recipe).settings, values)


def _preset(graph: KnowledgeGraph, device: str) -> dict[str, Any]:
    """Return the settings of complex-n3 for the size of a graph."""
    _, values, on_gpu = next(preset for preset in PRESETS if len(graph) <= preset[0])
    values = values | {"valid_facts": VALID_FACTS}
    gpu = device == "cuda"
    if gpu:
        values |= on_gpu | {"precision": "tf32"}
    if graph.num_entities > ALL_ENTITIES["cuda" if gpu else "cpu"]:
        large = len(graph) > LARGE
        negatives = FEW_NEGATIVES if large and not gpu else NEGATIVES
        values |= {"negatives": negatives, "share": values["batch_size"]}
    return values


def searches(
    graph: KnowledgeGraph, settings: AuditSettings, changes: Mapping[str, Any] | None = None
) -> bool:
    """Tell whether validation chooses among a few settings first; what is given stays."""
    small = settings.recipe == PRESET and len(graph) <= settings.thresholds.search_facts
    return settings.search and small and "n3" not in (changes or {})
