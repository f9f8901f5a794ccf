"""How pure the low end of a score is: are the facts there wrong, or true and unpredictable?

Take the scores of facts that are known not to be stored, a pool, and cut them at their quantiles.
Wrong facts among the collected ones fall evenly into these cuts, true ones lie above them. So the
density of collected facts in the lowest cuts is the share of wrong facts, plus that of true facts
which no system could know. Two things tell how much of that there may be:

- **The middle.** True facts that are hard to know thin out towards the low end. Where the density
  in the middle of the pool is that of its low end, there are hardly any; where it is much larger,
  some of them reach the low end, too.
- **Support.** Wrong facts are as dense among facts whose ends are in many other facts as
  elsewhere. True facts that cannot be known are not: what is known of their ends is little.

Pure functions on arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.calibration.class_priors import Interval, Priors

Bools = NDArray[np.bool_]
Floats = NDArray[np.floating]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LowEnd:
    """Densities of collected facts among the scores of a pool.

    Attributes:
        low: in the lowest part of the pool.
        middle: in its middle.
        supported: in the lowest part, of facts with much support alone; ``low`` where support is
            not known, or makes no clear difference.
        unknown: how much of ``low`` may be true facts.
        told: AUROC of the pool against the collected facts.
    """

    low: float
    middle: float
    supported: float
    unknown: float
    told: float = 1.0

    def humble(self, priors: Priors, thresholds: Thresholds = TUNED) -> Priors:
        """Allow for the true facts at the low end: the share of wrong ones may be smaller.

        What the thresholds allow for anyway is in the priors already.
        """
        more = max(self.unknown - thresholds.unknown, 0.0)
        value, low, high = priors.beta
        beta = Interval(min(value + more / 2, 1.0), low, min(high + more, 1.0))
        return replace(priors, beta=beta)


def low_end(
    score: Floats,
    pool: Floats,
    support: Ints | None = None,
    pool_support: Ints | None = None,
    thresholds: Thresholds = TUNED,
) -> LowEnd:
    """Measure the low end.

    Args:
        score: of the collected facts, [n].
        pool: scores of the pool, [m].
        support: of the collected facts, [n]; None: not known.
        pool_support: of the pool, [m].
        thresholds: what was tuned.

    >>> rng = np.random.default_rng(0)
    >>> wrong, true = rng.normal(0, 1, 500), rng.normal(9, 1, 9500)
    >>> found = low_end(np.append(wrong, true), rng.normal(0, 1, 5000))
    >>> round(found.low, 2), round(found.unknown, 2)
    (0.05, 0.01)
    """
    ordered = np.sort(pool)
    position = np.searchsorted(ordered, score) / len(pool)

    def density(part: tuple[float, float]) -> float:
        inside = np.mean((position >= part[0]) & (position < part[1]))
        return float(inside) / (part[1] - part[0])

    low, middle = density((0.0, thresholds.low_part)), density(thresholds.middle)
    supported = low
    if support is not None and pool_support is not None:
        at_low = position < thresholds.low_part
        pool_low = pool <= np.quantile(pool, thresholds.low_part)
        supported = _supported(support, at_low, pool_support, pool_low, low, thresholds)
    unknown = max(thresholds.unknown, thresholds.overlap * (middle - low)) + low - supported
    return LowEnd(low, middle, supported, float(unknown), float(position.mean()))


def _supported(
    support: Ints,
    at_low: Bools,
    pool_support: Ints,
    pool_low: Bools,
    low: float,
    thresholds: Thresholds,
) -> float:
    """Return the least density among facts of much support, where it is clearly less than all's."""
    least = low
    for share in thresholds.well_supported:
        cut = np.quantile(pool_support, 1 - share)
        facts = int((at_low & (support >= cut)).sum())
        others = int((pool_low & (pool_support >= cut)).sum())
        if others < thresholds.least_supported:
            continue
        density = facts / len(support) / (others / len(pool_support))
        # A count beside what it would be at the density of all.
        expected = low * len(support) * others / len(pool_support)
        error = np.sqrt(expected + expected**2 / others)
        if facts < expected - thresholds.clearly_less * error:
            least = min(least, density)
    return least
