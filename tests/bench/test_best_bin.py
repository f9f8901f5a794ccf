"""The plain reference for the priors, against a slow transcription."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.quality.best_bin import best_bin


def slow_best_bin(positive: list[float], unlabeled: list[float]) -> float:
    best, answer = np.inf, np.nan
    for c in sorted(positive):
        share_p = np.mean([p >= c for p in positive])
        share_u = np.mean([u >= c for u in unlabeled])
        slack = np.sqrt(np.log(40) / 2 / len(unlabeled)) + np.sqrt(np.log(40) / 2 / len(positive))
        bound = share_u / share_p + 1.01 * slack / share_p
        if bound < best:
            best, answer = bound, share_u / share_p
    return min(answer, 0.98)


def test_best_bin_is_its_formula() -> None:
    rng = np.random.default_rng(1)
    high, low = rng.normal(2, 1, 60).round(1), rng.normal(0, 1, 80).round(1)
    k1 = slow_best_bin(high.tolist(), low.tolist())
    k2 = slow_best_bin((-low).tolist(), (-high).tolist())
    beta, alpha = best_bin(high, low)
    assert beta == pytest.approx((1 - k2) / (1 - k1 * k2))
    assert alpha == pytest.approx(k1 * beta)
