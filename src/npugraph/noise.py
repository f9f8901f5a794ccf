"""What kind of wrong facts a graph holds: the noise profile.

A wrong fact may be any three names thrown together, a fact with one end replaced by anything, or
one with an end replaced by something plausible. Pools of such facts can be drawn; what nobody
knows is how much of each is in the collected facts. With p_c the distribution of the collected
facts over some bins and p_k that of pool k,

    p_c(b) = beta p_true(b) + sum_k a_k p_k(b)  >=  sum_k a_k p_k(b)     for every bin b,

so the largest shares a_k >= 0 that fit under p_c everywhere are the most noise the facts could
hold: a linear program. Where true facts leave some bins empty it is also what they do hold.
The bins are the leaves of a decision tree that tells the pools and the collected facts apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.tree import DecisionTreeClassifier

from npugraph.errors import DataError

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class NoiseProfile:
    """How much of each kind of wrong facts there seems to be.

    Attributes:
        share: by kind, the most of it that fits under the collected facts.
        weight: by kind, how much its pool should count; sums to 1 and no kind is left out.
    """

    share: dict[str, float]
    weight: dict[str, float]


def noise_profile(
    collected: Floats,
    collected_fold: Ints,
    pools: Mapping[str, tuple[Floats, Ints]],
    *,
    leaves: int = 64,
    tolerance: float = 1.0,
    floor: float = 0.02,
    seed: int = 0,
) -> NoiseProfile:
    """Estimate the noise profile of collected facts from features and folds.

    Args:
        collected: features of the collected facts, [n, f].
        collected_fold: their folds, [n].
        pools: by kind, features [m, f] and folds [m] of uncollected facts.
        leaves: bins at most. They are made on half of the folds and counted on the other half,
            both ways round, so that a bin is not empty because it was made to be.
        tolerance: how many standard deviations of its count a bin may be overfilled.
        floor: the least weight of a kind, as a share of all.
        seed: of the tree, which breaks ties by it.
    """
    if len(np.unique(collected_fold)) < 2:
        raise DataError("A noise profile needs facts of at least two folds.")
    folds = [collected_fold, *(fold for _, fold in pools.values())]
    features = [collected, *(x for x, _ in pools.values())]
    halves = []
    for odd in (0, 1):
        grown = [x[fold % 2 == odd] for x, fold in zip(features, folds, strict=True)]
        counted = [x[fold % 2 != odd] for x, fold in zip(features, folds, strict=True)]
        halves.append(_shares(grown, counted, leaves, tolerance, seed))
    share = np.mean(halves, axis=0)
    total = share.sum()
    even = np.full(len(share), 1 / len(share))
    weight = share / total if total > 0 else even
    weight = (1 - floor * len(share)) * weight + floor
    kinds = list(pools)
    return NoiseProfile(
        dict(zip(kinds, share.tolist(), strict=True)),
        dict(zip(kinds, weight.tolist(), strict=True)),
    )


def _shares(
    grown: list[Floats], counted: list[Floats], leaves: int, tolerance: float, seed: int
) -> Floats:
    """Grow bins on some facts, count others in them, and solve the linear program: [kinds]."""
    label = np.repeat(np.arange(len(grown)), [len(x) for x in grown])
    each = np.array([1 / max(len(x), 1) for x in grown])
    tree = DecisionTreeClassifier(
        max_leaf_nodes=leaves, min_weight_fraction_leaf=0.002, random_state=seed
    )
    tree.fit(np.concatenate(grown), label, sample_weight=each[label] * len(label))
    counts = [np.bincount(tree.apply(x), minlength=tree.tree_.node_count) for x in counted]
    total = max(len(counted[0]), 1)
    room = (counts[0] + tolerance * np.sqrt(np.maximum(counts[0], 1))) / total
    density = np.stack(
        [count / max(len(x), 1) for count, x in zip(counts[1:], counted[1:], strict=True)], 1
    )
    kinds = density.shape[1]
    result = linprog(-np.ones(kinds), A_ub=density, b_ub=room, bounds=[(0, 1)] * kinds)
    found: Floats = result.x
    return np.maximum(found, 0.0)
