"""What the report says of an audit."""

from __future__ import annotations

import dataclasses
import shlex

import pyarrow as pa
import pytest

from audit_samples import WRONG, called_reliable, graph_of, rows
from npugraph.auditing import Audit
from npugraph.auditing.figures import summary
from npugraph.auditing.page import (
    assessment,
    estimated_health,
    planted_check,
    report_data,
    sentences,
    warnings,
)
from npugraph.calibration.class_priors import Interval, Priors
from npugraph.explaining import EvidencePath
from npugraph.report import Correction, PlantedCheck, ReportData


@pytest.fixture(scope="module")
def data(done: Audit) -> ReportData:
    return report_data(done)


def with_priors(done: Audit, beta: Interval) -> Audit:
    priors: Priors = dataclasses.replace(done.priors, beta=beta, identifiable=True, reason="")
    return called_reliable(dataclasses.replace(done, priors=priors))


def test_the_lists_of_the_page_are_the_lists_of_the_audit(data: ReportData, done: Audit) -> None:
    for shown, table in ((data.suspects, done.suspects), (data.missing, done.missing)):
        assert [row.head for row in shown] == table["head"].to_pylist()
        assert [row.tail for row in shown] == table["tail"].to_pylist()
        assert [row.probability.value for row in shown] == table["probability"].to_pylist()
    assert data.graph.facts == len(set(rows()))


def test_as_many_facts_as_asked_for_come_with_evidence(data: ReportData, done: Audit) -> None:
    for shown in (data.suspects, data.missing):
        given = [bool(row.evidence.usual) for row in shown]
        assert given == [i < done.settings.explained for i in range(len(shown))]
    assert not any(row.correction for row in data.missing)


def test_the_strongest_paths_are_among_what_supports_a_fact(done: Audit) -> None:
    plain = done.suspect_evidence[0]
    path = EvidencePath((("a", "r", "b"), ("c", "s", "b")), (True, False), 0.25)
    found = sentences(dataclasses.replace(plain, paths=(path,) * 5), [])
    said = "the score rests on the path a -r-> b <-s- c (weight 0.25)"
    assert found.supporting == (*sentences(plain, []).supporting, said, said, said)


def test_what_comes_next_can_be_typed(done: Audit) -> None:
    steps = dict(assessment(done).next)
    assert "npugraph review DIR" in steps
    explain = next(command for command in steps if command.startswith("npugraph explain DIR "))
    first = done.suspects.to_pylist()[0]
    assert shlex.split(explain)[3:] == [first["head"], first["relation"], first["tail"]]


def test_the_page_shows_the_corrections_of_the_list(done: Audit) -> None:
    first = done.collected.facts[done.suspect_rows[0]]
    meant = (Correction("tail", "somebody"), Correction("head", "nobody", stored=True))
    told = called_reliable(done)
    told.__dict__["corrections"] = (*meant, *[None] * (len(done.suspect_rows) - 2))
    assert [row.correction for row in report_data(told).suspects][:3] == [*meant, None]
    rows = told.suspects.to_pylist()
    names = ("replace", "by", "stored_head", "stored_tail")
    assert [rows[0][name] for name in names] == ["tail", "somebody", None, None]
    assert [rows[1][name] for name in names] == [None, None, "nobody", rows[1]["tail"]]
    assert rows[0]["head"] == done.graph.entities.label(int(first[0]))
    assert summary(told)["corrections"] == {"new": 1, "stored": 1}


def test_evidence_is_about_the_fact(data: ReportData) -> None:
    row = data.suspects[0]
    text = "\n".join(row.evidence.usual)
    assert f"{row.head} is the head of" in text
    assert f"{row.tail} is the tail of" in text
    assert f"{row.head} ranks " in text
    assert f"{row.tail} ranks " in text


def test_the_yield_is_the_running_sum_of_the_list(data: ReportData, done: Audit) -> None:
    chance = 1 - done.suspects["probability"].to_numpy()
    assert [point.budget for point in data.yield_curve][-1] == len(chance)
    for point in data.yield_curve:
        assert point.expected.value == pytest.approx(chance[: point.budget].sum())
        assert point.expected.low <= point.expected.value <= point.expected.high
        assert point.observed is None


def test_known_truths_are_pointed_out(done: Audit) -> None:
    planted = graph_of(rows(), extra=("nobody",)).encode(
        pa.table(dict(zip(("head", "relation", "tail"), zip(*WRONG, strict=True), strict=True)))
    )
    data = report_data(done, planted)
    marked = 0
    for row in data.suspects:
        wrong = (row.head, row.relation, row.tail) in WRONG
        assert (row.mark == "planted") == wrong
        marked += wrong
    assert data.planted == planted_check(done, planted)
    assert data.planted == PlantedCheck(len(WRONG), marked, len(done.suspects))
    assert data.yield_curve[-1].observed == marked
    # The probabilities are set beside what is known.
    assert data.reliability is not None
    assert "6 of the 198 facts were planted" in data.reliability.source
    bins = data.reliability.bins
    assert sum(one.count for one in bins) == len(done.collected.facts)
    wrong = sum(one.count * (1 - one.observed.value) for one in bins)
    assert wrong == pytest.approx(len(WRONG))
    for one in bins:
        assert one.observed.low <= one.observed.value <= one.observed.high


def test_without_a_known_truth_nothing_is_checked(data: ReportData) -> None:
    assert data.reliability is data.planted is None


def test_health_counts_each_relation(done: Audit) -> None:
    sure = with_priors(done, Interval(0.9, 0.85, 0.95))
    found = estimated_health(sure)
    assert found.wrong is not None
    assert (found.wrong.value, found.wrong.low, found.wrong.high) == pytest.approx(
        (0.1, 0.05, 0.15)
    )
    facts = set(rows())
    for row in found.by_relation:
        mine = [p for p in facts if p[1] == row.relation]
        assert row.facts == len(mine)
        if row.facts < 20:
            assert row.wrong is None
            continue
        number = done.graph.relations.id(row.relation)
        judged = done.collected.probability[done.collected.facts[:, 1].numpy() == number]
        assert row.wrong is not None
        assert row.wrong.value == pytest.approx(1 - judged.mean())
        assert not row.wrong.has_interval
    assert {row.relation for row in found.by_relation} == {r for _, r, _ in facts}


def test_nothing_is_promised_without_a_reliable_verdict(silent: Audit) -> None:
    found = estimated_health(silent)
    assert found.wrong is None
    assert found.reason == silent.verdict.why
    assert all(row.wrong is None for row in found.by_relation)
    figures = summary(silent)
    assert figures["verdict"] == "order"
    assert figures["identifiable"] is False
    names = ("wrong_share", "expected_wrong", "expected_true", "missing_share")
    for name in names:
        assert [figures[name + end] for end in ("", "_low", "_high")] == [None] * 3
    assert figures["quarantined"] == 0
    page = report_data(silent)
    assert all(row.probability is None for row in (*page.suspects, *page.missing))
    assert page.yield_curve == ()
    assert page.assessment is not None
    assert (page.assessment.level, page.assessment.wrong) == ("order", None)
    for table in (silent.suspects, silent.missing, silent.posterior):
        assert table["probability"].null_count == len(table)
    assert silent.explain(silent.collected.facts[0]).probability is None


def test_a_wide_interval_is_said(done: Audit) -> None:
    assert "between 5.0% and 15.0%" in " ".join(
        warnings(with_priors(done, Interval(0.9, 0.85, 0.95)))
    )
    narrow = warnings(with_priors(done, Interval(0.9, 0.89, 0.91)))
    assert not any("only known to lie" in line for line in narrow)


def test_the_share_of_missing_facts_is_told_where_it_can_be(silent: Audit) -> None:
    for share, level in (
        (None, "cannot judge"),
        (Interval(0.1, 0.0, 0.2), "order"),
        (Interval(0.3, 0.2, 0.4), "reliable"),
    ):
        found = dataclasses.replace(silent, missing_share=share)
        told = share if level == "reliable" else None
        assert found.missing_verdict.level == level
        assert summary(found)["missing_verdict"] == level
        assert summary(found)["missing_share"] == (None if told is None else 0.3)
        shown = estimated_health(found).missing
        assert (None if shown is None else (shown.value, shown.low, shown.high)) == told


def test_the_end_that_is_wrong_is_passed_on_where_the_share_is_known(done: Audit) -> None:
    found = with_priors(dataclasses.replace(done, wrong_end="tail"), Interval(0.9, 0.89, 0.91))
    assert estimated_health(found).wrong_end == summary(found)["wrong_end"] == "tail"
    assert done.wrong_end is estimated_health(done).wrong_end is None


def test_entities_of_one_fact_are_warned_of(done: Audit) -> None:
    ends = [end for h, _, t in set(rows()) for end in (h, t)]
    lonely = sum(ends.count(end) == 1 for end in set(ends))
    assert lonely > 0
    assert f"{lonely} of {len(set(ends))} entities are in one fact only" in " ".join(warnings(done))


def test_the_summary_adds_up(done: Audit) -> None:
    found = summary(done)
    assert found["suspects"] == len(done.suspects)
    assert found["expected_wrong"] == pytest.approx(
        (1 - done.suspects["probability"].to_numpy()).sum()
    )
    assert found["missing"] == len(done.missing)
    assert found["wrong_share_low"] <= found["wrong_share"] <= found["wrong_share_high"]
