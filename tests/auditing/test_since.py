"""Audits that go on from an earlier one: what each system knows, what is listed, what is said."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import torch

from audit_samples import FAST, Names, graph_of, people
from npugraph.auditing import Audit, AuditSettings, audit
from npugraph.auditing.earlier import HISTORY, Earlier
from npugraph.auditing.since import begin_since, changes_since, end_since, folds_since
from npugraph.auditing.statistics.evidence import FactArrays, fit_truth_model, narrow
from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.data.io import ReadOptions
from npugraph.data.sources import load_graph
from npugraph.errors import DataError, NothingAddedError, RunError, SettingsError
from npugraph.graph import KnowledgeGraph
from npugraph.training.run_folder import Run

# Few trees: these tests look at what is known and listed, not at how good it is.
FEW = Thresholds(score_rounds=4, profile_rounds=4, found_rounds=4, corrected_facts=20)
ASKED = AuditSettings(
    folds=3,
    budget=12,
    missing=20,
    explained=2,
    compared=16,
    search=False,
    device="cpu",
    seed=4,
    thresholds=FEW,
)
LATER = {"thresholds": FEW}
OLD = people(36)
# Names that come before all others: the ids of all change.
ADDED: list[Names] = [
    (" first", "knows", "person 001"),
    ("person 002", "knows", " first"),
    (" first", "lives in", "Großstadt 3"),
    ("person 003", "knows", "person 030"),
]
REMOVED = OLD[20:25]
NEW = [*ADDED, *(row for row in OLD if row not in REMOVED)]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a full audit."""
    folder = tmp_path_factory.mktemp("before") / "audit"
    audit(OLD, ASKED, FAST, out=folder).write(folder)
    return folder


@pytest.fixture(scope="module")
def later(before: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Audit]:
    """Return what goes on from it."""
    folder = tmp_path_factory.mktemp("later") / "audit"
    found = audit(NEW, LATER, out=folder, since=before)
    found.write(folder)
    return folder, found


def known_to(run: Run) -> set[Names]:
    """Return what the system of a run was trained on."""
    return set(names(run.splits().train))


def names(graph: KnowledgeGraph) -> list[Names]:
    rows = graph.with_facts(graph.facts).to_table().to_pylist()
    return [(row["head"], row["relation"], row["tail"]) for row in rows]


def history(folder: Path) -> dict[Names, tuple[int, bool]]:
    rows = pyarrow.parquet.read_table(folder / HISTORY).to_pylist()
    return {(r["head"], r["relation"], r["tail"]): (r["fold"], r["stored"]) for r in rows}


# What each system knows


def test_no_system_ever_saw_a_fact_that_it_judges(before: Path, later: tuple[Path, Audit]) -> None:
    folder, found = later
    folds = found.crossfit.folds
    fold_of = dict(zip(names(folds.graph), (folds.fold + 1).tolist(), strict=True))
    assert fold_of.keys() == set(NEW)
    planted = folds.planted
    assert planted is not None
    tested = names(folds.graph.with_facts(planted.facts))
    fold_of |= dict(zip(tested, (planted.fold + 1).tolist(), strict=True))
    for fold in (1, 2, 3):
        mine = {fact for fact, own in fold_of.items() if own == fold}
        for audited in (before, folder):
            run = Run.open(audited / "folds" / f"fold-{fold}")
            assert not mine & known_to(run), (fold, audited)
            # Nor does anything that it never learned from come from there.
            assert mine, fold


def test_facts_keep_their_folds_and_validation_facts_are_never_learned(
    before: Path, later: tuple[Path, Audit]
) -> None:
    old, new = history(before), history(later[0])
    for fact in set(OLD) - set(REMOVED):
        assert old[fact] == new[fact]
    for fact in REMOVED:
        assert new[fact] == (old[fact][0], False), "Gone, but not forgotten."
    planted = {fact for fact, (_, stored) in old.items() if not stored}
    assert planted
    assert planted <= new.keys()
    for fold in (1, 2, 3):
        runs = [Run.open(place / "folds" / f"fold-{fold}") for place in (before, later[0])]
        valid = [set(names(run.splits().valid)) for run in runs]
        assert valid[0] - set(REMOVED) <= valid[1]
        assert not valid[1] & known_to(runs[0])
        assert runs[1].settings["epochs"] == 1, "A quarter of three, rounded up."


def test_a_fact_that_was_planted_before_is_judged_by_the_system_that_never_saw_it(
    before: Path,
) -> None:
    old = history(before)
    planted = [fact for fact, (_, stored) in old.items() if not stored]
    graph = graph_of([*OLD, *planted])
    earlier = Earlier.open(before)
    since = begin_since(graph.select(first(graph)), earlier)
    folds = folds_since(graph.select(first(graph)), since, ASKED)
    for fact, fold in zip(names(folds.graph), folds.fold.tolist(), strict=True):
        if fact in planted:
            assert fold + 1 == old[fact][0]
    assert since.changes.added == len(planted)
    assert folds.seen is not None
    assert len(folds.seen) == 0


def first(graph: KnowledgeGraph) -> torch.Tensor:
    """Return the places of the facts of a graph without repeats, in key order."""
    return torch.argsort(graph.index().places(graph.facts))


def test_removed_facts_are_neither_planted_nor_in_pools_nor_proposed(
    later: tuple[Path, Audit],
) -> None:
    found = later[1]
    folds = found.crossfit.folds
    assert folds.seen is not None
    gone = {tuple(row) for row in folds.seen.tolist()}
    assert set(names(folds.graph.with_facts(folds.seen))) >= set(REMOVED)
    assert folds.planted is not None
    others = [folds.planted.facts, found.proposed.facts]
    others += [pool.facts for pool in found.crossfit.pools.values()]
    for facts in others:
        assert not gone & {tuple(row) for row in facts.tolist()}


def test_weights_are_taken_by_name(before: Path, tmp_path: Path) -> None:
    asked = {"views": "embedding,path", "missing": 0}
    with pytest.raises(RunError, match="path"):
        audit(NEW, asked, since=before)
    paths = dataclasses.replace(ASKED, recipe="path", missing=0)
    small = {"d": 4, "layers": 2, "epochs": 1, "device": "cpu"}
    audit(OLD, paths, small, out=tmp_path / "old").write(tmp_path / "old")
    found = audit(NEW, LATER, out=tmp_path / "new", since=tmp_path / "old")
    assert found.since is not None
    for half in (1, 2):
        old, new = (Run.open(tmp_path / part / "path" / f"fold-{half}") for part in ("old", "new"))
        assert new.progress().epoch == 0, "Systems of paths are used as they are."
        assert new.progress().finished
        weights = [run.best_weights(found.crossfit.systems[0].share) for run in (old, new)]
        assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


# What is listed and said


def test_only_what_is_new_is_listed(later: tuple[Path, Audit]) -> None:
    folder, found = later
    suspects = {(r["head"], r["relation"], r["tail"]) for r in found.suspects.to_pylist()}
    assert suspects == set(ADDED)
    posterior = pyarrow.parquet.read_table(folder / "posterior.parquet")
    rows = [row for row in posterior.to_pylist() if row["collected"]]
    assert [row["new"] for row in rows] == [True] * len(ADDED) + [False] * (len(NEW) - len(ADDED))
    asked = {(h, r, "") for h, r, _ in ADDED} | {("", r, t) for _, r, t in ADDED}
    missing = found.missing.to_pylist()
    assert missing
    for row in missing:
        questions = {(row["head"], row["relation"], ""), ("", row["relation"], row["tail"])}
        assert questions & asked


def test_what_is_said(later: tuple[Path, Audit]) -> None:
    record = json.loads((later[0] / "audit.json").read_text(encoding="utf-8"))
    since = record["since"]
    expected = {"added": 4, "changed": 0, "removed": 5, "unchanged": len(OLD) - 5, "entities": 1}
    assert {name: since[name] for name in expected} == expected
    assert (since["chain"], since["since_full"], since["epochs"]) == (1, 4, 3)
    assert since["relations"] == []
    assert record["verdict"] != "reliable"
    assert any("4 added" in note for note in record["notes"])
    report = (later[0] / "report.html").read_text(encoding="utf-8")
    assert "4 added, 0 changed, 5 removed" in report


def test_a_second_run_writes_the_same(
    before: Path, later: tuple[Path, Audit], tmp_path: Path
) -> None:
    again = audit(NEW, LATER, out=tmp_path / "audit", since=before)
    again.write(tmp_path / "audit")
    for name in ("suspects.tsv", "missing.tsv", "posterior.parquet", HISTORY, "audit.json"):
        assert (tmp_path / "audit" / name).read_bytes() == (later[0] / name).read_bytes(), name


def test_a_chain_counts_and_remembers(later: tuple[Path, Audit], tmp_path: Path) -> None:
    back = [*NEW, REMOVED[0], ("person 004", "admires", "person 005")]
    found = audit(back, LATER, out=tmp_path, since=later[0])
    assert found.since is not None
    record = found.since.to_record()
    assert (record["chain"], record["added"], record["since_full"]) == (2, 2, 6)
    assert (record["epochs"], found.training.epochs) == (3, 1)
    assert record["relations"] == ["admires"]
    assert any("admires" in reason for reason in record["due"])
    # What came back is judged by the system that never saw it, two audits ago.
    folds = found.crossfit.folds
    fold_of = dict(zip(names(folds.graph), (folds.fold + 1).tolist(), strict=True))
    assert fold_of[REMOVED[0]] == history(later[0])[REMOVED[0]][0]


# What is new


def table(rows: list[Names], **columns: list[Any]) -> dict[str, list[Any]]:
    head, relation, tail = map(list, zip(*rows, strict=True))
    return {"head": head, "relation": relation, "tail": tail, **columns}


def test_other_values_of_a_column_are_a_change(tmp_path: Path) -> None:
    asked = dataclasses.replace(ASKED, evidence=("seen",), missing=0, explained=0)
    confidence, seen = [0.5] * len(OLD), ["a"] * len(OLD)
    given = table(OLD, confidence=confidence, seen=seen)
    audit(given, asked, FAST, out=tmp_path).write(tmp_path)
    earlier = Earlier.open(tmp_path)
    with pytest.raises(NothingAddedError):
        audit(given, None, since=tmp_path)
    confidence[3], seen[7] = 0.9, "b"
    options = ReadOptions(beside=("seen",))
    graph = load_graph(table(OLD, confidence=confidence, seen=seen), options)
    changes = changes_since(graph.select(first(graph)), earlier)
    assert (changes.added, changes.changed, changes.removed) == (0, 2, 0)
    assert changes.unchanged == len(OLD) - 2
    changed = graph.select(first(graph)).select(torch.from_numpy(changes.new))
    assert set(names(changed)) == {OLD[3], OLD[7]}
    # A column that only one of the two has says nothing.
    plain = load_graph(table(OLD))
    assert not changes_since(plain.select(first(plain)), earlier).new.any()


def test_nothing_added_trains_nothing(before: Path, tmp_path: Path) -> None:
    with pytest.raises(NothingAddedError, match=r"No fact was added or changed.*2 are gone"):
        audit(OLD[2:], None, out=tmp_path / "audit", since=before)
    assert not (tmp_path / "audit").exists()


def test_when_a_full_audit_is_due(before: Path) -> None:
    graph = graph_of(NEW)
    since = begin_since(graph.select(first(graph)), Earlier.open(before))
    full = since.full
    calm = end_since(since, full["mrr"], full["auroc"], TUNED)
    assert calm.due == ()
    assert not calm.to_record()["full_audit_due"]
    worse = end_since(since, 0.1 * full["mrr"], full["auroc"] - 0.2, TUNED)
    assert len(worse.due) == 2
    long = dataclasses.replace(since, chain=10, since_full=len(NEW))
    assert len(end_since(long, full["mrr"], full["auroc"], TUNED).due) == 2


# What is refused


def test_refusals(before: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no finished audit"):
        audit(NEW, None, since=tmp_path)
    with pytest.raises(SettingsError, match=r"recipe=complex-n3, not distmult"):
        audit(NEW, {"recipe": "distmult"}, since=before)
    with pytest.raises(SettingsError, match=r"folds=3, not 4"):
        audit(NEW, dataclasses.replace(ASKED, folds=4), since=before)
    with pytest.raises(RunError, match=r"do not fit"):
        audit(NEW, None, {"d": 16}, since=before)
    with pytest.raises(DataError, match=r"needs at least 50"):
        audit(NEW[:20], None, since=before)
    old = tmp_path / "old"
    shutil.copytree(before, old)
    shutil.rmtree(old / "folds" / "fold-2")
    with pytest.raises(RunError, match=r"fold-2 is not there: the systems"):
        audit(NEW, None, since=old)
    (old / HISTORY).unlink()
    with pytest.raises(RunError, match=r"has no history.parquet: npugraph .* wrote it"):
        audit(NEW, None, since=old)
    (old / "audit.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RunError, match=r"is damaged"):
        audit(NEW, None, since=old)


def test_a_folder_that_was_begun_since_another_audit_is_refused(
    later: tuple[Path, Audit],
) -> None:
    with pytest.raises(RunError, match=r"holds an audit with since="):
        audit(NEW, ASKED, out=later[0])


def test_probabilities_of_what_is_new_are_told_by_it_alone() -> None:
    rng = np.random.default_rng(0)

    def facts(count: int, wrong: float) -> tuple[FactArrays, np.ndarray]:
        bad = rng.random(count) < wrong
        features = rng.normal(np.where(bad, 0.0, 5.0)[:, None], 1.0, (count, 2))
        zeros = np.zeros(count, dtype=np.int64)
        return FactArrays(features, np.arange(count) % 3, zeros, features[:, 0]), bad

    (old, _), (new, bad) = facts(4000, 0.02), facts(1000, 0.2)
    both = FactArrays(
        *(np.concatenate([getattr(old, n), getattr(new, n)]) for n in ("features", "fold")),
        np.zeros(5000, dtype=np.int64),
        np.concatenate([old.score, new.score]),
    )
    pools = {"random": facts(4000, 1.0)[0]}
    about = np.arange(5000) >= 4000
    model = fit_truth_model(both, pools)
    own = narrow(model, both, pools, about)
    share = 1 - own.priors.beta.value
    assert abs(share - 0.2) < 0.05
    wrong = 1 - own.probability(model.stack.collected[about], collected=True)[0]
    assert abs(wrong.sum() - bad.sum()) < 0.25 * bad.sum()
    whole = 1 - model.probability(model.stack.collected[about], collected=True)[0]
    assert whole.sum() < wrong.sum(), "All facts together are better than the new ones."
