"""Strata: the interval holds the truth, with few answers where scores are good."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize("useful", [True, False], ids=["good scores", "scores of chance"])
def test_the_interval_holds_the_truth_when_one_stops(useful: bool) -> None:
    rng = np.random.default_rng(1)
    wrong = rng.random(6000) < 0.05
    score = rng.normal(size=6000) - 3.5 * wrong * useful
    ended = [drawn_until_narrow(score, wrong, 0.03, seed) for seed in range(60)]
    held = np.mean([low <= wrong.mean() <= high for _, low, high in ended])
    assert held >= 0.9
    assert max(high - low for _, low, high in ended) <= 0.0601
    needed = np.mean([count for count, _, _ in ended])
    plain = next(
        n
        for n in range(30, 6000, 10)
        if np.ptp(random_share(round(0.05 * n), n, 6000, level=0.95)[1:]) <= 0.06
    )
    assert needed < (0.7 if useful else 1.2) * plain


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
    assert np.bincount(cut(np.arange(1000.0))).tolist() == [20, 40, 90, 850]
