"""One number to order stored facts by: wrong ones first, whatever kind of wrong they are.

Which of the three values of :class:`~npugraph.recipes.path.judged.Judged` tells wrong facts best
depends on how they are wrong: facts of random parts have a low score, plausible ones a low share
among the answers to their question. Nobody knows the kind beforehand. So for every kind k a
logistic regression tells stored facts from corruptions of that kind, which gives the logarithm z_k
of the ratio of the two densities, and the number is that of the ratio to all kinds together,

    -log(sum over k of w_k e^(-z_k)),

low where a kind explains the fact much better than the graph does. How much a kind counts, w_k,
goes with the share of the stored facts that seem to be of it
(:mod:`npugraph.calibration.noise_shares`), as far as few stored facts lie amid it; where none
shows, all count the same. No truth is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npugraph.arrays import Floats, finite
from npugraph.calibration.noise_shares import equation, solve
from npugraph.calibration.thresholds import PRIORS
from npugraph.recipes.path.judged import VALUES, Judged

# Quantiles of a kind below which stored facts are counted.
ENDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
# Pull of the shares to 0.
PULL = 1e-3
# Share of the stored facts that any kind may have although none shows.
UNSEEN = 1e-3
# Pull of the weights to 0: facts that can be told apart entirely would have endless ones.
RIDGE = 1e-4


@dataclass(frozen=True, eq=False)
class Credibility:
    """How much better the graph explains a judged fact than any kind of error does.

    Attributes:
        weights: of the values, each the mean of both directions, by kind: [kinds, values], >= 0.
        constants: added to their sums: [kinds].
        counts: how much each kind counts; they sum to 1: [kinds].
    """

    weights: Floats
    constants: Floats
    counts: Floats

    def __call__(self, judged: Judged) -> Floats:
        """Return one number per fact [n]; higher is more credible."""
        from scipy.special import logsumexp

        ratios = values_of(judged) @ self.weights.T + self.constants
        found: Floats = -logsumexp(-ratios, axis=1, b=self.counts)
        return found


def values_of(judged: Judged) -> Floats:
    """Return the values of judged facts, each the mean of the directions: [n, 3].

    Where thinned graphs spoke as well, theirs come after: [n, 6].
    """
    parts = [getattr(judged, name) for name in VALUES]
    found: Floats = np.stack([part.double().mean(0).cpu().numpy() for part in parts], axis=1)
    return found if judged.thinned is None else np.hstack([found, values_of(judged.thinned)])


def fit_credibility(stored: Judged, kinds: Sequence[Judged]) -> Credibility | None:
    """Compare stored facts with corruptions, one kind at a time; None where there are too few."""
    high, lows = values_of(stored), [values_of(others) for others in kinds]
    if min(len(values) for values in (high, *lows)) < PRIORS.least_scores:
        return None
    for values in (high, *lows):
        finite(values.sum(1), "score")
    weights = np.stack([log_odds(high, low) for low in lows])
    constants = [constant(high @ line, low @ line) for low, line in zip(lows, weights, strict=True)]
    counts = _shares(high, lows, weights) + UNSEEN
    return Credibility(weights, np.array(constants), counts / counts.sum())


def _shares(high: Floats, lows: list[Floats], weights: Floats) -> Floats:
    """Return the share of the stored facts that seems to be of each kind: [kinds].

    Where too many stored facts lie amid a kind, true ones may, and nothing follows from it.
    """
    rows = np.zeros((len(weights), len(weights) + 1))
    for kind, line in enumerate(weights):
        scores = [values @ line for values in (high, *lows)]
        row, amid = equation(scores, kind + 1, ENDS)
        if amid <= PRIORS.most_wrong:
            rows[kind] = row
    return solve(rows, PULL)


def constant(high: Floats, low: Floats) -> float:
    """Return c for which sigmoid(x + c) is a probability of the first sort, both as frequent.

    Then its mean over both sorts is one half.

    >>> round(constant(np.array([2.0, 3.0]), np.array([0.0, 1.0])), 6)
    -1.5
    """
    from scipy.optimize import brentq
    from scipy.special import expit

    def excess(c: float) -> float:
        return float(expit(high + c).mean() + expit(low + c).mean() - 1)

    both = np.concatenate([high, low])
    found: float = brentq(excess, -both.max() - 1, -both.min() + 1)
    return found


def log_odds(high: Floats, low: Floats) -> Floats:
    """Return weights [k] >= 0 by which facts of values [n, k] and [m, k] are told apart best.

    Logistic regression with a constant; both sorts count the same. No weight is negative: that a
    value is higher never speaks against a fact.

    >>> high, low = np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [-1.0, 0.0]])
    >>> log_odds(high, low).round(1)
    array([0.9, 0. ])
    """
    from scipy.optimize import minimize

    values = np.concatenate([high, low])
    centre, width = values.mean(0), values.std(0)
    # A value that is the same everywhere says nothing, and must not divide by 0.
    scale = np.where(width > 0, width, 1.0)
    x = np.column_stack([np.ones(len(values)), (values - centre) / scale])
    label = np.repeat([1.0, 0.0], [len(high), len(low)])
    share = np.where(label == 1, 0.5 / len(high), 0.5 / len(low))

    def loss(line: Floats) -> tuple[float, Floats]:
        z = np.clip(x @ line, -700, 700)
        error = share * (1 / (1 + np.exp(-z)) - label)
        value = float(share @ (np.logaddexp(0, z) - label * z)) + RIDGE * float(line @ line)
        return value, error @ x + 2 * RIDGE * line

    bounds = [(None, None)] + [(0.0, None)] * values.shape[1]
    start = np.append(0.0, np.ones(values.shape[1]))
    options = {"ftol": 1e-12, "gtol": 1e-8}
    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options).x
    weights: Floats = found[1:] / scale
    return weights
