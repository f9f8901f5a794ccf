"""Scores, ranks and metrics equal to PyKEEN's, number by number (see the golden README)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from npugraph.data.io import read_splits
from npugraph.graph import SIDES
from npugraph.ranking.ranks import Ranks, rank
from npugraph.scorers import MLP, ComplEx, DistMult, RotatE, Scorer, TransE, TransR

Side = Literal["head", "tail"]
NUM_ENTITIES, NUM_RELATIONS = 135, 46
KINDS = ("optimistic", "realistic", "pessimistic")
SCORERS: dict[str, Callable[[], Scorer]] = {
    "distmult": DistMult,
    "complex": ComplEx,
    "rotate": lambda: RotatE(norm="l2"),
    "transe_p1": lambda: TransE(p=1),
    "transe_p2": lambda: TransE(p=2),
    "distmult_ties": DistMult,
    "ermlp": lambda: MLP(16, 24),
    "transr_p1": lambda: TransR(1, "clamp", relation_dimension=12),
    "transr_p2": lambda: TransR(2, "clamp", relation_dimension=12),
    "transr_p2_clamped": lambda: TransR(2, "clamp", relation_dimension=12),
}
METRICS = {
    "mrr": "inverse_harmonic_mean_rank",
    "mean_rank": "arithmetic_mean_rank",
    "hits@1": "hits_at_1",
    "hits@3": "hits_at_3",
    "hits@5": "hits_at_5",
    "hits@10": "hits_at_10",
    "amri": "adjusted_arithmetic_mean_rank_index",
}


class Golden:
    """One model of the golden files, with our scorer over its weights, in float64."""

    def __init__(self, name: str, root: Path) -> None:
        self.expected = dict(np.load(root / f"{name}.npz"))
        self.metrics: dict[str, Any] = json.loads((root / "metrics.json").read_text())["models"][
            name
        ]["metrics"]
        self.scorer = SCORERS[name]().double().requires_grad_(False)
        if isinstance(self.scorer, MLP):
            self.fill(self.scorer)
        self.entities = self.table("entity")
        self.relations = self.table("relation")

    def fill(self, mlp: MLP) -> None:
        """PyKEEN keeps the first layer in one matrix, for [h ; r ; t]."""
        weights = {name: torch.from_numpy(array) for name, array in self.expected.items()}
        blocks = weights["hidden_weight"].T.split(16)
        for block, parameter in zip(blocks, (mlp.head, mlp.relation, mlp.tail), strict=True):
            parameter.copy_(block)
        mlp.bias.copy_(weights["hidden_bias"])
        mlp.out.copy_(weights["out_weight"][0])
        mlp.shift.copy_(weights["out_bias"][0])

    def table(self, kind: str) -> Tensor:
        """Complex numbers are two halves here, rotations angles, a matrix follows its vector."""
        weights = self.expected
        if kind == "relation" and "relation_phase" in weights:
            return torch.from_numpy(weights["relation_phase"])
        if f"{kind}_re" in weights:
            halves = np.concatenate([weights[f"{kind}_re"], weights[f"{kind}_im"]], axis=1)
            return torch.from_numpy(halves)
        table = torch.from_numpy(weights[kind])
        if f"{kind}_projection" in weights:
            matrices = torch.from_numpy(weights[f"{kind}_projection"])
            return torch.cat([table, matrices.flatten(1)], 1)
        return table

    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        query = self.entities[known], self.relations[relation]
        return self.scorer.score_all(*query, self.entities, side)


@pytest.fixture(scope="module")
def parts(golden_root: Path) -> dict[str, Tensor]:
    with np.load(golden_root / "data.npz") as data:
        return {name: torch.from_numpy(data[name]) for name in ("train", "valid", "test")}


@pytest.fixture(scope="module", params=list(SCORERS))
def golden(request: pytest.FixtureRequest, golden_root: Path) -> Golden:
    return Golden(request.param, golden_root)


@pytest.fixture(scope="module")
def ranks(golden: Golden, parts: dict[str, Tensor]) -> Ranks:
    filters = {"filtered": torch.cat(list(parts.values())), "raw": parts["test"][:0]}
    return rank(golden.score_all, parts["test"], NUM_ENTITIES, NUM_RELATIONS, filters)


def test_scores_of_facts(golden: Golden, parts: dict[str, Tensor]) -> None:
    head, relation, tail = parts["test"].T
    entities = golden.entities
    found = golden.scorer.score(entities[head], golden.relations[relation], entities[tail])
    np.testing.assert_allclose(found, golden.expected["test_score_hrt"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("side", SIDES)
def test_scores_of_all_entities(golden: Golden, parts: dict[str, Tensor], side: Side) -> None:
    head, relation, tail = parts["test"][:20].T
    found = golden.score_all(head if side == "tail" else tail, relation, side)
    expected = golden.expected[f"score_{side[0]}_first20"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_scores_of_all_relations(golden: Golden, parts: dict[str, Tensor]) -> None:
    head, _, tail = parts["test"][:20].T
    found = golden.scorer.score(
        golden.entities[head].unsqueeze(1), golden.relations, golden.entities[tail].unsqueeze(1)
    )
    np.testing.assert_allclose(found, golden.expected["score_r_first20"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("filter_name", ["filtered", "raw"])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_ranks(golden: Golden, ranks: Ranks, filter_name: str, side: Side, kind: str) -> None:
    found = ranks.by_filter[filter_name][side].of(kind)
    expected = golden.expected[f"rank_{filter_name}_{side}_{kind}"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("side", SIDES)
def test_numbers_of_candidates(golden: Golden, ranks: Ranks, side: Side) -> None:
    found = ranks.by_filter["filtered"][side].candidates
    np.testing.assert_array_equal(found, golden.expected[f"num_candidates_filtered_{side}"])


@pytest.mark.parametrize("sides", [("head",), ("tail",), SIDES], ids=["head", "tail", "both"])
@pytest.mark.parametrize("kind", KINDS)
def test_metrics(golden: Golden, ranks: Ranks, sides: tuple[Side, ...], kind: str) -> None:
    name = sides[0] if len(sides) == 1 else "both"
    expected = golden.metrics["filtered"][name][kind]
    found = ranks.metrics("filtered", kind=kind, sides=sides, hits=(1, 3, 5, 10))
    for ours, theirs in METRICS.items():
        assert found[ours] == pytest.approx(expected[theirs], rel=1e-5, abs=1e-5), ours


def test_small_chunks_change_no_rank(
    golden: Golden, ranks: Ranks, parts: dict[str, Tensor]
) -> None:
    filters = {"filtered": torch.cat(list(parts.values()))}
    budget = 8 * NUM_ENTITIES * 37
    again = rank(
        golden.score_all, parts["test"], NUM_ENTITIES, NUM_RELATIONS, filters, memory_budget=budget
    )
    for side in SIDES:
        one, other = ranks.by_filter["filtered"][side], again.by_filter["filtered"][side]
        np.testing.assert_array_equal(one.optimistic, other.optimistic)
        np.testing.assert_array_equal(one.pessimistic, other.pessimistic)


def test_our_reader_numbers_the_same_facts_alike(
    data_root: Path, golden_root: Path, parts: dict[str, Tensor]
) -> None:
    splits = read_splits(data_root / "umls")
    ids = json.loads((golden_root / "ids.json").read_text())
    entities = splits.train.entities.labels.to_pylist()
    relations = splits.train.relations.labels.to_pylist()
    assert {label: i for i, label in enumerate(entities)} == ids["entity_to_id"]
    assert {label: i for i, label in enumerate(relations)} == ids["relation_to_id"]
    for name, part in splits.parts().items():
        assert sorted(part.facts.tolist()) == sorted(parts[name].tolist())
