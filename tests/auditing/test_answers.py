"""Answers in an audit: who is known, what is learned, and what the share rests on."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from audit_samples import WRONG, graph_of, people, rows
from npugraph.auditing import Audit, AuditSettings, audit
from npugraph.auditing.answers import Learned, gather_answers, record, sentences
from npugraph.auditing.figures import summary
from npugraph.auditing.judgement import judge_stored
from npugraph.auditing.page import notes
from npugraph.auditing.recalibration import answered_share, learn, stored_graph, told_priors
from npugraph.auditing.statistics.answers import random_share
from npugraph.calibration.class_priors import Interval
from npugraph.errors import DataError

QUICK = AuditSettings(recipe="random", folds=3, search=False, device="cpu", missing=10, explained=2)


def said(facts: list[tuple[str, str, str]], answer: str, **more: Any) -> list[dict[str, Any]]:
    names = ("head", "relation", "tail")
    return [{**dict(zip(names, fact, strict=True)), "answer": answer, **more} for fact in facts]


def forty() -> list[dict[str, Any]]:
    """Forty random answers, two of them wrong."""
    return said(people(36)[:38], "true", drawn="random") + said(WRONG[:2], "wrong", drawn="random")


@pytest.fixture(scope="module")
def found() -> Audit:
    return audit(graph_of(rows(), source="people"), QUICK, answers=forty())


def test_answers_and_labels_are_one_notion() -> None:
    graph = graph_of(rows())
    label = torch.full((len(graph),), -1, dtype=torch.int8)
    label[:3] = torch.tensor([1, 0, 1])
    graph = dataclasses.replace(graph, label=label)
    given = [
        *said(rows()[:1], "wrong", drawn="random"),  # its label says right
        *said(rows()[2:3], "right", drawn="random"),
        *said(rows()[5:6], "true", drawn="chosen"),
        *said(rows()[5:6], "unsure"),
        *said(rows()[6:7], "unsure"),
        *said([("nobody", "knows", "person 001"), ("国 1", "knows", "国 2")], "false"),
        *said(rows()[7:8], ""),
    ]
    found = gather_answers(graph, given)
    assert (len(found.right), len(found.wrong), len(found.both)) == (2, 1, 1)
    assert (found.labelled, found.absent, found.open) == (3, 2, 1)
    assert found.first_absent == "(nobody, knows, person 001)"
    assert graph.with_facts(found.rejected).to_table().to_pylist() == [
        {"head": "国 1", "relation": "knows", "tail": "国 2"}
    ]
    by_fact = dict(
        zip(
            map(tuple, found.facts.tolist()), zip(found.said, found.drawn, strict=True), strict=True
        )
    )
    places = [by_fact[tuple(graph.facts[row].tolist())] for row in (0, 1, 2, 5, 6)]
    assert places == [(-1, 0), (0, 2), (1, 0), (1, 1), (-1, 2)]


def test_some_chances_are_no_chances() -> None:
    given = said(rows()[:1], "true", drawn="random", chance=0.1)
    given += said(rows()[1:2], "true", drawn="random", chance=None)
    with pytest.raises(DataError, match="1 random answers say with what chance"):
        gather_answers(graph_of(rows()), given)


def test_known_facts_are_kept_to(found: Audit) -> None:
    wrong = found.answers.wrong
    assert len(wrong) == 2
    assert not found.crossfit.folds.graph.index().contains(wrong).any()
    # They are judged all the same, in the order of the answers: the recalibration needs it.
    assert torch.equal(found.crossfit.known_wrong.facts, wrong)
    assert torch.isfinite(found.crossfit.known_wrong.features).all()
    right = found.crossfit.folds.graph.index().places(found.answers.right).numpy()
    for values in (found.collected.probability, found.collected.low, found.collected.high):
        assert (values[right] == 1).all()
    assert not np.isin(found.suspect_rows, right).any()


def test_probabilities_and_the_share_follow_the_answers(found: Audit) -> None:
    assert found.learned.used == found.learned.random == 40
    facts = len(found.graph.index())
    assert found.learned.share == random_share(2, 40, facts)
    told = summary(found)
    assert told["wrong_share"] == pytest.approx(0.05)
    assert told["wrong_share_from"] == "answers"
    # The share is told by the answers; the counts of the lists are not.
    assert told["identifiable"] is False
    assert told["expected_wrong"] is None
    assert (told["answers"]["behind_share"], told["answers"]["wrong"]) == (40, 2)
    assert told["answers"]["carry_probabilities"] is False
    # Too few answers are no reason to trust the probabilities, and none not to.
    assert not found.learned.carries
    assert not found.learned.refutes
    assert "too few to carry probabilities" in told["answers"]["reason"]
    unknown = np.setdiff1d(
        np.arange(len(found.collected.facts)),
        found.crossfit.folds.graph.index().places(found.answers.right).numpy(),
    )
    # A system that guesses says nothing; the level is that of the answers.
    assert 0.85 < found.collected.probability[unknown].mean() < 0.99
    text = " ".join(notes(found))
    assert "The probabilities were recalibrated by 40 answers." in text
    assert "rest on 40 answers on facts that were drawn at random" in text


def test_chosen_answers_do_not_tell_the_share() -> None:
    graph = graph_of(rows())
    given = said(people(36)[:15], "true", drawn="chosen") + said(WRONG, "wrong", drawn="chosen")
    found = audit(graph, QUICK, answers=given)
    assert found.learned.share is None
    assert found.learned.used == 21
    assert summary(found)["wrong_share_from"] == "audit"
    assert "do not say how many facts are wrong" in " ".join(notes(found))


def test_a_source_of_errors_is_learned_from() -> None:
    facts = people(36)
    # Every third fact comes from a source whose answered facts are all wrong.
    names = ["bad" if place % 3 == 0 else "good" for place in range(len(facts))]
    graph = dataclasses.replace(graph_of(facts), columns={"source": pa.array(names)})
    bad, good = (
        [fact for fact, name in zip(facts, names, strict=True) if name == which]
        for which in ("bad", "good")
    )
    given = said(bad[:20], "wrong", drawn="random") + said(good[:40], "right", drawn="random")
    found = audit(graph, dataclasses.replace(QUICK, source="source"), answers=given)
    assert found.posterior["source"].to_pylist()[: len(names)] == names
    place = found.crossfit.folds.graph.index().places
    unknown = [
        found.collected.probability[place(graph.facts[[facts.index(fact) for fact in some]])]
        for some in (bad[20:], good[40:])
    ]
    assert unknown[0].mean() < 0.4 < 0.9 < unknown[1].mean()


def test_nineteen_answers_change_no_probability() -> None:
    graph = graph_of(rows())
    plain = audit(graph, QUICK)
    few = audit(graph, QUICK, answers=said(people(36)[:19], "true", drawn="random"))
    assert few.learned == Learned()
    others = ~np.isclose(few.collected.probability, 1)
    assert (few.collected.probability == plain.collected.probability)[others].all()
    assert "19 answers are too few to change probabilities" in " ".join(notes(few))


def test_chances_weigh_the_answers_and_a_given_share_stands() -> None:
    graph = graph_of(rows())
    given = said(WRONG, "wrong", drawn="random", chance=0.9)
    given += said(people(36)[:20], "right", drawn="random", chance=0.1)
    known = gather_answers(graph, given)
    share, count = answered_share(known, len(graph.index()), QUICK)
    assert share is not None
    assert count == 26
    assert share.value == pytest.approx((6 / 0.9) / (6 / 0.9 + 20 / 0.1))
    plain = audit(graph, QUICK)
    learned = Learned(26, 26, share)
    told = told_priors(plain.priors, 0.3, learned, QUICK)
    assert told.beta.value == pytest.approx(1 - share.value)
    fixed = dataclasses.replace(QUICK, beta=0.9)
    assert told_priors(plain.priors, 0.3, learned, fixed) == plain.priors
    # Without random answers nothing rules out errors that look like true facts.
    priors = dataclasses.replace(plain.priors, beta=Interval(0.96, 0.94, 0.98))
    assert told_priors(priors, 0.3, Learned(), QUICK).beta == (0.96, pytest.approx(0.7), 0.98)
    assert told_priors(priors, 0.01, Learned(), QUICK).beta == priors.beta


def test_few_answers_that_agree_leave_probabilities_that_hold(found: Audit) -> None:
    rows = stored_graph(found.graph, found.crossfit)
    stored = judge_stored(found.crossfit, found.model)
    ask = (rows, found.answers, found.settings)
    right = found.crossfit.folds.graph.index().places(found.answers.right).numpy()
    # Two of the forty are wrong.
    for chance, stays in ((0.95, True), (0.6, False)):
        level = np.full(len(stored.facts), chance)
        other = dataclasses.replace(stored, probability=level, low=level - 0.01, high=level)
        kept, learned = learn(other, *ask, trusted=True)
        others = np.setdiff1d(np.arange(len(kept.facts)), right)
        assert learned.kept == (kept.probability[others] == chance).all() == stays
        assert (kept.probability[right] == 1).all()
        assert not learn(other, *ask, trusted=False)[1].kept
        told = " ".join(sentences(found.answers, learned))
        assert ("40 answers agree with the probabilities" in told) == stays
        assert (record(found.answers, learned)["behind_probabilities"] == 0) == stays


def test_answers_begin_with_probabilities_only_where_these_hold(found: Audit) -> None:
    """Where the verdict is not ``reliable`` the order of the facts is all that is kept."""
    rows = stored_graph(found.graph, found.crossfit)
    stored = judge_stored(found.crossfit, found.model)
    other = dataclasses.replace(stored, probability=np.full(len(stored.facts), 0.6))
    ask = (rows, found.answers, found.settings)
    plain, changed = (learn(one, *ask, trusted=False)[0] for one in (stored, other))
    assert np.array_equal(plain.probability, changed.probability)
    trusted = learn(other, *ask, trusted=True)[0]
    assert not np.allclose(plain.probability, trusted.probability)
    assert np.array_equal(found.collected.probability, plain.probability)
