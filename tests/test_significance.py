"""Mean, paired test and Holm's correction against scipy, closed forms and their definitions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from npugraph.errors import DataError
from npugraph.significance import (
    holm,
    mean_and_deviation,
    paired_test,
    smallest_significant,
)

FIGURES = st.lists(st.floats(0, 1), min_size=2, max_size=8)
P_VALUES = st.lists(st.floats(0, 1), max_size=12)


# --- mean and deviation


@given(FIGURES)
def test_mean_and_deviation_are_those_of_numpy(values: list[float]) -> None:
    spread = mean_and_deviation(values)
    assert spread.count == len(values)
    assert spread.mean == pytest.approx(np.mean(values), abs=1e-12)
    assert spread.deviation == pytest.approx(np.std(values, ddof=1), abs=1e-12)


def test_the_order_of_seeds_does_not_change_a_digit() -> None:
    values = [0.1, 0.2, 0.3, 1e-9, 0.7]
    assert len({mean_and_deviation(order) for order in itertools.permutations(values)}) == 1


def test_no_figures_and_no_numbers_are_refused() -> None:
    with pytest.raises(DataError, match="at least one"):
        mean_and_deviation([])
    with pytest.raises(DataError, match="nan"):
        mean_and_deviation([0.1, math.nan])


# --- the paired test


def test_the_paired_test_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    for count in (2, 3, 5, 30):
        first = rng.normal(0.3, 0.02, count).tolist()
        second = rng.normal(0.29, 0.02, count).tolist()
        test, known = paired_test(first, second), stats.ttest_rel(first, second)
        assert test is not None
        assert test.statistic == pytest.approx(known.statistic, rel=1e-9)
        assert test.p_value == pytest.approx(known.pvalue, rel=1e-9)
        assert (test.pairs, test.freedom) == (count, known.df)


def test_with_three_pairs_p_has_a_closed_form() -> None:
    test = paired_test([0.30, 0.32, 0.31], [0.28, 0.29, 0.27])
    assert test is not None
    t = abs(test.statistic)
    assert test.p_value == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-9)


def test_turning_the_two_sides_round_turns_the_sign_only() -> None:
    one, other = paired_test([0.3, 0.4], [0.1, 0.3]), paired_test([0.1, 0.3], [0.3, 0.4])
    assert one is not None
    assert other is not None
    assert one.p_value == other.p_value
    assert one.statistic == -other.statistic


def test_it_pairs_by_place() -> None:
    # The same figures, but the differences are steady only in the first pairing.
    steady = paired_test([0.1, 0.5, 0.9], [0.09, 0.48, 0.89])
    mixed = paired_test([0.1, 0.5, 0.9], [0.89, 0.09, 0.48])
    assert steady is not None
    assert mixed is not None
    assert steady.p_value < 0.1 < mixed.p_value


def test_fewer_than_two_pairs_give_no_test() -> None:
    assert paired_test([], []) is None
    assert paired_test([0.3], [0.2]) is None


def test_equal_differences_give_the_limit() -> None:
    same, more = paired_test([0.25, 0.5], [0.25, 0.5]), paired_test([0.5, 0.75], [0.25, 0.5])
    assert same is not None
    assert more is not None
    assert (same.statistic, same.p_value) == (0.0, 1.0)
    assert (more.statistic, more.p_value) == (math.inf, 0.0)


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(DataError, match="not 2 and 1"):
        paired_test([0.1, 0.2], [0.1])


def test_the_smallest_significant_t_has_that_p() -> None:
    for pairs, level in ((2, 0.05), (3, 0.01), (5, 0.01)):
        t = smallest_significant(pairs, level)
        assert 2 * stats.t.sf(t, pairs - 1) == pytest.approx(level, rel=1e-9)
    with pytest.raises(DataError, match="at least 2 pairs"):
        smallest_significant(1, 0.05)
    with pytest.raises(DataError, match="level=0"):
        smallest_significant(3, 0)


# --- Holm


@given(P_VALUES)
def test_adjusted_values_lie_between_p_and_one(values: list[float]) -> None:
    adjusted = holm(values)
    assert len(adjusted) == len(values)
    assert all(p <= a <= 1 for p, a in zip(values, adjusted, strict=True))


@given(P_VALUES)
def test_adjusted_values_rise_with_p(values: list[float]) -> None:
    pairs = sorted(zip(values, holm(values), strict=True))
    assert all(a[1] <= b[1] for a, b in itertools.pairwise(pairs))


@given(P_VALUES, st.randoms())
def test_the_order_of_the_tests_is_kept(values: list[float], random: object) -> None:
    order = list(range(len(values)))
    random.shuffle(order)  # type: ignore[attr-defined]
    adjusted = holm(values)
    assert holm([values[i] for i in order]) == [adjusted[i] for i in order]


@given(P_VALUES, st.floats(0.001, 0.999))
def test_it_rejects_what_the_step_down_procedure_rejects(values: list[float], level: float) -> None:
    # Holm's own wording: from the smallest p up, reject while (m - i) p <= level.
    rejected: set[int] = set()
    for rank, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        if (len(values) - rank) * values[i] > level:
            break
        rejected.add(i)
    assert {i for i, a in enumerate(holm(values)) if a <= level} == rejected


def test_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_what_is_no_p_value_is_refused() -> None:
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(DataError, match="no p value"):
            holm([0.5, bad])
