"""Estimate the priors from held-out scores: beta and alpha, with intervals that mean something.

``beta`` is the share of true facts among the collected ones, ``alpha`` that among the uncollected
ones as they were drawn. Scores alone give the two ratios::

    k2 = (1 - beta) / (1 - alpha)     how many collected facts lie where only false facts lie
    k1 = alpha / beta                 how many uncollected facts lie where only true facts lie

as shares of what the other side has there; then beta = (1 - k2) / (1 - k1 k2), alpha = k1 beta.

For k2, each collected fact gets its *position* u: its rank among the uncollected facts of its own
relation, between 0 and 1. A false fact has an even u, whatever relations the false facts
are in, and true facts lie near 1. So the density of u near 0 is k2, as the share of true null
hypotheses is estimated from p-values (Storey 2002). Ranks within the relation matter: wrong facts
are spread over the relations in other proportions than the collected ones, and scores are not
comparable between relations. For k1 the roles and the signs are turned round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from npugraph.arrays import Floats, Ints, finite
from npugraph.calibration.probability import positions, rows_by_group
from npugraph.calibration.thresholds import PRIORS, PriorThresholds
from npugraph.display import Shown
from npugraph.errors import DataError, SettingsError
from npugraph.seeds import number

RISES = (
    "Even at the lowest scores the share of collected facts still rises: there is no end where "
    "only wrong facts lie; draw uncollected facts that resemble the wrong ones, or give beta."
)


class Interval(NamedTuple):
    """A number with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Priors(Shown):
    """The two priors, and whether the scores can tell them at all.

    Attributes:
        beta: share of true facts among collected ones.
        alpha: share of true facts among uncollected ones.
        identifiable: False where beta should not be trusted; ``reason`` says why.
        reason: a sentence; empty where all is well.
        rises: whether the reason is that the share of collected facts rises from the lowest scores
            on, so that there seem to be true facts among them.
    """

    beta: Interval
    alpha: Interval
    identifiable: bool
    reason: str = ""
    rises: bool = False

    def shown(self) -> tuple[str, Mapping[str, object]]:
        """Show the shares with their intervals, and what is doubtful."""
        ends = {"true among collected": self.beta, "true among uncollected": self.alpha}
        rows: dict[str, object] = {
            name: f"{end.value:.3f} ({end.low:.3f} to {end.high:.3f})" for name, end in ends.items()
        }
        rows["identifiable"] = self.identifiable
        return "Priors", rows | ({"reason": self.reason} if self.reason else {})


def estimate_priors(
    collected: ArrayLike,
    uncollected: ArrayLike,
    *,
    collected_group: ArrayLike | None = None,
    uncollected_group: ArrayLike | None = None,
    beta: float | None = None,
    alpha: float | None = None,
    thresholds: PriorThresholds = PRIORS,
    seed: int = 0,
) -> Priors:
    """Estimate beta and alpha from held-out scores; given values override the estimate.

    Args:
        collected: held-out scores of collected facts [n].
        uncollected: scores of uncollected facts [m] by the same models. alpha is the share of true
            facts among these, so it depends on how they were drawn.
        collected_group: whole numbers [n], such as relations. Give them where you can: without
            them the estimate compares scores between relations.
        uncollected_group: likewise [m].
        beta: known share of true facts among collected ones, or None.
        alpha: known share of true facts among uncollected ones, or None.
        thresholds: what was tuned.
        seed: every draw follows from it.

    >>> rng = np.random.default_rng(0)
    >>> true, false = rng.normal(4, 1, 9600), rng.normal(0, 1, 50_400)
    >>> priors = estimate_priors(np.append(true, false[:400]), false[400:])
    >>> priors.beta.low < 0.96 < priors.beta.high, priors.identifiable
    (True, True)
    """
    scores = finite(collected, "collected"), finite(uncollected, "uncollected")
    if (collected_group is None) != (uncollected_group is None):
        raise DataError("Give the groups of both the collected and the uncollected facts.")
    groups = (
        _groups(collected_group, scores[0], "collected"),
        _groups(uncollected_group, scores[1], "uncollected"),
    )
    _check_given(beta, alpha)
    low_end, high_end, reason = _ends(scores, groups, thresholds, seed)
    rises = reason == RISES and beta is None
    pooled = _solve(high_end.share, low_end.share, beta, alpha)
    if not reason and pooled[0].high - pooled[0].low > thresholds.widest:
        reason = "The interval of beta is too wide to rely on; score more facts, or give beta."
    reason = reason if beta is None else ""
    return Priors(*pooled, identifiable=not reason, reason=reason, rises=rises)


def _groups(group: ArrayLike | None, score: Floats, name: str) -> Ints:
    """Return the group of each fact [n]: one group of all where None."""
    if group is None:
        return np.zeros(len(score), dtype=np.int64)
    ids: Ints = np.asarray(group)
    rows_by_group(ids, score, name)
    return ids


def _ends(
    scores: tuple[Floats, Floats], groups: tuple[Ints, Ints], thresholds: PriorThresholds, seed: int
) -> tuple[_Floor, _Floor, str]:
    """Return what the low end says of k2, what the high end says of k1, and what is doubtful."""
    rng = np.random.default_rng(number(seed, "priors"))
    # Corruptions of one fact hang together: they count as no more than there are facts.
    independent = min(len(scores[0]), len(scores[1]))
    low_position = positions(scores[0], scores[1], groups[0], groups[1], rng)
    low_end = _Floor.fit(low_position, independent, thresholds, rng)
    high_position = positions(-scores[1], -scores[0], groups[1], groups[0], rng)
    high_end = _Floor.fit(high_position, independent, thresholds, rng)
    reason = _doubt(scores, low_end, thresholds)
    if reason:
        low_end = low_end.widened(1.0, low_end.excess(thresholds.middle))
        return low_end, high_end.widened(1.0), reason
    # Where false uncollected facts reach the middle of the collected ones, some reach the top.
    high_end = high_end.widened(high_end.excess(thresholds.middle))
    return low_end.widened(thresholds.unknown, centre=True), high_end, reason


@dataclass(frozen=True, eq=False)
class _Floor:
    """The density of positions near 0, with its interval.

    Attributes:
        position: u of each fact [n].
        share: the density, in [0, most].
        most: that it can be.
    """

    position: Floats
    share: Interval
    most: float

    @classmethod
    def fit(
        cls,
        position: Floats,
        references: int,
        thresholds: PriorThresholds,
        rng: np.random.Generator,
    ) -> _Floor:
        """Estimate the density; ``references`` is how many independent ones the ranks rest on."""
        grid = np.array(thresholds.prior_ends)
        edges = np.concatenate([[0.0], grid, [1.0]])
        share = np.histogram(position, edges)[0] / len(position)
        below = np.cumsum(share)[:-1] / grid
        weight = threshold_weights(below, grid, len(position))
        most = thresholds.most_alike
        value = min(float(weight @ below), most)
        # Both sides are drawn again; the weights are chosen anew each time, as they were once.
        times = thresholds.prior_resamples
        drawn = rng.multinomial(len(position), share, times).cumsum(axis=1)[:, :-1]
        base = rng.multinomial(references, np.diff(edges), times).cumsum(axis=1)
        base_share = np.maximum(base[:, :-1], 0.5) / references
        again = drawn / len(position) / base_share
        weights = threshold_weights(again, grid, len(position))
        tail = (1 - thresholds.level) / 2
        low, high = np.quantile((weights * again).sum(axis=-1), [tail, 1 - tail])
        low = max(min(low, value) * (1 - thresholds.prior_mismatch), 0.0)
        high = min(max(high, value) * (1 + thresholds.prior_mismatch), most)
        return cls(position, Interval(value, float(low), float(high)), most)

    def excess(self, part: tuple[float, float]) -> float:
        """Return the share of facts in a part of the positions beyond the density near 0."""
        inside = np.mean((self.position > part[0]) & (self.position < part[1]))
        return max(float(inside) - self.share.value * (part[1] - part[0]), 0.0)

    def tilt(self, *parts: tuple[float, float]) -> tuple[float, float]:
        """Return the ratio of the densities in two parts, and its standard score."""
        width = [part[1] - part[0] for part in parts]
        counts = [
            int(((self.position >= part[0]) & (self.position < part[1])).sum()) for part in parts
        ]
        low, next_ = counts[0] / width[0], counts[1] / width[1]
        error = np.sqrt(max(counts[0], 1) / width[0] ** 2 + counts[1] / width[1] ** 2)
        return low / max(next_, 1.0), float((low - next_) / error)

    def widened(self, down: float, up: float = 0.0, *, centre: bool = False) -> _Floor:
        """Return this with a wider interval, for errors that the bootstrap cannot know.

        ``down`` allows for facts of the other kind near 0: they are counted, so the error goes one
        way, and with ``centre`` half of it, as the middle guess, is taken off the value. ``up``
        allows for facts of this kind that lie elsewhere.
        """
        value, low, high = self.share
        value -= min(down, value) / 2 if centre else 0.0
        share = Interval(value, max(low - down, 0.0), min(high + up, self.most))
        return replace(self, share=share)


def threshold_weights(below: Floats, grid: Floats, count: int) -> Floats:
    """Weigh thresholds [..., t] by 1 / (variance + bias^2) of F(c) / c.

    F(c) / c rises with c as true facts come in, while its variance falls. As in Storey's choice
    of lambda, the bias is measured from a low value; not from the least, which chance made low.
    ``below`` holds F(c) / c, ``grid`` the thresholds c [t], ``count`` says how many facts F has.
    """
    least = np.quantile(below, 0.3, axis=-1, keepdims=True)
    # One fact more than were counted: no count below a threshold is as sure as it looks.
    variance = (below + 1 / (grid * count)) / (grid * count)
    weight = 1 / (variance + np.maximum(below - least, 0.0) ** 2)
    scaled: Floats = weight / weight.sum(axis=-1, keepdims=True)
    return scaled


def _check_given(beta: float | None, alpha: float | None) -> None:
    if beta is not None and not 0 < beta <= 1:
        raise SettingsError(f"beta={beta} must be above 0 and at most 1.")
    if alpha is not None and not 0 <= alpha < 1:
        raise SettingsError(f"alpha={alpha} must be at least 0 and below 1.")
    if beta is not None and alpha is not None and beta <= alpha:
        raise SettingsError(
            f"beta={beta} must be above alpha={alpha}: collected facts must be true more often."
        )


def _solve(
    k1: Interval, k2: Interval, beta: float | None, alpha: float | None
) -> tuple[Interval, Interval]:
    """Return (beta, alpha) with intervals from k1 and k2; given values stand as they are.

    beta rises with k1 and falls with k2; so does alpha.
    """
    solved = [
        _solve_one(one, two, beta, alpha)
        for one, two in ((k1.value, k2.value), (k1.low, k2.high), (k1.high, k2.low))
    ]
    return Interval(*(s[0] for s in solved)), Interval(*(s[1] for s in solved))


def _solve_one(
    k1: float, k2: float, beta: float | None, alpha: float | None
) -> tuple[float, float]:
    if beta is None:
        beta = (1 - k2) / (1 - k1 * k2) if alpha is None else 1 - k2 * (1 - alpha)
    return beta, k1 * beta if alpha is None else alpha


def _doubt(scores: tuple[Floats, Floats], low_end: _Floor, thresholds: PriorThresholds) -> str:
    """Return why beta cannot be told, or nothing."""
    for name, score in zip(("collected", "uncollected"), scores, strict=True):
        if len(score) < thresholds.least_scores:
            return (
                f"Only {len(score)} {name} facts have a score; at least "
                f"{thresholds.least_scores} are needed to estimate the priors, so give beta."
            )
    ratio, clear = low_end.tilt(thresholds.lowest, thresholds.next_lowest)
    if ratio > thresholds.level_within and clear > thresholds.clearly:
        return (
            "Collected facts pile up at the lowest scores, below uncollected ones: the model "
            "does not know many true facts, so wrong ones cannot be counted; give beta."
        )
    if low_end.share.value > thresholds.most_wrong:
        return (
            f"{low_end.share.value:.1%} of the collected facts score like uncollected ones: wrong "
            "facts cannot be told from true ones that the model does not know; give beta."
        )
    if ratio < 1 / thresholds.level_within and clear < -thresholds.clearly:
        return RISES
    return ""
