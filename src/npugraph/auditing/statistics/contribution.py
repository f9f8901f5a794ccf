"""What each view brings: how well collected facts are told from the pools, with it and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npugraph.auditing.statistics.evidence import FactArrays
from npugraph.auditing.statistics.trees import Trees
from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.metrics import auroc
from npugraph.seeds import number

Floats = NDArray[np.floating]
# Facts of a sort that a comparison is made of at most: it is a figure for a report.
MOST = 8000


@dataclass(frozen=True)
class Contribution:
    """What one view brings, as AUROC of collected facts against pools, by kind.

    Attributes:
        view: its name.
        features: how many numbers it gives a fact.
        together: with all views.
        without: with all views but this one; empty where there is no other.
        alone: with this view alone.
    """

    view: str
    features: int
    together: dict[str, float]
    without: dict[str, float]
    alone: dict[str, float]


def contributions(
    collected: FactArrays,
    pools: Mapping[str, FactArrays],
    view_of: Sequence[str],
    *,
    thresholds: Thresholds = TUNED,
    seed: int = 0,
) -> tuple[Contribution, ...]:
    """Compare what all views tell with what is left without each of them, and with each alone.

    A classifier as that of the noise profile learns from a sample of one half of the folds and
    judges the other; every kind of pool counts the same.

    Args:
        collected: the collected facts.
        pools: by kind, uncollected facts.
        view_of: the view of each feature, [f].
        thresholds: sizes of the trees are those of the noise profile.
        seed: every draw follows from it.
    """
    rng = np.random.default_rng(number(seed, "contribution"))
    each = max(1, MOST // max(len(pools), 1))
    sorts = [_sample(collected, MOST, rng), *(_sample(pool, each, rng) for pool in pools.values())]
    owner = np.array(view_of)
    if not any((~odd).any() for _, odd in sorts[1:]):
        return ()

    def told(columns: NDArray[np.bool_]) -> dict[str, float]:
        scores = _scores(sorts, columns, thresholds, seed)
        return {
            kind: auroc(np.repeat([True, False], [len(scores[0]), len(low)]), np.r_[scores[0], low])
            for kind, low in zip(pools, scores[1:], strict=True)
            if len(low)
        }

    views = list(dict.fromkeys(view_of))
    together = told(np.ones(len(owner), dtype=bool))
    return tuple(
        Contribution(
            view,
            int((owner == view).sum()),
            together,
            told(owner != view) if len(views) > 1 else {},
            told(owner == view) if len(views) > 1 else together,
        )
        for view in views
    )


# Features [n, f], and which half of the folds each fact is in [n].
_Halved = tuple[Floats, NDArray[np.bool_]]


def _sample(facts: FactArrays, most: int, rng: np.random.Generator) -> _Halved:
    chosen = np.sort(rng.permutation(len(facts.fold))[:most])
    return facts.features[chosen], facts.fold[chosen] % 2 == 1


def _scores(
    sorts: list[_Halved], columns: NDArray[np.bool_], thresholds: Thresholds, seed: int
) -> list[Floats]:
    """Learn from the even folds by some columns; score the facts of the odd ones, by sort."""
    learnt = [features[~odd][:, columns] for features, odd in sorts]
    label = np.repeat(np.arange(len(learnt)) == 0, [len(part) for part in learnt])
    # Both sides count the same, and so does every kind.
    kinds = sum(1 for part in learnt[1:] if len(part))
    weight = np.concatenate(
        [
            np.full(len(part), len(label) / 2 / max(len(part), 1) / (kinds if place else 1))
            for place, part in enumerate(learnt)
        ]
    )
    model = Trees.fit(
        np.concatenate(learnt),
        label,
        weight,
        rounds=thresholds.profile_rounds,
        leaves=thresholds.profile_leaves,
        seed=number(seed, "contribution") % 2**31,
    )
    return [
        model.log_odds(features[odd][:, columns]) if odd.any() else np.zeros(0)
        for features, odd in sorts
    ]
