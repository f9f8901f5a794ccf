"""The training settings that suit a graph."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from audit_samples import sample
from npugraph.auditing import AuditSettings, cost, estimate_cost, suited_settings
from npugraph.auditing.cost import Cost
from npugraph.auditing.presets import path_settings, searches
from npugraph.compiling import available
from npugraph.errors import SettingsError
from npugraph.graph import KnowledgeGraph, Vocabulary
from npugraph.recipes.path.recipe import PathSettings

ON_CPU = AuditSettings(device="cpu")


def test_settings_suit_the_size_and_changes_win() -> None:
    graph = sample()
    small = suited_settings(graph, ON_CPU)
    assert (small.epochs, small.d, small.negatives) == (40, 128, 0)
    assert suited_settings(graph, ON_CPU, {"epochs": "7"}).epochs == 7
    with pytest.raises(SettingsError, match="epoch"):
        suited_settings(graph, ON_CPU, {"epoch": 3})


def test_a_large_graph_gets_cheap_steps() -> None:
    names = Vocabulary.of([f"e{i}" for i in range(5000)]), Vocabulary.of(["r"])
    few, many, most = (
        suited_settings(
            KnowledgeGraph(*names, torch.zeros(1, 3, dtype=torch.int64).expand(facts, 3)),
            ON_CPU,
        )
        for facts in (400_000, 400_001, 4_000_001)
    )
    assert (few.negatives, few.patience) == (1024, 2)
    for large, epochs in ((many, 6), (most, 3)):
        assert (large.negatives, large.patience, large.share) == (256, 1, large.batch_size)
        assert large.epochs == epochs


def graph_of(facts: Tensor) -> KnowledgeGraph:
    names = Vocabulary.of([f"e{i}" for i in range(int(facts.max()) + 1)]), Vocabulary.of(["r"])
    return KnowledgeGraph(*names, facts)


@pytest.mark.skipif(not available(), reason="numba is not installed")
@pytest.mark.parametrize("recipe", ["complex-n3", "path"])
def test_paths_of_a_large_sparse_graph_go_no_further_than_they_reach(recipe: str) -> None:
    settings = dataclasses.replace(ON_CPU, views=("path",), recipe=recipe)

    def asked(facts: Tensor) -> PathSettings:
        graph = graph_of(facts)
        return path_settings(graph, settings, suited_settings(graph, settings))[1]

    count = torch.arange(30_000)
    chain = torch.stack([count, 0 * count, count + 1], 1)
    sparse = asked(chain)
    assert (sparse.reached_only, sparse.epoch_share) == (True, 0.25)
    # Small, or with all within reach: the defaults, for a step would be no cheaper.
    assert not asked(chain[:1000]).reached_only
    assert not asked(torch.stack([count % 200, 0 * count, count // 200], 1)).reached_only


@pytest.mark.skipif(not available(), reason="numba is not installed")
@pytest.mark.parametrize("change", [{"nodes": "1000"}, {"objective": "npu"}, {"layers": 30_000}])
def test_what_needs_all_states_gets_them(change: dict[str, object]) -> None:
    settings = dataclasses.replace(ON_CPU, views=("path",), recipe="npugraph-path")
    count = torch.arange(30_000)
    graph = graph_of(torch.stack([count, 0 * count, count + 1], 1))
    found = suited_settings(graph, settings, change)
    assert isinstance(found, PathSettings)
    assert (found.reached_only, found.epoch_share) == (False, 1.0)
    for same in ({}, {"nodes": "0", "objective": "softmax", "layers": 3}):
        asked = suited_settings(graph, settings, same)
        assert isinstance(asked, PathSettings)
        assert asked.reached_only
    other = suited_settings(graph, settings, {"reached_only": False, "layers": 3})
    assert isinstance(other, PathSettings)
    assert not other.reached_only


@pytest.mark.skipif(not available(), reason="numba is not installed")
def test_a_plan_counts_what_paths_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    count = torch.arange(30_000)
    graph = graph_of(torch.stack([count, 0 * count, count + 1], 1))
    settings = dataclasses.replace(ON_CPU, recipe="path", views=("path",))

    def plan(only: bool) -> Cost:
        own = suited_settings(graph, settings, {"reached_only": only})
        return estimate_cost(graph, settings, own, ("path",), measure=False)

    few, every = plan(True), plan(False)
    # Whatever is reached, every entity has a score.
    assert every.products / 20 < few.products < every.products / 5
    assert few.memory < every.memory
    # A message within reach costs more than one where all states are worked on.
    monkeypatch.setattr(cost, "MESSAGE_WITHIN", cost.MESSAGE)
    assert plan(True).products < few.products
    assert plan(False).products == every.products


def test_what_is_given_is_not_searched_for() -> None:
    graph, settings = sample(), ON_CPU
    assert searches(graph, settings)
    assert not searches(graph, settings, {"n3": "0.1"})
    assert not searches(graph, dataclasses.replace(settings, search=False))
    assert not searches(graph, dataclasses.replace(settings, recipe="distmult"))
