"""Caches, neighbourhoods and generated vectors: drawn from the right places, and reproducible."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor

from npugraph.errors import SettingsError
from npugraph.graph import SIDES, Side
from npugraph.samplers import (
    SANS,
    Generated,
    Neighbourhoods,
    NSCaching,
    Sampler,
    Uniform,
    neighbourhoods,
    walk_ends,
    within_hops,
)
from npugraph.samplers.nscaching import first_of_equals

NUM_ENTITIES, NUM_RELATIONS = 7, 2
Fact = tuple[int, int, int]
entity = st.integers(0, NUM_ENTITIES - 1)
facts_lists = st.lists(
    st.tuples(entity, st.integers(0, NUM_RELATIONS - 1), entity), min_size=1, max_size=40
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def as_tensor(facts: list[Fact]) -> Tensor:
    return torch.tensor(facts, dtype=torch.int64).view(-1, 3)


def replaced(row: Fact, side: Side, new: int) -> Fact:
    return (row[0], row[1], new) if side == "tail" else (new, row[1], row[2])


def free_entities(facts: list[Fact], row: Fact, side: Side) -> set[int]:
    known = set(facts)
    return {e for e in range(NUM_ENTITIES) if replaced(row, side, e) not in known}


def prefer_low(facts: Tensor, side: Side, ids: Tensor) -> Tensor:
    """Score entities by their number: 0 is by far the hardest."""
    return -10.0 * ids


def make(name: str, facts: Tensor, seed: int = 0) -> Sampler:
    sizes = NUM_ENTITIES, NUM_RELATIONS
    if name == "cache":
        return NSCaching(facts, *sizes, prefer_low, generator(seed), count=4, cache=5, extra=3)
    if name == "generated":
        return Generated(Uniform(facts, *sizes, 3), 8, 2, generator(seed))
    kind = "hops" if name == "hops" else "walks"
    near = neighbourhoods(facts, NUM_ENTITIES, kind, 2, 20, seed)
    return SANS(facts, *sizes, near, 4)


NAMES = ("cache", "hops", "walks", "generated")


@pytest.mark.parametrize("name", NAMES)
@given(facts_lists, st.integers(0, 2**32), st.sampled_from(SIDES))
@settings(max_examples=30)
def test_no_counted_candidate_makes_a_collected_fact(
    name: str, facts: list[Fact], seed: int, side: Side
) -> None:
    rows = torch.arange(len(facts))
    sampler = make(name, as_tensor(facts), seed)
    rng = generator(seed)
    for _ in range(3):
        found = sampler.candidates(as_tensor(facts), rows, side, rng)
        assert found is not None
        assert found.counts is not None
        for row, ids, counts in zip(facts, found.ids, found.counts, strict=True):
            free = free_entities(facts, row, side)
            for number, counted in zip(ids.tolist(), counts.tolist(), strict=False):
                # What counts is free; what does not is there only where nothing is free.
                assert counted == bool(free)
                assert not counted or number in free


@pytest.mark.parametrize("name", NAMES)
def test_the_generator_decides(name: str) -> None:
    facts = as_tensor([(0, 0, 1), (1, 0, 2), (2, 1, 3), (0, 1, 3), (3, 0, 4), (4, 1, 1)])
    rows = torch.arange(6)

    def draw(seed: int) -> tuple[Tensor, ...]:
        sampler = make(name, facts)
        rng = generator(seed)
        drawn = [sampler.candidates(facts, rows, "tail", rng) for _ in range(6)]
        parts = [part.ids for part in drawn]
        parts += [part.vectors for part in drawn if part.vectors is not None]
        return tuple(parts)

    torch.manual_seed(0)
    first = draw(1)
    torch.manual_seed(1)
    assert all(torch.equal(a, b) for a, b in zip(first, draw(1), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, draw(2), strict=True))


# --- caches


def test_a_cache_goes_to_what_scores_high() -> None:
    facts = as_tensor([(0, 0, 5), (1, 0, 6)])
    sampler = NSCaching(
        facts, NUM_ENTITIES, NUM_RELATIONS, prefer_low, generator(), cache=2, extra=4
    )
    rng = generator(1)
    for _ in range(40):
        sampler.candidates(facts, torch.arange(2), "tail", rng)
    # The two hardest entities that make no collected fact stay, once each.
    assert [set(row) for row in sampler.tail_cache.tolist()] == [{0, 1}, {0, 1}]


def test_only_the_caches_that_were_used_change() -> None:
    facts = as_tensor([(0, 0, 5), (1, 0, 6), (2, 1, 6)])
    sampler = make("cache", facts)
    before = {name: buffer.clone() for name, buffer in sampler.state_dict().items()}
    assert set(before) == {"tail_cache", "head_cache"}
    sampler.candidates(facts[1:2], torch.tensor([1]), "tail", generator(4))
    changed = sampler.tail_cache != before["tail_cache"]
    assert changed[1].any()
    assert not changed[[0, 2]].any()
    assert torch.equal(sampler.head_cache, before["head_cache"])


def test_facts_of_one_query_share_a_cache() -> None:
    facts = as_tensor([(0, 0, 5), (0, 0, 6), (1, 0, 5), (0, 1, 5)])
    sampler = NSCaching(
        facts, 50, 2, lambda facts, side, ids: torch.zeros(ids.shape), generator(), cache=4
    )
    assert sampler.tail_cache.shape == (3, 4)
    assert sampler.head_cache.shape == (3, 4)
    assert sampler.tail_cache.dtype == torch.int32
    # Whoever is first in the batch writes.
    rows = torch.tensor([1, 0, 1, 0])
    held, rng = sampler.tail_cache[[0] * 4].long(), generator(7)
    torch.randint(4, (4, 1), generator=rng)
    expected = sampler._renew(facts[rows], "tail", held, rng)
    assert len({tuple(row) for row in expected.tolist()}) == 4
    sampler.candidates(facts[rows], rows, "tail", generator(7))
    assert torch.equal(sampler.tail_cache[0].long(), expected[0])


def test_the_state_of_a_cache_can_be_restored() -> None:
    facts = as_tensor([(0, 0, 5), (1, 0, 6), (2, 1, 6)])
    rows = torch.arange(3)
    sampler, other = make("cache", facts, 0), make("cache", facts, 1)
    sampler.candidates(facts, rows, "head", generator(1))
    other.load_state_dict(sampler.state_dict())
    drawn = [s.candidates(facts, rows, "head", generator(2)).ids for s in (sampler, other)]
    assert torch.equal(*drawn)


def test_a_cache_refuses_to_hold_a_module() -> None:
    facts = as_tensor([(0, 0, 5)])
    with pytest.raises(SettingsError, match="not a module"):
        NSCaching(facts, 7, 2, torch.nn.Identity(), generator())


@given(st.lists(st.integers(0, 4), max_size=12))
def test_first_of_equals(values: list[int]) -> None:
    expected = [values.index(value) for value in values]
    assert first_of_equals(torch.tensor(values, dtype=torch.int64)).tolist() == expected


def test_draws_from_a_cache_are_even() -> None:
    facts = as_tensor([(0, 0, 5)])
    sampler = NSCaching(
        facts, 50, 2, lambda *_: torch.zeros(1, 8), generator(), count=20_000, cache=5, extra=3
    )
    held = Counter(sampler.tail_cache[0].tolist())
    drawn = Counter(
        sampler.candidates(facts, torch.tensor([0]), "tail", generator(1)).ids[0].tolist()
    )
    names = sorted(held)
    expected = [held[name] * 4000 for name in names]
    assert set(drawn) == set(names)
    assert chisquare([drawn[name] for name in names], expected).pvalue > 1e-3


# --- neighbourhoods


def sets(near: Neighbourhoods) -> list[Counter[int]]:
    """Return the neighbours of each entity with their weights."""
    place = torch.arange(int(near.starts[-1]))
    ids = near.at(place).tolist() if len(place) else []
    starts = near.starts.tolist()
    return [Counter(ids[a:b]) for a, b in zip(starts, starts[1:], strict=False)]


def slow_hops(facts: list[Fact], hops: int) -> list[set[int]]:
    near: dict[int, set[int]] = {e: set() for e in range(NUM_ENTITIES)}
    for head, _, tail in facts:
        near[head].add(tail)
        near[tail].add(head)
    found = []
    for e in range(NUM_ENTITIES):
        reached, edge = set(), {e}
        for _ in range(hops):
            edge = set().union(*(near[x] for x in edge)) if edge else set()
            reached |= edge
        found.append(reached)
    return found


@given(facts_lists, st.integers(1, 3))
def test_hops_are_those_of_a_plain_search(facts: list[Fact], hops: int) -> None:
    near = within_hops(as_tensor(facts), NUM_ENTITIES, hops, 100, 0)
    assert [set(c) for c in sets(near)] == slow_hops(facts, hops)
    assert all(max(c.values(), default=1) == 1 for c in sets(near))


@given(facts_lists, st.integers(1, 3), st.integers(1, 4), st.integers(0, 99))
def test_a_cap_keeps_a_part(facts: list[Fact], hops: int, cap: int, seed: int) -> None:
    whole = slow_hops(facts, hops)
    near = sets(within_hops(as_tensor(facts), NUM_ENTITIES, hops, cap, seed))
    for kept, all_of_them in zip(near, whole, strict=True):
        assert set(kept) <= all_of_them
        assert len(kept) == min(cap, len(all_of_them))


def slow_walks(facts: list[Fact], start: int, hops: int) -> dict[int, float]:
    """Return the chances of where a walk ends."""
    near: dict[int, set[int]] = {e: set() for e in range(NUM_ENTITIES)}
    for head, _, tail in facts:
        near[head].add(tail)
        near[tail].add(head)
    chance = {start: 1.0}
    for _ in range(hops):
        after: Counter[int] = Counter()
        for e, p in chance.items():
            for other in near[e]:
                after[other] += p / len(near[e])
        chance = dict(after)
    return chance


WALK_FACTS = [(0, 0, 1), (0, 1, 2), (1, 0, 3), (2, 1, 3), (3, 0, 4), (0, 0, 1), (5, 1, 5)]


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_walks_end_where_they_should(hops: int) -> None:
    """Every walk starts from the entity itself; 6 has no fact, 5 only one with itself."""
    near = sets(walk_ends(as_tensor(WALK_FACTS), NUM_ENTITIES, hops, 6000, 0))
    assert near[5] == Counter({5: 6000})
    assert near[6] == Counter()
    for start in range(5):
        chance = slow_walks(WALK_FACTS, start, hops)
        names = sorted(chance)
        assert set(near[start]) == set(names)
        assert sum(near[start].values()) == 6000
        counts, expected = [near[start][e] for e in names], [6000 * chance[e] for e in names]
        assert len(names) == 1 or chisquare(counts, expected).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["hops", "walks"])
def test_neighbourhoods_depend_on_content_and_seed_alone(kind: str) -> None:
    rng = generator(8)
    facts = torch.stack([torch.randint(n, (60,), generator=rng) for n in (30, 2, 30)], 1)
    mixed = facts[torch.randperm(60, generator=rng)]
    one, other, third = (
        sets(neighbourhoods(f, 30, kind, 2, 6, seed))
        for f, seed in ((facts, 0), (mixed, 0), (facts, 1))
    )
    assert one == other
    assert one != third


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", ["hops", "walks"])
def test_draws_follow_the_weights_of_the_free_neighbours(kind: str, side: Side) -> None:
    facts = [*WALK_FACTS, (1, 0, 2), (4, 0, 1)]
    near = neighbourhoods(as_tensor(facts), NUM_ENTITIES, kind, 2, 50, 0)
    sampler = SANS(as_tensor(facts), NUM_ENTITIES, NUM_RELATIONS, near, 20_000)
    drawn = sampler.candidates(as_tensor(facts), torch.arange(9), side, generator(5)).ids
    for row, ids in zip(facts, drawn.tolist(), strict=True):
        known = row[0] if side == "tail" else row[2]
        free = free_entities(facts, row, side)
        wanted = {e: w for e, w in sets(near)[known].items() if e in free}
        # Nothing near is free: evenly from all that is.
        wanted = wanted or dict.fromkeys(free, 1)
        found = Counter(ids)
        assert set(found) <= set(wanted)
        names = sorted(wanted)
        total = sum(wanted.values())
        expected = [20_000 * wanted[e] / total for e in names]
        assert len(names) == 1 or chisquare([found[e] for e in names], expected).pvalue > 1e-3


def test_neighbourhoods_are_not_part_of_a_checkpoint() -> None:
    assert make("hops", as_tensor(WALK_FACTS)).state_dict() == {}


@pytest.mark.parametrize("kind", ["hops", "walks"])
def test_a_graph_of_loops_is_drawn_evenly(kind: str) -> None:
    facts = as_tensor([(0, 0, 0)])
    near = neighbourhoods(facts, NUM_ENTITIES, kind, 2, 9, 0)
    found = SANS(facts, NUM_ENTITIES, NUM_RELATIONS, near, 500)
    drawn = found.candidates(facts, torch.tensor([0]), "tail", generator())
    assert set(drawn.ids[0].tolist()) == set(range(1, NUM_ENTITIES))
    assert drawn.counts.all()


# --- generated


def test_generated_vectors_are_the_formula() -> None:
    facts = as_tensor([(0, 0, 1), (1, 0, 2)])
    sampler = Generated(Uniform(facts, 7, 2, 3), 16, 5, generator(), dropout=0.5)
    found = sampler.candidates(facts, torch.arange(2), "tail", generator(3))
    assert found.ids.shape == (2, 3)
    assert found.counts.shape == (2, 8)
    rng = generator(3)
    sampler.drawn.candidates(facts, torch.arange(2), "tail", rng)
    noise = torch.randn(2, 5, 16, generator=rng)
    first, second = sampler.first, sampler.second
    hidden = noise @ first.weight.T + first.bias
    hidden = torch.where(hidden > 0, hidden, 0.01 * hidden)
    keep = torch.rand(2, 5, 2, generator=rng) >= 0.5
    hidden = torch.where(keep, 2 * hidden, torch.zeros(()))
    torch.testing.assert_close(found.vectors, torch.tanh(hidden @ second.weight.T + second.bias))
    assert found.vectors.requires_grad


def test_shared_draws_share_their_vectors() -> None:
    facts = as_tensor([(0, 0, 1)] * 6)
    sampler = Generated(Uniform(facts, 7, 2, 3, share=3), 8, 5, generator())
    found = sampler.candidates(facts, torch.arange(6), "tail", generator(3))
    assert found.vectors.shape == (2, 5, 8)
    assert found.counts.shape == (6, 8)
    assert found.counts[:, 3:].all()
