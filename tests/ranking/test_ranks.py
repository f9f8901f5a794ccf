"""Ranking against a literal loop over candidates; metrics, cardinalities and best answers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from npugraph.errors import DataError
from npugraph.graph import SIDES, TripleIndex
from npugraph.ranking.ranks import (
    CARDINALITIES,
    Prediction,
    Ranks,
    ScoreAll,
    SideRanks,
    rank,
    relation_cardinality,
    summarise,
    top_k,
)

Fact = tuple[int, int, int]
Side = Literal["head", "tail"]


def as_tensor(facts: list[Fact]) -> Tensor:
    return torch.tensor(facts, dtype=torch.int64).reshape(-1, 3)


def put(fact: Fact, side: Side, entity: int) -> Fact:
    head, relation, tail = fact
    return (entity, relation, tail) if side == "head" else (head, relation, entity)


class TableScores:
    """Fixed scores of every triple; remembers what it handed out."""

    def __init__(self, scores: Tensor) -> None:
        """``scores`` [E, R, E] by head, relation, tail."""
        self.scores = scores
        self.given: list[tuple[Tensor, Tensor]] = []
        self.asked: list[tuple[Side, int, int]] = []

    def __call__(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        rows = self.scores[known, relation] if side == "tail" else self.scores[:, relation, known].T
        self.given.append((rows, rows.clone()))
        pairs = zip(known.tolist(), relation.tolist(), strict=True)
        self.asked += [(side, *pair) for pair in pairs]
        return rows


def tied_scores(num_entities: int, num_relations: int, seed: int) -> Tensor:
    """Few different values, both infinities among them, so that most comparisons are ties."""
    values = np.array([-math.inf, -1.0, -0.0, 0.0, 1.0, 2.0, math.inf])
    shape = (num_entities, num_relations, num_entities)
    return torch.from_numpy(np.random.default_rng(seed).choice(values, shape))


def literal_rank(scores: Tensor, fact: Fact, side: Side, known: set[Fact]) -> tuple[int, int, int]:
    """Return optimistic rank, pessimistic rank and the number of candidates."""
    others = [put(fact, side, entity) for entity in range(len(scores))]
    others = [other for other in others if other != fact and other not in known]
    true = scores[fact].item()
    higher = sum(scores[other].item() > true for other in others)
    at_least = sum(scores[other].item() >= true for other in others)
    return 1 + higher, 1 + at_least, 1 + len(others)


@st.composite
def ranking_cases(draw: st.DrawFn) -> tuple[Tensor, list[Fact], dict[str, list[Fact]]]:
    num_entities, num_relations = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    entity, relation = st.integers(0, num_entities - 1), st.integers(0, num_relations - 1)
    some_facts = st.lists(st.tuples(entity, relation, entity), max_size=20)
    facts = draw(some_facts)
    filters = {"raw": [], "other": draw(some_facts), "with facts": facts + draw(some_facts)}
    names = draw(st.lists(st.sampled_from(sorted(filters)), min_size=1, unique=True))
    scores = tied_scores(num_entities, num_relations, draw(st.integers(0, 2**32 - 1)))
    return scores, facts, {name: filters[name] for name in names}


@given(ranking_cases(), st.sampled_from([1, 100, 200, None]))
def test_ranks_are_those_of_the_literal_loop(
    case: tuple[Tensor, list[Fact], dict[str, list[Fact]]], memory_budget: int | None
) -> None:
    scores, facts, filters = case
    score_all = TableScores(scores)
    ranks = rank(
        score_all,
        as_tensor(facts),
        scores.shape[0],
        scores.shape[1],
        {name: as_tensor(known) for name, known in filters.items()},
        memory_budget=memory_budget,
    )
    assert list(ranks.by_filter) == list(filters)
    for name, known in filters.items():
        for side in SIDES:
            expected = [literal_rank(scores, fact, side, set(known)) for fact in facts]
            found = ranks.by_filter[name][side]
            assert found.optimistic.tolist() == [row[0] for row in expected]
            assert found.pessimistic.tolist() == [row[1] for row in expected]
            assert found.candidates.tolist() == [row[2] for row in expected]
            assert found.of("realistic").tolist() == [(row[0] + row[1]) / 2 for row in expected]
    for handed_out, before in score_all.given:
        assert torch.equal(handed_out, before)


FACTS = as_tensor([(0, 0, 1), (0, 0, 2), (0, 0, 1), (3, 1, 1), (2, 0, 1)])
NUM_ENTITIES, NUM_RELATIONS = 4, 2
ONE_QUERY = 8 * NUM_ENTITIES  # bytes: one query a chunk
RAW = {"raw": FACTS[:0]}


def random_scores(seed: int = 0) -> TableScores:
    rng = torch.Generator().manual_seed(seed)
    shape = (NUM_ENTITIES, NUM_RELATIONS, NUM_ENTITIES)
    return TableScores(torch.randn(shape, generator=rng, dtype=torch.float64))


def ranks_of(score_all: ScoreAll, filters: Mapping[str, Tensor] = RAW, **options: object) -> Ranks:
    return rank(score_all, FACTS, NUM_ENTITIES, NUM_RELATIONS, filters, **options)


@pytest.mark.parametrize("memory_budget", [ONE_QUERY, None])
def test_every_distinct_query_is_scored_once(memory_budget: int | None) -> None:
    score_all, done = random_scores(), []
    ranks_of(score_all, memory_budget=memory_budget, progress=done.append)
    expected = {("tail", h, r) for h, r, _ in FACTS.tolist()}
    expected |= {("head", t, r) for _, r, t in FACTS.tolist()}
    assert Counter(score_all.asked) == Counter(expected)
    assert sum(done) == len(expected)


def test_chunks_stay_within_the_memory_budget() -> None:
    score_all = random_scores()
    ranks_of(score_all, memory_budget=2 * ONE_QUERY)
    assert {len(rows) for rows, _ in score_all.given} == {1, 2}


def test_no_facts_give_no_ranks() -> None:
    ranks = rank(random_scores(), FACTS[:0], NUM_ENTITIES, NUM_RELATIONS, RAW)
    assert ranks.by_filter["raw"]["tail"].optimistic.shape == (0,)
    assert ranks.metrics("raw")["count"] == 0


@pytest.mark.parametrize("place", [0, 1, 2], ids=["first chunk", "second chunk", "third chunk"])
@pytest.mark.parametrize("value", [math.nan, -math.nan])
def test_not_a_number_is_refused(place: int, value: float) -> None:
    scores = random_scores()
    calls = []

    def broken(known: Tensor, relation: Tensor, side: Side) -> Tensor:
        rows = scores(known, relation, side)
        if len(calls) == place:
            rows[0, 3] = value
        calls.append(side)
        return rows

    with pytest.raises(DataError, match="not a number"):
        ranks_of(broken, memory_budget=ONE_QUERY)


def test_infinite_scores_of_both_signs_are_no_reason_to_refuse() -> None:
    scores = random_scores()
    scores.scores[0, 0, 0], scores.scores[0, 0, 3] = math.inf, -math.inf
    tails = ranks_of(scores).by_filter["raw"]["tail"]
    assert tails.optimistic.min() >= 1
    assert tails.optimistic[0] >= 2


@pytest.mark.parametrize("shape", [(1, 5), (2, 4), (4,), (1, 4, 1)])
def test_scores_of_the_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"score_all returned shape .* where \(1, 4\)"):
        ranks_of(lambda known, relation, side: torch.zeros(shape), memory_budget=ONE_QUERY)


def test_the_wrong_shape_is_refused_in_later_chunks_too() -> None:
    calls = []

    def first_right(known: Tensor, relation: Tensor, side: Side) -> Tensor:
        calls.append(side)
        extra = len(calls) == 2
        return torch.zeros(len(known) + extra, NUM_ENTITIES)

    with pytest.raises(DataError, match=r"score_all returned shape \(2, 4\) where \(1, 4\)"):
        ranks_of(first_right, memory_budget=ONE_QUERY)


def test_ranking_without_a_filter_is_refused() -> None:
    with pytest.raises(DataError, match="at least one filter"):
        ranks_of(random_scores(), {})


def popularity() -> Tensor:
    return torch.tensor([3.0, 1.0, 2.0, 1.0])


def popularity_ranks(score_all: ScoreAll) -> list[float]:
    sides = ranks_of(score_all, {"known": FACTS}).by_filter["known"]
    return [*sides["tail"].of("realistic"), *sides["head"].of("realistic")]


@pytest.fixture
def expected_ranks() -> list[float]:
    """The ranks where every query gets a fresh copy of the same scores."""
    return popularity_ranks(lambda known, relation, side: popularity().repeat(len(known), 1))


def test_rows_that_share_their_memory_do_not_disturb_each_other(
    expected_ranks: list[float],
) -> None:
    scores = popularity()
    found = popularity_ranks(lambda known, relation, side: scores.expand(len(known), -1))
    assert found == expected_ranks
    assert torch.equal(scores, popularity())


def test_whole_numbers_are_ranked(expected_ranks: list[float]) -> None:
    scores = popularity().long()
    found = popularity_ranks(lambda known, relation, side: scores.repeat(len(known), 1))
    assert found == expected_ranks


def test_scores_made_in_inference_mode_are_ranked(expected_ranks: list[float]) -> None:
    @torch.inference_mode()
    def score_all(known: Tensor, relation: Tensor, side: Side) -> Tensor:
        return popularity().repeat(len(known), 1)

    assert popularity_ranks(score_all) == expected_ranks


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_scores_of_any_precision_are_ranked(
    expected_ranks: list[float], dtype: torch.dtype
) -> None:
    scores = popularity().to(dtype)
    found = popularity_ranks(lambda known, relation, side: scores.repeat(len(known), 1))
    assert found == expected_ranks


def test_scores_that_carry_gradients_are_ranked(expected_ranks: list[float]) -> None:
    weights = torch.nn.Parameter(popularity())
    found = popularity_ranks(lambda known, relation, side: weights.repeat(len(known), 1) * 1)
    assert found == expected_ranks


# --- metrics


def test_metrics_of_known_ranks() -> None:
    found = summarise(np.array([1.0, 2.5, 4.0, 10.0]), np.array([11, 11, 5, 21]), hits=(1, 3, 10))
    assert found == pytest.approx(
        {
            "mrr": (1 + 1 / 2.5 + 1 / 4 + 1 / 10) / 4,
            "mean_rank": 17.5 / 4,
            "hits@1": 0.25,
            "hits@3": 0.5,
            "hits@10": 1.0,
            # Chance is the mean of (candidates + 1) / 2: 6, 6, 3 and 11.
            "amri": 1 - (17.5 / 4 - 1) / (6.5 - 1),
            "count": 4,
        }
    )


def test_metrics_of_nothing_have_the_same_names() -> None:
    nothing = summarise(np.array([]), np.array([]))
    something = summarise(np.array([1.0]), np.array([2]))
    assert set(nothing) == set(something)
    assert set(nothing.values()) == {0}


def test_one_candidate_says_nothing_about_chance() -> None:
    assert summarise(np.array([1.0]), np.array([1]))["amri"] == 0


@given(ranking_cases())
def test_equal_scores_are_at_chance(
    case: tuple[Tensor, list[Fact], dict[str, list[Fact]]],
) -> None:
    scores, facts, filters = case
    known = {name: as_tensor(rows) for name, rows in filters.items()}
    constant = TableScores(torch.zeros_like(scores))
    ranks = rank(constant, as_tensor(facts), scores.shape[0], scores.shape[1], known)
    for name in known:
        assert ranks.metrics(name)["amri"] == pytest.approx(0.0, abs=1e-12)


def test_perfect_scores_are_perfect() -> None:
    best = torch.zeros(NUM_ENTITIES, NUM_RELATIONS, NUM_ENTITIES)
    best[tuple(FACTS.T)] = 1
    found = ranks_of(TableScores(best), {"known": FACTS}).metrics("known")
    assert (found["mrr"], found["mean_rank"], found["hits@1"], found["amri"]) == (1, 1, 1, 1)


def test_metrics_pool_sides_and_pick_facts() -> None:
    ranks = ranks_of(random_scores())
    sides = ranks.by_filter["raw"]
    tail, head = sides["tail"].of("optimistic"), sides["head"].of("optimistic")
    pooled = ranks.metrics("raw", kind="optimistic")
    assert pooled["mean_rank"] == pytest.approx(np.concatenate([tail, head]).mean())
    assert pooled["count"] == 10
    where = np.array([True, False, False, True, False])
    picked = ranks.metrics("raw", kind="optimistic", sides=("head",), where=where, hits=(2,))
    assert picked["mean_rank"] == pytest.approx(head[where].mean())
    assert picked["hits@2"] == pytest.approx((head[where] <= 2).mean())
    assert "hits@1" not in picked


def test_a_table_has_one_row_a_group() -> None:
    ranks = ranks_of(random_scores())
    groups = np.array([0, 0, 0, 2, 0])
    table = ranks.table("raw", groups, ["x", "y", "z"])
    assert list(table) == ["x", "z"]
    assert table["x"] == ranks.metrics("raw", where=groups == 0)
    assert table["z"]["count"] == 2


def test_a_tie_costs_nothing_half_or_all_of_it() -> None:
    side = SideRanks(np.array([2.0]), np.array([5.0]), np.array([9.0]))
    assert [side.of(kind)[0] for kind in ("optimistic", "realistic", "pessimistic")] == [2, 3.5, 5]


# --- cardinality


def literal_cardinality(facts: set[Fact], relation: int) -> str:
    """As in Bordes et al.: average number of tails of a head, and of heads of a tail."""
    tails, heads = defaultdict(set), defaultdict(set)
    for head, name, tail in facts:
        if name == relation:
            tails[head].add(tail)
            heads[tail].add(head)

    def many(groups: Mapping[int, set[int]]) -> bool:
        return sum(map(len, groups.values())) >= 1.5 * len(groups) > 0

    return f"{'n' if many(heads) else '1'}-{'n' if many(tails) else '1'}"


@given(ranking_cases())
def test_cardinalities_are_those_of_the_literal_loop(
    case: tuple[Tensor, list[Fact], dict[str, list[Fact]]],
) -> None:
    scores, facts, _ = case
    found = relation_cardinality(as_tensor(facts), scores.shape[0], scores.shape[1])
    names = [CARDINALITIES[place] for place in found]
    assert names == [literal_cardinality(set(facts), r) for r in range(scores.shape[1])]


def test_cardinalities_by_example() -> None:
    facts = as_tensor([(0, 0, 1), (0, 1, 1), (0, 1, 2), (0, 2, 3), (1, 2, 3), (0, 4, 0), (0, 4, 1)])
    facts = torch.cat([facts, as_tensor([(1, 4, 0), (1, 4, 1), (0, 0, 1), (0, 0, 1)])])
    names = [CARDINALITIES[place] for place in relation_cardinality(facts, 4, 5)]
    assert names == ["1-1", "1-n", "n-1", "1-1", "n-n"]


# --- top_k


@pytest.mark.parametrize("k", [1, 3, 4, 99])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("only_new", [False, True])
def test_the_best_answers_are_those_of_sorting(k: int, side: Side, only_new: bool) -> None:
    scores = random_scores(seed=3)
    known = {tuple(row) for row in FACTS.tolist()}
    index = TripleIndex(FACTS, NUM_ENTITIES, NUM_RELATIONS)
    given = 0 if side == "tail" else 1
    question = (given, 0, -1) if side == "tail" else (-1, 0, given)
    answers = [put(question, side, entity) for entity in range(NUM_ENTITIES)]
    if only_new:
        answers = [fact for fact in answers if fact not in known]
    answers.sort(key=lambda fact: -scores.scores[fact].item())
    place = 2 if side == "tail" else 0
    assert top_k(scores, given, 0, side, k, index, only_new=only_new) == [
        Prediction(fact[place], scores.scores[fact].item(), fact in known) for fact in answers[:k]
    ]


def test_no_answers_where_everything_is_known() -> None:
    everything = as_tensor([(0, 0, tail) for tail in range(NUM_ENTITIES)])
    index = TripleIndex(everything, NUM_ENTITIES, NUM_RELATIONS)
    assert top_k(random_scores(), 0, 0, "tail", 3, index, only_new=True) == []


def test_the_best_answer_is_never_not_a_number() -> None:
    scores = random_scores()
    scores.scores[0, 0, 2] = math.nan
    index = TripleIndex(FACTS, NUM_ENTITIES, NUM_RELATIONS)
    with pytest.raises(DataError, match="not a number"):
        top_k(scores, 0, 0, "tail", 2, index)
