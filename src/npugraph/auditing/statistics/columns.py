"""What a column of the input says about facts, learnt from how suspicious they are.

Nobody has said which facts are wrong, and uncollected facts have no columns: a classifier of
collected against uncollected facts can learn nothing from a column. But where the facts of one
source, or of low confidence, are more suspicious than others of the same relations, the column
says something, and it says it of every one of them.

Given the truth, score and column are taken to be independent. Then

    odds(wrong | score, column) = odds(wrong | score) * odds(wrong | column) / odds(wrong),

and P(wrong | column) is the mean probability of being wrong among the facts with that value, beyond
what is usual for their relations, without the fact itself, and partially pooled. With n other
facts of a value, variance t^2 between values and s^2 within them, the mean counts
n t^2 / (n t^2 + s^2): where values differ no more than chance has it, the column says nothing.
Several columns are taken in order, each of what the ones before leave open.

Pure functions on arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npugraph.arrays import Floats, Ints, probabilities, same_length

# Numbers with more distinct values than this are cut into as many parts of equal size.
PARTS = 10
# No column changes the odds by more than this factor, all of them together.
LIMIT = 20.0
# No probability is taken to be smaller.
FLOOR = 1e-6


@dataclass(frozen=True)
class ColumnEffect:
    """What one column says.

    Attributes:
        groups: how many values it has, or parts of its range.
        spread: standard deviation between them of the share of wrong facts.
        lowest: the mean share that it adds or takes away, in the group where it is smallest.
        highest: the same where it is largest.
    """

    groups: int
    spread: float
    lowest: float
    highest: float


def column_ratio(
    wrong: NDArray[np.floating],
    relation: Ints,
    columns: Mapping[str, Ints],
    falling: tuple[str, ...] = (),
) -> tuple[Floats, dict[str, ColumnEffect]]:
    """Return by which factor columns change the odds of being wrong: [n], and each column's effect.

    Args:
        wrong: probability of being wrong by everything else, [n].
        relation: of each fact, [n].
        columns: by name, the group of each fact, 0.. [n]; -1 is a fact without a value.
        falling: columns of which a higher group never speaks against a fact.
    """
    wrong = probabilities(wrong, "wrong")
    same_length(wrong, relation, "wrong and relation")
    usual = float(wrong.mean()) if len(wrong) else 0.0
    base = usual + pooled(wrong - usual, relation)[0]
    share, effects = base.copy(), {}
    for name, group in columns.items():
        same_length(wrong, group, f"wrong and {name}")
        effect, spread = pooled(wrong - share, group)
        means = _means(effect, group)
        if name in falling and len(means):
            means = _falling(means, np.bincount(group[group >= 0], minlength=len(means)))
            # Leaving the fact itself out must not bring back a rise.
            effect = np.where(group >= 0, means[np.maximum(group, 0)], 0.0)
        share = share + effect
        ends = (float(means.min()), float(means.max())) if len(means) else (0.0, 0.0)
        effects[name] = ColumnEffect(len(means), spread, *ends)
    before, after = (np.clip(part, FLOOR, 1 - FLOOR) for part in (base, share))
    ratio = after / (1 - after) * (1 - before) / before
    return np.clip(ratio, 1 / LIMIT, LIMIT), effects


def apply_ratio(true: NDArray[np.floating], ratio: Floats) -> Floats:
    """Return probabilities of being true [n] whose odds of being wrong change by a factor [n].

    A fact that is wrong for certain by all else is taken to be nearly so: columns tell such facts
    apart, too.

    >>> apply_ratio(np.array([0.5, 1.0]), np.array([3.0, 3.0])).tolist()
    [0.25, 1.0]
    """
    true = np.maximum(true, FLOOR)
    changed: Floats = true / (true + (1 - true) * ratio)
    return changed


def numeric_groups(values: Floats) -> Ints:
    """Cut numbers [n] into groups of equal size, lowest first; nan is in none.

    >>> numeric_groups(np.array([0.2, 0.9, np.nan, 0.2])).tolist()
    [0, 1, -1, 0]
    """
    known = ~np.isnan(values)
    group = np.full(len(values), -1)
    distinct = np.unique(values[known])
    if len(distinct) > PARTS:
        distinct = np.unique(np.quantile(values[known], np.arange(PARTS) / PARTS))
    group[known] = np.searchsorted(distinct, values[known], side="right") - 1
    return group


def _means(values: Floats, group: Ints) -> Floats:
    """Return the mean of values [n] by group 0..: [g], zero where a group is empty."""
    known = group >= 0
    if not known.any():
        return np.zeros(0)
    count = np.bincount(group[known])
    means: Floats = np.bincount(group[known], values[known]) / np.maximum(count, 1)
    return means


def pooled(residual: Floats, group: Ints) -> tuple[Floats, float]:
    """Return the partially pooled mean of each fact's group without it [n], and the spread.

    The spread between groups is that of a one-way analysis of variance, zero where chance has it.
    """
    effect = np.zeros(len(residual))
    known = group >= 0
    labels, place = np.unique(group[known], return_inverse=True)
    value = residual[known]
    count = np.bincount(place, minlength=len(labels)).astype(np.float64)
    total = np.bincount(place, value, minlength=len(labels))
    if len(labels) < 2 or len(value) <= len(labels):
        return effect, 0.0
    mean = total / count
    within = float(((value - mean[place]) ** 2).sum() / (len(value) - len(labels)))
    between = float((count * (mean - value.mean()) ** 2).sum() / (len(labels) - 1))
    size = (len(value) - (count**2).sum() / len(value)) / (len(labels) - 1)
    spread = max(0.0, (between - within) / size)
    if spread == 0:
        return effect, 0.0
    others = count[place] - 1
    own = (total[place] - value) / np.maximum(others, 1) - value.mean()
    heeded = others * spread
    effect[known] = own * heeded / np.maximum(heeded + within, np.finfo(np.float64).tiny)
    return effect, float(np.sqrt(spread))


def _falling(means: Floats, count: NDArray[np.int64]) -> Floats:
    """Return the nearest means [g] that never rise, by group size (isotonic regression)."""
    from sklearn.isotonic import isotonic_regression

    fitted: Floats = isotonic_regression(
        means, sample_weight=np.maximum(count, 1e-9), increasing=False
    )
    return fitted
