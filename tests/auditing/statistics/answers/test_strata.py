"""Strata: the interval holds the truth, with few answers where scores are good."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom

from npugraph.auditing.statistics.answers import (
    Counts,
    cut,
    narrow_enough,
    next_strata,
    random_share,
    stratified_share,
)
from npugraph.errors import DataError


def drawn_until_narrow(
    score: np.ndarray, wrong: np.ndarray, half_width: float, seed: int
) -> tuple[int, float, float]:
    """Answer until the interval is narrow; return how many answers, and its ends."""
    rng = np.random.default_rng(seed)
    codes = cut(score)
    orders = [rng.permutation(np.flatnonzero(codes == h)) for h in range(codes.max() + 1)]
    facts = np.array([len(order) for order in orders])
    stratum, said = np.zeros(len(wrong), dtype=np.int64), np.zeros(len(wrong))
    for count in range(len(wrong) + 1):
        counts = Counts.of(facts, stratum[:count], said[:count])
        if count % 10 == 0 and narrow_enough(facts, stratum[:count], said[:count], half_width):
            found = stratified_share(counts)
            return count, found.low, found.high
        mine = int(next_strata(counts)[0])
        stratum[count], said[count] = mine, wrong[orders[mine][counts.answers[mine]]]
    raise AssertionError("All facts were answered, and that was not enough.")


def spread(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and which of 3,000 facts are wrong, where scores may be as bad as they like."""
    rng = np.random.default_rng(1)
    rate = {"many wrong": 0.3, "hardly any wrong": 0.003, "none wrong": 0.0}.get(kind, 0.05)
    wrong = np.arange(3000) < round(3000 * rate)
    shift = {"chance": 0.0, "wrong way round": -3.5, "many wrong": 1.5}.get(kind, 3.5)
    score = rng.normal(size=3000) - shift * wrong
    if kind == "all plausible":
        score = np.where(wrong, np.quantile(score, 0.6), score)
    return score, wrong


@pytest.mark.parametrize(
    "kind",
    [
        "good",
        "chance",
        "wrong way round",
        "all plausible",
        "many wrong",
        "hardly any wrong",
        "none wrong",
    ],
)
def test_the_interval_holds_the_truth_when_one_stops(kind: str) -> None:
    score, wrong = spread(kind)
    half_width = 0.08 if kind == "many wrong" else 0.03
    ended = [drawn_until_narrow(score, wrong, half_width, seed) for seed in range(24)]
    held = np.mean([low <= wrong.mean() <= high for _, low, high in ended])
    # Where 95% hold in truth, fewer than 20 of 24 do with a chance of less than 1%.
    assert held >= 20 / 24
    assert max(high - low for _, low, high in ended) <= 2 * half_width + 1e-4
    if kind == "good":
        needed = np.mean([count for count, _, _ in ended])
        plain = next(
            n
            for n in range(30, 3000, 10)
            if np.ptp(random_share(round(0.05 * n), n, 3000, level=0.95)[1:]) <= 0.06
        )
        assert needed < 0.5 * plain


def test_the_interval_is_that_of_the_exact_posterior() -> None:
    # Few facts: every number of wrong ones among the rest has a chance that can be added up.
    counts = Counts(np.array([40, 60, 400]), np.array([12, 14, 60]), np.array([9, 3, 1]))
    chance = np.ones(1)
    for facts, answers, wrong in zip(counts.facts, counts.answers, counts.wrong, strict=True):
        rest = facts - answers
        left = betabinom(rest, wrong + 1 / 3, answers - wrong + 1 / 3).pmf(np.arange(rest + 1))
        chance = np.convolve(chance, left)
    found = stratified_share(counts)
    share = (counts.wrong.sum() + np.arange(len(chance))) / 500
    held = chance[(share >= found.low) & (share <= found.high)].sum()
    assert held == pytest.approx(0.95, abs=0.015)


def test_one_stratum_without_a_find_is_not_believed_too_early() -> None:
    # Alone, no interval may leave out what 60 right answers show by chance in one case of 33.
    counts = Counts(np.array([10, 10**6]), np.array([10, 60]), np.array([5, 0]))
    assert stratified_share(counts).high == pytest.approx(1 - 0.03 ** (1 / 60), rel=0.01)
    turned = Counts(counts.facts, counts.answers, counts.answers - counts.wrong)
    assert stratified_share(turned).low == pytest.approx(0.03 ** (1 / 60), rel=0.01)


@given(
    st.lists(
        st.tuples(st.integers(1, 50), st.integers(0, 50), st.integers(0, 50)),
        min_size=1,
        max_size=5,
    )
)
def test_the_interval_is_about_the_share_and_ends_at_the_truth(
    given_counts: list[tuple[int, int, int]],
) -> None:
    facts = np.array([n for n, _, _ in given_counts])
    answers = np.array([min(n, a) for n, a, _ in given_counts])
    wrong = np.array([min(a, w) for a, (_, _, w) in zip(answers, given_counts, strict=True)])
    found = stratified_share(Counts(facts, answers, wrong))
    assert 0 <= found.low <= found.value + 1e-12
    assert found.value <= found.high + 1e-12 <= 1 + 2e-12
    if (answers == facts).all():
        assert found.low == pytest.approx(wrong.sum() / facts.sum()) == found.high


def test_what_is_unsure_is_no_answer_and_empty_strata_are_asked_first() -> None:
    facts = np.array([10, 90])
    counts = Counts.of(facts, np.array([1, 1, 1]), np.array([0.0, np.nan, 1.0]))
    assert counts.answers.tolist() == [0, 2]
    assert counts.wrong.tolist() == [0, 1]
    assert next_strata(counts)[0] == 0
    used_up = Counts(facts, np.array([10, 50]), np.array([5, 1]))
    assert next_strata(used_up).tolist() == [1, 0]


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(DataError, match="more answers than facts"):
        stratified_share(Counts(np.array([3]), np.array([4]), np.array([0])))


def test_few_facts_make_fewer_strata() -> None:
    assert cut(np.arange(5.0)).tolist() == [0, 1, 1, 1, 1]
    assert np.bincount(cut(np.arange(1000.0))).tolist() == [20, 30, 50, 100, 800]
