"""One score from many features: how collected rather than uncollected does a fact look?

A gradient-boosted classifier is trained on the features of collected facts against those of the
pools, equal weight to both sides, and only ever judges facts of folds it was not trained on. Its
log-odds are the log of the density ratio p_collected / p_pool, up to calibration.

Some collected facts are wrong, and a classifier that is told to take them for right learns a part
of them by heart. So collected facts may count less where they are doubted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npugraph.auditing.statistics.trees import Trees
from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.errors import DataError
from npugraph.seeds import number

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]
# By a fold and features [m, f], how much each of these facts counts [m].
Counts = Callable[[int, Floats], Floats]


@dataclass(frozen=True)
class Stack:
    """One classifier per fold, and the scores of all facts by the one that did not see them.

    Attributes:
        models: by fold.
        collected: log-odds of the collected facts, [n].
        pools: by kind, log-odds of its facts, [m].
    """

    models: dict[int, Trees]
    collected: Floats
    pools: dict[str, Floats]

    def score(self, features: Floats, fold: Ints) -> Floats:
        """Score other facts, judged by the systems of the given folds [n]: [n]."""
        return _by_fold(self.models, features, fold)


def stack(
    collected: Floats,
    collected_fold: Ints,
    pools: Mapping[str, tuple[Floats, Ints]],
    weight: Mapping[str, float],
    counts: Counts | None = None,
    *,
    thresholds: Thresholds = TUNED,
    seed: int = 0,
) -> Stack:
    """Train the classifiers.

    Args:
        collected: features of the collected facts, [n, f].
        collected_fold: their folds, [n].
        pools: by kind, features [m, f] and folds [m] of uncollected facts.
        weight: by kind, how much its pool counts; sums to 1.
        counts: how much collected facts of some features [m, f] count where the classifier of a
            fold learns: [m], ``score_doubted`` at least. To stay fair it must not have seen the
            fold. None: all the same.
        thresholds: what was tuned. No kind counts less than ``score_floor``, so that every one has
            been seen; beyond ``score_facts`` of a sort a sample is learnt from.
        seed: every draw follows from it.
    """
    models = {}
    most = thresholds.score_facts
    weight = {kind: max(weight[kind], thresholds.score_floor) for kind in pools}
    rng = np.random.default_rng(number(seed, "stack"))
    for fold in np.unique(collected_fold):
        rows = _some(np.flatnonzero(collected_fold != fold), most, rng)
        parts = [collected[rows]]
        weights: list[Floats] = [np.ones(len(rows))]
        if counts is not None:
            weights = [np.maximum(counts(int(fold), parts[0]), thresholds.score_doubted)]
        for kind, (features, of_fold) in pools.items():
            # A kind that hardly counts needs few rows, but enough to be seen.
            size = round(most * max(weight[kind], thresholds.score_sample))
            parts.append(_some(features[of_fold != fold], size, rng))
            weights.append(np.full(len(parts[-1]), weight[kind] / max(len(parts[-1]), 1)))
        own = number(seed, "stack", int(fold)) % 2**31
        models[int(fold)] = _fit(parts, weights, thresholds, own)
    return Stack(
        models,
        _by_fold(models, collected, collected_fold),
        {kind: _by_fold(models, x, fold) for kind, (x, fold) in pools.items()},
    )


def _some(rows: NDArray[Any], most: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return at most so many rows [n, ...], in order."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(rng.permutation(len(rows))[:most])]


def _fit(parts: list[Floats], weights: list[Floats], thresholds: Thresholds, seed: int) -> Trees:
    if not len(parts[0]) or not sum(len(part) for part in parts[1:]):
        raise DataError("There are too few facts to tell collected from uncollected ones.")
    collected = np.zeros(sum(len(part) for part in parts), dtype=bool)
    collected[: len(parts[0])] = True
    weight = np.concatenate(weights)
    # Equal weight to both sides, one on average: the leaves' least size is counted in facts.
    weight[collected] /= weight[collected].sum()
    weight[~collected] /= weight[~collected].sum()
    return Trees.fit(
        np.concatenate(parts),
        collected,
        weight * len(weight) / 2,
        rounds=thresholds.score_rounds,
        leaves=thresholds.score_leaves,
        least_leaf=thresholds.score_least_leaf,
        looked_at=thresholds.score_looked_at,
        seed=seed,
    )


def _by_fold(models: Mapping[int, Trees], features: Floats, fold: Ints) -> Floats:
    scores = np.zeros(len(features))
    for of_fold, model in models.items():
        mine = fold == of_fold
        if mine.any():
            scores[mine] = model.log_odds(features[mine])
    return scores


def mixed_pool(
    pools: Mapping[str, NDArray[np.generic]],
    weight: Mapping[str, float],
    rng: np.random.Generator,
    thresholds: Thresholds = TUNED,
) -> dict[str, Ints]:
    """Choose from each pool so that the kinds stand to each other as their weights: places [m].

    The largest such choice without repeats is taken. A kind of less weight than ``small_kind`` may
    fall short of its due, so that it cannot make the whole choice small.
    """
    small = thresholds.small_kind
    large = [len(pool) / weight[kind] for kind, pool in pools.items() if weight[kind] >= small]
    size = min(large, default=0.0)
    return {
        kind: np.sort(rng.permutation(len(pool))[: int(size * weight[kind])])
        for kind, pool in pools.items()
    }
