"""Parts of folds: a fact is judged by all facts but those of its own part."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from audit_samples import anonymous, random_facts
from npugraph.auditing import AuditSettings
from npugraph.auditing.folds import Folds, make_folds
from npugraph.auditing.self_test import plant
from npugraph.auditing.views.near import NearView, walk
from npugraph.auditing.views.parts import MOST_CUT, PARTS, cut_folds, part_of, suited_parts
from npugraph.auditing.views.roles import RoleCounts, RolesView
from npugraph.seeds import number

E, R, FOLDS = 60, 3, 3


@pytest.fixture(scope="module")
def folds() -> Folds:
    graph = anonymous(random_facts(150, E, R, 0), E, R)
    return plant(make_folds(graph, FOLDS, 0), graph.index(), AuditSettings(self_test=0.1))


def test_folds_of_sparse_graphs_are_cut() -> None:
    assert suited_parts(299, 100) == PARTS
    assert suited_parts(300, 100) == 1
    assert suited_parts(MOST_CUT, MOST_CUT + 1) == 1


def test_parts_divide_each_fold_evenly() -> None:
    graph = anonymous(random_facts(20_000, 5000, R, 0), 5000, R)
    whole = make_folds(graph, FOLDS, 0)
    cut = cut_folds(whole, PARTS, 0)
    assert cut.count == FOLDS * PARTS
    assert torch.equal(cut.fold // PARTS, whole.fold)
    share = torch.bincount(cut.fold, minlength=cut.count) / len(whole.graph)
    assert (share * cut.count - 1).abs().max() < 0.1
    assert not torch.equal(cut.fold, cut_folds(whole, PARTS, 1).fold)


def test_planted_facts_are_cut_like_stored_ones(folds: Folds) -> None:
    cut = cut_folds(folds, PARTS, 0)
    assert folds.planted is not None
    assert cut.planted is not None
    assert len(cut.planted.fold) > 8
    expected = part_of(folds.planted.facts, folds.graph, PARTS, 0)
    assert torch.equal(cut.planted.fold, folds.planted.fold * PARTS + expected)


def test_one_part_is_the_fold_itself(folds: Folds) -> None:
    assert torch.equal(cut_folds(folds, 1, 0).fold, folds.fold)


def test_a_fact_is_judged_by_all_but_its_part(folds: Folds) -> None:
    """Counted by hand, for stored facts of a fold and for facts that are stored nowhere."""
    cut = cut_folds(folds, PARTS, 0)
    roles, near = RolesView(folds, PARTS, 0), NearView(folds, 0, PARTS)
    assert cut.planted is not None
    strangers = random_facts(40, E, R, 1)
    for fold in range(FOLDS):
        facts = torch.cat([folds.graph.facts[folds.fold == fold], strangers])
        found = torch.cat([roles.features(facts, fold), near.features(facts, fold)], 1)
        for row, fact in zip(found.numpy(), facts, strict=True):
            which = fold * PARTS + int(part_of(fact[None], folds.graph, PARTS, 0))
            known = np.concatenate(
                [
                    folds.graph.facts[cut.fold != which].numpy(),
                    cut.planted.facts[cut.planted.fold != which].numpy(),
                ]
            )
            counts = RoleCounts(known, E, R).features(fact[None].numpy())[0]
            reached = walk(known, E, number(0, "near", which))
            cosines = [x[fact[0]] @ x[fact[2]] for x in reached]
            np.testing.assert_allclose(row, [*counts, *cosines], rtol=1e-4, atol=1e-5)


def test_the_other_direction_is_hidden_less_often() -> None:
    """Of facts that are stored both ways, far fewer are judged without the other direction."""
    forth = random_facts(4000, 4000, 1, 0)
    forth = forth[forth[:, 0] < forth[:, 2]]
    facts = torch.cat([forth, forth[:, [2, 1, 0]]])
    graph = anonymous(facts, 4000, 1)
    folds = make_folds(graph, 5, 0)
    links = RolesView.columns.index("links")
    hidden = []
    for parts in (1, PARTS):
        view = RolesView(folds, parts, 0)
        seen = [view.features(folds.graph.facts[folds.fold == f], f)[:, links] for f in range(5)]
        hidden.append(float((torch.cat(seen) == 0).float().mean()))
    assert hidden[0] == pytest.approx(0.2, abs=0.04)
    assert hidden[1] < hidden[0] / 2
