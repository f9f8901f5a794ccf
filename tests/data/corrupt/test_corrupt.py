"""False facts by kind: what is changed, never a stored fact, the same by the same seed."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from npugraph.data.corrupt import (
    FAMILIES,
    NOISES,
    Noise,
    Ranker,
    Roles,
    draw_false_facts,
    draw_pool,
    family,
)
from npugraph.data.corrupt.similar import LISTED, Profiles, repeated, spectral
from npugraph.errors import DataError
from npugraph.graph import TripleIndex, flip
from npugraph.seeds import generator

Fact = tuple[int, int, int]
NUM_ENTITIES, NUM_RELATIONS = 40, 5


def make_facts(seed: int = 0, count: int = 300) -> Tensor:
    """Relations 0 and 1 go from the first half to the second, 2 and 3 back; 4 is symmetric."""
    rng = torch.Generator().manual_seed(seed)
    relation = torch.randint(NUM_RELATIONS, (count,), generator=rng)
    low = torch.randint(20, (count,), generator=rng)
    high = 20 + torch.randint(20, (count,), generator=rng)
    facts = torch.stack([low, relation, high], 1)
    facts = torch.where((relation >= 2).unsqueeze(1), flip(facts), facts)
    both = flip(facts[facts[:, 1] == 4])
    return torch.unique(torch.cat([facts, both]), dim=0)


def index_of(facts: Tensor) -> TripleIndex:
    return TripleIndex(facts, NUM_ENTITIES, NUM_RELATIONS)


def as_set(facts: Tensor) -> set[Fact]:
    return {tuple(row) for row in facts.tolist()}


def planted(kind: Noise, wanted: int = 40, seed: int = 0, facts: Tensor | None = None) -> Tensor:
    facts = make_facts() if facts is None else facts
    return draw_false_facts(facts, index_of(facts), wanted, kind, seed)


def test_the_families_hold_every_kind_once() -> None:
    held = [kind for kinds in FAMILIES.values() for kind in kinds]
    assert sorted(held) == sorted(NOISES)
    assert all(kind in FAMILIES[family(kind)] for kind in NOISES)


@pytest.mark.parametrize("kind", NOISES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_false_facts_are_new_distinct_and_follow_from_the_seed(kind: Noise, seed: int) -> None:
    facts = make_facts(seed % 7)
    index = index_of(facts)
    drawn = draw_false_facts(facts, index, 20, kind, seed)
    assert len(as_set(drawn)) == len(drawn)
    assert len(drawn) == 20 or (kind == "caged" and len(drawn) >= 17)
    assert not index.contains(drawn).any()
    assert int(drawn.min()) >= 0
    assert int(drawn[:, [0, 2]].max()) < NUM_ENTITIES
    assert int(drawn[:, 1].max()) < NUM_RELATIONS
    assert torch.equal(drawn, draw_false_facts(facts, index, 20, kind, seed))
    assert as_set(drawn) != as_set(draw_false_facts(facts, index, 20, kind, seed + 1))


@pytest.mark.parametrize("kind", NOISES)
def test_pools_are_new_and_say_which_end_was_replaced(kind: Noise) -> None:
    facts = make_facts()
    index = index_of(facts)
    pool, end = draw_pool(facts, index, kind, generator(0, "test"))
    assert not index.contains(pool).any()
    assert torch.equal(pool, draw_pool(facts, index, kind, generator(0, "test"))[0])
    stored = as_set(facts)
    left, right = {(h, r) for h, r, _ in stored}, {(r, t) for _, r, t in stored}
    assert len(pool) > len(facts) / 10
    assert all((h, r) in left for h, r, _ in pool[end == 2].tolist())
    assert all((r, t) in right for _, r, t in pool[end == 0].tolist())
    expected = {"one-source": {2}, "wrong-tail": {2}, "caged": {-1, 0, 2}}
    whole = ("random", "swapped", "relation", "relation-typed")
    assert set(end.tolist()) == expected.get(kind, {-1} if kind in whole else {0, 2})


def test_swapped_ends_are_those_of_a_fact_of_an_asymmetric_relation() -> None:
    drawn = planted("swapped")
    assert as_set(flip(drawn)) <= as_set(make_facts())
    assert 4 not in drawn[:, 1].tolist()


@pytest.mark.parametrize("kind", ["relation", "relation-typed"])
def test_a_wrong_relation_leaves_both_ends(kind: Noise) -> None:
    facts = make_facts()
    relations: dict[tuple[int, int], set[int]] = {}
    for head, relation, tail in as_set(facts):
        relations.setdefault((head, tail), set()).add(relation)
    drawn = as_set(planted(kind, 60))
    assert all((head, tail) in relations for head, _, tail in drawn)
    alike = {(0, 1), (1, 0), (2, 3), (3, 2), (0, 4), (1, 4), (2, 4), (3, 4)}
    if kind == "relation-typed":
        # Relation 4 has all entities at both ends: any other fits into it, and it into any.
        alike |= {(b, a) for a, b in alike}
        assert all(
            any((old, new) in alike for old in relations[head, tail]) for head, new, tail in drawn
        )
    else:
        assert {new for _, new, _ in drawn} == set(range(NUM_RELATIONS))
        assert any(
            not any((old, new) in alike or (new, old) in alike for old in relations[head, tail])
            for head, new, tail in drawn
        )


def test_signatures_need_both_ends() -> None:
    # 0 and 1 share heads and tails, 2 only the heads; 3 has nothing in common with them.
    facts = [(0, 0, 5), (1, 0, 6), (0, 1, 6), (1, 1, 5), (0, 2, 8), (1, 2, 9), (10, 3, 11)]
    others, start, size = Roles(torch.tensor(facts), 12, 4).same_signature()
    found = {r: others[start[r] : start[r] + size[r]].tolist() for r in range(4)}
    assert found == {0: [1], 1: [0], 2: [], 3: []}


def test_near_duplicates_are_the_entities_with_the_same_facts() -> None:
    # 0 and 1 share two facts, 0 and 2 one; 3 shares nothing.
    facts = torch.tensor([(0, 0, 5), (0, 0, 6), (1, 0, 5), (1, 0, 6), (2, 0, 6), (3, 0, 7)])
    nearest = Profiles(facts, 8, 1).nearest(torch.tensor([0, 3]))
    assert nearest.tolist() == [[1, 2] + [-1] * (LISTED - 2), [-1] * LISTED]


def test_a_near_duplicate_is_not_put_beside_itself() -> None:
    drawn = planted("near-duplicate", 60)
    assert (drawn[:, 0] != drawn[:, 2]).all()


def test_hard_facts_are_the_best_unstored_of_the_role() -> None:
    facts = make_facts()
    index = index_of(facts)
    better = torch.arange(NUM_ENTITIES).double()
    ranker = Ranker(facts, index, lambda known, _, __, role: better[role].repeat(len(known), 1))
    pool, end = draw_pool(facts, index, "hard", generator(0, "test"), ranker)
    stored = as_set(facts)
    role = {
        (at, r): sorted({fact[at] for fact in stored if fact[1] == r})
        for at in (0, 2)
        for r in range(NUM_RELATIONS)
    }
    for fact, at in zip(pool.tolist(), end.tolist(), strict=True):
        known = fact[2 - at]
        free = [
            entity
            for entity in reversed(role[at, fact[1]])
            if entity != known
            and ((known, fact[1], entity) if at == 2 else (entity, fact[1], known)) not in stored
        ]
        assert fact[at] in free[:3]


def test_crowded_facts_are_several_best_answers_to_one_question() -> None:
    facts = make_facts()
    index = index_of(facts)
    better = torch.arange(NUM_ENTITIES).double()
    ranker = Ranker(facts, index, lambda known, _, __, role: better[role].repeat(len(known), 1))
    pool, end = draw_pool(facts, index, "crowded", generator(0, "test"), ranker)
    asked: dict[Fact, list[int]] = {}
    for fact, at in zip(pool.tolist(), end.tolist(), strict=True):
        asked.setdefault((at, fact[1], fact[2 - at]), []).append(fact[at])
    stored = as_set(facts)
    for (at, relation, known), answers in asked.items():
        role = sorted({f[at] for f in stored if f[1] == relation}, reverse=True)
        told = {f[at] for f in stored if f[1] == relation and f[2 - at] == known} | {known}
        free = [entity for entity in role if entity not in told]
        # A question may be drawn twice; each time it is given its first answers.
        assert set(answers) == set(free[: len(set(answers))])
    sizes = [len(set(answers)) for answers in asked.values()]
    assert sum(size >= 2 for size in sizes) > 0.8 * len(sizes)
    assert max(sizes) > 4


def test_questions_are_drawn_evenly_and_repeated() -> None:
    """Head 0 has 200 tails and 100 other heads one each; of the tails, all are of one fact."""
    many = [(0, 0, 200 + tail) for tail in range(200)]
    facts = torch.tensor(many + [(head, 0, 400 + head) for head in range(1, 101)])
    index = TripleIndex(facts, 600, 1)
    ranker = Ranker(facts, index, lambda known, _, __, role: torch.zeros(len(known), len(role)))
    rows = repeated(facts, ranker, generator(0, "test"))
    assert rows.shape == facts.shape
    assert index.contains(rows).all()
    own, times = torch.unique_consecutive(rows, dim=0, return_counts=True)
    # The last one may be cut off, and one be drawn twice in a row.
    assert set(times[:-1].tolist()) >= set(range(2, LISTED))
    assert (times == 2).sum() > (times == LISTED - 1).sum()
    # By facts two in three would be of head 0; by questions 1 of 101 tails, 2 of 3 heads.
    assert 0.2 < float((own[:, 0] == 0).float().mean()) < 0.5


def test_ends_of_crowded_facts_are_drawn_by_question() -> None:
    """Head 0 has 59 of 61 facts, but is one of three heads whose tails are asked for."""
    facts = torch.tensor([(0, 0, tail) for tail in range(1, 60)] + [(60, 0, 61), (62, 0, 63)])
    index = TripleIndex(facts, 64, 1)
    ranker = Ranker(facts, index, lambda known, _, __, role: torch.zeros(len(known), len(role)))
    pool, end = draw_pool(facts.repeat(20, 1), index, "crowded", generator(0, "test"), ranker)
    assert 0.15 < float((pool[end == 2, 0] == 0).float().mean()) < 0.6


def test_the_stand_in_finds_the_block_an_entity_belongs_to() -> None:
    # Two groups: heads 0..4 have all tails 10..14 but one each, heads 5..9 the tails 15..19.
    facts = [
        (head, 0, 10 + 5 * (head // 5) + tail)
        for head in range(10)
        for tail in range(5)
        if tail != head % 5
    ]
    stored = torch.tensor(facts)
    index = TripleIndex(stored, 20, 1)
    best = spectral(stored, index, 0).best(stored, 2)[:, 0]
    assert torch.equal(best, 10 + 5 * (stored[:, 0] // 5) + stored[:, 0] % 5)


def test_errors_of_one_source_are_those_of_few_heads() -> None:
    facts = make_facts()
    heads = planted("one-source", 40)[:, 0].unique()
    spread = planted("wrong-tail", 40)[:, 0].unique()
    assert len(heads) < len(spread) / 2
    # About half of what these heads stand in is wrong.
    assert 30 <= int(torch.isin(facts[:, 0], heads).sum()) <= 70


def replayed(facts: list[Fact], rate: float, seed: int) -> list[Fact]:
    """The draws of CAGED's published code, told anew with names and dicts."""
    entities: dict[int, int] = {}
    relations: dict[int, int] = {}
    listed = []
    for head, relation, tail in facts:
        left = entities.setdefault(head, len(entities))
        middle = relations.setdefault(relation, len(relations))
        listed.append((left, middle, entities.setdefault(tail, len(entities))))
    rng, stored, made = random.Random(seed), set(listed), []
    sizes = (len(entities), len(relations), len(entities))
    half = int(rate * len(listed)) // 2
    for place in rng.sample(range(len(listed) - 1), half):
        column = rng.randint(0, 2)
        fact = listed[place]
        while fact in stored:
            values = list(listed[place])
            values[column] = rng.randint(0, sizes[column] - 1)
            fact = (values[0], values[1], values[2])
        made.append(fact)
    for _ in range(half):
        fact = listed[0]
        while fact in stored:
            fact = tuple(rng.randint(0, size - 1) for size in sizes)
        made.append(fact)
    names, labels = list(entities), list(relations)
    return [(names[h], labels[r], names[t]) for h, r, t in made]


@pytest.mark.parametrize("seed", [0, 3])
def test_caged_draws_what_the_published_code_draws(seed: int) -> None:
    facts = make_facts()
    facts = facts[torch.randperm(len(facts), generator=torch.Generator().manual_seed(5))]
    drawn = draw_false_facts(facts, index_of(facts), int(0.2 * len(facts)), "caged", seed)
    told = replayed([tuple(row) for row in facts.tolist()], 0.2, seed)
    assert [tuple(row) for row in drawn.tolist()] == list(dict.fromkeys(told))


@pytest.mark.parametrize("kind", NOISES)
def test_where_there_is_no_room_a_sentence_says_so(kind: Noise) -> None:
    every = torch.cartesian_prod(torch.arange(5), torch.arange(2), torch.arange(5))
    index = TripleIndex(every, 5, 2)
    assert draw_pool(every, index, kind, generator(0, "test"))[0].shape == (0, 3)
    with pytest.raises(DataError, match="the graph has no room for"):
        draw_false_facts(every, index, 8, kind, 0)
