"""Density ratio, posteriors and calibration measures, against slow transcriptions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npugraph.calibration.probability import (
    DensityRatio,
    positions,
    posterior_collected,
    posterior_uncollected,
    rows_by_group,
)
from npugraph.errors import DataError, SettingsError
from npugraph.metrics import brier, ece, reliability_curve

scores = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=25)


def slow_isotonic(high: list[float], low: list[float]) -> dict[float, float]:
    """Pool adjacent violators in exact arithmetic; half a fact of the other class at each end."""
    levels = sorted({*high, *low})
    blocks = [[Fraction(1, 2 * len(high)), Fraction(0), []]]
    for level in levels:
        up = Fraction(high.count(level), len(high))
        blocks.append([up, Fraction(low.count(level), len(low)), [level]])
    blocks.append([Fraction(0), Fraction(1, 2 * len(low)), []])
    done: list[list] = []
    for block in blocks:
        done.append(block)
        while len(done) > 1 and (
            done[-2][0] * (done[-1][0] + done[-1][1]) >= done[-1][0] * (done[-2][0] + done[-2][1])
        ):
            last = done.pop()
            done[-1] = [done[-1][k] + last[k] for k in range(3)]
    return {level: float(up / down) for up, down, members in done for level in members}


@given(scores, scores)
def test_isotonic_is_pool_adjacent_violators(high: list[float], low: list[float]) -> None:
    expected = slow_isotonic(high, low)
    ratio = DensityRatio.fit(high, low)
    np.testing.assert_allclose(ratio(list(expected)), list(expected.values()), rtol=1e-9)


@given(scores, scores, st.sampled_from(["isotonic", "platt"]))
def test_the_ratio_is_monotone_positive_and_finite(
    high: list[float], low: list[float], method: str
) -> None:
    values = DensityRatio.fit(high, low, method=method)(np.linspace(-1e6, 1e6, 101))
    assert np.isfinite(values).all()
    assert (values > 0).all()
    assert (np.diff(values) >= -1e-12 * values[1:]).all()


def test_separated_classes_end_at_half_a_fact() -> None:
    ratio = DensityRatio.fit(np.arange(10.0) + 100, np.arange(20.0))
    # Half of one collected fact in ten against all the uncollected ones, and the reverse.
    np.testing.assert_allclose(ratio([0.0, 19.0]), 0.05)
    np.testing.assert_allclose(ratio([100.0, 200.0]), 40.0)


def test_whole_weights_repeat_facts() -> None:
    rng = np.random.default_rng(0)
    high, low = rng.normal(1, 1, 40), rng.normal(0, 1, 60)
    times = rng.integers(0, 4, 60)
    times[0] = 1
    weighted = DensityRatio.fit(high, low, uncollected_weight=times)
    repeated = DensityRatio.fit(high, np.repeat(low, times))
    middle = np.linspace(np.quantile(low, 0.3), np.quantile(low, 0.7), 20)
    # Equal but for the half fact at the top, whose size goes by the number of rows.
    np.testing.assert_allclose(weighted(middle), repeated(middle), rtol=0.1)


def test_isotonic_finds_a_known_ratio() -> None:
    rng = np.random.default_rng(1)
    ratio = DensityRatio.fit(rng.normal(1, 1, 40_000), rng.normal(0, 1, 40_000))
    at = np.array([-0.5, 0.0, 0.5, 1.0, 1.5])
    # The ratio of the normals N(1, 1) and N(0, 1) is exp(s - 1/2).
    np.testing.assert_allclose(ratio(at), np.exp(at - 0.5), rtol=0.1)


def test_platt_finds_a_known_line() -> None:
    rng = np.random.default_rng(2)
    ratio = DensityRatio.fit(rng.normal(1, 1, 4000), rng.normal(0, 1, 9000), method="platt")
    at = np.array([-2.0, 0.0, 1.0, 3.0])
    np.testing.assert_allclose(ratio.log(at), at - 0.5, atol=0.25)


def test_platt_does_not_follow_a_score_that_is_turned_round() -> None:
    ratio = DensityRatio.fit([0.0, 1.0, 2.0], [5.0, 6.0, 7.0], method="platt")
    np.testing.assert_allclose(ratio([0.0, 7.0]), 1.0, rtol=1e-4)


def test_one_fact_of_each_and_equal_scores() -> None:
    assert DensityRatio.fit([1.0], [1.0])([0.0, 1.0, 2.0]).tolist() == [1.0, 1.0, 1.0]
    assert DensityRatio.fit([1.0], [1.0], method="platt")([5.0])[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("high", "low", "message"),
    [
        ([], [1.0], "collected is empty"),
        ([1.0], [], "uncollected is empty"),
        ([1.0, np.nan], [1.0], r"collected\[1\] is nan"),
        ([1.0], [np.inf], r"uncollected\[0\] is inf"),
        ([[1.0]], [1.0], "one-dimensional"),
    ],
)
def test_bad_scores_are_refused(high: list, low: list, message: str) -> None:
    with pytest.raises(DataError, match=message):
        DensityRatio.fit(high, low)


def test_bad_weights_and_methods_are_refused() -> None:
    for weight in ([-1.0, 2.0], [0.0, 0.0], [1.0]):
        with pytest.raises(DataError, match="collected_weight"):
            DensityRatio.fit([1.0, 2.0], [1.0], collected_weight=weight)
    with pytest.raises(SettingsError, match="Did you mean 'isotonic'"):
        DensityRatio.fit([1.0], [1.0], method="isotonik")  # type: ignore[arg-type]


def test_groups_must_fit_their_scores() -> None:
    with pytest.raises(DataError, match="same length"):
        rows_by_group([0], [1.0, 2.0], "scores")
    with pytest.raises(DataError, match="whole numbers"):
        rows_by_group([0.5], [1.0], "scores")


def test_rows_by_group_keeps_row_order() -> None:
    rows = rows_by_group([3, 1, 3, 1], [0.0] * 4, "x")
    assert {key: value.tolist() for key, value in rows.items()} == {1: [1, 3], 3: [0, 2]}


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(0, 3), st.integers(0, 9))
def test_positions_are_ranks_with_ties_drawn(others: list[int], score: int, seed: int) -> None:
    zeros = [0] * len(others)
    value = positions([score], others, [0], zeros, np.random.default_rng(seed))[0]
    below = sum(other < score for other in others)
    upto = sum(other <= score for other in others)
    assert below / (len(others) + 1) <= value <= (upto + 1) / (len(others) + 1)


def test_positions_are_even_even_with_one_reference_and_with_ties() -> None:
    rng = np.random.default_rng(0)
    group = np.arange(20_000)
    for draw in (rng.normal, lambda size: rng.integers(0, 2, size)):
        value = positions(draw(size=20_000), draw(size=20_000), group, group, rng)
        np.testing.assert_allclose(np.histogram(value, 4, (0, 1))[0] / 20_000, 0.25, atol=0.012)


def test_a_group_without_references_is_ranked_among_all() -> None:
    value = positions([2.5], [1.0, 2.0, 3.0], [8], [0, 0, 0], np.random.default_rng(0))
    assert 2 / 4 <= value[0] <= 3 / 4


@given(
    st.floats(0.05, 1.0),
    st.floats(0.0, 0.9),
    st.floats(1e-3, 1e3),
)
def test_posteriors_are_bayes_rule(beta: float, share: float, likelihood: float) -> None:
    """Make rho from p_true and p_false; the posterior must be Bayes' rule on both sides."""
    alpha = share * beta
    p_true, p_false = likelihood, 1.0
    p_in = beta * p_true + (1 - beta) * p_false
    p_out = alpha * p_true + (1 - alpha) * p_false
    ratio = [p_in / p_out]
    assert posterior_collected(ratio, beta, alpha)[0] == pytest.approx(
        beta * p_true / p_in, abs=1e-7
    )
    assert posterior_uncollected(ratio, beta, alpha)[0] == pytest.approx(
        alpha * p_true / p_out, abs=1e-7
    )


def test_posteriors_are_clipped_and_take_a_prior_each() -> None:
    assert posterior_collected([1e-9, 1e9], 0.9, 0.1).tolist() == [0.0, 1.0]
    assert posterior_uncollected([1e-9, 1e9], 0.9, 0.1).tolist() == [0.0, 1.0]
    each = posterior_collected([1.0, 1.0], [0.9, 0.5], [0.1, 0.2])
    np.testing.assert_allclose(each, [0.9, 0.5])
    assert posterior_uncollected([5.0], 1.0, 0.0)[0] == 0.0
    assert posterior_collected([], 0.9, 0.1).tolist() == []


@pytest.mark.parametrize(
    ("beta", "alpha"), [(0.1, 0.1), (0.1, 0.2), (1.1, 0.1), (0.9, -0.1), (np.nan, 0.1)]
)
def test_degenerate_priors_are_refused(beta: float, alpha: float) -> None:
    for posterior in (posterior_collected, posterior_uncollected):
        with pytest.raises(DataError, match="0 <= alpha < beta <= 1"):
            posterior([1.0], beta, alpha)


def test_bad_ratios_are_refused() -> None:
    for ratio in ([0.0], [-1.0], [np.inf], [np.nan]):
        with pytest.raises(DataError, match="ratio"):
            posterior_collected(ratio, 0.9, 0.1)


def slow_ece(probability: list[float], true: list[bool], bins: int) -> float:
    """Equal-width bins, straight from the definition; 1 belongs to the last bin."""
    total = 0.0
    for k in range(bins):
        rows = [
            i
            for i, p in enumerate(probability)
            if k <= p * bins < k + 1 or (p == 1 and k == bins - 1)
        ]
        if rows:
            share = sum(true[i] for i in rows) / len(rows)
            mean = sum(probability[i] for i in rows) / len(rows)
            total += len(rows) * abs(share - mean)
    return total / len(probability)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
@settings(max_examples=60)
def test_ece_by_width_is_its_definition(rows: list[tuple[float, bool]]) -> None:
    probability, true = [p for p, _ in rows], [t for _, t in rows]
    assert ece(probability, true, bins=7, by="width") == pytest.approx(
        slow_ece(probability, true, 7)
    )


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), st.booleans()), min_size=1),
    st.integers(1, 20),
    st.randoms(use_true_random=False),
)
def test_equal_count_bins_ignore_row_order_and_lose_nothing(rows, bins, random) -> None:
    curve = reliability_curve([p for p, _ in rows], [t for _, t in rows], bins=bins)
    assert sum(curve["count"].to_pylist()) == len(rows)
    assert curve.num_rows <= bins
    random.shuffle(rows)
    again = reliability_curve([p for p, _ in rows], [t for _, t in rows], bins=bins)
    assert curve["count"].to_pylist() == again["count"].to_pylist()
    np.testing.assert_allclose(curve["share_true"].to_numpy(), again["share_true"].to_numpy())


def test_equal_count_bins_are_of_equal_count() -> None:
    probability = np.random.default_rng(0).permutation(np.linspace(0, 1, 100))
    curve = reliability_curve(probability, probability > 0.5, bins=10)
    assert curve["count"].to_pylist() == [10] * 10
    assert curve["share_true"].to_pylist() == [0.0] * 5 + [1.0] * 5
    low, high = curve["low"].to_numpy(), curve["high"].to_numpy()
    assert (low[1:] > high[:-1]).all()
    assert low[0] == 0.0
    assert high[-1] == 1.0


def test_measures_of_nothing_and_of_bad_input() -> None:
    assert np.isnan(ece([], []))
    assert np.isnan(brier([], []))
    assert reliability_curve([], []).num_rows == 0
    with pytest.raises(DataError, match=r"probability\[1\] is 1.5"):
        brier([0.5, 1.5], [True, True])
    with pytest.raises(DataError, match="same length"):
        ece([0.5], [True, False])
    with pytest.raises(SettingsError, match="bins=0"):
        ece([0.5], [True], bins=0)
    with pytest.raises(SettingsError, match="count or width"):
        ece([0.5], [True], by="depth")  # type: ignore[arg-type]


def test_brier_is_the_mean_square() -> None:
    assert brier([0.25, 0.75], [False, False]) == pytest.approx((0.0625 + 0.5625) / 2)
