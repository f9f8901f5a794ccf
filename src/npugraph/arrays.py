"""Small helpers on arrays: checks that answer with a sentence, first of each key, runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from npugraph.errors import DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def finite(values: ArrayLike, name: str, *, empty: bool = False) -> Floats:
    """Return finite numbers [n] as float64; refuse anything else with a sentence.

    >>> finite([1, 2], "scores").tolist()
    [1.0, 2.0]
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} must hold numbers, not {type(values).__name__}.") from None
    if array.ndim != 1:
        raise DataError(f"{name} must be one-dimensional; it has shape {array.shape}.")
    if len(array) == 0 and not empty:
        raise DataError(f"{name} is empty; at least one value is needed.")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise DataError(
            f"{name}[{bad[0]}] is {array[bad[0]]}; remove or replace the {len(bad)} values that "
            "are not finite."
        )
    return array


def probabilities(values: ArrayLike, name: str = "probability") -> Floats:
    """Return numbers [n] in [0, 1] as float64; refuse anything else with a sentence."""
    array = finite(values, name, empty=True)
    bad = np.flatnonzero((array < 0) | (array > 1))
    if len(bad):
        raise DataError(f"{name}[{bad[0]}] is {array[bad[0]]}; it must lie between 0 and 1.")
    return array


def same_length(left: ArrayLike, right: ArrayLike, names: str) -> None:
    """Refuse two arrays of different length; ``names`` says which they are."""
    sizes = np.shape(left), np.shape(right)
    if sizes[0] != sizes[1]:
        raise DataError(f"{names} must have the same length; they have {sizes[0]} and {sizes[1]}.")


def first_of_each(keys: Tensor) -> Tensor:
    """Return the places where each distinct key [n] first stands, ascending.

    >>> first_of_each(torch.tensor([5, 3, 5, 3, 7])).tolist()
    [0, 1, 4]
    """
    return first_by_key(keys).sort().values


def first_by_key(keys: Tensor) -> Tensor:
    """Return the places where each distinct key [n] first stands, in the order of the keys.

    >>> first_by_key(torch.tensor([5, 3, 5, 3, 7])).tolist()
    [1, 0, 4]
    """
    order = torch.argsort(keys, stable=True)
    fresh = torch.ones(len(keys), dtype=torch.bool, device=keys.device)
    fresh[1:] = keys[order][1:] != keys[order][:-1]
    return order[fresh]


def run_length(count: int, runs: int) -> int:
    """Return how long each of some runs of ``count`` things is; the last may be shorter.

    >>> run_length(499, 8), run_length(512, 8)
    (63, 64)
    """
    return max(1, -(-count // max(runs, 1)))


def in_runs(score: Callable[..., Tensor], queries: Sequence[Tensor], pool: Tensor) -> Tensor:
    """Score queries against the candidates of their runs.

    Shapes: queries [b, w] each and pool [g, k, w] to [b, k]; row i of the pool serves the i-th run
    of ceil(b / g) queries. ``score`` maps queries [n, q, w] and pools [n, k, w] to [n, q, k]. A
    last run that is shorter than the others is scored by itself.

    >>> pool = torch.tensor([[[1.0]], [[2.0]]])
    >>> in_runs(lambda query, pool: query @ pool.mT, [torch.ones(3, 1)], pool).tolist()
    [[1.0], [1.0], [2.0]]
    """
    count = len(queries[0])
    size = run_length(count, len(pool))
    whole = count // size
    if whole == len(pool):
        runs = (part.view(whole, size, part.shape[1]) for part in queries)
        return score(*runs, pool).reshape(count, -1)
    cut = whole * size
    parts = [
        in_runs(score, [part[:cut] for part in queries], pool[:whole]),
        score(*(part[cut:].unsqueeze(0) for part in queries), pool[whole : whole + 1]).squeeze(0),
    ]
    return torch.cat(parts)
