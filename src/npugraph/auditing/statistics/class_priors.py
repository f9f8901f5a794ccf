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

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from npugraph.arrays import finite
from npugraph.auditing.statistics.probability import Floats, Ints, positions, rows_by_group
from npugraph.errors import DataError, SettingsError
from npugraph.seeds import number

# A ratio of 1 would mean that collected and uncollected facts are true equally often.
MOST = 0.98
# Positions that are reached neither by chance nor by facts that are told apart well.
MIDDLE = (0.5, 0.8)
# Where only false facts lie the density is level: these two parts tell whether it is.
LOWEST, NEXT = (0.0, 0.1), (0.25, 0.5)


@dataclass(frozen=True)
class PriorSettings:
    """How the priors are estimated.

    Attributes:
        thresholds: positions below which facts are counted, ascending in (0, 1).
        level: share of the intervals that should hold the truth.
        resamples: bootstrap resamples behind the intervals.
        mismatch: how far, in relative terms, the false facts that were collected may differ in
            density from the uncollected ones at the low end; it widens the intervals, since no
            bootstrap can see it.
        unknown: up to this share of the collected facts may be true and yet score like false
            ones, because the model knows nothing about them. It widens the intervals, and the
            estimate takes half of it for granted.
        most_wrong: where more of the collected facts than this score like uncollected ones, it
            is as likely that the model knows too little: beta is called not identifiable, its
            interval reaches up to 1 and that of alpha down to 0.
        level_within: so is it where the density at the lowest positions and that a little above
            clearly differ by more than this factor.
        widest: so is it where the interval of beta is wider than this.
        least: fewer collected or uncollected facts than this are called too few.
        seed: every draw follows from it.
    """

    thresholds: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
    level: float = 0.9
    resamples: int = 1000
    mismatch: float = 0.2
    unknown: float = 0.01
    most_wrong: float = 0.15
    level_within: float = 1.5
    widest: float = 0.1
    least: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        grid = (0.0, *self.thresholds, 1.0)
        if len(grid) < 3 or any(low >= high for low, high in zip(grid, grid[1:], strict=False)):
            raise SettingsError(f"thresholds={self.thresholds} must rise within (0, 1).")
        if not 0 < self.level < 1:
            raise SettingsError(f"level={self.level} must lie between 0 and 1.")
        if not 0 <= self.mismatch < 1:
            raise SettingsError(f"mismatch={self.mismatch} must be at least 0 and below 1.")
        if not 0 <= self.unknown < 1:
            raise SettingsError(f"unknown={self.unknown} must be at least 0 and below 1.")
        if self.resamples < 1 or self.level_within < 1:
            raise SettingsError(
                f"resamples={self.resamples} and level_within={self.level_within} must be at "
                "least 1."
            )


class Estimate(NamedTuple):
    """A number with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Priors:
    """The two priors, and whether the scores can tell them at all.

    Attributes:
        beta: share of true facts among collected ones.
        alpha: share of true facts among uncollected ones.
        identifiable: False where beta should not be trusted; ``reason`` says why.
        reason: a sentence; empty where all is well.
        groups: a row a group (relation): group, collected, uncollected (counts), beta, beta_low,
            beta_high, alpha, alpha_low, alpha_high; None where no groups were given.
    """

    beta: Estimate
    alpha: Estimate
    identifiable: bool
    reason: str = ""
    groups: pa.Table | None = None

    def of_groups(self, group: ArrayLike) -> tuple[Floats, Floats]:
        """Return (beta, alpha) of each fact by its group [n]; unknown groups get the pooled."""
        ids = np.asarray(group)
        beta, alpha = (np.full(ids.shape, prior.value) for prior in (self.beta, self.alpha))
        if self.groups is not None and len(self.groups):
            names = self.groups["group"].to_numpy()
            place = np.minimum(np.searchsorted(names, ids), len(names) - 1)
            known = names[place] == ids
            beta[known] = self.groups["beta"].to_numpy()[place[known]]
            alpha[known] = self.groups["alpha"].to_numpy()[place[known]]
        return beta, alpha


def estimate_priors(
    collected: ArrayLike,
    uncollected: ArrayLike,
    *,
    collected_group: ArrayLike | None = None,
    uncollected_group: ArrayLike | None = None,
    beta: float | None = None,
    alpha: float | None = None,
    settings: PriorSettings | None = None,
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
        settings: see PriorSettings.

    >>> rng = np.random.default_rng(0)
    >>> true, false = rng.normal(4, 1, 9600), rng.normal(0, 1, 50_400)
    >>> priors = estimate_priors(np.append(true, false[:400]), false[400:])
    >>> priors.beta.low < 0.96 < priors.beta.high, priors.identifiable
    (True, True)
    """
    settings = settings or PriorSettings()
    scores = finite(collected, "collected"), finite(uncollected, "uncollected")
    if (collected_group is None) != (uncollected_group is None):
        raise DataError("Give the groups of both the collected and the uncollected facts.")
    groups = (
        _groups(collected_group, scores[0], "collected"),
        _groups(uncollected_group, scores[1], "uncollected"),
    )
    _check_given(beta, alpha)
    low_end, high_end, reason = _ends(scores, groups, settings)
    pooled = _solve(high_end.share, low_end.share, beta, alpha)
    if not reason and pooled[0].high - pooled[0].low > settings.widest:
        reason = "The interval of beta is too wide to rely on; score more facts, or give beta."
    reason = reason if beta is None else ""
    table = None
    if collected_group is not None:
        table = _group_table(high_end, low_end, groups, pooled, settings)
    return Priors(*pooled, identifiable=not reason, reason=reason, groups=table)


def _groups(group: ArrayLike | None, score: Floats, name: str) -> Ints:
    """Return the group of each fact [n]: one group of all where None."""
    if group is None:
        return np.zeros(len(score), dtype=np.int64)
    ids: Ints = np.asarray(group)
    rows_by_group(ids, score, name)
    return ids


def _ends(
    scores: tuple[Floats, Floats], groups: tuple[Ints, Ints], settings: PriorSettings
) -> tuple[_Floor, _Floor, str]:
    """Return what the low end says of k2, what the high end says of k1, and what is doubtful."""
    rng = np.random.default_rng(number(settings.seed, "priors"))
    # Corruptions of one fact hang together: they count as no more than there are facts.
    independent = min(len(scores[0]), len(scores[1]))
    low_position = positions(scores[0], scores[1], groups[0], groups[1], rng)
    low_end = _Floor.fit(low_position, independent, settings, rng)
    high_position = positions(-scores[1], -scores[0], groups[1], groups[0], rng)
    high_end = _Floor.fit(high_position, independent, settings, rng)
    reason = _doubt(scores, low_end, settings)
    if reason:
        return low_end.widened(1.0, low_end.excess(MIDDLE)), high_end.widened(1.0), reason
    # Where false uncollected facts reach the middle of the collected ones, some reach the top.
    high_end = high_end.widened(high_end.excess(MIDDLE))
    return low_end.widened(settings.unknown, centre=True), high_end, reason


@dataclass(frozen=True, eq=False)
class _Floor:
    """The density of positions near 0, with its interval.

    Attributes:
        position: u of each fact [n].
        weight: of the thresholds [t]; the estimate is the weighted mean of F(c) / c.
        share: the density, in [0, MOST].
        down: by how much lower ends of intervals were lowered.
        up: by how much upper ends were raised.
    """

    position: Floats
    weight: Floats
    share: Estimate
    down: float = 0.0
    up: float = 0.0

    @classmethod
    def fit(
        cls, position: Floats, references: int, settings: PriorSettings, rng: np.random.Generator
    ) -> _Floor:
        """Estimate the density; ``references`` is how many independent ones the ranks rest on."""
        grid = np.array(settings.thresholds)
        edges = np.concatenate([[0.0], grid, [1.0]])
        share = np.histogram(position, edges)[0] / len(position)
        below = np.cumsum(share)[:-1] / grid
        weight = threshold_weights(below, grid, len(position))
        value = min(float(weight @ below), MOST)
        # Both sides are drawn again; the weights are chosen anew each time, as they were once.
        drawn = rng.multinomial(len(position), share, settings.resamples).cumsum(axis=1)[:, :-1]
        base = rng.multinomial(references, np.diff(edges), settings.resamples).cumsum(axis=1)
        base_share = np.maximum(base[:, :-1], 0.5) / references
        again = drawn / len(position) / base_share
        weights = threshold_weights(again, grid, len(position))
        tail = (1 - settings.level) / 2
        low, high = np.quantile((weights * again).sum(axis=-1), [tail, 1 - tail])
        low = max(min(low, value) * (1 - settings.mismatch), 0.0)
        high = min(max(high, value) * (1 + settings.mismatch), MOST)
        return cls(position, weight, Estimate(value, float(low), float(high)))

    def excess(self, part: tuple[float, float]) -> float:
        """Return the share of facts in a part of the positions beyond the density near 0."""
        inside = np.mean((self.position > part[0]) & (self.position < part[1]))
        return max(float(inside) - self.share.value * (part[1] - part[0]), 0.0)

    def tilt(self) -> tuple[float, float]:
        """Return the ratio of the densities in LOWEST and NEXT, and its standard score."""
        width = [part[1] - part[0] for part in (LOWEST, NEXT)]
        counts = [
            int(((self.position >= part[0]) & (self.position < part[1])).sum())
            for part in (LOWEST, NEXT)
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
        share = Estimate(value, max(low - down, 0.0), min(high + up, MOST))
        return replace(self, share=share, down=down, up=up)


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
    k1: Estimate, k2: Estimate, beta: float | None, alpha: float | None
) -> tuple[Estimate, Estimate]:
    """Return (beta, alpha) with intervals from k1 and k2; given values stand as they are.

    beta rises with k1 and falls with k2; so does alpha.
    """
    solved = [
        _solve_one(one, two, beta, alpha)
        for one, two in ((k1.value, k2.value), (k1.low, k2.high), (k1.high, k2.low))
    ]
    return Estimate(*(s[0] for s in solved)), Estimate(*(s[1] for s in solved))


def _solve_one(
    k1: float, k2: float, beta: float | None, alpha: float | None
) -> tuple[float, float]:
    if beta is None:
        beta = (1 - k2) / (1 - k1 * k2) if alpha is None else 1 - k2 * (1 - alpha)
    return beta, k1 * beta if alpha is None else alpha


def _doubt(scores: tuple[Floats, Floats], low_end: _Floor, settings: PriorSettings) -> str:
    """Return why beta cannot be told, or nothing."""
    for name, score in zip(("collected", "uncollected"), scores, strict=True):
        if len(score) < settings.least:
            return (
                f"Only {len(score)} {name} facts have a score; at least {settings.least} are "
                "needed to estimate the priors, so give beta."
            )
    ratio, clear = low_end.tilt()
    if ratio > settings.level_within and clear > 3:
        return (
            "Collected facts pile up at the lowest scores, below uncollected ones: the model "
            "does not know many true facts, so wrong ones cannot be counted; give beta."
        )
    if low_end.share.value > settings.most_wrong:
        return (
            f"{low_end.share.value:.1%} of the collected facts score like uncollected ones: wrong "
            "facts cannot be told from true ones that the model does not know; give beta."
        )
    if ratio < 1 / settings.level_within and clear < -3:
        return (
            "Even at the lowest scores the share of collected facts still rises: there is no end "
            "where only wrong facts lie; draw uncollected facts that resemble the wrong ones, or "
            "give beta."
        )
    return ""


def _group_table(
    high_end: _Floor,
    low_end: _Floor,
    groups: tuple[Ints, Ints],
    pooled: tuple[Estimate, Estimate],
    settings: PriorSettings,
) -> pa.Table:
    """Return the priors of every group, drawn to the pooled ones as far as counts ask for."""
    names = np.unique(np.concatenate(groups))
    place = [np.searchsorted(names, group) for group in groups]
    beta, alpha = pooled[0].value, pooled[1].value
    # From the pooled priors, not the pooled ratios: the user may have given one.
    k2 = _group_shares(low_end, place[0], len(names), (1 - beta) / (1 - alpha), settings)
    k1 = _group_shares(high_end, place[1], len(names), alpha / beta, settings)
    columns: dict[str, NDArray[np.generic]] = {
        "group": names,
        "collected": np.bincount(place[0], minlength=len(names)),
        "uncollected": np.bincount(place[1], minlength=len(names)),
    }
    for suffix, one, two in (("", 0, 0), ("_low", 1, 2), ("_high", 2, 1)):
        # With the pooled alpha: a small group of mostly wrong facts has no top end of its own.
        shares = 1 - k2[two] * (1 - alpha)
        columns["beta" + suffix], columns["alpha" + suffix] = shares, k1[one] * shares
    return pa.table(columns)


def _group_shares(
    floor: _Floor,
    place: Ints,
    size: int,
    pooled: float,
    settings: PriorSettings,
) -> tuple[Floats, Floats, Floats]:
    """Return value, low and high [size] of the density near 0 in each group.

    Empirical Bayes: a group's own figure has the variance v_g = k A / n_g, groups differ by the
    variance tau^2 (method of moments), and the group gets the mean of its own figure and
    the pooled one, weighted by 1 / v_g and 1 / tau^2.
    """
    from scipy.special import ndtri

    grid = np.array(settings.thresholds)
    # What a fact between two thresholds adds to the weighted mean of F(c) / c.
    adds = np.append(np.cumsum((floor.weight / grid)[::-1])[::-1], 0.0)
    per_fact = adds[np.searchsorted(grid, floor.position, side="right")]
    count = np.bincount(place, minlength=size)
    scale = pooled / floor.share.value if floor.share.value else 1.0
    own = scale * np.bincount(place, per_fact, size) / np.maximum(count, 1)
    spread = np.minimum.outer(grid, grid) / np.outer(grid, grid)
    factor = float(floor.weight @ spread @ floor.weight)
    variance = max(pooled, 1 / len(place)) * factor / np.maximum(count, 1)
    seen = count > 0
    between = 0.0
    if seen.sum() > 1:
        precision = 1 / variance[seen]
        excess = (precision * (own[seen] - pooled) ** 2).sum() - (seen.sum() - 1)
        between = max(excess / (precision.sum() - (precision**2).sum() / precision.sum()), 0.0)
    trust = np.where(seen, between / (between + variance), 0.0)
    value = np.clip(pooled + trust * (own - pooled), 0.0, MOST)
    # Small groups are drawn to the mean of all facts, which moves that mean: put it back.
    total = float(value @ count)
    value = value * (pooled * len(place) / total if total else 1.0)
    half = ndtri((1 + settings.level) / 2) * np.sqrt(np.where(seen, trust * variance, between))
    low = (value - half) * (1 - settings.mismatch) - floor.down
    high = (value + half) * (1 + settings.mismatch) + floor.up
    return np.clip(value, 0.0, MOST), np.clip(low, 0.0, MOST), np.clip(high, 0.0, MOST)


def best_bin(
    collected: ArrayLike, uncollected: ArrayLike, *, delta: float = 0.1, gamma: float = 0.01
) -> tuple[float, float]:
    """Return (beta, alpha) by best-bin estimation both ways round: the plain reference.

    Over thresholds c minimise ``q_u(c) / q_p(c) + (1 + gamma) (sqrt(ln(4 / delta) / 2 n_u) +
    sqrt(ln(4 / delta) / 2 n_p)) / q_p(c)`` (Garg et al. 2021). It knows no groups and no interval;
    :func:`estimate_priors` is nearer the truth on the graphs we measured.
    """
    high, low = finite(collected, "collected"), finite(uncollected, "uncollected")
    k1 = _best_bin(high, low, delta, gamma)
    k2 = _best_bin(-low, -high, delta, gamma)
    return _solve_one(k1, k2, None, None)


def _best_bin(positive: Floats, unlabeled: Floats, delta: float, gamma: float) -> float:
    """Return the share of positives among the unlabeled; positives score high."""
    threshold = np.unique(positive)
    share = [
        1 - np.searchsorted(np.sort(score), threshold, side="left") / len(score)
        for score in (unlabeled, positive)
    ]
    slack = sum(np.sqrt(np.log(4 / delta) / (2 * len(score))) for score in (positive, unlabeled))
    best = np.argmin((share[0] + (1 + gamma) * slack) / share[1])
    return min(float(share[0][best] / share[1][best]), MOST)
