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
CUTS = (0.02, 0.06, 0.15)
# Answers in a stratum before the others say how many it gets.
FIRST = 6
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


def stratified_share(counts: Counts, *, level: float = 0.95) -> Interval:
    """Return the share of wrong facts.

    The sum over strata of weight * share found. Each stratum gets Jeffreys' interval, narrower
    as its facts run out, and the distances of the ends add up in squares (Zou and Donner 2008).

    >>> sizes = np.array([100, 900])
    >>> found = stratified_share(Counts(sizes, np.array([20, 80]), np.array([10, 0])))
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.05, 0.032, 0.082)
    """
    if (counts.answers > counts.facts).any() or (counts.wrong > counts.answers).any():
        raise DataError("A stratum has more answers than facts, or more wrong ones than answers.")
    value, below, above = _parts(counts, level)
    low, high = value - np.sqrt((below**2).sum()), value + np.sqrt((above**2).sum())
    return Interval(*(float(np.clip(end, 0, 1)) for end in (value, low, high)))


def _parts(counts: Counts, level: float) -> tuple[float, Floats, Floats]:
    """Return the share, and how far each stratum's interval goes below and above it [h]."""
    from scipy.special import betaincinv

    tail, weight = (1 - level) / 2, counts.facts / counts.facts.sum()
    right = counts.answers - counts.wrong
    # Where nothing is known the share is somewhere.
    share = np.where(counts.answers > 0, counts.wrong / np.maximum(counts.answers, 1), 0.5)
    low = np.where(counts.wrong > 0, betaincinv(counts.wrong + 0.5, right + 0.5, tail), 0.0)
    high = np.where(right > 0, betaincinv(counts.wrong + 0.5, right + 0.5, 1 - tail), 1.0)
    left = np.sqrt(1 - counts.answers / counts.facts) * weight
    return float(weight @ share), left * (share - low), left * (high - share)


def next_strata(counts: Counts, *, level: float = 0.95) -> Ints:
    """Return the strata in the order in which one more answer makes the interval narrower.

    Strata that are used up come last; those with hardly any answer come first.
    """
    _, below, above = _parts(counts, level)
    gain = np.zeros(len(below))
    for part in (below, above):
        gain += part**2 / max(float(np.sqrt((part**2).sum())), 1e-12)
    gain /= np.maximum(counts.answers, 1)
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
    ends = [
        stratified_share(Counts.of(facts, stratum[:look], said[:look]), level=level)
        for look in looks
    ]
    return len(ends) == 2 and all(end.high - end.low <= 2 * half_width for end in ends)
