"""Facts planted by the audit to test itself: known to be wrong, judged as stored ones, unlisted."""

from __future__ import annotations

import torch

from audit_samples import anonymous, random_facts, sample
from npugraph.auditing import Audit, AuditSettings
from npugraph.auditing.folds import make_folds
from npugraph.auditing.self_test import plant
from npugraph.auditing.settings import TESTED
from npugraph.graph import TripleIndex


def test_planted_facts_are_new_distinct_and_of_every_kind() -> None:
    graph = anonymous(random_facts(400, 60, 3, 0), 60, 3)
    cut = plant(make_folds(graph, 4, 0), graph.index(), AuditSettings(self_test=0.15))
    assert cut.planted is not None
    facts = cut.planted.facts
    assert not graph.index().contains(facts).any()
    assert len(torch.unique(facts, dim=0)) == len(facts)
    wanted = round(0.15 * len(cut.graph) / len(TESTED))
    assert {kind: cut.planted.kind.count(kind) for kind in TESTED} == dict.fromkeys(TESTED, wanted)
    sizes = torch.bincount(cut.planted.fold, minlength=4)
    assert sizes.max() - sizes.min() <= 1


def test_a_system_knows_the_planted_facts_of_other_folds_alone() -> None:
    graph = anonymous(random_facts(400, 60, 3, 0), 60, 3)
    cut = plant(make_folds(graph, 4, 0), graph.index(), AuditSettings())
    assert cut.planted is not None
    for fold in range(4):
        mine = cut.planted.fold == fold
        known = (cut.others(fold).index(), cut.splits(fold, 0.02, 0).train.index())
        for index in known:
            assert index.contains(cut.planted.facts[~mine]).all()
            assert not index.contains(cut.planted.facts[mine]).any()


def test_nothing_is_planted_where_none_is_asked_for() -> None:
    cut = make_folds(sample(), 4, 0)
    assert plant(cut, sample().index(), AuditSettings(self_test=0)) is cut


def test_planted_facts_are_in_no_list(done: Audit) -> None:
    planted = done.crossfit.folds.planted
    assert planted is not None
    assert sum(len(judged.facts) for judged in done.crossfit.planted.values()) == len(planted.facts)
    known = TripleIndex(planted.facts, done.graph.num_entities, done.graph.num_relations)
    for judged in (done.collected, done.proposed):
        assert not known.contains(judged.facts).any()
    assert len(done.posterior) == len(done.graph) + len(done.proposed.facts)
