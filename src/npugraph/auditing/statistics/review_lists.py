"""Review lists and what they should find; pure functions on arrays.

``probability`` is always the probability that a fact is true. The ``expected_``
figures need only probabilities: a list of facts with probabilities p holds sum(1 - p) wrong facts
on average.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from npugraph.arrays import Floats, Ints, finite, probabilities
from npugraph.errors import DataError, SettingsError


def threshold_for_precision(probability: ArrayLike, target: float) -> float:
    """Return the largest t so that the facts with probability <= t are expected to be wrong.

    The expected precision of that list is the mean of 1 - probability over it; it falls as the
    list grows. Facts of equal probability are taken or left together.

    Args:
        probability: of being true, [n].
        target: the least expected share of wrong facts in the list, in [0, 1].

    Returns:
        A threshold, or nan where even the most suspect facts do not reach the target.

    >>> threshold_for_precision([0.1, 0.3, 0.8, 1.0], target=0.6)
    0.8
    """
    rising = np.sort(probabilities(probability))
    count = _count_for(1 - rising, target)
    return float(rising[count - 1]) if count else float("nan")


def find_suspect_facts(
    facts: pa.Table,
    probability: ArrayLike,
    *,
    score: ArrayLike | None = None,
    budget: int | None = None,
    target_precision: float | None = None,
    protected: ArrayLike | None = None,
) -> pa.Table:
    """List collected facts, the most probably wrong first.

    Args:
        facts: a table of n rows; its columns are kept.
        probability: of being true, [n].
        score: plausibility [n]; of equally probable facts the least plausible come first. What is
            still equal keeps the order of the rows.
        budget: list at most so many facts.
        target_precision: list only as many as keep the expected share of wrong facts at or
            above this. Facts of equal probability are taken or left together.
        protected: bool [n], facts that are known to be right and are never listed.

    Returns:
        The input columns, then rank (from 1), row (place in ``facts``), probability, and the
        figures of the list down to that row: expected_wrong and expected_precision.

    >>> facts = pa.table({"head": ["a", "b", "c"]})
    >>> find_suspect_facts(facts, [0.9, 0.2, 0.5], budget=2)["head"].to_pylist()
    ['b', 'c']
    """
    given = probabilities(probability)
    keys = (given,) if score is None else (given, finite(score, "score", empty=True))
    rows = _list(facts, 1 - given, keys, budget, target_precision, protected)
    return _table(facts, given, 1 - given, rows, "wrong")


def find_missing_facts(
    facts: pa.Table,
    probability: ArrayLike,
    *,
    score: ArrayLike | None = None,
    budget: int | None = None,
    target_precision: float | None = None,
    excluded: ArrayLike | None = None,
) -> pa.Table:
    """List uncollected candidate facts, the most probably true first.

    The arguments are those of :func:`find_suspect_facts`, with the signs turned: of equally
    probable facts the most plausible come first, and ``target_precision`` is the least expected
    share of true facts. ``excluded`` facts, such as those already rejected, are never listed.

    Returns:
        The input columns, then rank, row, probability, expected_true and expected_precision.

    >>> facts = pa.table({"head": ["a", "b", "c"]})
    >>> find_missing_facts(facts, [0.9, 0.2, 0.5], target_precision=0.7)["head"].to_pylist()
    ['a', 'c']
    """
    given = probabilities(probability)
    keys = (-given,) if score is None else (-given, -finite(score, "score", empty=True))
    rows = _list(facts, given, keys, budget, target_precision, excluded)
    return _table(facts, given, given, rows, "true")


def _list(
    facts: pa.Table,
    chance: Floats,
    keys: tuple[Floats, ...],
    budget: int | None,
    target: float | None,
    left_out: ArrayLike | None,
) -> Ints:
    """Return the rows to list, by rising keys, the first key first."""
    mask = np.zeros(len(facts), dtype=bool) if left_out is None else np.asarray(left_out)
    if mask.dtype != np.bool_:
        raise DataError(f"The mask of facts to leave out must be bool, not {mask.dtype}.")
    for name, column in zip(("probability", "score"), keys, strict=False):
        _one_each(column, name, facts)
    _one_each(mask, "The mask of facts to leave out", facts)
    # lexsort goes by the last key first.
    order: Ints = np.lexsort(keys[::-1])
    order = order[~mask[order]]
    if target is not None:
        order = order[: _count_for(chance[order], target)]
    return order if budget is None else order[: _budget(budget)]


def _one_each(column: NDArray[np.generic], name: str, facts: pa.Table) -> None:
    if column.shape != (len(facts),):
        raise DataError(
            f"{name} must hold one value for each of the {len(facts)} facts; its shape is "
            f"{column.shape}."
        )


def _table(facts: pa.Table, given: Floats, chance: Floats, rows: Ints, what: str) -> pa.Table:
    """Return the listed facts with the columns that the list adds."""
    expected = _running(chance[rows])[1:]
    added = {
        "rank": np.arange(1, len(rows) + 1),
        "row": rows,
        "probability": given[rows],
        f"expected_{what}": expected,
        "expected_precision": expected / np.arange(1, len(rows) + 1),
    }
    taken = [name for name in added if name in facts.column_names]
    if taken:
        raise DataError(
            f"The facts already have a column {taken[0]!r}, which the list would add; "
            "rename or drop it first."
        )
    table = facts.take(pa.array(rows))
    for name, column in added.items():
        table = table.append_column(name, pa.array(column))
    return table


def _count_for(falling: Floats, target: float) -> int:
    """Return how many of the chances [n], highest first, keep a mean of at least ``target``."""
    if not 0 <= target <= 1:
        raise SettingsError(f"The target precision is {target}; it must lie between 0 and 1.")
    if len(falling) == 0:
        return 0
    size = np.arange(1, len(falling) + 1)
    # Rounding in the sum must not cost a list that meets the target exactly.
    enough = _running(falling)[1:] >= target * size - 1e-9 * size
    last_of_ties = np.append(np.diff(falling) != 0, True)
    kept = np.flatnonzero(enough & last_of_ties)
    return int(kept[-1]) + 1 if len(kept) else 0


def _running(values: ArrayLike) -> Floats:
    """Return the sums of the first 0, 1, ..., n values: [n + 1]."""
    return np.concatenate([[0.0], np.cumsum(np.asarray(values, dtype=np.float64))])


def _budget(budget: int) -> int:
    if budget < 0:
        raise SettingsError(f"budget={budget} must be at least 0.")
    return budget
