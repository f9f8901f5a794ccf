"""Evidence on graphs small enough to check by eye, and the collection model."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from npugraph.data.datasets import load
from npugraph.errors import DataError, SettingsError
from npugraph.explaining import (
    Alternative,
    CollectionModel,
    Contradicting,
    Explainer,
    Explanation,
    explain,
)
from npugraph.explaining.collection import FREQUENCIES
from npugraph.graph import KnowledgeGraph, Side, TripleIndex, Vocabulary
from npugraph.model import FoundPath
from npugraph.rules import mine, wilson_lower

Ids = tuple[int, int, int]
Names = tuple[str, str, str]


def graph_of(rows: list[Names], *, extra: tuple[str, ...] = ()) -> KnowledgeGraph:
    entities = Vocabulary.of([e for h, _, t in rows for e in (h, t)] + list(extra), "entity")
    relations = Vocabulary.of([r for _, r, _ in rows], "relation")
    facts = [[entities.id(h), relations.id(r), entities.id(t)] for h, r, t in rows]
    return KnowledgeGraph(entities, relations, torch.tensor(facts))


def ids(graph: KnowledgeGraph, head: str, relation: str, tail: str) -> Ids:
    return graph.entities.id(head), graph.relations.id(relation), graph.entities.id(tail)


def of_kind(found: Explanation, kind: str) -> list[Contradicting]:
    return [item for item in found.contradicting if item.kind == kind]


PEOPLE = [f"p{i}" for i in range(8)]
BORN = [(p, "born_in", f"town{i % 4}") for i, p in enumerate(PEOPLE)]
KNOWS = [(a, "knows", b) for a, b in zip(PEOPLE, PEOPLE[1:], strict=False)]
BOTH_WAYS = KNOWS + [(b, r, a) for a, r, b in KNOWS]
PARENT = [(PEOPLE[i], "parent_of", PEOPLE[i + 1]) for i in range(7)]


@pytest.fixture
def people() -> KnowledgeGraph:
    return graph_of(BORN + BOTH_WAYS + PARENT)


def test_a_second_value_of_a_functional_relation_is_held_against_it(people: KnowledgeGraph) -> None:
    found = explain(people, ids(people, "p0", "born_in", "town3"))
    (item,) = of_kind(found, "functional")
    assert item.facts == (("p0", "born_in", "town0"),)
    assert item.strength == pytest.approx(float(wilson_lower(7, 7)))
    assert "7 of 7 other heads" in item.text
    assert not found.stored


def test_the_only_value_is_not_held_against_itself(people: KnowledgeGraph) -> None:
    found = explain(people, ids(people, "p0", "born_in", "town0"))
    assert found.stored
    assert of_kind(found, "functional") == []
    assert of_kind(found, "type") == []


def test_one_value_is_no_rule_where_others_have_several(people: KnowledgeGraph) -> None:
    # Most people know two others, so a third says nothing.
    found = explain(people, ids(people, "p0", "knows", "p5"))
    assert of_kind(found, "functional") == []


def test_many_more_values_than_others_have_are_held_against_each_of_them() -> None:
    """Twenty people have one or two jobs, p0 has seven."""
    rows = [(f"p{i}", "works_as", f"job{(i + k) % 9}") for i in range(1, 21) for k in range(2)]
    rows += [(f"p{i}", "works_as", f"job{i % 9}") for i in range(21, 31)]
    rows += [("p0", "works_as", f"job{k}") for k in range(7)]
    graph = graph_of(rows)
    (item,) = of_kind(explain(graph, ids(graph, "p0", "works_as", "job3")), "crowded")
    assert item.text == (
        "p0 has 7 tails of works_as with this one; 30 of 30 other heads have fewer, 1.7 on average."
    )
    assert item.strength == pytest.approx(float(wilson_lower(30, 30)))
    assert all(fact[0] == "p0" for fact in item.facts)
    # A second job is nothing unusual, and one that is not stored would be p1's third.
    assert of_kind(explain(graph, ids(graph, "p21", "works_as", "job8")), "crowded") == []
    # Too few others to say what is usual.
    few = graph_of([("a", "r", "x"), ("b", "r", "x"), *(("c", "r", t) for t in "uvwxyz")])
    assert of_kind(explain(few, ids(few, "c", "r", "u")), "crowded") == []


def test_an_entity_of_another_kind_is_noticed(people: KnowledgeGraph) -> None:
    found = explain(people, ids(people, "town1", "knows", "p3"))
    (item,) = of_kind(found, "type")
    assert item.strength == 1.0
    assert item.text.startswith("town1 is the head of no other fact of knows")
    assert "tail of born_in" in item.text
    # The wrong fact does not make itself usual once it is stored.
    stored = people.with_facts(torch.cat([people.facts, torch.tensor([found.ids])]))
    again = explain(stored, found.ids)
    assert again.stored
    assert of_kind(again, "type") == [item]


def test_an_entity_often_seen_in_a_role_is_no_stranger_there(people: KnowledgeGraph) -> None:
    fact = ids(people, "town1", "knows", "p3")
    for others, strange in ((["p5"], True), (["p5", "p6"], False)):
        more = torch.tensor([ids(people, "town1", "knows", p) for p in others])
        found = explain(people.with_facts(torch.cat([people.facts, more])), fact)
        assert bool(of_kind(found, "type")) == strange


def test_what_is_known_of_nothing_is_no_mismatch() -> None:
    graph = graph_of(BORN + BOTH_WAYS, extra=("stranger",))
    found = explain(graph, ids(graph, "stranger", "knows", "p3"))
    assert of_kind(found, "type") == []
    assert found.usage[0].degree == 0


def test_the_reverse_of_a_one_way_relation_is_noticed(people: KnowledgeGraph) -> None:
    found = explain(people, ids(people, "p1", "parent_of", "p0"))
    (item,) = of_kind(found, "asymmetric")
    assert item.facts == (("p0", "parent_of", "p1"),)
    assert item.strength == pytest.approx(float(wilson_lower(6, 6)))
    assert of_kind(explain(people, ids(people, "p2", "parent_of", "p0")), "asymmetric") == []
    assert of_kind(explain(people, ids(people, "p1", "knows", "p0")), "asymmetric") == []


def test_a_loop_is_noticed(people: KnowledgeGraph) -> None:
    found = explain(people, ids(people, "p1", "parent_of", "p1"))
    (item,) = of_kind(found, "loop")
    assert item.strength == pytest.approx(float(wilson_lower(7, 7)))
    assert found.supporting == ()


def test_a_rule_that_nearly_always_holds_and_does_not_fire(people: KnowledgeGraph) -> None:
    lonely = explain(people, ids(people, "p0", "knows", "p7"))
    texts = [item.text for item in of_kind(lonely, "unconfirmed")]
    assert any("14 of 14 other facts of knows follow from knows(y, x)" in t for t in texts)
    assert of_kind(explain(people, ids(people, "p0", "knows", "p1")), "unconfirmed") == []


def test_supporting_rules_come_with_their_facts(people: KnowledgeGraph) -> None:
    found = explain(people, ids(people, "p3", "knows", "p4"))
    first = found.supporting[0]
    assert first.rule == "knows(y, x) => knows(x, y)"
    assert (first.kind, first.support, first.body_count) == ("symmetric", 12, 12)
    assert first.ways == ((("p4", "knows", "p3"),),)
    parent = next(s for s in found.supporting if "parent_of(x, y)" in s.rule)
    # Seven parents know their child; this one does not count.
    assert (parent.support, parent.body_count, parent.confidence) == (6, 6, 1.0)
    assert parent.ways == ((("p3", "parent_of", "p4"),),)


def test_the_same_path_is_told_once() -> None:
    # Over a symmetric relation four rules say the same: neighbours of a neighbour.
    pairs = [(a, b) for group in ("abc", "def", "ghi") for a in group for b in group if a != b]
    graph = graph_of([(a, "near", b) for a, b in pairs])
    rules = mine(graph.facts, graph.num_entities, graph.num_relations)
    assert sum(rules.composed) == 4
    found = explain(graph, ids(graph, "a", "near", "b"), rules)
    # Without the fact 17 instances are left for a path, and 16 for its reverse: the fact was a
    # body there too.
    told = [(s.kind, s.support, s.body_count) for s in found.supporting]
    assert told == [("composition", 17, 17), ("symmetric", 16, 16)]
    assert found.supporting[0].ways == ((("a", "near", "c"), ("c", "near", "b")),)


names = st.sampled_from([(h, r, t) for h in range(5) for r in range(2) for t in range(5)])


@given(st.sets(names, min_size=1, max_size=20), names)
def test_usage_is_what_a_loop_counts(facts: set[Ids], fact: Ids) -> None:
    entities, relations = Vocabulary.of("abcde"), Vocabulary.of("rs")
    graph = KnowledgeGraph(entities, relations, torch.tensor(sorted(facts)))
    others = facts - {fact}
    found = explain(graph, fact)
    assert found.stored == (fact in facts)
    for usage, column in zip(found.usage, (0, 2), strict=True):
        entity = fact[column]
        counts = Counter(f[column] for f in others if f[1] == fact[1])
        total = sum(counts.values())
        assert usage.count == counts[entity]
        assert usage.relation_count == total
        assert usage.share == (counts[entity] / total if total else 0.0)
        below = [c for c in list(counts.values()) if c < counts[entity]]
        seen = len([c for c in counts.values() if c])
        assert usage.percentile == pytest.approx(len(below) / seen if seen else 0.0)
        assert usage.degree == sum((f[0] == entity) + (f[2] == entity) for f in others)


@given(st.sets(names, min_size=1, max_size=20), names)
def test_evidence_does_not_depend_on_the_fact_being_stored(facts: set[Ids], fact: Ids) -> None:
    entities, relations = Vocabulary.of("abcde"), Vocabulary.of("rs")

    def evidence(stored: set[Ids]) -> tuple[object, ...]:
        rows = torch.tensor(sorted(stored), dtype=torch.int64).reshape(-1, 3)
        graph = KnowledgeGraph(entities, relations, rows)
        rules = mine(rows, 5, 2, min_support=1, min_lower=0, compositions=False)
        found = explain(graph, fact, rules, top=20)
        broken = [c for c in found.contradicting if c.kind != "unconfirmed"]
        return found.usage, found.similar, broken, found.supporting

    assert evidence(facts | {fact}) == evidence(facts - {fact})


def test_similar_entities_share_rare_features() -> None:
    rows = [("a", "likes", "x"), ("b", "likes", "x"), ("a", "likes", "y"), ("b", "likes", "y")]
    rows += [("c", "likes", "y"), ("d", "likes", "y"), ("b", "eats", "figs"), ("c", "eats", "nuts")]
    graph = graph_of(rows)
    found = explain(graph, ids(graph, "a", "eats", "figs"))
    like_a = [s for s in found.similar if s.side == "head"]
    assert [s.entity for s in like_a] == ["b", "c", "d"]
    # a's features: likes x (two entities have it), likes y (four).
    weights = 1 / math.log2(3), 1 / math.log2(5)
    assert like_a[0].similarity == pytest.approx(1.0)
    assert like_a[1].similarity == pytest.approx(weights[1] / sum(weights))
    assert (like_a[0].values, like_a[0].agrees) == (("figs",), True)
    assert (like_a[1].values, like_a[1].agrees) == (("nuts",), False)
    assert like_a[2].values == ()


def fixed_scores(table: dict[Side, list[float]]) -> object:
    def score_all(known: Tensor, relation: Tensor, side: Side) -> Tensor:
        assert known.shape == relation.shape == (1,)
        return torch.tensor([table[side]])

    return score_all


def test_alternatives_ranks_and_corrections() -> None:
    graph = graph_of([("a", "r", "b"), ("a", "r", "c"), ("d", "r", "b")])
    scores = fixed_scores({"tail": [0.0, 5.0, 4.0, 3.0], "head": [2.0, 1.0, 2.0, 9.0]})
    found = explain(graph, ids(graph, "a", "r", "c"), None, scores, top=2)  # type: ignore[arg-type]
    # As a tail c scores 4: b is higher but stored, so it is no rival; a and d are lower.
    assert (found.scores["tail"], found.ranks["tail"]) == (4.0, 1.0)
    # As a head a ties with c, and d is higher: between rank 2 and 3.
    assert (found.scores["head"], found.ranks["head"]) == (2.0, 2.5)
    listed = [(a.side, a.fact, a.score, a.collected) for a in found.alternatives]
    assert listed == [
        ("tail", ("a", "r", "b"), 5.0, True),
        ("tail", ("a", "r", "d"), 3.0, False),
        ("head", ("d", "r", "c"), 9.0, False),
        ("head", ("c", "r", "c"), 2.0, False),
    ]
    proposed = [(a.fact, a.gain, a.collected) for a in found.corrections]
    assert proposed == [(("d", "r", "c"), 7.0, False), (("a", "r", "b"), 1.0, True)]
    assert "ranks 2.5" in found.to_text()


def test_bad_scores_are_refused(people: KnowledgeGraph) -> None:
    fact = ids(people, "p0", "knows", "p1")
    n = people.num_entities
    broken = [math.nan] + [0.0] * (n - 1)
    with pytest.raises(DataError, match="not a number"):
        explain(people, fact, None, fixed_scores({"tail": broken, "head": broken}))  # type: ignore[arg-type]
    short = [0.0] * (n - 1)
    with pytest.raises(DataError, match=f"\\(1, {n}\\) was due"):
        explain(people, fact, None, fixed_scores({"tail": short, "head": short}))  # type: ignore[arg-type]


def test_paths_are_named_in_their_order(people: KnowledgeGraph) -> None:
    fact = ids(people, "p0", "knows", "p2")
    way = ids(people, "p1", "knows", "p0"), ids(people, "p1", "parent_of", "p2")
    strong, weak = FoundPath(way, (False, True), 0.8), FoundPath(way[:1], (False,), 0.2)
    found = explain(people, fact, paths=[strong, weak])
    assert [path.words() for path in found.paths] == [
        "p0 <-knows- p1 -parent_of-> p2",
        "p0 <-knows- p1",
    ]
    assert found.paths[0].facts == (("p1", "knows", "p0"), ("p1", "parent_of", "p2"))
    assert "p0 <-knows- p1 -parent_of-> p2 (weight 0.800)" in found.to_text()
    assert explain(people, fact, paths=[strong, weak], top=1).paths == found.paths[:1]
    for weight in (math.nan, math.inf):
        with pytest.raises(DataError, match="not finite"):
            explain(people, fact, paths=[FoundPath(way, (False, True), weight)])


def test_unusable_requests_are_refused(people: KnowledgeGraph) -> None:
    with pytest.raises(DataError, match="99"):
        explain(people, (0, 99, 1))
    with pytest.raises(DataError, match="shape"):
        explain(people, (0, 1))
    with pytest.raises(SettingsError, match="top=0"):
        explain(people, (0, 0, 1), top=0)
    with pytest.raises(DataError, match="3 entities and 1 relations"):
        Explainer(people, mine(torch.tensor([[0, 0, 1]]), 3, 1))


def test_rules_of_other_facts_leave_the_evidence_alone(people: KnowledgeGraph) -> None:
    fact = ids(people, "p0", "born_in", "town3")
    part = mine(people.facts[:-3], people.num_entities, people.num_relations)
    assert explain(people, fact, part).usage == explain(people, fact).usage
    assert explain(people, fact, part).similar == explain(people, fact).similar


def test_empty_graph_explains_nothing() -> None:
    graph = KnowledgeGraph(
        Vocabulary.of("ab"), Vocabulary.of("r"), torch.empty(0, 3, dtype=torch.int64)
    )
    found = explain(graph, (0, 0, 1))
    assert (found.supporting, found.contradicting, found.similar) == ((), (), ())
    assert [u.share for u in found.usage] == [0.0, 0.0]
    assert "Nothing was found." in found.to_text()


@pytest.fixture(scope="module")
def world() -> Explainer:
    splits = load("world").split()
    return Explainer(splits.train.with_facts(splits.all_facts()))


def test_the_world_is_explained_in_words(world: Explainer) -> None:
    graph = world.tables.graph
    true = world.explain(ids(graph, "Austria", "borders", "Germany"))
    assert true.contradicting == ()
    assert true.supporting[0].ways == ((("Germany", "borders", "Austria"),),)
    assert any(s.agrees for s in true.similar)
    wrong = world.explain(ids(graph, "Vienna", "capital_of", "Germany"))
    assert {c.facts for c in of_kind(wrong, "functional")} == {
        (("Vienna", "capital_of", "Austria"),),
        (("Berlin", "capital_of", "Germany"),),
    }
    odd = world.explain(ids(graph, "Austria", "uses_currency", "Germany"))
    assert odd.contradicting[0].kind == "type"
    for found in (true, wrong, odd):
        assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["ids"] == list(found.ids)
        text = found.to_text()
        for line in ("What speaks for it", "What speaks against it", "The nearest stored facts"):
            assert line in text


def test_what_agrees_with_the_probability_comes_first(world: Explainer) -> None:
    found = world.explain(ids(world.tables.graph, "Vienna", "capital_of", "Germany"))
    stored = Alternative("head", ("Berlin", "capital_of", "Germany"), 2.0, 1.0, True)
    new = Alternative("head", ("Bonn", "capital_of", "Germany"), 2.0, 1.0, False)
    found = dataclasses.replace(found, corrections=(stored, new))
    wrong = dataclasses.replace(found, probability=0.06, low=0.02, high=0.1).to_text()
    assert (
        "Probability of being true: 6.0% (90% interval 2.0% to 10%). It is probably wrong." in wrong
    )
    assert wrong.index("What speaks against it\n") < wrong.index("What speaks for it")
    assert "(Bonn, capital_of, Germany)" in wrong.split("Perhaps meant")[1]
    assert "Berlin" not in wrong.split("Perhaps meant")[1], "What is stored corrects nothing."
    right = dataclasses.replace(found, probability=0.97).to_text()
    assert "It is probably right." in right
    assert right.index("What speaks for it") < right.index(
        "What speaks against it, and is outweigh"
    )
    assert "Perhaps meant" not in right
    unknown = found.to_text()
    assert "robab" not in unknown
    assert "outweighed" not in unknown


def test_nobody_is_meant_at_both_ends_where_that_is_not_stored(world: Explainer) -> None:
    graph = world.tables.graph

    def favours_itself(known: torch.Tensor, relation: torch.Tensor, side: str) -> torch.Tensor:
        scores = torch.zeros(len(known), graph.num_entities)
        scores[:, known] = 5.0
        scores[:, graph.entities.id("Chile")] = 2.0
        return scores

    own = Explainer(graph, world.rules, favours_itself)
    found = own.explain(ids(graph, "Austria", "borders", "Japan"))
    assert {item.fact for item in found.alternatives} >= {("Austria", "borders", "Austria")}
    assert all(item.fact[0] != item.fact[2] for item in found.corrections)
    assert ("Austria", "borders", "Chile") in {item.fact for item in found.corrections}


def test_the_nearest_stored_facts_are_named(world: Explainer) -> None:
    found = world.explain(ids(world.tables.graph, "Austria", "borders", "Japan"))
    lines = found.to_text().split("The nearest stored facts\n")[1].splitlines()
    like = next(one for one in found.similar if one.values)
    assert lines[0].startswith(f"  {like.entity}, like the head (")
    assert lines[0].endswith(f"has the tails: {', '.join(like.values)}.")


def test_true_facts_of_the_world_are_rarely_contradicted(world: Explainer) -> None:
    graph = world.tables.graph
    rng = np.random.default_rng(0)
    rows = graph.facts[torch.from_numpy(rng.permutation(len(graph))[:60])]
    wrong = rows.clone()
    wrong[:, 2] = torch.from_numpy(rng.integers(0, graph.num_entities, len(rows)))
    wrong = wrong[~graph.index().contains(wrong)]
    kinds = ("functional", "type", "asymmetric")

    def share(facts: Tensor) -> float:
        found = [world.explain(f) for f in facts]
        return float(np.mean([any(c.kind in kinds for c in x.contradicting) for x in found]))

    assert share(rows) < 0.15
    assert share(wrong) > 0.85


def zipf_facts(seed: int) -> Tensor:
    """Facts whose entities and relations are drawn with very unequal chances."""
    rng = np.random.default_rng(seed)
    entity = 1 / np.arange(1, 201)
    relation = 1 / np.arange(1, 9)
    columns = [
        rng.choice(200, 2000, p=entity / entity.sum()),
        rng.choice(8, 2000, p=relation / relation.sum()),
        rng.integers(0, 200, 2000),
    ]
    return torch.from_numpy(np.stack(columns, axis=1)).unique(dim=0)


def draw_uncollected(facts: Tensor, count: int, seed: int = 0) -> Tensor:
    """Return distinct triples of 200 entities and 8 relations that are not stored."""
    key = torch.randperm(200 * 8 * 200, generator=torch.Generator().manual_seed(seed))
    drawn = torch.stack([key // 1600, key // 200 % 8, key % 200], 1)
    return drawn[~TripleIndex(facts, 200, 8).contains(drawn)][:count]


def test_collection_follows_the_frequencies_it_was_made_with() -> None:
    facts = zipf_facts(0)
    model = CollectionModel.fit(facts, draw_uncollected(facts, 2000), 200, 8)
    weight = dict(zip(model.features, model.weights, strict=True))
    assert weight["relation facts"] > 0.5
    assert weight["head facts"] + weight["head in relation"] > 1
    # Tails were drawn alike, so they matter least.
    assert abs(weight["tail facts"]) < 0.5 * weight["relation facts"]
    assert model.auroc > 0.8
    assert np.sign(model.per_doubling).tolist() == np.sign(model.weights).tolist()
    assert "AUROC" in model.to_text()
    json.dumps(model.to_dict(), allow_nan=False)


def test_collection_model_is_the_minimum_of_its_loss() -> None:
    facts = zipf_facts(1)[:300]
    candidates = draw_uncollected(facts, 200)
    model = CollectionModel.fit(facts, candidates, 200, 8)
    assert (model.collected, model.uncollected) == (300, 200)
    p = model.probability(torch.cat([facts, candidates]))
    y = np.repeat([1.0, 0.0], [300, 200])
    balance = np.repeat([500 / 600, 500 / 400], [300, 200])
    x = (model._frequencies.features(torch.cat([facts, candidates])) - model.mean) / model.scale
    assert x.mean(axis=0) == pytest.approx(np.zeros(5), abs=1e-9)
    # At the minimum of sum of weighted log-loss + |w|^2 / 2 the gradient vanishes.
    gradient = (balance * (p - y)) @ x + model.weights
    assert np.abs(gradient).max() < 0.05
    assert abs((balance * (p - y)).sum()) < 0.05


def test_collection_is_seeded() -> None:
    facts = zipf_facts(2)
    drawn = draw_uncollected(facts, 500)
    one = CollectionModel.fit(facts, drawn, 200, 8, seed=5)
    two = CollectionModel.fit(facts, drawn, 200, 8, seed=5)
    assert one.weights.tolist() == two.weights.tolist()
    assert one.auroc == two.auroc


@given(st.sets(names, min_size=1, max_size=20), names)
def test_frequencies_leave_out_the_fact_itself(facts: set[Ids], fact: Ids) -> None:
    from npugraph.explaining.collection import _Frequencies

    others = facts - {fact}
    rows = torch.tensor(sorted(facts), dtype=torch.int64)
    head, relation, tail = fact
    counts = [
        sum(r == relation for _, r, _ in others),
        sum((h == head) + (t == head) for h, _, t in others),
        sum((h == tail) + (t == tail) for h, _, t in others),
        sum((h, r) == (head, relation) for h, r, _ in others),
        sum((r, t) == (relation, tail) for _, r, t in others),
    ]
    found = _Frequencies(rows, 5, 2).features(torch.tensor([fact]))
    assert found.shape == (1, len(FREQUENCIES))
    assert found[0] == pytest.approx(np.log1p(counts))


def test_collection_model_refuses_what_it_cannot_fit() -> None:
    facts = zipf_facts(0)
    with pytest.raises(DataError, match="3 uncollected candidates are collected"):
        CollectionModel.fit(facts, facts[:3], 200, 8)
    with pytest.raises(DataError, match="too few"):
        CollectionModel.fit(facts[:4], draw_uncollected(facts, 50), 200, 8)
    constant = torch.tensor([[i, 0, 100 + i] for i in range(20)])
    other = torch.tensor([[i, 0, 150 + i] for i in range(20)])
    model = CollectionModel.fit(constant, other, 200, 1)
    assert np.isfinite(model.weights).all()
    assert np.isfinite(model.auroc)
