"""How much of each kind of wrong facts is among collected ones, by scores alone.

With p_c the distribution of the collected facts, p_true that of the true ones and p_k that of kind
k, for every set H of facts

    p_c(H) = beta p_true(H) + sum_k a_k p_k(H),

and where no true facts lie the shares a_k are all that is left. Each kind j gives such sets: a
score tells its facts from the collected ones, and H_j(c) holds what scores below the c-th quantile
of the kind, for c up to a half. One equation per kind, as many as there are shares::

    p_c(H_j) / p_j(H_j) = sum_k a_k p_k(H_j) / p_j(H_j),      a_k >= 0

by least squares. Wide sets have many facts and some true ones among them, narrow ones few of
either, so the equation of a kind is the mean over c with the weights of
:func:`npugraph.calibration.class_priors.threshold_weights`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from npugraph.calibration.class_priors import threshold_weights

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]


def equation(scores: Sequence[Floats], kind: int, ends: Sequence[float]) -> tuple[Doubles, float]:
    """Return the equation of a kind, and how dense collected facts are amid it.

    Args:
        scores: by one score that tells the kind from the collected facts, first those of the
            collected facts, then those of each kind.
        kind: its place among them, from 1.
        ends: quantiles of the kind below which facts are counted, rising.

    Returns:
        A row [k + 1], the factors of the shares and what they come to, scaled by how sure it is;
        and the density of collected facts beside the kind's below the last of the ends.
    """
    edges = np.quantile(scores[kind], ends)
    # Ties may put more below a quantile than its name says.
    mass = share_below(scores[kind], edges)
    density = np.stack([share_below(score, edges) / mass for score in scores])
    count = len(scores[0])
    weight = threshold_weights(density[0], mass, count)
    mean = density @ weight
    variance = max(mean[0], 1 / count) / count * (weight**2 / mass).sum()
    row: Doubles = np.append(mean[1:], mean[0]) / np.sqrt(variance)
    return row, float(density[0][-1])


def solve(equations: Floats, ridge: float) -> Doubles:
    """Return the shares [k] that fit equations [k, k + 1] best; one whose row is all 0 gets none.

    Args:
        equations: as :func:`equation` makes them.
        ridge: pull of the shares to 0, and so to one another where kinds look alike.

    >>> solve(np.array([[1.0, 0.5, 0.05], [0.0, 1.0, 0.02]]), 1e-6).round(3)
    array([0.04, 0.02])
    """
    # A kind without an equation must not explain what the others have.
    matrix = np.where(equations.any(1), equations[:, :-1], 0.0)
    right = equations[:, -1]
    pull = ridge * float(np.abs(matrix).max()) * np.eye(len(matrix))
    padded = np.concatenate([right, np.zeros(len(matrix))])
    found: Doubles = np.minimum(nnls(np.concatenate([matrix, pull]), padded)[0], 1.0)
    return found


def share_below(score: Floats, edges: Floats) -> Doubles:
    """Return the share of scores [n] at or below each edge [t]: [t]."""
    shares: Doubles = np.searchsorted(np.sort(score), edges, side="right") / len(score)
    return shares
