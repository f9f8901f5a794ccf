"""Logistic regression with two groupings whose effects are pooled, by Laplace's approximation.

Each group has an effect of its own, normal around 0. How far groups differ is chosen by the
evidence: where the answers do not tell groups apart, the effects are near 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, hstack
from scipy.special import expit

from npugraph.arrays import Floats, Ints

# How far groups may differ: standard deviations of their effects, as log-odds.
SPREADS = (0.01, 0.25, 0.5, 1.0, 1.5, 2.5)
# The mean of the prior of such a standard deviation, which is exponential. Where scores and truth
# are not quite in line, groups seem to differ more than they do: better believe it late.
USUAL_SPREAD = 0.4
# An effect that would be below its least value is held there by this precision.
PINNED = 1e8
MOST_STEPS = 50


@dataclass(frozen=True, eq=False)
class Problem:
    """Answers, what is known of their facts, and how far effects may go.

    Attributes:
        truth: 1 true, 0 false [m].
        shared: columns whose effects all facts share [m, k].
        mean: what these effects are expected to be [k].
        precision: 1 / variance of that [k].
        least: the least value of each of these effects [k]; -inf where there is none.
        groups: of each answer in either grouping, from 0 [m]; the second has no fewer groups.
        counts: how many groups each has; 0 where there is no such grouping.
    """

    truth: Floats
    shared: Floats
    mean: Floats
    precision: Floats
    least: Floats
    groups: tuple[Ints, Ints]
    counts: tuple[int, int]

    @cached_property
    def columns(self) -> csr_array:
        """The shared columns and those of the first grouping [m, d]."""
        return csr_array(hstack([csr_array(self.shared), self._members(0)]))

    @cached_property
    def member(self) -> csr_array:
        """The columns of the second grouping [m, g]."""
        return self._members(1)

    def _members(self, place: int) -> csr_array:
        """Return which group of a grouping each answer is in, [m, count]."""
        rows = np.arange(len(self.truth) if self.counts[place] else 0)
        places = (rows, self.groups[place][: len(rows)])
        return csr_array((np.ones(len(rows)), places), (len(self.truth), self.counts[place]))

    def log_odds(self, effects: Floats) -> Floats:
        """Return the log-odds of each answer [m] from all effects: shared, first, second."""
        total: Floats = self.shared @ effects[: len(self.mean)]
        start = len(self.mean)
        for group, count in zip(self.groups, self.counts, strict=True):
            if count:
                total = total + effects[start:][group]
            start += count
        return total

    def gather(self, values: Floats) -> Floats:
        """Return the sums of values [m] that each effect is in."""
        sums = [self.shared.T @ values]
        for group, count in zip(self.groups, self.counts, strict=True):
            sums.append(np.bincount(group, values)[:count].astype(np.float64))
        return np.concatenate(sums)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Effects and how sure they are; "dense" are the shared ones and those of the first grouping.

    Attributes:
        effects: the dense ones [d], then those of the second grouping [g].
        curvature: precision of the dense effects [d, d], the second grouping summed out.
        cross: regression of the effects of the second grouping on the dense ones [d, g].
        own: variance of the effects of the second grouping where the dense ones are known [g].
        spreads: standard deviations of the effects of either grouping.
        evidence: log of how probable the answers are.
    """

    effects: Floats
    curvature: Floats
    cross: Floats
    own: Floats
    spreads: tuple[float, float]
    evidence: float


def fit(problem: Problem) -> Posterior:
    """Find the effects, and how far groups differ: one grouping after the other, at most twice."""
    best = _mode(problem, (SPREADS[1], SPREADS[1]))
    for _ in range(2):
        before = best.spreads
        for place in (1, 0):
            for spread in SPREADS if problem.counts[place] else ():
                tried = (best.spreads[0], spread) if place else (spread, best.spreads[1])
                if tried != best.spreads:
                    best = max(best, _mode(problem, tried, best), key=lambda one: one.evidence)
        if best.spreads == before:
            break
    return best


def _mode(
    problem: Problem, spreads: tuple[float, float], start: Posterior | None = None
) -> Posterior:
    """Return the most probable effects for given spreads; none is below its least value."""
    while True:
        found = _newton(problem, spreads, start)
        fallen = found.effects[: len(problem.mean)] < problem.least - 1e-6
        if not fallen.any():
            return found
        problem = replace(
            problem,
            mean=np.where(fallen, problem.least, problem.mean),
            precision=np.where(fallen, PINNED, problem.precision),
        )


def _newton(problem: Problem, spreads: tuple[float, float], start: Posterior | None) -> Posterior:
    """Minimise the negative log posterior by Newton's method with halved steps."""
    sign = 2 * problem.truth - 1
    pairs = zip(problem.counts, spreads, strict=True)
    precision = np.concatenate([problem.precision, *(np.full(n, s**-2) for n, s in pairs)])
    mean = np.concatenate([problem.mean, np.zeros(sum(problem.counts))])

    def loss(effects: Floats) -> float:
        misfit = np.logaddexp(0, -sign * problem.log_odds(effects)).sum()
        return float(misfit + precision @ (effects - mean) ** 2 / 2)

    def system(effects: Floats) -> tuple[Floats, _System]:
        chance = expit(problem.log_odds(effects))
        slope = problem.gather(chance - problem.truth) + precision * (effects - mean)
        return slope, _System.of(problem, chance * (1 - chance), precision)

    effects = mean if start is None else start.effects
    value = loss(effects)
    for _ in range(MOST_STEPS):
        slope, curved = system(effects)
        step, size, gained = curved.solve(slope), 1.0, -1.0
        while gained < 0 and size > 1e-4:
            gained = value - loss(effects - size * step)
            size /= 2
        if gained < 0:
            break
        effects, value = effects - 2 * size * step, value - gained
        if gained < 1e-9:
            break
    curved = system(effects)[1]
    evidence = np.log(precision).sum() / 2 - curved.log_determinant() / 2 - value
    evidence -= sum(spread / USUAL_SPREAD for spread in spreads)
    return Posterior(
        effects, curved.schur, curved.regression(), 1 / curved.diagonal, spreads, float(evidence)
    )


@dataclass(frozen=True, eq=False)
class _System:
    """The second derivative: a dense part, and the second grouping, which is diagonal.

    Attributes:
        schur: the dense part [d, d] with the second grouping summed out.
        between: what the second grouping has in common with the dense part [g, d].
        diagonal: of the second grouping [g].
    """

    schur: Floats
    between: csr_array
    diagonal: Floats

    @classmethod
    def of(cls, problem: Problem, weight: Floats, precision: Floats) -> _System:
        """Take it at the weights chance * (1 - chance) of the answers [m]."""
        columns, member = problem.columns, problem.member
        weighted = _scaled(columns, weight)
        between = csr_array(member.T @ weighted)
        dense = columns.shape[1]
        diagonal = np.asarray(member.T @ weight + precision[dense:], dtype=np.float64)
        summed_out = between.T @ _scaled(between, 1 / diagonal)
        schur = (columns.T @ weighted - summed_out).toarray() + np.diag(precision[:dense])
        return cls(schur, between, diagonal)

    def solve(self, slope: Floats) -> Floats:
        """Return the Newton step."""
        dense, second = slope[: len(self.schur)], slope[len(self.schur) :]
        step = np.linalg.solve(self.schur, dense - self.between.T @ (second / self.diagonal))
        return np.concatenate([step, (second - self.between @ step) / self.diagonal])

    def regression(self) -> Floats:
        """Return how the second grouping's effects follow the dense ones [d, g]."""
        return np.asarray(-(self.between.toarray() / self.diagonal[:, None]).T)

    def log_determinant(self) -> float:
        """Return the logarithm of the determinant of the whole."""
        return float(np.linalg.slogdet(self.schur)[1] + np.log(self.diagonal).sum())


def _scaled(matrix: csr_array, factor: Floats) -> csr_array:
    """Return a matrix [r, c] with each row multiplied by its factor [r]."""
    data = matrix.data * np.repeat(factor, np.diff(matrix.indptr))
    return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
