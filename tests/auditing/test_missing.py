"""Candidates for missing facts: new, distinct, and found without looking at all pairs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from audit_samples import anonymous, random_facts
from npugraph.arrays import first_of_each
from npugraph.auditing import missing
from npugraph.auditing.missing import propose
from npugraph.encoders import Lookup
from npugraph.graph import SIDES, KnowledgeGraph, Side
from npugraph.model import System
from npugraph.scorers import ComplEx

E, R = 30, 3


class Recorder(System):
    """Remembers what it was asked; must never be asked for all entities."""

    def __init__(self, num_entities: int = E, num_relations: int = R) -> None:
        rng = torch.Generator().manual_seed(2)
        table = Lookup.normal((num_entities, 8), (2 * num_relations, 8), 1.0, rng)
        super().__init__(table, ComplEx(), num_entities, num_relations, reciprocal=True)
        self.calls: list[tuple[list[int], int, Side, list[int]]] = []

    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        raise AssertionError("All entities were scored.")

    def score_among(self, known: Tensor, relation: Tensor, side: Side, among: Tensor) -> Tensor:
        (one,) = set(relation.tolist())
        self.calls.append((known.tolist(), one, side, among.tolist()))
        return super().score_among(known, relation, side, among)

    def matrix(self, known: int, relation: int, side: Side) -> list[float]:
        query = torch.tensor([known]), torch.tensor([relation])
        return super().score_all(*query, side)[0].tolist()


@pytest.fixture
def graph() -> KnowledgeGraph:
    facts = random_facts(120, E, R, 0)
    # Relation 0 has loops, the others have none.
    facts = facts[(facts[:, 0] != facts[:, 2]) | (facts[:, 1] == 0)]
    return anonymous(torch.cat([facts, torch.tensor([[4, 0, 4]]), facts[:5]]), E, R)


def literal(system: Recorder, graph: KnowledgeGraph, per_question: int) -> set[tuple[int, ...]]:
    """The best new answers of the entities of the role, question by question."""
    facts = {tuple(fact) for fact in graph.facts.tolist()}
    found = set()
    for side in SIDES:
        turned = {f if side == "tail" else f[::-1] for f in facts}
        for known, relation in {(f[0], f[1]) for f in turned}:
            role = {f[2] for f in turned if f[1] == relation}
            loops = any(f[0] == f[2] for f in turned if f[1] == relation)
            scores = system.matrix(known, relation, side)
            new = [e for e in role if (known, relation, e) not in turned and (loops or e != known)]
            for e in sorted(new, key=lambda e: -scores[e])[:per_question]:
                made = (known, relation, e)
                found.add(made if side == "tail" else made[::-1])
    return found


@pytest.mark.parametrize("per_question", [1, 3, 1000])
def test_candidates_are_the_best_new_answers_of_every_question(
    graph: KnowledgeGraph, per_question: int
) -> None:
    system = Recorder()
    made = propose(system, graph, 0, 1, per_question=per_question, most=10**6)
    found = [tuple(fact) for fact in made.tolist()]
    assert len(found) == len(set(found))
    assert not graph.index().contains(made).any()
    assert set(found) == literal(system, graph, per_question)


def test_loops_only_where_the_relation_has_some(graph: KnowledgeGraph) -> None:
    made = propose(Recorder(), graph, 0, 1, per_question=1000, most=10**6)
    loops = made[made[:, 0] == made[:, 2]]
    assert set(loops[:, 1].tolist()) == {0}


def test_the_parts_ask_every_question_once(graph: KnowledgeGraph) -> None:
    whole = propose(Recorder(), graph, 0, 1, per_question=2, most=10**6).tolist()
    parts = [
        propose(Recorder(), graph, part, 4, per_question=2, most=10**6).tolist()
        for part in range(4)
    ]
    assert sorted(map(tuple, whole)) == sorted({tuple(f) for part in parts for f in part})
    systems = [Recorder() for _ in range(4)]
    for part, system in enumerate(systems):
        propose(system, graph, part, 4, per_question=2, most=10**6)
        assert all(known % 4 == part for call in system.calls for known in call[0])


def test_only_stored_questions_are_asked_and_only_roles_are_looked_at(
    graph: KnowledgeGraph,
) -> None:
    system = Recorder()
    propose(system, graph, 0, 1, per_question=3, most=10**6)
    asked = {(side, relation, known) for k, relation, side, _ in system.calls for known in k}
    stored = {("tail", r, h) for h, r, _ in graph.facts.tolist()}
    stored |= {("head", r, t) for _, r, t in graph.facts.tolist()}
    assert asked == stored
    assert sum(len(call[0]) for call in system.calls) == len(stored)
    for _, relation, side, among in system.calls:
        column = 2 if side == "tail" else 0
        mine = graph.facts[graph.facts[:, 1] == relation]
        assert set(among) == set(mine[:, column].tolist())


def test_the_cost_is_capped_where_a_role_is_large() -> None:
    # Twenty tails, of which those below 5 are stored most often.
    rows = [[h, 0, t] for h in range(10) for t in range(5)]
    rows += [[h, 0, 10 + h] for h in range(10)] + [[h, 0, 20 + h % 10] for h in range(10)]
    graph = anonymous(torch.tensor(rows), E, R)
    system = Recorder()
    made = propose(system, graph, 0, 1, per_question=3, most=10**6, role_entities=5)
    by_tail = [call for call in system.calls if call[2] == "tail"]
    assert {tuple(call[3]) for call in by_tail} == {(0, 1, 2, 3, 4)}
    # All pairs with the five are stored, so only the questions for heads find something.
    assert set(made[:, 2].tolist()) <= set(range(10, 30))
    assert not graph.index().contains(made).any()


def test_scores_are_held_a_bit_at_a_time(
    graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = propose(Recorder(), graph, 0, 1, per_question=3, most=10**6)
    monkeypatch.setattr(missing, "TABLE", 64)
    system = Recorder()
    made = propose(system, graph, 0, 1, per_question=3, most=10**6)
    assert max(len(known) * len(among) for known, _, _, among in system.calls) <= 64
    assert sorted(made.tolist()) == sorted(expected.tolist())


def test_those_that_stand_out_are_kept(graph: KnowledgeGraph) -> None:
    system = Recorder()
    every = propose(system, graph, 0, 1, per_question=3, most=10**6)
    some = propose(system, graph, 0, 1, per_question=3, most=25)
    assert torch.equal(some, every[:25])


def test_the_order_of_the_rows_changes_nothing(graph: KnowledgeGraph) -> None:
    turned = graph.select(torch.randperm(len(graph), generator=torch.Generator().manual_seed(1)))
    one, other = (
        propose(Recorder(), g, 0, 1, per_question=3, most=40).tolist() for g in (graph, turned)
    )
    assert one == other


def test_nothing_to_propose() -> None:
    whole = torch.cartesian_prod(torch.arange(3), torch.arange(1), torch.arange(3))
    assert propose(
        Recorder(3, 1), anonymous(whole, 3, 1), 0, 1, per_question=3, most=100
    ).shape == (0, 3)
    one = anonymous(torch.tensor([[0, 0, 1]]), E, R)
    assert propose(Recorder(), one, 0, 1, per_question=3, most=100).shape == (0, 3)
    # No question of this part is stored.
    assert propose(Recorder(), one, 7, 8, per_question=3, most=100).shape == (0, 3)


@given(st.lists(st.integers(-5, 5)))
def test_first_of_each(values: list[int]) -> None:
    key = torch.tensor(values, dtype=torch.int64)
    expected = [i for i, value in enumerate(values) if value not in values[:i]]
    assert first_of_each(key).tolist() == expected
