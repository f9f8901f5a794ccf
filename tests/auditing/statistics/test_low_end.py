"""How pure the low end of a score is, on scores whose truth is known."""

from __future__ import annotations

from dataclasses import replace

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
    kinds = {"random": (pool, rng.integers(0, 100, len(pool)))}
    even = rng.integers(0, 100, len(score))
    assert low_end(score, pool, even, kinds).supported == pytest.approx(0.05, abs=0.01)
    # All that is at the low end has ends of which nothing is known.
    cold = np.where(np.arange(len(score)) < 500, 0, even)
    found = low_end(score, pool, cold, kinds)
    assert found.supported < 0.005
    assert found.unknown > 0.045


def test_where_little_is_known_of_the_ends_a_part_of_the_middle_may_be_true() -> None:
    score, pool = scores(wrong=600, hard=0)
    kinds = {"random": (pool, np.zeros(len(pool), dtype=np.int64))}
    for known, share in ((TUNED.little_known, 0.0), (TUNED.little_known - 1, 1.0)):
        found = low_end(score, pool, np.full(len(score), known), kinds)
        expected = max(TUNED.unknown, share * TUNED.overlap * found.middle)
        assert found.unknown == pytest.approx(expected)
    assert found.unknown > TUNED.unknown


def test_support_is_compared_with_the_kind_that_has_the_least() -> None:
    score, pool = scores(wrong=500, hard=0)
    rng = np.random.default_rng(4)
    known, unknown = rng.integers(0, 100, len(pool)), rng.integers(0, 30, len(pool))
    # Wrong facts of the second kind: what is known of their ends is little.
    support = rng.integers(0, 30, len(score))
    both = {"relation": (pool, known), "random": (pool, unknown)}
    found = low_end(score, pool, support, both)
    assert found.supported == found.low
    # Had they been of the first kind, this would not be chance.
    assert low_end(score, pool, support, {"relation": (pool, known)}).supported < 0.5 * found.low


def test_where_all_ends_are_well_known_support_tells_nothing() -> None:
    score, pool = scores(wrong=500, hard=0)
    rng = np.random.default_rng(3)
    kinds = {"relation": (pool, rng.integers(100, 200, len(pool)))}
    found = low_end(score, pool, rng.integers(20, 120, len(score)), kinds)
    assert found.supported == found.low


def test_what_rises_from_the_lowest_scores_on_may_be_true() -> None:
    score, pool = scores(wrong=600, hard=0)
    # Hardly any stored fact lies in the lowest tenth of the pool.
    score = score[(score > np.quantile(pool, 0.1)) | (np.arange(len(score)) % 3 == 0)]
    plain, rising = (low_end(score, pool, rises=rises) for rises in (False, True))
    assert plain.unknown == TUNED.unknown
    assert rising.low - rising.unknown == pytest.approx(0.02, abs=0.01)
    priors = Priors(Interval(0.9, 0.8, 1.0), Interval(0, 0, 0), False, "It rises.", rises=True)
    told = rising.humble(priors)
    assert told.identifiable
    assert told.beta == pytest.approx((0.955, 0.8, 0.973), abs=0.01)
    assert not plain.humble(replace(priors, rises=False)).identifiable


def test_wrong_facts_may_be_denser_than_was_counted() -> None:
    few, many = (
        low_end(*scores(wrong=wrong, hard=0, facts=facts))
        for wrong, facts in ((50, 1000), (5000, 100_000))
    )
    # By chance, and where they lie elsewhere than the pool.
    assert 1 + TUNED.prior_mismatch < many.most / many.low < 1.3
    assert many.most / many.low < few.most / few.low < 2.5


def test_doubt_moves_the_share_towards_nothing_wrong() -> None:
    priors = Priors(Interval(0.95, 0.93, 0.97), Interval(0, 0, 0), True)
    sure, unsure = (LowEnd(0.05, 0.05, 0.05, unknown) for unknown in (TUNED.unknown, 0.05))
    assert sure.humble(priors).beta == priors.beta
    assert unsure.humble(priors).beta == pytest.approx((0.97, 0.93, 1.0))
