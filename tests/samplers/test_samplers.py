"""Uncollected facts: never a collected one, every other one alike, for both sides."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor

from npu_literal import generator
from npugraph.samplers import Shared, Uncollected, of_each_fact

NUM_ENTITIES, NUM_RELATIONS = 6, 2
SIDES = ("tail", "head")
Fact = tuple[int, int, int]

fact = st.tuples(
    st.integers(0, NUM_ENTITIES - 1),
    st.integers(0, NUM_RELATIONS - 1),
    st.integers(0, NUM_ENTITIES - 1),
)
# Up to 60 of 72 facts: full rows are common. Repeats are allowed.
graphs = st.lists(fact, min_size=1, max_size=60)


def as_tensor(facts: list[Fact]) -> Tensor:
    return torch.tensor(facts, dtype=torch.int64).view(-1, 3)


def sampler(facts: list[Fact]) -> Uncollected:
    return Uncollected(as_tensor(facts), NUM_ENTITIES, NUM_RELATIONS)


def replaced(row: Fact, side: str, entity: int) -> Fact:
    return (row[0], row[1], entity) if side == "tail" else (entity, row[1], row[2])


def complement(collected: list[Fact], row: Fact, side: str, num_entities: int) -> list[int]:
    """Return, in order, the entities that do not make a collected fact."""
    known = set(collected)
    return [e for e in range(num_entities) if replaced(row, side, e) not in known]


@given(graphs, st.lists(fact, max_size=4), st.integers(0, 2**32), st.sampled_from(SIDES))
def test_no_collected_fact_is_drawn(
    collected: list[Fact], others: list[Fact], seed: int, side: str
) -> None:
    rows = [*collected, *others]
    found = sampler(collected)
    drawn = found.draw(as_tensor(rows), side, 9, generator(seed))
    assert drawn.shape == (len(rows), 9)
    free = found.free(as_tensor(rows), side).tolist()
    for row, entities, count in zip(rows, drawn.tolist(), free, strict=True):
        allowed = complement(collected, row, side, NUM_ENTITIES)
        assert count == len(allowed)
        own = row[2] if side == "tail" else row[0]
        assert set(entities) <= (set(allowed) or {own})


@given(graphs, st.sampled_from(SIDES))
def test_even_chances_are_mapped_onto_the_complement_one_to_one(
    collected: list[Fact], side: str
) -> None:
    """The middle of the u-th of n equal shares of [0, 1) must give the u-th free entity."""
    found = sampler(collected)
    for row in set(collected):
        allowed = complement(collected, row, side, NUM_ENTITIES)
        shares = (torch.arange(len(allowed)) + 0.5) / max(len(allowed), 1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "rand", lambda *_, shares=shares, **__: shares.unsqueeze(0))
            drawn = found.draw(as_tensor([row]), side, len(allowed), generator())
        assert drawn[0].tolist() == allowed


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("chance", [0.0, 1 - 2**-24, 1 - 2**-53, 1.0])
def test_the_ends_of_the_chances_are_the_ends_of_the_complement(
    side: str, chance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounding up to the number of free entities must not leave the row."""
    collected = [(0, 1, 1), (0, 1, 3), (2, 1, 1)]
    found = sampler(collected)
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor([[chance]]).double())
    drawn = found.draw(as_tensor(collected[:1]), side, 1, generator()).item()
    assert drawn == complement(collected, collected[0], side, NUM_ENTITIES)[0 if not chance else -1]


@pytest.mark.parametrize("side", SIDES)
def test_draws_are_uniform(side: str) -> None:
    num_entities = 30
    rng = generator(5)
    facts = torch.stack([torch.randint(high, (120,), generator=rng) for high in (30, 3, 30)], 1)
    collected = [tuple(row) for row in facts.tolist()]
    found = Uncollected(facts, num_entities, 3)
    drawn = found.draw(facts[:5], side, 20_000, generator(6))
    for row, entities in zip(collected[:5], drawn, strict=True):
        allowed = complement(collected, row, side, num_entities)
        counts = torch.bincount(entities, minlength=num_entities)
        assert counts.sum() == counts[allowed].sum()
        # A seed is fixed: a right sampler passes for ever.
        assert chisquare(counts[allowed].numpy()).pvalue > 1e-3


def test_every_entity_of_a_large_graph_can_be_drawn() -> None:
    facts = torch.tensor([[0, 0, 1]])
    drawn = Uncollected(facts, 2**25, 1).draw(facts, "head", 200, generator())
    assert set((drawn % 2).unique().tolist()) == {0, 1}


@pytest.mark.parametrize("side", SIDES)
def test_full_rows_repeat_their_own_entity(side: str) -> None:
    """Here every entity is known for relation 1, on either side of entity 2."""
    everything = [(2, 1, e) for e in range(NUM_ENTITIES)] + [(e, 1, 2) for e in range(NUM_ENTITIES)]
    rows = [(2, 1, 2), *([(2, 1, 4)] if side == "tail" else [(4, 1, 2)]), (3, 0, 5)]
    found = sampler(everything)
    drawn = found.draw(as_tensor(rows), side, 50, generator())
    assert found.free(as_tensor(rows), side).tolist() == [0, 0, NUM_ENTITIES]
    assert drawn[0].unique().tolist() == [2]
    assert drawn[1].unique().tolist() == [4]
    assert drawn[2].unique().tolist() == list(range(NUM_ENTITIES))


def test_repeated_facts_count_once() -> None:
    rows = as_tensor([(0, 0, 1)])
    once, thrice = sampler([(0, 0, 1)]), sampler([(0, 0, 1)] * 3)
    assert once.free(rows, "tail").tolist() == thrice.free(rows, "tail").tolist() == [5]
    draws = [found.draw(rows, "tail", 20, generator(1)) for found in (once, thrice)]
    assert torch.equal(*draws)


@pytest.mark.parametrize("side", SIDES)
def test_the_generator_decides(side: str) -> None:
    collected = [(0, 0, 1), (1, 1, 2), (5, 1, 2)]
    found, rows = sampler(collected), as_tensor(collected)
    torch.manual_seed(0)
    first = found.draw(rows, side, 40, generator(7))
    torch.manual_seed(1)
    assert torch.equal(found.draw(rows, side, 40, generator(7)), first)
    assert not torch.equal(found.draw(rows, side, 40, generator(8)), first)
    # One generator goes on: it does not repeat itself.
    rng = generator(7)
    assert torch.equal(found.draw(rows, side, 40, rng), first)
    assert not torch.equal(found.draw(rows, side, 40, rng), first)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("rows", "count"), [(0, 4), (3, 0)])
def test_nothing_to_draw_has_the_right_shape(side: str, rows: int, count: int) -> None:
    collected = [(0, 0, 1), (1, 1, 2), (5, 1, 2)]
    drawn = sampler(collected).draw(as_tensor(collected[:rows]), side, count, generator())
    assert drawn.shape == (rows, count)
    assert drawn.dtype == torch.int64


@pytest.mark.parametrize("side", SIDES)
def test_a_moved_sampler_draws_the_same(side: str) -> None:
    collected = [(0, 0, 1), (1, 1, 2), (5, 1, 2)]
    found, rows = sampler(collected), as_tensor(collected)
    moved = found.to("cpu")
    drawn = [each.draw(rows, side, 30, generator(2)) for each in (found, moved)]
    assert torch.equal(*drawn)
    assert torch.equal(found.free(rows, side), moved.free(rows, side))


@given(st.integers(1, 700), st.integers(1, 80))
def test_runs_are_as_few_as_can_be_and_no_longer_than_asked(facts: int, share: int) -> None:
    """499 facts that share by 64 are 8 runs, not 499."""
    shared = Shared(as_tensor([(0, 0, 1)]), NUM_ENTITIES, NUM_RELATIONS, share)
    batch = torch.zeros(facts, 3, dtype=torch.int64)
    ids, known = shared.draw(batch, "tail", 2, generator())
    assert ids.shape == (-(-facts // share), 2)
    assert torch.equal(known, of_each_fact(ids, facts) == 1)
    runs = torch.bincount(of_each_fact(torch.arange(len(ids)).unsqueeze(1), facts).squeeze(1))
    assert len(runs) == len(ids)
    assert int(runs.sum()) == facts
    assert int(runs.max()) <= share
    assert (runs[:-1] == runs[0]).all()
    assert 1 <= int(runs[-1]) <= int(runs[0])
    if facts % share == 0:
        assert (runs == share).all()


@given(st.integers(1, 6), st.integers(1, 20), st.sampled_from(SIDES))
def test_whole_runs_draw_as_they_always_did(runs: int, share: int, side: str) -> None:
    """One number per run and candidate, in order, straight from the generator."""
    shared = Shared(as_tensor([(0, 0, 1)]), NUM_ENTITIES, NUM_RELATIONS, share)
    batch = torch.zeros(runs * share, 3, dtype=torch.int64)
    ids, _ = shared.draw(batch, side, 5, generator(3))
    assert torch.equal(ids, torch.randint(NUM_ENTITIES, (runs, 5), generator=generator(3)))
