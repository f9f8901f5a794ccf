"""The posterior-aware encoder against attention by loops, and what it must not see."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from npu_literal import chosen_neighbours, generator, literal_layer, literal_neighbours
from npugraph.encoders import Lookup, NeighbourAttention, attention, segment_softmax

WIDTH, NUM_ENTITIES, NUM_RELATIONS = 4, 8, 3
# Entity 7 is in no fact. Entity 0 is in many, on both sides; fact 6 is a loop; facts 0 and 7 join
# the same entities by two relations, facts 1 and 8 by one relation in both directions.
FACTS = [
    (0, 0, 1),
    (0, 1, 2),
    (3, 0, 0),
    (0, 2, 4),
    (5, 1, 0),
    (1, 2, 6),
    (4, 0, 4),
    (0, 1, 1),
    (2, 1, 0),
    (6, 2, 0),
]
CREDIBILITY = [0.3, 0.9, 0.1, 0.8, 0.5, 0.2, 0.7, 0.6, 0.4, 0.05]


def encoder(
    facts: list[tuple[int, int, int]] = FACTS,
    *,
    layers: int = 1,
    cap: int = 99,
    drop: float = 0.0,
    relation_width: int = WIDTH,
) -> NeighbourAttention:
    rng = generator(1)
    tables = Lookup.normal((NUM_ENTITIES, WIDTH), (2 * NUM_RELATIONS, relation_width), 1.0, rng)
    options = {"layers": layers, "cap": cap, "dropout": drop, "rng": rng}
    made = NeighbourAttention(torch.tensor(facts), tables, NUM_RELATIONS, **options).double()
    made.choose_neighbours(torch.tensor(CREDIBILITY[: len(facts)]))
    return made


def literal(
    made: NeighbourAttention, cap: int = 99, hidden: tuple[int, ...] = (), entity_part: float = 0.0
) -> Tensor:
    """Return the entities by loops; ``entity_part`` scales the part of a that meets h_e."""
    neighbours = literal_neighbours(FACTS, NUM_ENTITIES, NUM_RELATIONS, CREDIBILITY, cap, hidden)
    entities, relations = made.tables()
    rng = generator(2)
    for mix, attend in zip(made.mix, made.attend, strict=True):
        own = torch.randn(WIDTH, generator=rng, dtype=torch.float64) * entity_part
        entities = literal_layer(
            entities, relations, neighbours, torch.cat([own, attend.flatten()]), mix
        )
    return entities


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cap", [1, 3, 99])
@pytest.mark.parametrize("hidden", [(), (1,), (0, 3, 6), tuple(range(len(FACTS)))])
def test_the_encoder_is_the_papers_attention(
    layers: int, cap: int, hidden: tuple[int, ...]
) -> None:
    made = encoder(layers=layers, cap=cap)
    found, relations = made(torch.tensor(hidden, dtype=torch.int64) if hidden else None)
    torch.testing.assert_close(found, literal(made, cap, hidden), rtol=1e-10, atol=1e-12)
    assert torch.equal(relations, made.tables.relations)


@pytest.mark.parametrize("relation_width", [2, 8])
def test_relations_may_be_wider_or_narrower_than_entities(relation_width: int) -> None:
    made = encoder(cap=4, relation_width=relation_width)
    torch.testing.assert_close(made()[0], literal(made, 4), rtol=1e-10, atol=1e-12)
    assert made()[1].shape == (2 * NUM_RELATIONS, relation_width)


@pytest.mark.parametrize("entity_part", [0.5, -20.0])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_part_of_a_that_meets_the_entity_cancels(entity_part: float, layers: int) -> None:
    made = encoder(layers=layers, cap=4)
    expected = literal(made, 4, entity_part=entity_part)
    torch.testing.assert_close(made()[0], expected, rtol=1e-8, atol=1e-10)


def test_both_directions_are_edges_and_the_way_back_has_a_relation_of_its_own() -> None:
    made = encoder([(0, 1, 2)])
    found = chosen_neighbours(made)
    assert found[0] == {(2, 1, 0)}
    assert found[2] == {(0, 1 + NUM_RELATIONS, 0)}
    assert not any(found[entity] for entity in (1, 3, 4, 5, 6, 7))


@pytest.mark.parametrize("relation", [1, 1 + NUM_RELATIONS])
def test_each_direction_attends_by_its_own_relation(relation: int) -> None:
    """Relation 1 is what heads see of their tails, its twin what tails see of their heads."""
    made = encoder()
    before = made()[0]
    with torch.no_grad():
        made.tables.relations[relation] += 1.0
    changed = (made()[0] != before).any(1)
    end = 0 if relation == 1 else 2
    touched = {fact[end] for fact in FACTS if fact[1] == 1}
    # Where all neighbours are one entity the sum is that entity, whatever the attention.
    alone = {
        entity
        for entity, mine in enumerate(chosen_neighbours(made))
        if len({i for i, *_ in mine}) == 1
    }
    assert set(changed.nonzero().flatten().tolist()) == touched - alone
    assert touched - alone


@pytest.mark.parametrize("cap", [1, 2, 4, 99])
def test_the_most_credible_facts_are_the_neighbours(cap: int) -> None:
    expected = literal_neighbours(FACTS, NUM_ENTITIES, NUM_RELATIONS, CREDIBILITY, cap)
    assert chosen_neighbours(encoder(cap=cap)) == [set(mine) for mine in expected]


def test_ties_go_by_the_number_of_the_fact() -> None:
    made = encoder(cap=3)
    made.choose_neighbours(torch.ones(len(FACTS)))
    expected = literal_neighbours(FACTS, NUM_ENTITIES, NUM_RELATIONS, [1.0] * len(FACTS), 3)
    assert chosen_neighbours(made) == [set(mine) for mine in expected]


def test_ties_on_one_side_go_by_the_number_of_the_fact() -> None:
    made = encoder([(0, 0, tail) for tail in (5, 3, 1, 4, 2)], cap=2)
    made.choose_neighbours(torch.tensor([0.5, 0.5, 0.5, 0.9, 0.5]))
    assert {number for _, _, number in chosen_neighbours(made)[0]} == {3, 0}


@pytest.mark.parametrize("cap", [2, 4])
def test_a_new_choice_keeps_the_number_of_edges_and_the_buffers(cap: int) -> None:
    made = encoder(cap=cap)
    before = {name: buffer.clone() for name, buffer in made.named_buffers()}
    places = {name: buffer.data_ptr() for name, buffer in made.named_buffers()}
    made.choose_neighbours(-torch.tensor(CREDIBILITY))
    after = dict(made.named_buffers())
    assert {name: buffer.shape for name, buffer in after.items()} == {
        name: buffer.shape for name, buffer in before.items()
    }
    assert {name: buffer.data_ptr() for name, buffer in after.items()} == places
    assert torch.equal(after["edge_entity"], before["edge_entity"])
    assert not torch.equal(after["edge_fact"], before["edge_fact"])


def test_the_neighbour_sets_travel_with_the_weights() -> None:
    made, other = encoder(cap=2), encoder(cap=2)
    made.choose_neighbours(-torch.tensor(CREDIBILITY))
    assert not torch.equal(made()[0], other()[0])
    other.load_state_dict(made.state_dict())
    assert torch.equal(made()[0], other()[0])
    assert chosen_neighbours(made) == chosen_neighbours(other)


@pytest.mark.parametrize("number", range(len(FACTS)))
@pytest.mark.parametrize("layers", [1, 2])
def test_a_hidden_fact_has_no_influence(number: int, layers: int) -> None:
    """With another fact in its place, between other entities, everything stays the same."""
    others = list(FACTS)
    others[number] = (5, 0, 3)
    hidden = torch.tensor([number])
    made, changed = encoder(layers=layers), encoder(others, layers=layers)
    torch.testing.assert_close(made(hidden)[0], changed(hidden)[0], rtol=0, atol=1e-13)
    assert (made()[0] - changed()[0]).abs().max() > 1e-6


@pytest.mark.parametrize("number", range(len(FACTS)))
def test_a_hidden_fact_is_as_good_as_a_missing_one(number: int) -> None:
    left = [fact for place, fact in enumerate(FACTS) if place != number]
    hidden = encoder()(torch.tensor([number]))[0]
    torch.testing.assert_close(hidden, encoder(left)()[0], rtol=0, atol=1e-13)


def test_a_repeated_fact_is_not_its_own_evidence() -> None:
    """Graphs keep repeated rows: hiding one row must hide what the others say as well."""
    once, twice = FACTS[:6], [*FACTS[:6], FACTS[2]]
    hidden = torch.tensor([2])
    torch.testing.assert_close(
        encoder(twice)(hidden)[0], encoder(once)(hidden)[0], rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("layers", [1, 2])
def test_an_entity_without_neighbours_keeps_its_own_vector(layers: int) -> None:
    made = encoder(layers=layers)
    assert torch.equal(made()[0][7], made.tables.entities[7])
    hidden = torch.arange(len(FACTS))
    assert torch.equal(made(hidden)[0], made.tables.entities)


def test_a_neighbour_of_a_neighbour_counts_from_the_second_layer_on() -> None:
    """3 is two steps from 1, by facts 2 and 0; one layer cannot see that far."""
    for layers, seen in ((1, False), (2, True)):
        made = encoder(layers=layers)
        gradient = torch.autograd.grad(made()[0][3].sum(), made.tables.entities)[0]
        assert gradient[1].any().item() is seen
        assert gradient[3].any()


@pytest.mark.parametrize("hidden", [None, [0, 5], list(range(len(FACTS)))])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("tile", [1, 5, 2048])
def test_gradients_of_the_encoder(
    hidden: list[int] | None, layers: int, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "EDGE_TILE", tile)
    made = encoder(layers=layers, cap=3)
    names = [name for name, _ in made.named_parameters()]
    rows = None if hidden is None else torch.tensor(hidden)

    def outputs(*values: Tensor) -> Tensor:
        parameters = dict(zip(names, values, strict=True))
        return torch.func.functional_call(made, parameters, (rows,))[0]

    values = [parameter.detach().clone().requires_grad_() for parameter in made.parameters()]
    assert torch.autograd.gradcheck(outputs, values)


def test_hidden_neighbours_leave_finite_gradients_however_steep_the_loss() -> None:
    made = encoder().float()
    (made(torch.arange(len(FACTS)))[0] * 1e6).sum().backward()
    for parameter in made.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()
    assert torch.equal(made.tables.entities.grad, torch.full((NUM_ENTITIES, WIDTH), 1e6))


def test_dropout_is_for_training_alone() -> None:
    made = encoder(drop=0.5)
    made.eval()
    torch.testing.assert_close(made()[0], literal(made), rtol=1e-10, atol=1e-12)
    made.train()
    torch.manual_seed(0)
    entities, relations = made()
    for values, table in ((entities[7], made.tables.entities[7]), (relations, made.tables()[1])):
        # Entity 7 has no neighbours: what is left of its vector is kept or doubled.
        kept = values != 0
        torch.testing.assert_close(values[kept], 2 * table[kept])
    assert 0 < (relations == 0).double().mean() < 1
    assert not torch.equal(made()[0], entities)
    still = encoder(drop=0.0)
    assert torch.equal(still.train()()[0], still.eval()()[0])


def test_the_first_neighbour_sets_are_a_seeded_choice() -> None:
    facts = torch.tensor([(0, 0, tail) for tail in range(1, 8)])

    def first(seed: int) -> set[int]:
        tables = Lookup(torch.ones(NUM_ENTITIES, WIDTH), torch.ones(2, WIDTH))
        rng = generator(seed)
        made = NeighbourAttention(facts, tables, 1, cap=3, rng=rng)
        return {number for _, _, number in chosen_neighbours(made)[0]}

    chosen = [first(seed) for seed in range(20)]
    assert chosen == [first(seed) for seed in range(20)]
    assert all(len(numbers) == 3 for numbers in chosen)
    assert set().union(*chosen) == set(range(7))


logits = st.lists(
    st.tuples(st.floats(-1e4, 1e4) | st.just(-float("inf")), st.integers(0, 3)), max_size=12
)


@given(logits)
def test_segment_softmax_is_a_softmax_a_segment(rows: list[tuple[float, int]]) -> None:
    values = torch.tensor([value for value, _ in rows], dtype=torch.float64)
    segment = torch.tensor([number for _, number in rows], dtype=torch.int64)
    found = segment_softmax(values, segment, 5)
    for number in range(4):
        mine = values[segment == number]
        expected = torch.softmax(mine, 0) if mine.isfinite().any() else torch.zeros_like(mine)
        torch.testing.assert_close(found[segment == number], expected, rtol=1e-12, atol=1e-300)


def test_segments_need_not_lie_together() -> None:
    values = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64, requires_grad=True)
    segment = torch.tensor([1, 0, 1, 0])
    found = segment_softmax(values, segment, 2)
    assert found[segment == 0].sum().item() == pytest.approx(1)
    assert all(first < second for first, second in pairwise(found[segment == 1].tolist()))
    assert torch.autograd.gradcheck(lambda x: segment_softmax(x, segment, 2), values)
