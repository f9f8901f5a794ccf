"""From scores to probabilities: density ratio, label posteriors, and how well they hold.

Everything here is a function of plain arrays, so it serves anybody's scores. Scores must be
*held out*: the model that gave a collected fact its score must not have been trained on it.

A share ``beta`` of the collected facts is true and a share ``alpha`` of the uncollected ones::

    p_collected(s)   = beta  * p_true(s) + (1 - beta)  * p_false(s)
    p_uncollected(s) = alpha * p_true(s) + (1 - alpha) * p_false(s)

The ratio rho(s) = p_collected(s) / p_uncollected(s) is learned from the scores; with it the two
equations give the probability that a fact is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from npugraph.arrays import Floats, Ints, finite, same_length
from npugraph.errors import DataError, SettingsError, nearest

Method = Literal["isotonic", "platt"]


def _weights(weight: ArrayLike | None, values: Floats, name: str) -> Floats:
    """Return weights [n] that sum to 1; equal ones where None."""
    if weight is None:
        return np.full(len(values), 1 / len(values))
    array = finite(weight, name)
    same_length(array, values, f"{name} and its scores")
    if (array < 0).any() or array.sum() == 0:
        raise DataError(f"{name} must not be negative and must not be all zero.")
    share: Floats = array / array.sum()
    return share


@dataclass(frozen=True, eq=False)
class DensityRatio:
    """The ratio rho(s) = p_collected(s) / p_uncollected(s), never falling in s, never 0 or inf.

    Between the knots log rho is linear; outside them it is constant (``isotonic``) or goes on
    along the same line (``platt``).

    Attributes:
        score: knots [k], ascending.
        log_ratio: log rho at the knots [k].
        slope: of log rho outside the knots.

    >>> ratio = DensityRatio.fit([1.0, 2.0, 3.0], [0.0, 0.5, 2.0])
    >>> ratio([0.0, 3.0]).round(2).tolist()
    [0.25, 2.0]
    """

    score: Floats
    log_ratio: Floats
    slope: float = 0.0

    @classmethod
    def fit(
        cls,
        collected: ArrayLike,
        uncollected: ArrayLike,
        *,
        method: Method = "isotonic",
        collected_weight: ArrayLike | None = None,
        uncollected_weight: ArrayLike | None = None,
    ) -> DensityRatio:
        """Learn the ratio from held-out scores of collected [n] and uncollected facts [m].

        Both classes get the same total weight, so that g(s), the share of collected facts at
        score s, gives rho = g / (1 - g).

        Args:
            collected: scores [n].
            uncollected: scores [m].
            method: ``isotonic`` assumes no more than that rho never falls; ``platt`` that log
                rho is a line, which is steadier on a few dozen facts.
            collected_weight: weights [n], any positive scale.
            uncollected_weight: weights [m], any positive scale.
        """
        if method not in get_args(Method):
            hint = nearest(method, get_args(Method))
            raise SettingsError(f"method={method!r} must be isotonic or platt.{hint}")
        high, low = finite(collected, "collected"), finite(uncollected, "uncollected")
        weights = (
            _weights(collected_weight, high, "collected_weight"),
            _weights(uncollected_weight, low, "uncollected_weight"),
        )
        fit = _isotonic if method == "isotonic" else _platt
        return fit(high, low, *weights)

    def log(self, scores: ArrayLike) -> Floats:
        """Return log rho of scores [n]: [n]."""
        values = finite(scores, "scores", empty=True)
        inside: Floats = np.interp(values, self.score, self.log_ratio)
        beyond = values - np.clip(values, self.score[0], self.score[-1])
        return inside + self.slope * beyond

    def __call__(self, scores: ArrayLike) -> Floats:
        """Return rho of scores [n]: [n], positive and finite."""
        limit = np.log(np.finfo(np.float64).max) / 2
        return np.exp(np.clip(self.log(scores), -limit, limit))


def _isotonic(high: Floats, low: Floats, high_weight: Floats, low_weight: Floats) -> DensityRatio:
    """Fit g by isotonic regression, with half a fact of the other class beyond either end.

    Without the two halves the lowest block, where no collected fact lies, would have rho = 0 and
    the highest one infinity: certainty from a handful of facts. Half a fact is the usual
    (Jeffreys) pseudo-count. Put at the ends, and not into every block, it keeps rho monotone.
    """
    from sklearn.isotonic import isotonic_regression  # type: ignore[import-untyped,unused-ignore]

    scores, place = np.unique(np.concatenate([high, low]), return_inverse=True)
    mass_high = np.bincount(place[: len(high)], high_weight, len(scores))
    mass_low = np.bincount(place[len(high) :], low_weight, len(scores))
    mass_high = np.concatenate([[0.5 / len(high)], mass_high, [0.0]])
    mass_low = np.concatenate([[0.0], mass_low, [0.5 / len(low)]])
    mass = mass_high + mass_low
    # A score of weight zero says nothing, but must not divide by zero either.
    kept = mass > 0
    scores = np.concatenate([[scores[0]], scores, [scores[-1]]])[kept]
    share = isotonic_regression(mass_high[kept] / mass[kept], sample_weight=mass[kept])
    log_ratio: Floats = np.log(share) - np.log1p(-share)
    # Only the ends of each flat stretch are needed; the two halves share their neighbour's score.
    inner = np.ones(len(share), dtype=bool)
    inner[1:-1] = (share[1:-1] != share[:-2]) | (share[1:-1] != share[2:])
    inner[0] = inner[-1] = False
    if not inner.any():
        inner[0] = True
    return DensityRatio(scores[inner], log_ratio[inner])


def _platt(high: Floats, low: Floats, high_weight: Floats, low_weight: Floats) -> DensityRatio:
    """Fit log rho = a + b s by logistic regression with Platt's softened targets (1999)."""
    from scipy.optimize import minimize

    scores = np.concatenate([high, low])
    centre, width = float(scores.mean()), float(scores.std()) or 1.0
    x = (scores - centre) / width
    target = np.concatenate(
        [
            np.full(len(high), (len(high) + 1) / (len(high) + 2)),
            np.full(len(low), 1 / (len(low) + 2)),
        ]
    )
    weight = np.concatenate([high_weight, low_weight])

    def loss(line: Floats) -> tuple[float, Floats]:
        z = line[0] + line[1] * x
        value = float(weight @ (np.logaddexp(0, z) - target * z))
        error = weight * (1 / (1 + np.exp(-np.clip(z, -700, 700))) - target)
        return value, np.array([error.sum(), error @ x])

    # The ratio never falls: a score that orders the facts backwards says nothing here.
    bounds = [(None, None), (0, None)]
    line = minimize(loss, np.zeros(2), jac=True, bounds=bounds, method="L-BFGS-B").x
    slope = float(line[1]) / width
    return DensityRatio(np.array([centre]), np.array([float(line[0])]), slope)


def rows_by_group(group: ArrayLike, values: ArrayLike, name: str) -> dict[int, Ints]:
    """Return the rows of each group (whole numbers [n]), in ascending order of group and row."""
    ids = np.asarray(group)
    same_length(ids, values, f"{name} and their groups")
    if len(ids) == 0:
        return {}
    if ids.dtype.kind not in "iu":
        raise DataError(f"The groups of {name} must be whole numbers, not {ids.dtype}.")
    order = np.argsort(ids, kind="stable")
    groups, first = np.unique(ids[order], return_index=True)
    parts = np.split(order, first[1:])
    return {int(key): rows for key, rows in zip(groups, parts, strict=True)}


def positions(
    score: ArrayLike,
    reference: ArrayLike,
    score_group: ArrayLike,
    reference_group: ArrayLike,
    rng: np.random.Generator,
) -> Floats:
    """Return the rank of each score [n] among the reference scores [m] of its group, in (0, 1).

    Position (b + v (e + 1)) / (r + 1) for r references, b below and e equal, v drawn evenly in
    (0, 1): exactly even for a score that is drawn like its references, even if r is 1. A
    score whose group has no reference is ranked among all of them.
    """
    values, others = finite(score, "score"), finite(reference, "reference")
    rows = rows_by_group(reference_group, others, "reference")
    chance = rng.random(len(values))
    result = np.empty(len(values))
    for group, facts in rows_by_group(score_group, values, "score").items():
        sorted_others = np.sort(others[rows[group]] if group in rows else others)
        below = np.searchsorted(sorted_others, values[facts], side="left")
        equal = np.searchsorted(sorted_others, values[facts], side="right") - below
        result[facts] = (below + chance[facts] * (equal + 1)) / (len(sorted_others) + 1)
    return result


def _check_priors(ratio: ArrayLike, beta: ArrayLike, alpha: ArrayLike) -> tuple[Floats, ...]:
    rho = finite(ratio, "ratio", empty=True)
    if (rho <= 0).any():
        raise DataError(f"ratio holds {rho.min()}; a density ratio is above 0.")
    true_in, true_out = (np.asarray(prior, dtype=np.float64) for prior in (beta, alpha))
    # Written so that nan is refused as well.
    if not ((true_out >= 0) & (true_in <= 1) & (true_out < true_in)).all():
        raise DataError(
            f"The priors must satisfy 0 <= alpha < beta <= 1, not alpha={true_out} and "
            f"beta={true_in}: "
            "collected facts must be true more often than uncollected ones."
        )
    return rho, true_in, true_out


def posterior_collected(ratio: ArrayLike, beta: ArrayLike, alpha: ArrayLike) -> Floats:
    """Return the probability that each collected fact is true.

    ``beta * ((1 - alpha) - (1 - beta) / rho) / (beta - alpha)``, clipped to [0, 1].

    Args:
        ratio: rho [n].
        beta: share of true facts among collected ones, one number or [n].
        alpha: share of true facts among uncollected ones, one number or [n].

    >>> posterior_collected([0.1, 1.0, 9.0], beta=0.9, alpha=0.1).tolist()
    [0.0, 0.9, 1.0]
    """
    rho, true_in, true_out = _check_priors(ratio, beta, alpha)
    value = true_in * ((1 - true_out) - (1 - true_in) / rho) / (true_in - true_out)
    return np.clip(value, 0.0, 1.0)


def posterior_uncollected(ratio: ArrayLike, beta: ArrayLike, alpha: ArrayLike) -> Floats:
    """Return the probability that each uncollected fact is true.

    ``alpha * ((1 - alpha) * rho - (1 - beta)) / (beta - alpha)``, clipped to [0, 1].
    The arguments are those of :func:`posterior_collected`.

    >>> posterior_uncollected([0.1, 1.0, 9.0], beta=0.9, alpha=0.1).round(3).tolist()
    [0.0, 0.1, 1.0]
    """
    rho, true_in, true_out = _check_priors(ratio, beta, alpha)
    value = true_out * ((1 - true_out) * rho - (1 - true_in)) / (true_in - true_out)
    return np.clip(value, 0.0, 1.0)
