"""Which proposed facts are true? Stored facts that were held out and found again tell.

A system that was trained without some of the stored facts proposes new ones. Among its proposals
are facts that were held out, which are stored, and others, which are not. A classifier learns to
tell the two apart; it only judges proposals of folds it was not trained on. If missing facts are
found as held-out ones are, then

    P(stored | x) = c P(true | x),    c = share of the stored ones among the true proposals,

so its order is that of P(true), and c is P(stored) where all proposals are true, which is taken to
be at the best scores (Elkan and Noto 2008). For a proposal that is not stored

    P(true | x, not stored) = (1 - c) / c  *  P(stored | x) / (1 - P(stored | x)).

Pure functions on arrays. Nothing here knows a graph or a system.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npugraph.auditing.statistics.trees import Trees
from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.calibration.class_priors import Interval
from npugraph.calibration.probability import DensityRatio
from npugraph.seeds import number

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Recovery:
    """What held-out facts among proposals say of the others.

    Attributes:
        score: log-odds of being stored, [n].
        probability: of being true if not stored, [n]: the mean over c's estimate and both ends of
            its interval; ``low`` and ``high`` are what those ends give.
        stored_share: c, with its interval.
    """

    score: Floats
    probability: Floats
    low: Floats
    high: Floats
    stored_share: Interval

    def missing_share(self, folds: int) -> Interval:
        """Return the share of the true facts that are not stored, where each fold is held out once.

        A stored fact can be found again in one fold of many, a missing one in all. So for S stored
        and M missing facts c = (S / folds) / (S / folds + M).
        """
        value, low, high = ((1 - c) / (1 - c + folds * c) for c in self.stored_share)
        return Interval(value, high, low)


def judge_proposals(
    features: Floats,
    fold: Ints,
    stored: Bools,
    *,
    thresholds: Thresholds = TUNED,
    seed: int = 0,
) -> Recovery | None:
    """Judge proposals by those of them that are stored; None where too few are.

    Args:
        features: of the proposals, each judged by a system that was not trained on it: [n, f].
        fold: whose system that was, [n].
        stored: which proposals are stored facts that were held out from that system, [n].
        thresholds: what was tuned. There are few facts to learn from, so the trees are small.
        seed: every draw follows from it.
    """
    if int(stored.sum()) < thresholds.least_found:
        return None
    score = np.zeros(len(features))
    for one in np.unique(fold):
        others = fold != one
        if stored[others].all() or not stored[others].any():
            return None
        trees = Trees.fit(
            features[others],
            stored[others],
            np.ones(int(others.sum())),
            rounds=thresholds.found_rounds,
            leaves=thresholds.found_leaves,
            least_leaf=thresholds.found_least_leaf,
            seed=number(seed, "recovery", int(one)) % 2**31,
        )
        score[~others] = trees.log_odds(features[~others])
    share = _stored_share(score, stored, thresholds)
    # P(stored) / P(not stored), rising with the score.
    ratio = DensityRatio.fit(score[stored], score[~stored])(score)
    odds = ratio * stored.sum() / (~stored).sum()
    middle, high, low = (np.minimum(odds * (1 - c) / c, 1.0) for c in share)
    # Where c is nearly 1 a little more or less of it makes all the difference: no end is the truth.
    return Recovery(score, (low + middle + high) / 3, low, high, share)


def _stored_share(score: Floats, stored: Bools, thresholds: Thresholds) -> Interval:
    """Return the share of stored ones among the best proposals, and its interval.

    How many count as the best ones? As many as make the share largest, from some number on. The
    very best alone would give too little: what the other folds had there by chance, and raised the
    score, this one lacks.
    """
    from scipy.stats import beta

    least = max(thresholds.least_best, round(thresholds.best_share * int(stored.sum())))
    least = min(least, len(score))
    found = np.cumsum(stored[np.argsort(-score, kind="stable")])
    count = least + int(np.argmax(found[least - 1 :] / np.arange(least, len(score) + 1)))
    hits = int(found[count - 1])
    tail = (1 - thresholds.level) / 2
    low, high = beta.ppf([tail, 1 - tail], hits + 0.5, count - hits + 0.5)
    half, mismatch = 0.5 / count, thresholds.found_mismatch
    return Interval(
        min(max(hits / count, half), 1 - half),
        max(float(low) * (1 - mismatch), half),
        min(float(high) * (1 + mismatch), 1.0),
    )
