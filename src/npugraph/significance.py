"""Figures over several seeds: mean and deviation, a paired test, Holm's correction.

Pure functions of numbers; they need no model and no graph.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from npugraph.errors import DataError


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of a few figures.

    Attributes:
        mean: of the figures.
        deviation: sqrt(sum (x - mean)^2 / (count - 1)); None where there is one figure only.
        count: how many figures.
    """

    mean: float
    deviation: float | None
    count: int


@dataclass(frozen=True)
class PairedTest:
    """A two-sided paired t test.

    Attributes:
        difference: mean of first minus second.
        statistic: t = difference / (deviation of the differences / sqrt(pairs)).
        pairs: how many pairs; the test has ``pairs - 1`` degrees of freedom.
        p_value: probability of a t at least as far from 0 if the true difference is 0.
    """

    difference: float
    statistic: float
    pairs: int
    p_value: float

    @property
    def freedom(self) -> int:
        """Degrees of freedom: pairs - 1."""
        return self.pairs - 1

    def __str__(self) -> str:
        return (
            f"two-sided paired t test, n = {self.pairs} pairs, df = {self.freedom}: "
            f"t = {self.statistic:.2f}, p = {self.p_value:.3g}"
        )


def mean_and_deviation(values: Sequence[float]) -> Spread:
    """Return mean and sample standard deviation (divisor n - 1) of at least one figure.

    >>> mean_and_deviation([0.25, 0.5, 0.75])
    Spread(mean=0.5, deviation=0.25, count=3)
    >>> mean_and_deviation([0.5])
    Spread(mean=0.5, deviation=None, count=1)
    """
    _finite(values, "values")
    count = len(values)
    if not count:
        raise DataError("No figures were given; a mean needs at least one.")
    # fsum adds exactly, so that the order of seeds cannot change the last digit.
    mean = math.fsum(values) / count
    if count == 1:
        return Spread(mean, None, 1)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Spread(mean, math.sqrt(squares / (count - 1)), count)


def paired_test(first: Sequence[float], second: Sequence[float]) -> PairedTest | None:
    """Compare two systems by a two-sided paired t test; None with fewer than two pairs.

    ``first[i]`` and ``second[i]`` come from the same seed, so from the same perturbed graph. The
    test assumes that the differences are about normally distributed, which a few seeds can
    neither show nor refute. Where all differences are equal the deviation is 0 and the limit is
    returned: p = 1 where they are 0, p = 0 otherwise.

    >>> test = paired_test([0.30, 0.32, 0.31], [0.28, 0.29, 0.27])
    >>> print(test)
    two-sided paired t test, n = 3 pairs, df = 2: t = 5.20, p = 0.0351
    """
    if len(first) != len(second):
        raise DataError(
            f"A paired test needs as many figures on both sides, not {len(first)} and "
            f"{len(second)}."
        )
    _finite(first, "first")
    _finite(second, "second")
    if len(first) < 2:
        return None
    differences = [a - b for a, b in zip(first, second, strict=True)]
    spread = mean_and_deviation(differences)
    assert spread.deviation is not None
    if spread.deviation == 0:
        statistic, p_value = math.copysign(math.inf, spread.mean), 0.0
        if not spread.mean:
            statistic, p_value = 0.0, 1.0
        return PairedTest(spread.mean, statistic, spread.count, p_value)
    from scipy.stats import ttest_rel

    with warnings.catch_warnings():
        # Differences that are all but equal are no mistake of the caller.
        warnings.simplefilter("ignore", RuntimeWarning)
        found = ttest_rel(first, second)
    return PairedTest(spread.mean, float(found.statistic), spread.count, float(found.pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values for their number by Holm's method (1979); the order is kept.

    With the m values sorted ascending, ``adjusted_(i) = max over j <= i of
    min(1, (m - j + 1) p_(j))``. Rejecting where the adjusted value is at most a level keeps the
    chance of any wrong rejection at most at that level, however the tests depend on each other.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    for value in p_values:
        # Written so that nan is refused as well.
        if not 0 <= value <= 1:
            raise DataError(f"{value} is no p value; it must lie in [0, 1].")
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def smallest_significant(pairs: int, level: float) -> float:
    """Return how far t must lie from 0 for p <= level in a two-sided test of ``pairs`` pairs.

    >>> round(smallest_significant(3, 0.01), 2), round(smallest_significant(5, 0.01), 2)
    (9.92, 4.6)
    """
    if pairs < 2:
        raise DataError(f"A paired test needs at least 2 pairs, not {pairs}.")
    if not 0 < level < 1:
        raise DataError(f"level={level} must lie between 0 and 1.")
    from scipy.stats import t

    return float(t.isf(level / 2, pairs - 1))


def _finite(values: Sequence[float], name: str) -> None:
    bad = [value for value in values if not math.isfinite(value)]
    if bad:
        raise DataError(f"{name} holds {bad[0]}; every figure must be a finite number.")
