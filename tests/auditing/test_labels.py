"""What the columns of the input do in an audit: labels are kept to, confidences are not used."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from audit_samples import WRONG, graph_of, people, rows
from npugraph.asking import explain
from npugraph.auditing import Audit, AuditSettings, audit, write_audit
from npugraph.auditing.answers import gather_answers
from npugraph.auditing.figures import summary
from npugraph.auditing.page import notes, report_data
from npugraph.errors import DataError
from npugraph.graph import KnowledgeGraph
from npugraph.patching import read_patch

QUICK = AuditSettings(recipe="random", folds=2, search=False, device="cpu", missing=10, explained=2)
RIGHT = 40


def labelled() -> KnowledgeGraph:
    """The sample: wrong rows labelled 0, the first RIGHT ones 1, nothing known of the others."""
    graph = graph_of(rows(), extra=("nobody",), source="people")
    label = torch.full((len(graph),), -1, dtype=torch.int8)
    label[:RIGHT] = 1
    label[[row in WRONG for row in rows()]] = 0
    return dataclasses.replace(graph, label=label)


@pytest.fixture(scope="module")
def found() -> Audit:
    return audit(labelled(), QUICK)


def test_labels_are_divided_by_distinct_fact() -> None:
    graph = labelled()
    known = gather_answers(graph)
    assert (len(known.right), len(known.wrong), len(known.both)) == (RIGHT, len(WRONG), 0)
    assert graph.label is not None
    # The first rows stand in the graph twice: the second time they are called wrong.
    label = graph.label.clone()
    label[-4:] = 0
    known = gather_answers(dataclasses.replace(graph, label=label))
    assert (len(known.right), len(known.wrong), len(known.both)) == (RIGHT - 4, len(WRONG), 4)
    assert len(gather_answers(dataclasses.replace(graph, label=None)).wrong) == 0


def test_known_wrong_facts_are_in_no_fold_and_no_system_saw_them(found: Audit) -> None:
    wrong = found.answers.wrong
    assert len(wrong) == len(WRONG)
    assert not found.crossfit.folds.graph.index().contains(wrong).any()
    for fold in range(found.crossfit.folds.count):
        splits = found.crossfit.folds.splits(fold, 0.1, 0)
        for part in splits.parts().values():
            assert not part.index().contains(wrong).any()
    for judged in (found.collected, found.proposed):
        index = found.graph.with_facts(judged.facts).index()
        assert not index.contains(wrong).any()


def test_an_explanation_says_what_is_known(tmp_path: Path) -> None:
    found = audit(labelled(), QUICK, out=tmp_path)
    found.write(tmp_path)
    for fact, known, word in ((WRONG[0], False, "wrong"), (rows()[0], True, "right")):
        for told in (found.explain(fact), explain(tmp_path, *fact, device="cpu")):
            assert told.stored
            assert told.known is known
            said = f"A label of the input or an answer says that it is {word}."
            assert said == told.said("for" if known else "against")[0]
            assert not [one for one in told.remarks if one.kind == "place"]
            first, second, third, *_ = told.to_text().splitlines()
            assert first.endswith("[stored]")
            assert second == f"It is known to be {word}."
            assert third == f"What speaks {'for' if known else 'against'} it"
            assert "did not judge" not in told.untold
    assert found.explain(WRONG[0]).probability == 0
    nothing = found.explain(rows()[RIGHT + 1])
    assert nothing.known is None
    assert "known to be" not in nothing.to_text()


def test_known_wrong_facts_are_reported_and_taken_out(found: Audit, tmp_path: Path) -> None:
    listed = [(r["head"], r["relation"], r["tail"]) for r in found.posterior.to_pylist()]
    for row, fact in zip(found.posterior.to_pylist(), listed, strict=True):
        if fact in WRONG:
            assert (row["probability"], row["low"], row["high"]) == (0, 0, 0)
            assert row["score"] is row["fold"] is None
        right = fact in rows()[:RIGHT]
        assert row["known"] is (False if fact in WRONG else True if right else None)
    assert listed[: len(rows())] == rows()
    taken = {(r["head"], r["relation"], r["tail"]) for r in found.quarantine.to_pylist()}
    assert set(WRONG) <= taken
    assert summary(found)["known_wrong"] == len(WRONG)
    write_audit(found, tmp_path)
    patch = read_patch(tmp_path / "patch.json")
    assert {one.fact for one in patch.decisions if one.why == "known"} == set(WRONG)
    removed = {entry.number: entry.text for entry in patch.files[0].removed}
    for number, row in enumerate(rows(), 2):  # after the header
        if row in WRONG:
            assert removed[number].startswith("\t".join(row))
    record = json.loads((tmp_path / "audit.json").read_text(encoding="utf-8"))
    assert record["notes"] == list(notes(found))


def test_facts_labelled_right_are_never_suspected(found: Audit) -> None:
    everything = dataclasses.replace(
        found, settings=dataclasses.replace(found.settings, budget=1000)
    )
    suspects = {(r["head"], r["relation"], r["tail"]) for r in everything.suspects.to_pylist()}
    assert suspects == set(rows()) - set(rows()[:RIGHT]) - set(WRONG)


def test_labels_are_told(found: Audit) -> None:
    said = " ".join(notes(found))
    assert f"{len(WRONG)} facts are known to be wrong, by a label or an answer" in said
    assert f"{RIGHT} facts are known to be right, by a label or an answer" in said
    assert set(notes(found)) <= set(report_data(found).warnings)
    graph = graph_of(people(12))
    every = dataclasses.replace(graph, label=torch.ones(len(graph), dtype=torch.int8))
    only_right = audit(every, QUICK)
    assert len(only_right.suspects) == 0
    assert "so there are no suspects" in " ".join(notes(only_right))


def test_a_fact_cannot_be_both_protected_and_wrong() -> None:
    graph = labelled()
    wrong = gather_answers(graph).wrong
    with pytest.raises(DataError, match="is to be protected and is known to be wrong"):
        audit(graph, QUICK, protected=wrong[:1])


def test_too_few_facts_beside_the_wrong_ones_are_refused() -> None:
    graph = graph_of(people(36)[:60], source="few")
    label = torch.ones(60, dtype=torch.int8)
    label[:20] = 0
    with pytest.raises(DataError, match="holds 40 distinct facts that are not known to be wrong"):
        audit(dataclasses.replace(graph, label=label), QUICK)
