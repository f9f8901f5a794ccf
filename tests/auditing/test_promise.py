"""What is shown follows the verdict; suspects, their count, and the part believed clean."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from audit_samples import WRONG, called_reliable, graph_of, people, rows
from npugraph.auditing import Audit
from npugraph.auditing.answers import gather_answers
from npugraph.auditing.figures import summary
from npugraph.auditing.judgement import Judgement, clean_mask
from npugraph.auditing.page import assessment, report_data, warnings
from npugraph.auditing.promise import find_suspects, promised_suspects, wrong_among
from npugraph.auditing.statistics.self_test import FamilyTest
from npugraph.auditing.statistics.verdict import OF_RELATION, ORDER, RELIABLE
from npugraph.calibration.class_priors import Interval
from npugraph.report import Estimate

COUNTED = ("expected_wrong", "expected_true", "wrong_share", "missing_share")


def judged(probability: list[float]) -> Judgement:
    chance = np.array(probability)
    count = len(chance)
    facts = torch.zeros((count, 3), dtype=torch.int64)
    low, high = np.maximum(chance - 0.05, 0), np.minimum(chance + 0.05, 1)
    return Judgement(facts, np.zeros(count, np.int64), -np.arange(count) / 9, chance, low, high)


def test_suspects_end_at_the_share_of_true_facts() -> None:
    found = judged([0.99, 0.2, 0.9, 0.2, 0.96, 0.1])
    nobody = np.zeros(6, dtype=bool)
    # Of two that are equally probable the one of the lower score comes first.
    assert promised_suspects(found, nobody, 0.95, 10).tolist() == [5, 3, 1, 2]
    assert promised_suspects(found, nobody, 0.95, 2).tolist() == [5, 3]
    assert find_suspects(found, nobody, found.probability, budget=5).tolist() == [5, 3, 1, 2, 4]
    assert promised_suspects(found, np.arange(6) == 5, 0.95, 2).tolist() == [3, 1]


def test_the_count_allows_for_the_share_and_for_chance() -> None:
    found = judged([0.1] * 100)
    value, low, high = wrong_among(found, np.arange(100), 0.9)
    assert value == pytest.approx(90)
    # 85 and 95 by the ends of the probabilities, and what a count differs from these by.
    assert low < 82
    assert high > 96


def test_nothing_is_counted_where_nothing_is_promised(silent: Audit) -> None:
    assert not silent.verdict.reliable
    told = summary(silent)
    for name in COUNTED:
        assert {told[key] for key in (name, f"{name}_low", f"{name}_high")} == {None}
    assert told["identifiable"] is False
    assert told["wrong_end"] is None
    assert told["self_test"]["curve"] == []
    assert told["noise_profile"] is None
    assert told["alpha"] is None
    assert told["quarantined"] == 0
    for name in ("probability", "low", "high"):
        for table in (silent.suspects, silent.missing, silent.posterior):
            assert table[name].null_count == len(table)
    assert silent.suspects["by"].null_count == len(silent.suspects)
    # The list runs to the budget, in the order of the score.
    assert len(silent.suspects) == silent.settings.budget
    page = report_data(silent)
    assert assessment(silent).reliability is None
    assert page.yield_curve == ()
    assert page.health.wrong is None
    # What would fit better is a correction.
    assert not any(row.evidence.alternatives for row in page.suspects)


def test_the_promise_is_that_of_the_facts_that_are_listed(done: Audit) -> None:
    told = summary(done)
    rows = done.suspect_rows
    assert (done.collected.probability[rows] < done.priors.beta.value).all()
    level = done.settings.thresholds.level
    assert done.expected_wrong == wrong_among(done.collected, rows, level)
    assert told["expected_wrong_low"] <= told["expected_wrong"] <= told["expected_wrong_high"]
    curve = assessment(done).reliability
    assert curve is not None
    assert sum(point.count for point in curve.bins) == len(done.collected.facts)
    # The curve of the report ends with the count that is promised.
    last = report_data(done).yield_curve[-1]
    assert last.budget == len(rows)
    assert last.expected == Estimate(*done.expected_wrong)


def with_share(found: Audit, low: float, most: float) -> Audit:
    """An audit that is sure of its promise, and of a share of wrong facts in an interval."""
    beta = Interval(1 - (low + most) / 2, 1 - most, 1 - low)
    priors = dataclasses.replace(found.priors, beta=beta)
    return called_reliable(dataclasses.replace(found, priors=priors))


def test_a_share_that_may_be_most_of_the_facts_is_not_told(done: Audit) -> None:
    told = summary(with_share(done, 0.03, 0.4))
    assert told["identifiable"] is True
    names = ("wrong_share", "wrong_share_low", "wrong_share_high")
    assert [told[name] for name in names] == pytest.approx([0.215, 0.03, 0.4])
    wide = with_share(done, 0.03, 0.9)
    told = summary(wide)
    assert told["identifiable"] is False
    assert [told[name] for name in names] == [None] * 3
    assert "At least 3.0% of the facts seem to be wrong" in told["reason"]
    assert told["reason"] in told["warnings"]
    assert report_data(wide).health.wrong is None
    # The count stands: it is of the facts that are listed.
    assert told["expected_wrong"] is not None


def test_a_relation_that_is_judged_worse_has_no_probabilities(done: Audit) -> None:
    relation = done.collected.facts[:, 1].numpy()
    poor = int(np.bincount(relation[done.suspect_rows]).argmax())
    # A relation that most facts are of, so that a quarantine would have some of it.
    chance = np.where(relation == poor, 0.02, 0.99)
    judged = dataclasses.replace(done.collected, probability=chance, low=chance, high=chance)
    found = dataclasses.replace(done, collected=judged)
    free, told = called_reliable(found), called_reliable(found)
    free.__dict__["relation_verdicts"] = {poor: RELIABLE}
    told.__dict__["relation_verdicts"] = {poor: ORDER}
    name = done.graph.relations.label(poor)
    assert free.suspects["probability"].null_count == 0
    for table in (told.suspects, told.posterior):
        stored = (
            table if "collected" not in table.column_names else table.filter(table["collected"])
        )
        for row in stored.to_pylist():
            assert (row["probability"] is None) == (row["relation"] == name)
    assert len(free.quarantine_rows) > 0
    assert len(told.quarantine_rows) == 0
    fact = next(row for row in told.suspects.to_pylist() if row["relation"] == name)
    explained = told.explain((fact["head"], fact["relation"], fact["tail"]))
    assert OF_RELATION.why in explained.to_text()
    # What is listed, and how many of it are wrong, is as before.
    assert told.expected_wrong == free.expected_wrong


def test_missing_facts_end_where_fewer_than_half_should_be_true(done: Audit) -> None:
    count = len(done.proposed.facts)
    chance = np.linspace(1, 0, count)
    proposed = dataclasses.replace(done.proposed, probability=chance, low=chance, high=chance)

    def listed(missing: int | None, reliable: bool = True) -> np.ndarray:
        asked = dataclasses.replace(done.settings, missing=missing)
        told = dataclasses.replace(done, settings=asked, proposed=proposed)
        return (called_reliable(told) if reliable else told).missing_rows

    assert (chance[listed(None)] >= 0.5).all()
    assert len(listed(None)) == int((chance >= 0.5).sum())
    assert len(listed(count)) == count
    assert len(listed(3)) == 3
    # Where that cannot be told, as many as the budget.
    assert len(listed(None, reliable=False)) == min(done.settings.budget, count)


def test_quarantine_needs_its_precision_by_the_lower_end(done: Audit) -> None:
    relation = done.collected.facts[:, 1]
    rare = (torch.bincount(relation)[relation] < 20).numpy()
    assert rare.any()
    chance = np.full(len(rare), 0.99)
    chance[:60] = 0.02

    def taken(high: float) -> np.ndarray:
        upper = np.maximum(chance, np.where(chance < 0.5, high, 1.0))
        judged = dataclasses.replace(done.collected, probability=chance, high=upper)
        return called_reliable(dataclasses.replace(done, collected=judged)).quarantine_rows

    assert set(taken(0.05)) == set(np.flatnonzero((chance < 0.5) & ~rare & ~done.protected))
    # By the lower end only four of five would be wrong; nine of ten are asked for.
    assert len(taken(0.2)) == 0


def test_families_that_would_be_overlooked_are_named_beside_a_promise(done: Audit) -> None:
    rows = (FamilyTest("arbitrary", 40, 0.99, 0.8), FamilyTest("plausible", 60, 0.7, 0.02))
    told = called_reliable(
        dataclasses.replace(done, test=dataclasses.replace(done.test, families=rows))
    )
    text = " ".join(warnings(told))
    assert "plausible (of 60 planted ones 2% were called wrong)" in text
    assert "arbitrary" not in text


def test_a_part_is_clean_by_protection_and_by_answers_that_were_not_chosen() -> None:
    graph = graph_of(people(36))
    names = ("head", "relation", "tail")

    def said(places: range, answer: str, drawn: str) -> list[dict[str, str]]:
        return [
            {**dict(zip(names, people(36)[place], strict=True)), "answer": answer, "drawn": drawn}
            for place in places
        ]

    given = said(range(5), "true", "random") + said(range(5, 9), "true", "chosen")
    given += said(range(9, 12), "true", "")
    protected = graph.facts[20:22]

    def clean(answers: list[dict[str, str]]) -> int:
        return int(clean_mask(graph, gather_answers(graph, answers), protected).sum())

    assert clean(given) == 5 + 3 + 2
    # Who calls some facts wrong, and does not say how they came up, may have looked at suspects.
    assert clean([*given, *said(range(12, 13), "wrong", "")]) == 5 + 2
    assert clean([*given, *said(range(12, 13), "wrong", "random")]) == 5 + 3 + 2


def test_a_protected_part_is_tested_and_told() -> None:
    from npugraph.auditing import AuditSettings, audit

    quick = AuditSettings(recipe="random", folds=2, search=False, device="cpu", missing=0)
    graph = graph_of(rows())
    plain = audit(graph, dataclasses.replace(quick, self_test=0.2))
    assert plain.test.clean is None
    right = graph.encode(graph_of(people(36)).to_table())
    found = audit(graph, dataclasses.replace(quick, self_test=0.2), protected=right)
    assert found.test.clean is not None
    assert found.test.clean.facts == len(graph.index()) - len(WRONG)
    assert summary(found)["self_test"]["clean"]["facts"] == found.test.clean.facts
