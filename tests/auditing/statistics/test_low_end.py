"""How pure the low end of a score is, on scores whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from npugraph.auditing.statistics.low_end import LowEnd, low_end
from npugraph.auditing.thresholds import TUNED
from npugraph.calibration.class_priors import Interval, Priors


def scores(
    wrong: int, hard: int, seed: int = 0, facts: int = 10_000
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of facts, some of them wrong and some true but hard to know, and of a pool."""
    rng = np.random.default_rng(seed)
    true = facts - wrong - hard
    parts = (rng.normal(0, 1, wrong), rng.normal(1.5, 1, hard), rng.normal(9, 1, true))
    return np.concatenate(parts), rng.normal(0, 1, facts)


def test_the_density_of_the_low_end_is_the_share_of_wrong_facts() -> None:
    score, pool = scores(wrong=500, hard=0)
    found = low_end(score, pool)
    assert found.low == pytest.approx(0.05, abs=0.006)
    assert found.supported == found.low
    assert found.unknown == pytest.approx(TUNED.unknown)


def test_true_facts_that_reach_the_middle_make_the_low_end_doubtful() -> None:
    score, pool = scores(wrong=300, hard=2000)
    found = low_end(score, pool)
    assert found.middle > 3 * found.low
    true_there = found.low - 0.03
    assert true_there < found.unknown < 3 * true_there


def test_what_little_support_alone_shows_is_not_wrong() -> None:
    score, pool = scores(wrong=500, hard=0)
    rng = np.random.default_rng(1)
    pool_support = rng.integers(0, 100, len(pool))
    even = rng.integers(0, 100, len(score))
    assert low_end(score, pool, even, pool_support).supported == pytest.approx(0.05, abs=0.01)
    # All that is at the low end has ends of which nothing is known.
    cold = np.where(np.arange(len(score)) < 500, 0, even)
    found = low_end(score, pool, cold, pool_support)
    assert found.supported < 0.005
    assert found.unknown > 0.045


def test_doubt_moves_the_share_towards_nothing_wrong() -> None:
    priors = Priors(Interval(0.95, 0.93, 0.97), Interval(0, 0, 0), True)
    sure, unsure = (LowEnd(0.05, 0.05, 0.05, unknown) for unknown in (TUNED.unknown, 0.05))
    assert sure.humble(priors).beta == priors.beta
    assert unsure.humble(priors).beta == pytest.approx((0.97, 0.93, 1.0))
