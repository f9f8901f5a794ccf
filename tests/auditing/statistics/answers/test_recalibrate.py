"""Probabilities by answers, against a slow transcription and by what they are for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from npugraph.auditing.statistics.answers import (
    CHOSEN,
    RANDOM,
    UNKNOWN,
    Answered,
    Predictors,
    check_answers,
    recalibrate,
)
from npugraph.auditing.statistics.answers.laplace import USUAL_SPREAD, Problem, _newton
from npugraph.auditing.statistics.answers.recalibrate import Fitted
from npugraph.errors import DataError
from npugraph.metrics import average_precision, ece


def _answered(rows: np.ndarray, true: np.ndarray, drawn: int = RANDOM) -> Answered:
    return Answered(rows, true[rows], np.full(len(rows), drawn))


def _graph(
    seed: int, *, relation_spread: float = 0.0, facts: int = 5000
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
    """Return scores, relations and truth of facts, about a tenth of them wrong."""
    rng = np.random.default_rng(seed)
    score, relation = rng.normal(size=facts), rng.integers(0, 20, facts)
    odds = 1.2 * score + 2.8 + relation_spread * rng.normal(size=20)[relation]
    return score, relation, rng.random(facts) < expit(odds), rng


def test_the_mode_and_its_curvature_agree_with_a_slow_transcription() -> None:
    rng = np.random.default_rng(0)
    m, counts, spreads = 60, (3, 5), (0.7, 1.3)
    groups = rng.integers(0, 3, m), rng.integers(0, 5, m)
    shared = np.column_stack([np.ones(m), rng.normal(size=m)])
    truth = (rng.random(m) < 0.7).astype(float)
    mean, precision = np.array([0.5, 1.0]), np.array([0.25, 4.0])
    problem = Problem(truth, shared, mean, precision, np.array([-np.inf, 0.0]), groups, counts)
    found = _newton(problem, spreads, None)

    columns = np.hstack([shared, np.eye(3)[groups[0]], np.eye(5)[groups[1]]])
    every_mean = np.append(mean, np.zeros(8))
    every_precision = np.concatenate([precision, np.full(3, 0.7**-2), np.full(5, 1.3**-2)])

    def loss(effects: np.ndarray) -> float:
        odds = columns @ effects
        misfit = -(truth * odds - np.log1p(np.exp(odds))).sum()
        return float(misfit + every_precision @ (effects - every_mean) ** 2 / 2)

    slow = minimize(loss, every_mean, tol=1e-12).x
    assert found.effects == pytest.approx(slow, abs=1e-4)
    chance = expit(columns @ found.effects)
    curvature = columns.T @ (columns * (chance * (1 - chance))[:, None]) + np.diag(every_precision)
    covariance = np.linalg.inv(curvature)
    dense = np.linalg.inv(found.curvature)
    assert dense == pytest.approx(covariance[:5, :5])
    assert dense @ found.cross == pytest.approx(covariance[:5, 5:])
    own = found.own + np.einsum("dg,de,eg->g", found.cross, dense, found.cross)
    assert own == pytest.approx(np.diag(covariance)[5:])
    log_evidence = (
        -loss(found.effects)
        + np.log(every_precision).sum() / 2
        - np.linalg.slogdet(curvature)[1] / 2
        - sum(spreads) / USUAL_SPREAD
    )
    assert found.evidence == pytest.approx(log_evidence)


def test_variances_are_those_of_the_whole_covariance() -> None:
    score, relation, true, rng = _graph(3, relation_spread=2.0, facts=300)
    source = rng.integers(0, 40, 300)
    facts = Predictors.of(score, relation=relation, source=source)
    fitted = Fitted.of(facts, _answered(np.arange(150), true))
    found = fitted.judge(facts, np.arange(300), level=0.9)
    posterior = fitted.posterior
    dense = np.linalg.inv(posterior.curvature)
    second = posterior.cross.T @ dense @ posterior.cross + np.diag(posterior.own)
    joint = dense @ posterior.cross
    covariance = np.block([[dense, joint], [joint.T, second]])
    row = 10  # one of the answered facts: both of its groups have answers
    place = np.zeros(len(covariance))
    place[0], place[1:5] = 1.0, facts.columns[row]
    place[5 + fitted.places[fitted.first][getattr(facts, fitted.first)[row]]] = 1.0
    place[len(dense) + fitted.places[fitted.second][getattr(facts, fitted.second)[row]]] = 1.0
    odds, deviation = place @ posterior.effects, np.sqrt(place @ covariance @ place)
    assert found.low[row] == pytest.approx(expit(odds - 1.6448536 * deviation))
    assert found.high[row] == pytest.approx(expit(odds + 1.6448536 * deviation))


@pytest.mark.parametrize("promised", [True, False])
def test_answers_mend_bad_probabilities(promised: bool) -> None:
    score, relation, true, rng = _graph(1)
    claimed = expit(3 * score + 1)
    facts = Predictors.of(score, probability=claimed if promised else None, relation=relation)
    for count, most in ((20, 0.1), (200, 0.05)):
        rows = rng.permutation(len(score))[:count]
        found = recalibrate(facts, _answered(rows, true))
        assert ece(claimed, true) > 0.2
        assert ece(found.probability, true) < most
        assert ((found.low <= found.probability) & (found.probability <= found.high)).all()


def test_relations_that_differ_are_told_apart() -> None:
    score, relation, true, rng = _graph(2, relation_spread=2.0)
    facts = Predictors.of(score, relation=relation)
    found = recalibrate(facts, _answered(rng.permutation(len(score))[:400], true))
    assert found.relation_spread >= 1
    before, after = (average_precision(~true, -v) for v in (score, found.probability))
    assert after > before + 0.05


def test_a_relation_without_answers_is_less_sure() -> None:
    score, relation, true, rng = _graph(2, relation_spread=2.0)
    rows = rng.permutation(np.flatnonzero(relation > 0))[:300]
    found = recalibrate(Predictors.of(score, relation=relation), _answered(rows, true))
    width = found.high - found.low
    assert width[relation == 0].mean() > 1.2 * width[relation > 0].mean()


def test_suspicious_facts_may_be_chosen() -> None:
    score, relation, true, rng = _graph(4)
    worst = np.argsort(score)[:400]
    rows = rng.permutation(worst)[:150]
    found = recalibrate(Predictors.of(score, relation=relation), _answered(rows, true, CHOSEN))
    assert ece(found.probability, true) < 0.06


def test_errors_that_somebody_stumbled_on_do_not_say_how_many_there_are() -> None:
    score, relation, true, rng = _graph(5)
    claimed = expit(1.2 * score + 2.8)
    facts = Predictors.of(score, probability=claimed, relation=relation)
    rows = rng.permutation(np.flatnonzero(~true))[:60]
    free, bound = (
        recalibrate(facts, _answered(rows, true, drawn)).probability.mean()
        for drawn in (UNKNOWN, RANDOM)
    )
    assert bound < 0.5
    assert free == pytest.approx(claimed.mean(), abs=0.05)


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=8, deadline=None)
def test_probabilities_never_fall_where_the_score_rises(seed: int, backwards: bool) -> None:
    rng = np.random.default_rng(seed)
    score, relation = rng.normal(size=200), rng.integers(0, 4, 200)
    true = rng.random(200) < expit(-score if backwards else score)
    facts = Predictors.of(score, probability=expit(2 * score), relation=relation)
    found = recalibrate(facts, _answered(rng.permutation(200)[:40], true))
    for number in range(4):
        mine = np.flatnonzero(relation == number)
        rising = found.probability[mine[np.argsort(score[mine])]]
        assert (np.diff(rising) > -1e-6).all()


def test_views_count_where_the_answers_say_so() -> None:
    rng = np.random.default_rng(6)
    score, view = rng.normal(size=(2, 5000))
    true = rng.random(5000) < expit(0.5 * score + 1.5 * view + 2.5)
    facts = Predictors.of(score, views=view[:, None])
    found = recalibrate(facts, _answered(rng.permutation(5000)[:300], true))
    assert found.slopes[-1] > 0.5
    assert average_precision(~true, -found.probability) > average_precision(~true, -score) + 0.05


def test_too_few_answers_are_refused() -> None:
    score, _, true, _ = _graph(0)
    with pytest.raises(DataError, match="19 answers are too few; 20 are needed"):
        recalibrate(Predictors.of(score), _answered(np.arange(19), true))


def test_probabilities_are_carried_where_answers_come_out_as_foretold() -> None:
    score, relation, true, rng = _graph(7)
    facts = Predictors.of(score, relation=relation)
    suspicious = score <= np.sort(score)[300]
    rows = np.concatenate([rng.permutation(5000)[:100], np.flatnonzero(suspicious)[:60]])
    rows = np.unique(rows)
    said = _answered(rows, true)
    assert check_answers(facts, said, suspicious).holds
    few = check_answers(facts, said.select(~suspicious[rows]), suspicious)
    assert not few.holds
    assert not few.enough
    assert "as suspicious as those listed are too few" in few.reason
    # Where all the suspicious ones are right, and wrong ones are elsewhere, no slope is left.
    turned = np.where(suspicious, True, rng.random(5000) < 0.4)
    found = check_answers(facts, _answered(rows, turned), suspicious)
    assert found.enough
    assert not found.holds
    assert "foretold" in found.reason
