"""The view path: own edges hidden, two trainings."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import npugraph
from audit_samples import sample
from npugraph.auditing import Audit, AuditSettings, audit
from npugraph.auditing.folds import make_folds
from npugraph.auditing.self_test import plant
from npugraph.auditing.views.path import PathView, halves_of
from npugraph.errors import SettingsError
from npugraph.graph import SIDES
from npugraph.recipes.path.members import PathMembers
from npugraph.recipes.path.model import PathModel

FAST_PATH = {"d": 4, "layers": 2, "epochs": 2, "batch_size": 8, "device": "cpu"}
ASKED = {"folds": 3, "missing": 20, "compared": 16, "seed": 4, "explained": 2}


@pytest.fixture(scope="module")
def view() -> PathView:
    graph = sample()
    folds = plant(make_folds(graph, 3, 0), graph.index(), AuditSettings(self_test=0.1))
    known = folds.index()
    system = PathModel(
        known.facts(), graph.num_entities, graph.num_relations, d=4, layers=3, group_size=8
    )
    other = PathModel(
        known.facts(), graph.num_entities, graph.num_relations, d=4, layers=3, group_size=8, seed=1
    )
    return PathView(folds, (system, other), 0)


def test_every_fact_is_judged_without_its_own_edges(view: PathView) -> None:
    """A fact's values are those of a graph without its group, which holds it."""
    facts = view.index.facts()
    group = view.halves[0].shuffled.argsort() % -(-len(facts) // 8)
    for fold in range(3):
        system = view.halves[fold % 2]
        mine = torch.nonzero(view.fold == fold).squeeze(1)[:4]
        found = view.features(facts[mine], fold)
        for row, place in zip(found, mine.tolist(), strict=True):
            hidden = torch.nonzero(group == group[place]).squeeze(1)
            assert place in hidden.tolist()
            weight = system.weights_without(hidden)
            head, relation, tail = facts[place : place + 1].unbind(1)
            with torch.no_grad():
                scores = system(head, relation, weight)[0]
            torch.testing.assert_close(row[0], scores[tail[0]])
            torch.testing.assert_close(row[1], scores.log_softmax(0)[tail[0]])


def test_groups_stay_within_folds(view: PathView) -> None:
    groups = -(-len(view.index) // 8)
    mixed = 0
    for group in range(groups):
        members = view.fold[view.halves[1].shuffled[group::groups]]
        mixed += len(set(members.tolist())) > 1
    # One group at most where a fold ends.
    assert mixed <= 2
    assert sorted(view.halves[1].shuffled.tolist()) == list(range(len(view.index)))


def test_a_fact_that_is_not_stored_takes_the_place_of_one_with_its_question(
    view: PathView,
) -> None:
    facts = view.index.facts()
    mine = torch.nonzero(view.fold == 1).squeeze(1)
    head, relation, _ = facts[mine[0]].tolist()
    new = torch.tensor([[head, relation, 0], [head, relation, 1]])
    new = new[~view.index.contains(new)]
    place = view._stand_ins(new, 1)
    assert (view.fold[place] == 1).all()
    assert facts[place][:, :2].tolist() == [[head, relation]] * len(new)
    # One whose questions nobody answers takes any place of the fold, always the same.
    lost = torch.tensor([[facts.max(), 0, facts.max()]]).clamp(max=view.index.num_entities - 1)
    assert torch.equal(view._stand_ins(lost, 1), view._stand_ins(lost.repeat(3, 1), 1)[:1])


def test_a_score_does_not_depend_on_what_else_is_asked(view: PathView) -> None:
    facts = view.index.facts()[view.fold == 2][:6]
    asked = torch.cat([facts, facts.flip(1)[:0], facts[:, [2, 1, 0]]])
    whole = view.features(asked, 2)
    alone = torch.cat([view.features(fact.unsqueeze(0), 2) for fact in asked])
    torch.testing.assert_close(whole, alone)
    assert whole.shape == (len(asked), len(view.columns))
    assert len(view.columns) == 3 * len(SIDES)


def test_systems_of_a_fold_know_nothing_of_it(view: PathView) -> None:
    for fold, system in enumerate(view.systems):
        assert isinstance(system, PathModel)
        facts = view.index.facts()
        assert torch.equal(system.stored.contains(facts), view.fold != fold)


# The audit by paths


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Audit, Path]:
    out = tmp_path_factory.mktemp("paths") / "audit"
    found = audit(sample(), AuditSettings(recipe="path", **ASKED), FAST_PATH, out=out)
    found.write(out)
    return found, out


def test_no_system_was_asked_about_the_facts_that_it_judges(view: PathView) -> None:
    halves = halves_of(view.folds)
    assert halves.count == 2
    for fold in range(3):
        trained_on = halves.others(fold % 2).index()
        assert not trained_on.contains(view.index.facts()[view.fold == fold]).any()


def test_an_audit_by_paths_trains_twice(done: tuple[Audit, Path]) -> None:
    found, out = done
    assert [view.name for view in found.crossfit.views] == ["path", "roles", "names"]
    assert len(list(out.glob("path/fold-*/model.safetensors"))) == 2
    assert not (out / "folds").exists()
    assert len(found.collected.facts) == len(sample().index())
    assert found.crossfit.collected.features.isfinite().all()
    assert len(found.missing)


def test_an_audit_by_paths_goes_on_where_it_stopped(done: tuple[Audit, Path]) -> None:
    found, out = done
    kept = out / "path" / "fold-1" / "model.safetensors"
    stamp = kept.stat().st_mtime_ns
    again = audit(sample(), AuditSettings(recipe="path", **ASKED), FAST_PATH, out=out)
    assert kept.stat().st_mtime_ns == stamp
    assert (again.collected.score == found.collected.score).all()


def test_explain_finds_the_system_of_an_audit_by_paths(done: tuple[Audit, Path]) -> None:
    found, out = done
    row = found.suspects.to_pylist()[0]
    fact = (row["head"], row["relation"], row["tail"])
    told = npugraph.explain(out, *fact, device="cpu")
    assert told.probability == pytest.approx(row["probability"])
    assert found.explain(fact).probability == pytest.approx(row["probability"])


def test_the_strongest_paths_of_an_audit_are_stored_facts(done: tuple[Audit, Path]) -> None:
    """None of them was planted by the audit itself, and the folder tells the same."""
    found, out = done
    columns = found.graph.to_table().select(["head", "relation", "tail"]).to_pydict()
    stored = set(zip(*columns.values(), strict=True))
    named = 0
    for ids in found.collected.facts[:40:4]:
        told = found.explain(ids)
        named += len(told.paths)
        assert all(set(path.facts) <= stored - {told.fact} for path in told.paths)
        if told.paths and named < 12:
            by_folder = npugraph.explain(out, *told.fact, device="cpu").paths
            assert [path.facts for path in by_folder] == [path.facts for path in told.paths]
    assert named > 6


def test_recipes_with_paths_have_no_view_embedding() -> None:
    with pytest.raises(SettingsError, match="path has no entity vectors, so it gives no such"):
        AuditSettings(recipe="path", views=("embedding", "path"))


def test_members_judge_together() -> None:
    settings = AuditSettings(recipe="path", **ASKED)
    tiny = {"d": 4, "layers": 2, "epochs": 1, "members": 2, "device": "cpu"}
    found = audit(sample(), settings, tiny)
    assert found.crossfit.collected.columns[0] == "path.score_tail"
    # Both halves explain, too.
    assert [type(system) for system in found._by_paths] == [PathMembers, PathMembers]


def test_both_views_stand_side_by_side() -> None:
    settings = AuditSettings(views=("embedding", "path"), **ASKED)
    found = audit(sample(), settings, {"d": 8, "epochs": 2, "device": "cpu"})
    columns = found.crossfit.collected.columns
    assert columns[0] == "embedding.score_tail"
    assert columns[-1] == "path.new_head"
    assert any(one.paths for one in (*found.suspect_evidence, *found.missing_evidence))
    assert found.crossfit.collected.features.shape == (len(found.collected.facts), len(columns))
