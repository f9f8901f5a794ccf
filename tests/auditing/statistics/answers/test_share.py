"""The share of wrong facts by answers: exact where it must be, and held by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import hypergeom

from npugraph.auditing.statistics.answers import SequentialDraw, drawn_share, random_share
from npugraph.auditing.statistics.answers.design import FIRST_LOOK, LOOK_EVERY, enough_answers
from npugraph.errors import DataError

FACTS = 4000


@pytest.mark.parametrize("answers", [50, 100, 200])
@pytest.mark.parametrize("share", [0.01, 0.04, 0.15])
def test_a_random_part_holds_the_truth_as_often_as_it_says(answers: int, share: float) -> None:
    wrong = round(share * FACTS)
    found = np.arange(answers + 1)
    chance = hypergeom.pmf(found, FACTS, wrong, answers)
    likely = found[chance > 1e-9]
    ends = [random_share(int(k), answers, FACTS) for k in likely]
    held = np.array([end.low <= wrong / FACTS <= end.high for end in ends])
    assert chance[likely][held].sum() >= 0.9


def test_the_ends_are_the_outermost_shares_that_are_not_rejected() -> None:
    found = random_share(3, 40, 200)
    low, high = round(found.low * 200), round(found.high * 200)
    assert hypergeom.sf(2, 200, low, 40) > 0.05 >= hypergeom.sf(2, 200, low - 1, 40)
    assert hypergeom.cdf(3, 200, high, 40) > 0.05 >= hypergeom.cdf(3, 200, high + 1, 40)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(DataError, match="5 wrong of 4 answers"):
        random_share(5, 4, 100)
    with pytest.raises(DataError, match="above 0"):
        drawn_share([True], [0.0])


def _population(share: float, kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return which facts are wrong, and the probability that an audit gives them."""
    wrong = rng.random(FACTS) < share
    score = rng.normal(0, 1, FACTS) - 2.0 * wrong
    odds = np.log(share / (1 - share)) - 2.0 * score - 2.0
    if kind == "useless":
        odds = rng.permutation(odds)
    if kind == "overconfident":
        odds = 2 * odds + 2
    return wrong, 1 / (1 + np.exp(odds))


@pytest.mark.parametrize("kind", ["good", "overconfident", "useless"])
@pytest.mark.parametrize("share", [0.01, 0.04, 0.15])
def test_a_weighed_part_holds_the_truth_however_bad_the_probabilities(
    share: float, kind: str
) -> None:
    rng = np.random.default_rng(7)
    wrong, probability = _population(share, kind, rng)
    held = {50: 0, 100: 0, 200: 0}
    repeats, values = 250, []
    for repeat in range(repeats):
        draw = SequentialDraw.of(probability, seed=repeat)
        for answers in held:
            found = draw.estimate(wrong[draw.rows[:answers]], level=0.9)
            held[answers] += found.low <= wrong.mean() <= found.high
        values.append(found.value)
    # 250 draws of an interval that holds in 90% give 85% or less once in 200 times.
    assert min(held.values()) / repeats >= 0.86
    assert sum(held.values()) / (3 * repeats) >= 0.88
    error = np.std(values) / np.sqrt(repeats)
    assert abs(np.mean(values) - wrong.mean()) < 4 * error


def test_all_facts_answered_leave_no_doubt() -> None:
    rng = np.random.default_rng(0)
    wrong, probability = _population(0.1, "overconfident", rng)
    draw = SequentialDraw.of(probability, seed=0)
    assert draw.estimate(wrong[draw.rows]) == pytest.approx(3 * [wrong.mean()])


def test_good_probabilities_need_fewer_answers_than_bad_ones() -> None:
    rng = np.random.default_rng(1)
    width = {}
    for kind in ("good", "useless"):
        wrong, probability = _population(0.15, kind, rng)
        draw = SequentialDraw.of(probability, seed=1)
        found = draw.estimate(wrong[draw.rows[:300]])
        width[kind] = found.high - found.low
    assert width["good"] < 0.75 * width["useless"]


def test_nobody_sure_changes_the_weights_and_not_the_share() -> None:
    rng = np.random.default_rng(2)
    wrong, probability = _population(0.15, "good", rng)
    values = []
    for seed in range(100):
        draw = SequentialDraw.of(probability, seed=seed)
        said = wrong[draw.rows[:200]].astype(float)
        said[rng.random(200) < 0.2] = np.nan
        values.append(draw.estimate(said).value)
    assert np.mean(values) == pytest.approx(wrong.mean(), abs=0.01)


@pytest.mark.parametrize("kind", ["good", "useless"])
def test_stopping_when_narrow_enough_keeps_the_interval_honest(kind: str) -> None:
    rng = np.random.default_rng(3)
    wrong, probability = _population(0.06, kind, rng)
    held, repeats, counts = 0, 100, []
    for seed in range(repeats):
        draw = SequentialDraw.of(probability, seed=seed)
        said = wrong[draw.rows]
        count = FIRST_LOOK + LOOK_EVERY
        while not enough_answers(draw, said[:count], 0.03):
            count += LOOK_EVERY
        found = draw.estimate(said[:count], stopped=True)
        held += found.low <= wrong.mean() <= found.high
        counts.append(count)
    # 100 draws of an interval that holds in 95% give 90% or less once in 35 times.
    assert held / repeats >= 0.91
    assert np.mean(counts) < FACTS / 4
