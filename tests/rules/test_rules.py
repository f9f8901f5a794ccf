"""Rules against loops over every pair of entities; leave-one-out, sampling, queries."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from npugraph.data.datasets import load
from npugraph.errors import DataError, SettingsError
from npugraph.graph import SIDES, KnowledgeGraph, Side, Vocabulary
from npugraph.rules import DirectedEdges, Rule, RuleSet, mine, wilson_lower
from npugraph.rules.edges import spread
from npugraph.rules.mining import cap_per_middle

Fact = tuple[int, int, int]
Pairs = set[tuple[int, int]]
Body = tuple[int, ...]
E, R = 5, 3


def as_tensor(facts: list[Fact] | set[Fact]) -> Tensor:
    return torch.tensor(sorted(facts), dtype=torch.int64).reshape(-1, 3)


def mine_all(facts: set[Fact], **settings: bool) -> RuleSet:
    return mine(as_tensor(facts), E, R, min_support=1, min_lower=0.0, **settings)


def walk(facts: set[Fact], direction: int) -> Pairs:
    """The pairs a directed relation joins, read from the definition."""
    if direction < R:
        return {(h, t) for h, r, t in facts if r == direction and h != t}
    return {(t, h) for h, r, t in facts if r == direction - R and h != t}


def instances(facts: set[Fact], body: Body) -> Pairs:
    if len(body) == 1:
        return walk(facts, body[0])
    first, second = walk(facts, body[0]), walk(facts, body[1])
    return {
        (x, y)
        for x, y in itertools.permutations(range(E), 2)
        if any((x, z) in first and (z, y) in second for z in range(E))
    }


def all_bodies(compositions: bool = True) -> list[Body]:
    single: list[Body] = [(d,) for d in range(2 * R)]
    return single + list(itertools.product(range(2 * R), repeat=2)) * compositions


def slow_rules(
    facts: set[Fact], compositions: bool = True
) -> dict[tuple[Body, int], tuple[int, int]]:
    found = {}
    for body in all_bodies(compositions):
        pairs = instances(facts, body)
        for head in range(R):
            support = sum((x, head, y) in facts for x, y in pairs)
            if support and body != (head,):
                found[body, head] = (support, len(pairs))
    return found


def slow_wilson(support: int, count: int) -> float:
    """The lower root of (p - q)^2 = z^2 q (1 - q) / n in q."""
    if not count:
        return 0.0
    z, p = 1.959963984540054, support / count
    a, b, c = 1 + z * z / count, -(2 * p + z * z / count), p * p
    return (-b - math.sqrt(max(b * b - 4 * a * c, 0))) / (2 * a)


def slow_judge(facts: set[Fact], fact: Fact, body: Body) -> tuple[int, int] | None:
    """Counts over the other instances of a rule that fires for a fact; None if it does not.

    A one-atom rule is counted without the fact anywhere, a composition with it in other bodies.
    """
    head, relation, tail = fact
    if (head, tail) not in instances(facts - {fact}, body):
        return None
    pairs = instances(facts - {fact} if len(body) == 1 else facts, body) - {(head, tail)}
    return sum((x, relation, y) in facts for x, y in pairs), len(pairs)


graphs = st.sets(
    st.tuples(st.integers(0, E - 1), st.integers(0, R - 1), st.integers(0, E - 1)), max_size=25
)
a_fact = st.tuples(st.integers(0, E - 1), st.integers(0, R - 1), st.integers(0, E - 1))


@given(graphs)
def test_every_rule_has_the_counts_of_a_loop_over_all_pairs(facts: set[Fact]) -> None:
    rules = mine_all(facts)
    found = {
        (rules[i].body, rules[i].head): (rules[i].support, rules[i].body_count)
        for i in range(len(rules))
    }
    assert len(found) == len(rules)
    assert found == slow_rules(facts)
    assert not rules.sampled


@given(graphs)
def test_rules_come_in_the_order_of_their_lower_bound(facts: set[Fact]) -> None:
    rules = mine_all(facts)
    expected = [slow_wilson(rules[i].support, rules[i].body_count) for i in range(len(rules))]
    assert rules.lower.tolist() == pytest.approx(expected)
    assert (np.diff(rules.lower) <= 1e-12).all()
    ties = np.diff(rules.lower) == 0
    assert (np.diff(rules.support)[ties] <= 0).all()


def check_judgement(facts: set[Fact], judged: list[Fact]) -> None:
    """Compare every firing for every judged fact with the counts of a loop."""
    rules = mine_all(facts)
    firings = rules.judge(as_tensor(judged))
    found: dict[tuple[Fact, Body], tuple[float, float]] = {}
    columns = (firings.fact, firings.rule, firings.confidence, firings.lower)
    for row, number, confidence, lower in zip(*(c.tolist() for c in columns), strict=True):
        found[sorted(judged)[row], rules[number].body] = (confidence, lower)
    expected = {}
    for fact, body in itertools.product(judged, all_bodies()):
        counts = slow_judge(facts, fact, body) if body != (fact[1],) else None
        if counts is not None and counts[0]:
            expected[fact, body] = (counts[0] / counts[1], slow_wilson(*counts))
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key] == pytest.approx(values)
    for row, fact in enumerate(sorted(judged)):
        best = max((v[1] for (f, _), v in expected.items() if f == fact), default=0.0)
        assert firings.best_lower[row] == pytest.approx(best)
        assert (firings.best[row] >= 0) == (best > 0)


@given(graphs, a_fact)
def test_judgement_is_counted_on_the_other_instances(facts: set[Fact], fact: Fact) -> None:
    check_judgement(facts, [fact])


@pytest.mark.parametrize("size", [15, 30])
def test_judgement_on_dense_graphs(size: int) -> None:
    everything = list(itertools.product(range(E), range(R), range(E)))
    order = np.random.default_rng(size).permutation(len(everything)).tolist()
    facts = {everything[i] for i in order[:size]}
    check_judgement(facts, [everything[i] for i in order[size - 8 : size + 8]])


@given(graphs, a_fact)
def test_verdict_is_the_same_whether_the_fact_is_stored(facts: set[Fact], fact: Fact) -> None:
    def verdict(stored: set[Fact]) -> dict[Body, float]:
        rules = mine_all(stored)
        firings = rules.judge(as_tensor([fact]))
        pairs = zip(firings.rule, firings.confidence, strict=True)
        found = {rules[int(k)].body: float(c) for k, c in pairs}
        # A composition that concludes one of its own atoms counts the fact in other bodies.
        return {b: c for b, c in found.items() if len(b) == 1 or fact[1] not in {d % R for d in b}}

    assert verdict(facts | {fact}) == pytest.approx(verdict(facts - {fact}))


@given(graphs, st.sampled_from(SIDES))
def test_entity_scores_are_the_best_judgement_by_one_atom_rules(
    facts: set[Fact], side: Side
) -> None:
    rules = mine_all(facts, compositions=False)
    queries = list(itertools.product(range(E), range(R)))
    known, relation = torch.tensor(queries).unbind(1)
    scores = rules.score_entities(known, relation, side)
    assert scores.shape == (len(queries), E)
    assert (scores.data > 0).all()
    candidates = [(k, r, e) if side == "tail" else (e, r, k) for k, r in queries for e in range(E)]
    expected = rules.judge(torch.tensor(candidates)).best_lower
    assert scores.toarray().ravel() == pytest.approx(expected)


@given(graphs)
def test_bodies_are_stored_facts_that_make_the_rule_fire(facts: set[Fact]) -> None:
    rules = mine_all(facts)
    firings = rules.judge(as_tensor(facts))
    rows = as_tensor(facts).tolist()
    for row, number in zip(firings.fact.tolist(), firings.rule.tolist(), strict=True):
        head, relation, tail = rows[row]
        rule = rules[number]
        ways = rules.bodies((head, relation, tail), number, limit=E)
        middles = set()
        for way in ways:
            assert set(way) <= facts - {(head, relation, tail)}
            place = head
            for atom, direction in zip(way, rule.body, strict=True):
                assert atom[1] == direction % R
                start, end = (atom[0], atom[2]) if direction < R else (atom[2], atom[0])
                assert start == place
                place = end
                middles.add(end)
            assert place == tail
        if len(rule.body) == 1:
            assert len(ways) == 1
        else:
            joined = walk(facts, rule.body[0]), walk(facts, rule.body[1])
            zs = {z for z in range(E) if (head, z) in joined[0] and (z, tail) in joined[1]}
            assert len(ways) == len(zs) > 0
            assert zs == middles - {tail}


def test_one_mirrored_pair_does_not_prove_itself() -> None:
    facts = {(0, 0, 1), (1, 0, 0)}
    rules = mine_all(facts, compositions=False)
    assert (rules[0].kind, rules[0].confidence) == ("symmetric", 1.0)
    firings = rules.judge(as_tensor(facts))
    assert len(firings) == 0
    assert firings.best.tolist() == [-1, -1]
    # A second pair is evidence for the first.
    more = mine_all(facts | {(2, 0, 3), (3, 0, 2)}, compositions=False)
    assert more.judge(as_tensor(facts)).best_confidence.tolist() == [1.0, 1.0]


def test_loops_neither_make_nor_match_an_instance() -> None:
    rules = mine_all({(0, 0, 0), (1, 0, 1), (0, 1, 0)})
    assert len(rules) == 0
    assert len(rules.judge(as_tensor([(0, 0, 0)]))) == 0


@pytest.mark.parametrize("busy_end", [0, 2])
def test_a_chain_is_found_from_either_end(busy_end: int) -> None:
    # Five chains x -0-> z -1-> y with x -2-> y; a hub on relation 3 makes one end the busier.
    rows = []
    for x in range(0, 15, 3):
        rows += [(x, 0, x + 1), (x + 1, 1, x + 2), (x, 2, x + 2)]
        rows += [(x + busy_end, 3, hub) for hub in (15, 16, 17)]
    facts = torch.tensor(rows)
    rules = mine(facts, 18, 4, min_lower=0.3)
    firings = rules.judge(facts[facts[:, 1] == 2])
    assert {rules[k].body for k in firings.rule.tolist()} == {(0, 1)}
    assert firings.best_confidence.tolist() == [1.0] * 5


def test_kinds_and_words() -> None:
    words = Vocabulary.of(["a", "b"])
    assert Rule((2,), 0, 1, 2, 2).kind == "symmetric"
    assert Rule((3,), 0, 1, 2, 2).kind == "inverse"
    assert Rule((1,), 0, 1, 2, 2).kind == "subsumption"
    composed = Rule((1, 2), 0, 1, 2, 2)
    assert composed.kind == "composition"
    assert composed.describe(words) == "b(x, z), a(y, z) => a(x, y)"
    assert composed.confidence == 0.5
    assert composed.lower == pytest.approx(slow_wilson(1, 2))


@pytest.mark.parametrize(("support", "count"), [(0, 0), (0, 7), (1, 1), (3, 9), (10**6, 10**6)])
def test_wilson_bound_solves_its_equation(support: int, count: int) -> None:
    assert float(wilson_lower(support, count)) == pytest.approx(slow_wilson(support, count))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(1, 100))
def test_cap_is_the_largest_that_fits_the_budget(sizes: list[int], budget: int) -> None:
    size = np.array(sizes)
    cap = cap_per_middle(size, budget)
    fits = [c for c in range(1, 32) if np.minimum(size, c).sum() <= budget]
    taken = np.minimum(size, cap).sum()
    assert taken == np.minimum(size, max(fits, default=1)).sum()
    assert taken <= max(budget, len(size))


@given(st.lists(st.integers(0, 40), max_size=6), st.integers(1, 12), st.integers(0, 5))
def test_spread_takes_everything_or_one_of_each_stratum(
    sizes: list[int], cap: int, seed: int
) -> None:
    size = np.array(sizes, np.int64)
    owner, drawn = spread(size, np.minimum(size, cap), np.random.default_rng(seed))
    for number, all_of in enumerate(sizes):
        mine_ = drawn[owner == number]
        if all_of <= cap:
            assert mine_.tolist() == list(range(all_of))
        else:
            edges = np.arange(cap + 1) * all_of / cap
            assert len(mine_) == cap
            assert (mine_ >= np.floor(edges[:-1])).all()
            assert (mine_ <= edges[1:]).all()
            assert mine_.max() < all_of


def hub_graph() -> Tensor:
    """Ten hubs, 60 spokes in and 60 out each; half the pairs in-out of a hub are joined by r2."""
    rows = []
    for hub in range(10):
        spokes = [10 + 120 * hub + i for i in range(120)]
        rows += [(s, 0, hub) for s in spokes[:60]] + [(hub, 1, s) for s in spokes[60:]]
        rows += [(a, 2, b) for a in spokes[:60] for b in spokes[60:] if (a + b) % 2]
    return torch.tensor(rows)


def test_a_sample_of_paths_is_bounded_seeded_and_close() -> None:
    facts = hub_graph()
    exact = mine(facts, 1210, 3, max_paths=10**8)
    assert not exact.sampled
    chain = {exact[i].body: exact[i] for i in range(len(exact)) if exact[i].head == 2}[0, 1]
    assert (chain.support, chain.body_count) == (18_000, 36_000)
    one = mine(facts, 1210, 3, max_paths=40_000, seed=1)
    again = mine(facts, 1210, 3, max_paths=40_000, seed=1)
    other = mine(facts, 1210, 3, max_paths=40_000, seed=2)
    assert one.sampled
    assert one.support.tolist() == again.support.tolist()
    assert one.support.tolist() != other.support.tolist()
    assert one.body_count[one.composed].sum() <= 3 * 40_000
    guess = {one[i].body: one[i] for i in range(len(one)) if one[i].head == 2}[0, 1]
    assert guess.sampled
    assert guess.body_count < chain.body_count
    spread_of_share = math.sqrt(0.25 / guess.body_count)
    assert abs(guess.confidence - chain.confidence) < 4 * spread_of_share


def test_in_a_sample_a_stored_fact_is_never_favoured() -> None:
    rules = mine(hub_graph(), 1210, 3, max_paths=40_000)
    number = next(i for i in range(len(rules)) if rules[i].body == (0, 1) and rules[i].head == 2)
    support, count = rules.support[number], rules.body_count[number]
    both = np.array([number, number])
    found = rules.discounted(both, np.array([True, False]))
    assert found[0].tolist() == [support - 1, support]
    assert found[1].tolist() == [count - 1, count]


def test_branches_are_capped_and_the_sample_is_seeded() -> None:
    facts = hub_graph()
    rules = mine(facts, 1210, 3, max_paths=10**8)
    some = facts[facts[:, 1] == 2][::50]
    full = rules.judge(some, max_branch=10**6)
    cut = rules.judge(some, max_branch=3, seed=4)
    assert 0 < len(cut) < len(full)
    keys = set(zip(full.fact.tolist(), full.rule.tolist(), strict=True))
    assert set(zip(cut.fact.tolist(), cut.rule.tolist(), strict=True)) < keys
    assert cut.rule.tolist() == rules.judge(some, max_branch=3, seed=4).rule.tolist()


def test_chunks_do_not_change_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = hub_graph()
    rules = mine(facts, 1210, 3)
    whole = rules.judge(facts[::97])
    monkeypatch.setattr("npugraph.rules.ruleset.CHUNK", 50)
    pieces = rules.judge(facts[::97])
    assert whole.fact.tolist() == pieces.fact.tolist()
    assert whole.rule.tolist() == pieces.rule.tolist()
    assert whole.lower.tolist() == pieces.lower.tolist()


def test_many_relations_between_two_entities_are_thinned() -> None:
    every = torch.cartesian_prod(torch.arange(6), torch.arange(20), torch.arange(6))
    rules = mine(every, 6, 20, max_paths=3000, min_support=1)
    assert rules.sampled
    composed = rules.support[rules.composed]
    assert 0 < composed.sum() < 4 * 3000
    assert (rules.support == rules.body_count).all()


def test_thresholds_keep_the_best() -> None:
    facts = {(0, 0, 1), (0, 1, 1), (1, 0, 2), (1, 1, 2), (3, 0, 4), (2, 2, 1), (4, 2, 3)}
    everything = mine_all(facts)
    few = mine(as_tensor(facts), E, R, min_support=1, min_lower=0, max_rules=3)
    assert [few[i] for i in range(3)] == [everything[i] for i in range(3)]
    strict = mine(as_tensor(facts), E, R, min_support=2, min_lower=0.2)
    kept = [
        everything[i]
        for i in range(len(everything))
        if everything[i].support >= 2 and everything[i].lower >= 0.2
    ]
    assert [strict[i] for i in range(len(strict))] == kept
    assert len(kept) > 0


def test_no_facts_give_no_rules() -> None:
    rules = mine(torch.empty(0, 3, dtype=torch.int64), 4, 2)
    assert len(rules) == 0
    assert rules.judge(torch.tensor([[0, 1, 2]])).best.tolist() == [-1]
    assert rules.judge(torch.empty(0, 3, dtype=torch.int64)).best.shape == (0,)
    assert rules.score_entities(torch.tensor([1]), torch.tensor([0]), "tail").nnz == 0
    assert len(mine(torch.empty(0, 3, dtype=torch.int64), 0, 0)) == 0


def test_repeated_facts_count_once() -> None:
    facts = as_tensor([(0, 0, 1), (1, 0, 0)])
    assert mine(facts.repeat(3, 1), E, R)[0] == mine(facts, E, R)[0]


def test_unusable_input_is_refused() -> None:
    with pytest.raises(DataError, match=r"\[9, 0, 1\].*0\.\.4"):
        mine(torch.tensor([[9, 0, 1]]), E, R)
    with pytest.raises(DataError, match=r"float32 of shape \[2, 3\]"):
        mine(torch.zeros(2, 3), E, R)
    with pytest.raises(DataError, match="shape"):
        DirectedEdges(torch.zeros(3, dtype=torch.int64), E, R)
    with pytest.raises(SettingsError, match="min_lower=nan"):
        mine(torch.tensor([[0, 0, 1]]), E, R, min_lower=math.nan)
    with pytest.raises(SettingsError, match="max_paths=0"):
        mine(torch.tensor([[0, 0, 1]]), E, R, max_paths=0)
    rules = mine(torch.tensor([[0, 0, 1]]), E, R)
    with pytest.raises(SettingsError, match="max_branch=0"):
        rules.judge(torch.tensor([[0, 0, 1]]), max_branch=0)
    with pytest.raises(DataError, match="7"):
        rules.judge(torch.tensor([[0, 7, 1]]))
    with pytest.raises(DataError, match="side='left'"):
        rules.score_entities(torch.tensor([0]), torch.tensor([0]), "left")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def world() -> KnowledgeGraph:
    splits = load("world").split()
    return splits.train.with_facts(splits.all_facts())


def test_the_world_has_the_rules_a_person_expects(world: KnowledgeGraph) -> None:
    rules = mine(world.facts, world.num_entities, world.num_relations)
    found = {rules[i].describe(world.relations): rules[i] for i in range(len(rules))}
    assert found["borders(y, x) => borders(x, y)"].confidence == 1.0
    zones = "has_time_zone(x, z), zone_utc_offset(z, y) => has_utc_offset(x, y)"
    assert found[zones].confidence == 1.0
    assert 0.8 < found["borders(x, z), in_continent(z, y) => in_continent(x, y)"].confidence < 1
    assert not rules.sampled


def test_borders_answer_queries(world: KnowledgeGraph) -> None:
    austria, borders = world.entities.id("Austria"), world.relations.id("borders")
    back = (world.facts == torch.tensor([world.entities.id("Italy"), borders, austria])).all(1)
    assert back.any()
    forth = (world.facts == torch.tensor([austria, borders, world.entities.id("Italy")])).all(1)
    # Take the fact away; its reverse must bring it back.
    rules = mine(world.facts[~forth], world.num_entities, world.num_relations)
    query = torch.tensor([austria]), torch.tensor([borders])
    tails = rules.score_entities(*query, "tail")
    heads = rules.score_entities(*query, "head")
    assert tails[0, world.entities.id("Italy")] > 0.9
    assert heads[0, world.entities.id("Italy")] == 0
    assert tails[0, world.entities.id("Japan")] == 0
