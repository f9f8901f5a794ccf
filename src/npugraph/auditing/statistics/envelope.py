"""How many facts may be wrong at most, whatever mix of known kinds the wrong ones are of.

With F the distribution of the scores of collected facts and F_k that of wrong facts of kind k, a
mix with shares a_k is possible only where it fits below F everywhere::

    sum_k a_k F_k(e) <= F(e)      for every edge e,      a_k >= 0

Arbitrary errors score low, where few facts are, so there cannot be many. Plausible ones score among
true facts, and much is possible. The largest sum of the shares is a linear program.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import ndtri

from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.calibration.noise_shares import share_below

Floats = NDArray[np.floating]


def most_wrong(
    collected: Floats, kinds: Mapping[str, Floats], thresholds: Thresholds = TUNED
) -> float:
    """Return the largest share of wrong facts that the scores do not rule out.

    Args:
        collected: scores of the collected facts, [n].
        kinds: by kind, scores of wrong facts [m].
        thresholds: what was tuned. Both distributions may be off by chance, at their level.

    >>> rng = np.random.default_rng(0)
    >>> wrong, true = rng.normal(0, 1, 500), rng.normal(9, 1, 9500)
    >>> stored = np.append(wrong, true)
    >>> 0.05 < most_wrong(stored, {"plain": rng.normal(0, 1, 5000)}) < 0.06
    True
    >>> most_wrong(stored, {"plausible": rng.normal(8, 1, 5000)}) > 0.3
    True
    """
    edges = np.quantile(collected, thresholds.envelope_ends)
    reach = float(ndtri((1 + thresholds.level) / 2))
    below = share_below(collected, edges)
    most = np.minimum(below + reach * np.sqrt(below * (1 - below) / len(collected)), 1.0)
    least = []
    for score in kinds.values():
        share = share_below(score, edges)
        least.append(np.maximum(share - reach * np.sqrt(share * (1 - share) / len(score)), 0.0))
    # All facts are below the last edge.
    table = np.column_stack([np.append(each, 1.0) for each in least])
    found = linprog(-np.ones(len(least)), A_ub=table, b_ub=np.append(most, 1.0))
    return float(min(-found.fun, 1.0))
