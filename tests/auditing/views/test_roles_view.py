"""The view roles: counts in the other folds, recounted here by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from audit_samples import anonymous, random_facts, sample
from npugraph.auditing.folds import make_folds
from npugraph.auditing.views.roles import RoleCounts, RoleFit, RolesView

E, R = 9, 3


def named(counts: RoleCounts, fact: list[int]) -> dict[str, float]:
    values = counts.features(np.array([fact]))[0].tolist()
    return dict(zip(RolesView.columns, values, strict=True))


def test_counts_are_those_of_the_other_folds() -> None:
    folds = make_folds(anonymous(random_facts(60, E, R, 0), E, R), 3, 0)
    view = RolesView(folds)
    facts = folds.graph.facts
    for fold in range(3):
        others = facts[folds.fold != fold].tolist()
        mine = facts[folds.fold == fold]
        found = view.features(mine, fold)
        assert found.shape == (len(mine), len(view.columns))
        assert found.dtype == torch.float32
        for row, (h, r, t) in zip(found.tolist(), mine.tolist(), strict=True):
            values = dict(zip(view.columns, row, strict=True))
            expected = {
                "count_head": sum(a == h and b == r for a, b, _ in others),
                "reverse_head": sum(c == h and b == r for _, b, c in others),
                "degree_head": sum((a == h) + (c == h) for a, _, c in others),
                "count_tail": sum(c == t and b == r for _, b, c in others),
                "reverse_tail": sum(a == t and b == r for a, b, _ in others),
                "relation_count": sum(b == r for _, b, _ in others),
            }
            if h != t:
                expected["links"] = sum({a, c} == {h, t} for a, _, c in others)
            for name, count in expected.items():
                assert math.isclose(values[name], math.log1p(count), abs_tol=1e-5), name


def test_excess_is_the_count_beside_the_usual_one() -> None:
    """Relation 0 has one tail per head but for head 3, relation 1 three of them."""
    once = [(head, 0, 8) for head in range(4)] + [(3, 0, tail) for tail in (4, 5, 6)]
    often = [(head, 1, tail) for head in range(3) for tail in (5, 6, 7)]
    counts = RoleCounts(np.array(once + often), E, R)
    usual = 7 / 4
    assert math.isclose(named(counts, [0, 0, 7])["excess_head"], math.log(2 / usual), abs_tol=1e-5)
    assert math.isclose(named(counts, [3, 0, 7])["excess_head"], math.log(5 / usual), abs_tol=1e-5)
    assert math.isclose(named(counts, [0, 1, 8])["excess_head"], math.log(4 / 3), abs_tol=1e-5)
    # Of a relation that nobody has there is nothing usual.
    assert named(counts, [0, 2, 8])["excess_head"] == 0


def test_further_answers_count_as_stored_ones() -> None:
    """Three tails more for (0, 0, ?), counted or stored: the same counts of the head."""
    facts = np.array([(0, 0, 1), (2, 0, 1), (2, 1, 0)])
    more = np.array([(0, 0, tail) for tail in (4, 5, 6)])
    asked = np.array([[0, 0, 3]])
    told = RoleCounts(facts, E, R).features(asked, np.array([[3.0, 0.0]]))[0]
    stored = RoleCounts(np.concatenate([facts, more]), E, R).features(asked)[0]
    plain = RoleCounts(facts, E, R).features(asked)[0]
    for column in ("count_head", "degree_head"):
        place = RolesView.columns.index(column)
        assert told[place] == stored[place] != plain[place]
    excess = RolesView.columns.index("excess_head")
    assert told[excess] - plain[excess] == pytest.approx(math.log(5 / 2))
    of_tail = [i for i, column in enumerate(RolesView.columns) if column.endswith("_tail")]
    assert told[of_tail].tolist() == plain[of_tail].tolist()


def test_roles_that_go_together_fit() -> None:
    """Units 0 to 3 have roles 0 and 1, units 4 to 7 role 2."""
    unit = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7])
    role = np.array([0, 1, 0, 1, 0, 1, 0, 1, 2, 2, 2, 2])
    fit = RoleFit(unit, role, 9, 3)
    mean, low, high = fit.fit(np.array([0, 0, 4, 8, -1]), np.array([0, 2, 0, 0, 0]))
    together, apart = math.log((4 + 1) / (4 * 4 / 9 + 1)), math.log(1 / (4 * 4 / 9 + 1))
    # Its own count is no evidence; without other roles nothing is known.
    np.testing.assert_allclose(mean, [together, apart, apart, 0, 0])
    np.testing.assert_allclose(low, mean)
    np.testing.assert_allclose(high, mean)
    assert fit.most_frequent().tolist() == [1, 1, 1, 1, 2, 2, 2, 2, -1]
    assert fit.count(np.array([0, 0, 8]), np.array([1, 2, 0])).tolist() == [1, 0, 0]


def test_a_pair_is_judged_by_what_else_is_said_of_it() -> None:
    """Relation 1 is the inverse of relation 0; relation 2 stands alone."""
    facts = [[a, 0, a + 5] for a in range(5)] + [[a + 5, 1, a] for a in range(4)]
    facts += [[a, 2, (a + 1) % 5] for a in range(5)]
    counts = RoleCounts(np.array(facts), 10, 3)
    inverse, other = named(counts, [9, 1, 4]), named(counts, [9, 2, 4])
    assert inverse["pair_fit"] > 0 > other["pair_fit"]
    assert inverse["links"] == other["links"]
    alone = named(counts, [9, 1, 0])
    assert alone["links"] == alone["pair_fit"] == alone["pair_fit_low"] == 0


def test_swapped_ends_stand_where_they_never_stand() -> None:
    graph = sample()
    counts = RoleCounts(graph.facts.numpy(), graph.num_entities, graph.num_relations)
    lives = graph.relations.id("lives in")
    town, person = graph.entities.id("Großstadt 0"), graph.entities.id("person 000")
    right, swapped = named(counts, [person, lives, town]), named(counts, [town, lives, person])
    assert right["count_tail"] > 0 == swapped["count_tail"]
    assert swapped["reverse_tail"] > 0 == right["reverse_tail"]
    assert right["sorts"] > swapped["sorts"]
    assert swapped["sorts_reverse"] == right["sorts"]


def test_an_empty_list_and_unknown_entities_have_features() -> None:
    graph = sample()
    view = RolesView(make_folds(graph, 3, 0))
    assert view.features(graph.facts[:0], 0).shape == (0, len(view.columns))
    nobody = graph.entities.id("nobody")
    assert view.features(torch.tensor([[nobody, 0, nobody]]), 0).isfinite().all()
