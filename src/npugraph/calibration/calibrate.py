"""Probabilities from anybody's scores: of collected facts, and of a pool of uncollected ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from npugraph.arrays import Floats, finite
from npugraph.calibration.class_priors import Priors, estimate_priors
from npugraph.calibration.probability import (
    DensityRatio,
    posterior_collected,
    posterior_uncollected,
)
from npugraph.calibration.thresholds import PRIORS
from npugraph.display import Shown


def probability_of(
    rho: NDArray[np.floating], priors: Priors, unknown: float, collected: bool
) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
    """Return the probability that facts of these density ratios [n] are true, and its 90% interval.

    The interval spans what the ends of the priors' intervals give. A collected fact is never
    called wrong for certain: where wrong facts lie so do some true ones that no system knows,
    so rho is taken to be at least (1 - beta) / (1 - alpha) + unknown there. Without that floor
    the lowest scores would get the lowest ratio that chance made.

    For uncollected facts alpha is found by taking the best scored ones for true, which is the
    most it can be; a graph that lacks nothing looks the same. Their probability is therefore
    the middle of its interval, and the interval is what to read.
    """
    if not len(rho):
        return rho, rho, rho
    posterior = posterior_collected if collected else posterior_uncollected

    def at(beta: float, alpha: float) -> Floats:
        beta = min(max(beta, 1e-6), 1 - 1e-6)
        alpha = min(max(alpha, 1e-9), 0.999 * beta)
        floor = (1 - beta) / (1 - alpha) + unknown if collected else 0.0
        return posterior(np.maximum(rho, floor), beta, alpha)

    beta, alpha = priors.beta, priors.alpha
    ends = [at(b, a) for b in (beta.low, beta.high) for a in (alpha.low, alpha.high)]
    middle = at(beta.value, alpha.value)
    low = np.minimum(np.min(ends, axis=0), middle)
    high = np.maximum(np.max(ends, axis=0), middle)
    return (middle if collected else (low + high) / 2), low, high


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Shown):
    """How scores become probabilities.

    Attributes:
        score: the scores of the collected facts [n].
        pool_score: the scores of the pool [m].
        priors: the estimated shares of true facts.
        ratio: the density ratio p_collected / p_uncollected.
    """

    score: Floats
    pool_score: Floats
    priors: Priors
    ratio: DensityRatio

    @property
    def collected(self) -> pa.Table:
        """The collected facts in their order: score, probability, low, high (90% interval)."""
        return self.judge(self.score)

    @property
    def pool(self) -> pa.Table:
        """The facts of the pool likewise."""
        return self.judge(self.pool_score, collected=False)

    def judge(self, score: ArrayLike, *, collected: bool = True) -> pa.Table:
        """Return the probability that facts of these scores [n] are true, with its interval."""
        values = finite(score, "score", empty=True)
        columns = probability_of(self.ratio(values), self.priors, PRIORS.unknown / 2, collected)
        names = ("score", "probability", "low", "high")
        return pa.table(dict(zip(names, (values, *columns), strict=True)))

    def shown(self) -> tuple[str, Mapping[str, object]]:
        """Show the shares of true facts."""
        return f"Calibration by {len(self.score):,} collected facts", self.priors.shown()[1]


def calibrate(
    score: ArrayLike,
    pool_score: ArrayLike,
    *,
    group: ArrayLike | None = None,
    pool_group: ArrayLike | None = None,
    beta: float | None = None,
    alpha: float | None = None,
    seed: int = 0,
) -> Calibration:
    """Turn scores into probabilities that facts are true, with the shares of true facts estimated.

    Args:
        score: scores of collected facts [n], higher is more plausible, each by a model that was not
            trained on that fact.
        pool_score: scores of uncollected facts [m] by the same models, drawn like wrong facts are.
        group: whole numbers [n], such as relations; give them where you can.
        pool_group: likewise [m].
        beta: share of true facts among the collected ones, where it is known.
        alpha: share of true facts in the pool, where it is known.
        seed: every draw follows from it.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> true, false = rng.normal(4, 1, 9600), rng.normal(0, 1, 50_400)
    >>> found = calibrate(np.append(true, false[:400]), false[400:])
    >>> found.priors.beta.low < 0.96 < found.priors.beta.high
    True
    >>> found.judge([0.0, 5.0])["probability"].to_numpy().round(1).tolist()
    [0.1, 1.0]
    """
    values, others = finite(score, "score"), finite(pool_score, "pool_score")
    priors = estimate_priors(
        values,
        others,
        collected_group=group,
        uncollected_group=pool_group,
        beta=beta,
        alpha=alpha,
        seed=seed,
    )
    return Calibration(values, others, priors, DensityRatio.fit(values, others))
