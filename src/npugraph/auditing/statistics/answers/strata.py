"""The share of wrong facts by strata: facts that look alike are drawn from together.

Facts are cut into strata by their score, and drawn at random within each; where answers differ
more than one would think, more are drawn. The estimate holds by the drawing alone: bad scores only
make the strata alike, and the answers no fewer than in a plain random order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from npugraph.arrays import Floats, Ints, finite
from npugraph.calibration.class_priors import Interval
from npugraph.errors import DataError

# Where strata end, as shares of the facts by rising score. Wrong facts are rare and lie at the low
# end; what lies above is one stratum, for each one costs answers to see that nothing is there.
CUTS = (0.02, 0.05, 0.1, 0.2)
# Answers in a stratum before the others say how many it gets.
FIRST = 5
# Wrong and right facts that are thought to be found beside those that were: in the interval
# (Kerman 2011, whose prior favours neither side), and where it is asked what to draw next.
PRIOR, PRIOR_OF_DRAWING = 1 / 3, 0.5
# Of what may be missed, the least share below the interval; the rest is divided so that it is
# shortest.
BELOW = 0.3
# The share of it on one side, where the truth can lie on that side alone.
ONE_SIDED = 0.8
# The interval is looked at after so many answers, and every so many from then on.
FIRST_LOOK, LOOK_EVERY = 30, 10


def cut(score: ArrayLike, cuts: tuple[float, ...] = CUTS) -> Ints:
    """Return the stratum of each fact [n], from 0, the least plausible facts first.

    >>> cut([3.0, 1.0, 2.0, 4.0], (0.25, 0.5)).tolist()
    [2, 0, 1, 2]
    """
    known = finite(score, "score")
    ends = np.unique([round(share * len(known)) for share in cuts])
    rank = np.empty(len(known), dtype=np.int64)
    rank[np.argsort(known, kind="stable")] = np.arange(len(known))
    # A stratum without facts is none.
    return np.unique(np.searchsorted(ends, rank, side="right"), return_inverse=True)[1]


@dataclass(frozen=True)
class Counts:
    """What is known of each stratum.

    Attributes:
        facts: in it [h].
        answers: on facts drawn from it [h].
        wrong: of these [h].
    """

    facts: Ints
    answers: Ints
    wrong: Ints

    @classmethod
    def of(cls, facts: Ints, stratum: Ints, wrong: ArrayLike) -> Counts:
        """Count answers by their stratum [k]; ``wrong`` is 1, 0, or nan where nobody is sure."""
        said = np.asarray(wrong, dtype=np.float64)
        sure = np.isfinite(said)
        size = len(facts)
        hits = np.bincount(stratum[sure & (said == 1)], minlength=size)
        return cls(facts, np.bincount(stratum[sure], minlength=size), hits)

    def turned(self) -> Counts:
        """Return the same with right facts for wrong ones."""
        return Counts(self.facts, self.answers, self.answers - self.wrong)


def stratified_share(counts: Counts, *, level: float = 0.95) -> Interval:
    """Return the share of wrong facts.

    The sum over strata of weight * share found. What else it may be is told by the sum of one Beta
    distribution per stratum, each narrower as its facts run out, of which the interval is
    the shortest part. It is never shorter than that of one stratum alone, by an exact bound, and
    its ends suppose nothing of strata in which nothing was found.

    >>> sizes = np.array([100, 900])
    >>> found = stratified_share(Counts(sizes, np.array([20, 80]), np.array([10, 0])))
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.05, 0.032, 0.075)
    """
    if (counts.answers > counts.facts).any() or (counts.wrong > counts.answers).any():
        raise DataError("A stratum has more answers than facts, or more wrong ones than answers.")
    weight = counts.facts / counts.facts.sum()
    value = float(weight @ _share(counts))
    missed = 1 - level
    tail = missed * np.linspace(BELOW, 0.5, 21)
    place, below = _summed(counts, weight)
    lows, highs = np.interp(tail, below, place), np.interp(level + tail, below, place)
    shortest = int(np.argmin(highs - lows))
    low = min(float(lows[shortest]), value, _of_found(counts, weight, missed))
    high = max(float(highs[shortest]), value, 1 - _of_found(counts.turned(), weight, missed))
    few_wrong, few_right = _alone(counts, weight, missed)
    low, high = min(low, high - few_right), max(high, low + few_wrong)
    return Interval(*(float(np.clip(end, 0, 1)) for end in (value, low, high)))


def _of_found(counts: Counts, weight: Floats, missed: float) -> float:
    """Return a lower end that supposes nothing where nothing was found; 1 where that is nowhere.

    There the truth can lie on the other side alone, so nearly all of what may be missed is below.
    """
    found = counts.wrong > 0
    if found.all() or not found.any():
        return float(found.all())
    some = Counts(counts.facts[found], counts.answers[found], counts.wrong[found])
    place, below = _summed(some, weight[found])
    return float(np.interp(ONE_SIDED * missed, below, place))


def _share(counts: Counts) -> Floats:
    """Return the share found wrong in each stratum [h]; where nothing is known, a half."""
    return np.where(counts.answers > 0, counts.wrong / np.maximum(counts.answers, 1), 0.5)


def _summed(counts: Counts, weight: Floats, size: int = 512) -> tuple[Floats, Floats]:
    """Return the distribution of the share in all strata: places, and how much lies below each.

    Args:
        counts: what is known of each stratum.
        weight: of each stratum [h].
        size: places, about.
    """
    from scipy.special import betainc, betaincinv

    share, left = _share(counts), np.sqrt(1 - counts.answers / counts.facts)
    wrong, right = counts.wrong + PRIOR, counts.answers - counts.wrong + PRIOR
    ends = [share + left * (betaincinv(wrong, right, tail) - share) for tail in (1e-6, 1 - 1e-6)]
    first, last = weight * ends
    step = float((last - first).sum()) / size
    chance = np.ones(1)
    for stratum in np.flatnonzero(last - first > 1e-12):
        count = int(np.ceil((last - first)[stratum] / step)) + 1
        edge = first[stratum] + step * (np.arange(count + 1) - 0.5)
        centre = share[stratum]
        inner = centre + (edge[1:-1] / weight[stratum] - centre) / left[stratum]
        below = betainc(wrong[stratum], right[stratum], np.clip(inner, 0, 1))
        chance = np.convolve(chance, np.diff(below, prepend=0.0, append=1.0))
    place = float(first.sum()) + step * (np.arange(len(chance) + 1, dtype=np.float64) - 0.5)
    return place, np.concatenate([[0.0], np.cumsum(chance)])


def _alone(counts: Counts, weight: Floats, missed: float) -> tuple[float, float]:
    """Return the least width of the interval, by the strata with few wrong facts; with few right.

    Between the strata chances even out, within one they do not: one in which nothing was found may
    hold what would have been found with a small chance (Clopper and Pearson 1934). Every find puts
    off the end, and was one more chance to end too early; so the bound is stricter after it.
    """
    from scipy.special import betaincinv

    left = np.sqrt(1 - counts.answers / counts.facts) * weight
    widths = []
    for few, others in (
        (counts.wrong, counts.turned().wrong),
        (counts.turned().wrong, counts.wrong),
    ):
        tail = missed * np.maximum(1.2 / (2 + few), 0.2)
        high = np.where(others > 0, betaincinv(few + 1, np.maximum(others, 1), 1 - tail), 1.0)
        low = np.where(few > 0, betaincinv(few + 0.5, others + 0.5, 0.4 * missed), 0.0)
        widths.append(float((left * (high - low) * (5 * few < counts.answers)).max()))
    return widths[0], widths[1]


def next_strata(counts: Counts) -> Ints:
    """Return the strata in the order in which one more answer makes the interval narrower.

    By the variance that an answer takes away; where few were found, twice of it, for there it falls
    with the square of the answers. Strata that are used up come last; those with hardly any answer
    come first.
    """
    weight, prior = counts.facts / counts.facts.sum(), PRIOR_OF_DRAWING
    right = counts.answers - counts.wrong
    known = counts.answers + 2 * prior
    spread = (counts.wrong + prior) * (right + prior) / (known * (known + 1)) ** 2
    rare = 1 + prior / (np.minimum(counts.wrong, right) + prior)
    gain = weight**2 * (1 - counts.answers / counts.facts) * spread * rare
    few = (counts.answers < FIRST) & (counts.answers < counts.facts)
    begun = np.where(few, counts.answers, FIRST)
    return np.lexsort((-gain, begun, counts.answers >= counts.facts))


def narrow_enough(
    facts: Ints, stratum: Ints, wrong: ArrayLike, half_width: float, *, level: float = 0.95
) -> bool:
    """Tell whether the interval is narrow enough to stop.

    One that looks after every answer stops where chance made the interval narrow. So it is looked
    at every ten answers, and must be narrow enough at two looks in a row.

    Args:
        facts: in each stratum [h].
        stratum: of the answered facts, in the order of the answers [k].
        wrong: of these: 1, 0, or nan where nobody is sure.
        half_width: half the width that is wanted.
        level: how often the interval should hold the truth.
    """
    said = np.asarray(wrong, dtype=np.float64)
    if len(said) >= facts.sum():
        return True
    looks = range(FIRST_LOOK, len(said) + 1, LOOK_EVERY)[-2:]
    ends = (
        stratified_share(Counts.of(facts, stratum[:look], said[:look]), level=level)
        for look in reversed(looks)
    )
    return len(looks) == 2 and all(end.high - end.low <= 2 * half_width for end in ends)
