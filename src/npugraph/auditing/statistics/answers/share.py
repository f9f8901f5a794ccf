"""The share of wrong facts, by answers on facts that were drawn at random.

What holds here holds by the drawing alone: the probabilities of an audit may be as bad as they
like, they only make the interval wider.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from npugraph.arrays import Floats, probabilities, same_length
from npugraph.calibration.class_priors import Interval
from npugraph.errors import DataError


def random_share(wrong: int, answers: int, facts: int, *, level: float = 0.9) -> Interval:
    """Return the share of wrong facts, where every fact had the same chance of being drawn.

    The interval is exact: it holds every share that would give so few, or so many, wrong answers
    with a chance of at least (1 - level) / 2 (Clopper and Pearson 1934; hypergeometric, since no
    fact is drawn twice). It holds the truth at least as often as ``level`` says.

    Args:
        wrong: facts that were found wrong.
        answers: facts that were answered.
        facts: facts that they were drawn from.
        level: how often the interval should hold the truth.

    >>> share = random_share(4, 100, 100_000)
    >>> share.value, round(share.low, 3), round(share.high, 3)
    (0.04, 0.014, 0.089)
    >>> random_share(4, 100, 100)
    Interval(value=0.04, low=0.04, high=0.04)
    """
    from scipy.stats import hypergeom

    if not 0 <= wrong <= answers <= facts or answers == 0:
        raise DataError(
            f"{wrong} wrong of {answers} answers on {facts} facts is impossible: there must be at "
            "least one answer, no more than facts, and no more wrong ones than answers."
        )
    tail = (1 - level) / 2
    least, most = wrong, facts - (answers - wrong)
    low = _first(lambda count: hypergeom.sf(wrong - 1, facts, count, answers) > tail, least, most)
    over = _first(lambda count: hypergeom.cdf(wrong, facts, count, answers) <= tail, least, most)
    return Interval(wrong / answers, low / facts, (over - 1) / facts)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first number of low..high for which a condition holds, or high + 1.

    Once the condition holds it must hold for all larger numbers.
    """
    end = high + 1
    while low < end:
        middle = (low + end) // 2
        if holds(middle):
            end = middle
        else:
            low = middle + 1
    return low


def drawn_share(
    wrong: ArrayLike,
    chance: ArrayLike,
    *,
    suspected: ArrayLike | None = None,
    mean_suspected: float = 0.0,
    level: float = 0.9,
) -> Interval:
    """Return the share of wrong facts, where each fact had its own chance of being drawn.

    The difference estimator: the mean suspicion of all facts, corrected by the answers, each
    weighed by w = 1 / chance, scaled to sum to 1::

        mean_suspected + sum over answers of w (wrong - suspected)

    Its bias goes to 0 with 1 / n whatever the suspicions are; good ones only make it steadier.

    Wrong facts are rare, so a normal interval would be too short: it does not know of the heavy
    ones that were not drawn. What wrong facts add is a weighted sum of rare events, and gets
    a gamma interval (Fay and Feuer 1997) with one more event of average weight at its upper end
    (Tiwari, Clegg and Zou 2006). The rest of the variance gets Student's t, and the
    distances of the two add up in squares (Zou and Donner 2008).

    Args:
        wrong: bool [n], of the answered facts.
        chance: of each answered fact to be drawn, [n], above 0.
        suspected: probability that each answered fact is wrong, [n], as known before the answers.
        mean_suspected: mean of that over all facts.
        level: how often the interval should hold the truth.

    >>> round(drawn_share([True] + 99 * [False], 100 * [0.01]).value, 9)
    0.01
    """
    from scipy.stats import t

    label, drawn = np.asarray(wrong, dtype=bool), probabilities(chance, "chance")
    same_length(label, drawn, "wrong and chance")
    before = np.zeros(len(label)) if suspected is None else probabilities(suspected, "suspected")
    same_length(before, label, "suspected and wrong")
    if not len(label) or (drawn <= 0).any():
        raise DataError("At least one answer is needed, and every chance must be above 0.")
    weight = 1 / drawn
    weight /= weight.sum()
    value = mean_suspected + float(weight @ (label - before))
    below, above, variance = _gamma(weight * (1 - before), label, 1 - drawn, level)
    residual = weight * (label - before - (value - mean_suspected))
    count = len(label)
    rest = (residual**2 * (1 - drawn)).sum() * count / max(count - 1, 1) - variance
    beside = t.ppf((1 + level) / 2, max(count - 1, 1)) * np.sqrt(max(rest, 0.0))
    low, high = value - np.hypot(below, beside), value + np.hypot(above, beside)
    return Interval(*(float(np.clip(end, 0, 1)) for end in (value, low, high)))


def _gamma(
    adds: Floats, label: NDArray[np.bool_], open_share: Floats, level: float
) -> tuple[float, float, float]:
    """Return how far the interval of sum(adds[label]) goes below and above it, and its variance.

    Args:
        adds: what each fact adds if it is wrong [n].
        label: bool [n], which are.
        open_share: 1 - chance [n]; a fact that is drawn for certain adds no variance.
        level: how often the interval should hold the truth.
    """
    from scipy.stats import chi2

    tail = (1 - level) / 2
    total = float(adds[label].sum())
    variance = float((adds[label] ** 2 * open_share[label]).sum())

    def end(mean: float, spread: float, part: float) -> float:
        if mean <= 0 or spread <= 0:
            return mean
        return float(spread / (2 * mean) * chi2.ppf(part, 2 * mean**2 / spread))

    one_more = float(adds.mean()), float((adds**2 * open_share).mean())
    above = end(total + one_more[0], variance + one_more[1], 1 - tail) - total
    sure = not open_share.any()
    return total - end(total, variance, tail), 0.0 if sure else max(above, 0.0), variance
