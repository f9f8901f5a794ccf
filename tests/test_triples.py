"""Exact membership of facts, in both forms of an index."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npugraph import triples
from npugraph.arrays import first_of_each
from npugraph.errors import DataError
from npugraph.triples import Triple, TripleIndex, flip
from small_facts import as_set, as_tensor, small_facts


@given(small_facts())
def test_membership_is_that_of_a_set(case: tuple[list[Triple], int, int]) -> None:
    facts, num_entities, num_relations = case
    index = TripleIndex(as_tensor(facts), num_entities, num_relations)
    everything = list(product(range(num_entities), range(num_relations), range(num_entities)))
    found = index.contains(as_tensor(everything)).tolist()
    assert found == [triple in set(facts) for triple in everything]
    assert len(index) == len(set(facts))
    ordered = sorted(set(facts))
    places = index.places(as_tensor(everything)).tolist()
    assert places == [ordered.index(t) if t in ordered else -1 for t in everything]
    assert [tuple(row) for row in index.facts().tolist()] == sorted(set(facts))


@given(small_facts(), st.data())
def test_tails_are_those_of_a_set(case: tuple[list[Triple], int, int], data: st.DataObject) -> None:
    facts, num_entities, num_relations = case
    pair = st.tuples(st.integers(0, num_entities - 1), st.integers(0, num_relations - 1))
    queries = data.draw(st.lists(pair, max_size=8))
    index = TripleIndex(as_tensor(facts), num_entities, num_relations)
    head = torch.tensor([h for h, _ in queries], dtype=torch.int64)
    relation = torch.tensor([r for _, r in queries], dtype=torch.int64)
    query, tail = index.tails(head, relation)
    expected = [
        (i, t)
        for i, (h, r) in enumerate(queries)
        for t in range(num_entities)
        if (h, r, t) in set(facts)
    ]
    assert list(zip(query.tolist(), tail.tolist(), strict=True)) == expected


def test_an_empty_index_holds_nothing() -> None:
    index = TripleIndex(torch.empty(0, 3, dtype=torch.int64), 4, 2)
    assert len(index) == 0
    assert index.contains(torch.zeros(2, 5, 3, dtype=torch.int64)).tolist() == [[False] * 5] * 2
    query, tail = index.tails(torch.tensor([0, 3]), torch.tensor([1, 0]))
    assert (query.tolist(), tail.tolist()) == ([], [])
    assert index.facts().shape == (0, 3)


def test_membership_keeps_leading_dimensions() -> None:
    index = TripleIndex(torch.tensor([[0, 0, 1]]), 3, 1)
    facts = torch.tensor([[[0, 0, 1], [1, 0, 0]], [[0, 0, 2], [0, 0, 1]]])
    assert index.contains(facts).tolist() == [[True, False], [False, True]]


@pytest.fixture
def no_plain_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small graphs number only the questions that some fact has."""
    monkeypatch.setattr(triples, "PLAIN_LIMIT", 0)


@pytest.mark.usefixtures("no_plain_keys")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(small_facts(), st.data())
def test_numbered_questions_are_as_good_as_plain_ones(
    case: tuple[list[Triple], int, int], data: st.DataObject
) -> None:
    test_membership_is_that_of_a_set.hypothesis.inner_test(case)
    test_tails_are_those_of_a_set.hypothesis.inner_test(case, data)
    facts, *sizes = case
    assert TripleIndex(as_tensor(facts), *sizes).questions is not None


def test_a_graph_of_freebase_size_is_exact_in_its_corners() -> None:
    entities, relations = 86_054_151, 14_824
    e, r = entities - 1, relations - 1
    facts = as_tensor([(e, r, e), (e, r, 0), (0, 0, 0), (e, r, e), (0, r, e)])
    index = TripleIndex(facts, entities, relations)
    stored = [(0, 0, 0), (0, r, e), (e, r, 0), (e, r, e)]
    assert [tuple(row) for row in index.facts().tolist()] == stored
    others = [(e, r, e - 1), (e, 0, e), (0, 0, e), (1, 0, 0), (e, r - 1, e)]
    assert index.places(as_tensor([*stored, *others])).tolist() == [0, 1, 2, 3] + 5 * [-1]
    assert index.to("cpu").contains(as_tensor(stored)).all()
    query, tail = index.tails(torch.tensor([e, 1, 0]), torch.tensor([r, 0, r]))
    assert (query.tolist(), tail.tolist()) == ([0, 0, 2], [0, e, e])
    assert index.count_tails(torch.tensor([e, 1]), torch.tensor([r, 0])).tolist() == [2, 0]
    # Facts that are not stored, with questions that none has, are told apart all the same.
    assert first_of_each(index.codes(as_tensor(2 * others))).tolist() == [0, 1, 2, 3, 4]


def test_indexes_are_the_same_by_their_facts_not_by_their_keys() -> None:
    sizes = 86_054_151, 14_824
    one, other = (TripleIndex(as_tensor([(h, 0, 1)]), *sizes) for h in (0, 1))
    assert torch.equal(one.keys, other.keys)
    assert not one.holds_same(other)
    assert one.holds_same(TripleIndex(one.facts(), *sizes))
    small = TripleIndex(as_tensor([(0, 0, 1)]), 3, 1)
    assert small.holds_same(TripleIndex(small.facts(), 3, 1))
    assert not small.holds_same(TripleIndex(as_tensor([(0, 0, 2)]), 3, 1))


def test_keys_that_do_not_fit_64_bits_are_refused() -> None:
    facts = torch.stack([torch.arange(9), torch.zeros(9, dtype=torch.int64), torch.zeros(9)], 1)
    with pytest.raises(DataError, match=r"1152921504606846976 entities and 9 pairs of a head"):
        TripleIndex(facts.long(), 2**60, 1)


def test_the_largest_graph_with_plain_keys_is_exact_in_its_last_corner() -> None:
    num_entities, num_relations = 2**21, 2**21 - 1
    last = (num_entities - 1, num_relations - 1, num_entities - 1)
    index = TripleIndex(as_tensor([last, (0, 0, 0)]), num_entities, num_relations)
    near = (num_entities - 1, num_relations - 1, num_entities - 2)
    assert index.contains(as_tensor([last, near, (0, 0, 0)])).tolist() == [True, False, True]
    assert as_set(index.facts()) == {last, (0, 0, 0)}
    query, tail = index.tails(torch.tensor([last[0]]), torch.tensor([last[1]]))
    assert (query.tolist(), tail.tolist()) == ([0], [last[2]])


def test_an_index_moves_between_devices_unchanged() -> None:
    index = TripleIndex(torch.tensor([[0, 1, 2], [2, 0, 1]]), 3, 2)
    moved = index.to("cpu")
    assert torch.equal(moved.keys, index.keys)
    assert torch.equal(moved.facts(), index.facts())


def test_flip_swaps_head_and_tail_only() -> None:
    assert flip(torch.tensor([[1, 2, 3], [4, 5, 6]])).tolist() == [[3, 2, 1], [6, 5, 4]]
