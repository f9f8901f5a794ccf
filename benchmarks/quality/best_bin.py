"""Best-bin estimation of the priors: the plain reference that the audit is measured against."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from npugraph.arrays import Floats, finite

# A ratio of 1 would mean that collected and uncollected facts are true equally often.
MOST = 0.98


def best_bin(
    collected: ArrayLike, uncollected: ArrayLike, *, delta: float = 0.1, gamma: float = 0.01
) -> tuple[float, float]:
    """Return (beta, alpha) by best-bin estimation both ways round.

    Over thresholds c minimise ``q_u(c) / q_p(c) + (1 + gamma) (sqrt(ln(4 / delta) / 2 n_u) +
    sqrt(ln(4 / delta) / 2 n_p)) / q_p(c)`` (Garg et al. 2021). It knows no groups and no interval.
    """
    high, low = finite(collected, "collected"), finite(uncollected, "uncollected")
    k1 = _one_way(high, low, delta, gamma)
    k2 = _one_way(-low, -high, delta, gamma)
    beta = (1 - k2) / (1 - k1 * k2)
    return beta, k1 * beta


def _one_way(positive: Floats, unlabeled: Floats, delta: float, gamma: float) -> float:
    """Return the share of positives among the unlabeled; positives score high."""
    threshold = np.unique(positive)
    share = [
        1 - np.searchsorted(np.sort(score), threshold, side="left") / len(score)
        for score in (unlabeled, positive)
    ]
    slack = sum(np.sqrt(np.log(4 / delta) / (2 * len(score))) for score in (positive, unlabeled))
    best = np.argmin((share[0] + (1 + gamma) * slack) / share[1])
    return min(float(share[0][best] / share[1][best]), MOST)
