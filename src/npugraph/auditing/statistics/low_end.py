"""How pure the low end of a score is: are the facts there wrong, or true and unpredictable?

Take the scores of facts that are known not to be stored, a pool, and cut them at their quantiles.
Wrong facts among the collected ones fall evenly into these cuts, true ones lie above them. So the
density of collected facts in the lowest cuts is the share of wrong facts, plus that of true facts
which no system could know. Three things tell how much of that there may be:

- **The middle.** True facts that are hard to know thin out towards the low end. Where the density
  in the middle of the pool is that of its low end, there are hardly any; where it is much larger,
  some of them reach the low end, too.
- **Little known ends.** Where entities are in a handful of facts, true facts that cannot be known
  need not thin out: the low end and the middle have about as many. So a part of the middle's
  density may be at the low end, as far as the facts there are about such entities.
- **Support.** Wrong facts of a kind are as dense among facts whose ends are in many other facts as
  the pool of that kind. True facts that cannot be known are not: what is known of their ends is
  little.

Pure functions on arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.calibration.class_priors import Interval, Priors

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
        most: how dense wrong facts may be there at most, by chance and where they lie elsewhere
            than the pool; 0: as ``low``.
    """

    low: float
    middle: float
    supported: float
    unknown: float
    told: float = 1.0
    most: float = 0.0

    def humble(self, priors: Priors, thresholds: Thresholds = TUNED) -> Priors:
        """Allow for the true facts at the low end: the share of wrong ones may be smaller.

        What the thresholds allow for anyway is in the priors already. Where the density rises from
        the lowest scores on, ``unknown`` allows for that, too, and is no reason to tell nothing.
        """
        value, low, high = priors.beta
        if priors.rises:
            least = max(self.low - self.unknown, 0.0)
            middle = 1 - (least + self.low) / 2
            beta = Interval(middle, min(low, middle), 1 - least)
            return replace(priors, beta=beta, identifiable=True, reason="")
        more = max(self.unknown - thresholds.unknown, 0.0)
        beta = Interval(min(value + more / 2, 1.0), low, min(high + more, 1.0))
        return replace(priors, beta=beta)


# By kind of wrong fact, scores [m] and supports [m] of uncollected facts.
Supports = Mapping[str, tuple[Floats, Ints]]


def low_end(
    score: Floats,
    pool: Floats,
    support: Ints | None = None,
    kinds: Supports | None = None,
    *,
    rises: bool = False,
    thresholds: Thresholds = TUNED,
) -> LowEnd:
    """Measure the low end.

    Args:
        score: of the collected facts, [n].
        pool: scores of the pool, [m].
        support: of the collected facts, [n]; None: not known.
        kinds: scores and supports of the kinds that the wrong facts may be of.
        rises: whether the density clearly rises from the lowest scores on. Then all that is denser
            than there may be true.
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

    part = thresholds.low_part
    low, middle = density((0.0, part)), density(thresholds.middle)
    at_low = position < part
    supported = low
    if support is not None and kinds:
        edge = float(np.quantile(pool, part))
        supported = low * _supported(support[at_low], kinds, edge, thresholds)
    known_little = 0.0
    if support is not None and at_low.any():
        known_little = float(np.mean(support[at_low] < thresholds.little_known))
    doubtful = max(middle - low, known_little * middle)
    unknown = max(thresholds.unknown, thresholds.overlap * doubtful)
    if rises:
        unknown = max(unknown, low - density(thresholds.lowest))
    unknown += low - supported
    most = _most(int(at_low.sum()), thresholds) / len(score) / part
    return LowEnd(low, middle, supported, float(unknown), float(position.mean()), most)


def _most(count: int, thresholds: Thresholds) -> float:
    """Return how many wrong facts may be expected where ``count`` facts are, at most."""
    from scipy.stats import gamma

    chance = float(gamma.ppf((1 + thresholds.level) / 2, count + 1))
    return chance * (1 + thresholds.prior_mismatch)


def _supported(support: Ints, kinds: Supports, edge: float, thresholds: Thresholds) -> float:
    """Return the share of well supported facts beside what wrong facts have, at most 1.

    Wrong facts may be of any kind, so they are compared with the kind that has the least support.
    The difference must be clear: Fisher's exact test, at a level for all looks together. On a dense
    graph all ends are in many facts, and those in most of them are not known better.

    Args:
        support: of the collected facts at the low end, [n].
        kinds: as for :func:`low_end`.
        edge: the score where the low end ends.
        thresholds: what was tuned.
    """
    from scipy.stats import hypergeom

    others = [of[score <= edge] for score, of in kinds.values()]
    others = [of for of in others if len(of) >= thresholds.least_supported]
    least = 1.0
    if not others or not len(support):
        return least
    every = np.concatenate(others)
    tail = (1 - thresholds.level) / 2 / len(thresholds.well_supported)
    for share in thresholds.well_supported:
        cut = min(float(np.quantile(every, 1 - share)), thresholds.well_known)
        well, mine = min(others, key=lambda of: float(np.mean(of >= cut))), support >= cut
        facts, beside = int(mine.sum()), int((well >= cut).sum())
        chance = hypergeom.cdf(facts, len(mine) + len(well), facts + beside, len(mine))
        if beside and chance < tail:
            least = min(least, float(mine.mean()) / (beside / len(well)))
    return least
