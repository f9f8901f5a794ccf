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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from npugraph.calibration import Floats, Ints, finite, rows_by_group
from npugraph.errors import DataError, SettingsError
from npugraph.seeds import number

# A ratio of 1 would mean that collected and uncollected facts are true equally often.
MOST = 0.98
# The part of the positions that neither false nor recognised true facts explain.
MIDDLE = (0.5, 0.8)


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
        widest: an interval of beta wider than this is called not identifiable.
        least: fewer collected or uncollected facts than this are called too few.
        seed: every draw follows from it.
    """

    thresholds: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
    level: float = 0.9
    resamples: int = 1000
    mismatch: float = 0.2
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
        if self.resamples < 1:
            raise SettingsError(f"resamples={self.resamples} must be at least 1.")


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
    >>> round(priors.beta.value, 2), priors.identifiable
    (0.96, True)
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
    rng = np.random.default_rng(number(settings.seed, "priors"))
    # Corruptions of one fact hang together: they count as no more than there are facts.
    independent = min(len(scores[0]), len(scores[1]))
    low_position = positions(scores[0], scores[1], groups[0], groups[1], rng)
    low_end = _Floor.fit(low_position, independent, settings, rng)
    high_position = positions(-scores[1], -scores[0], groups[1], groups[0], rng)
    high_end = _Floor.fit(high_position, independent, settings, rng)
    pooled = _solve(high_end.share, low_end.share, beta, alpha)
    reason = _doubt(pooled[0], scores, low_end, settings) if beta is None else ""
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


@dataclass(frozen=True, eq=False)
class _Floor:
    """The density of positions near 0, with its interval.

    Attributes:
        position: u of each fact [n].
        weight: of the thresholds [t]; the estimate is the weighted mean of F(c) / c.
        share: the density, in [0, MOST].
        middle: excess of facts in MIDDLE over that density.
    """

    position: Floats
    weight: Floats
    share: Estimate
    middle: float

    @classmethod
    def fit(
        cls, position: Floats, references: int, settings: PriorSettings, rng: np.random.Generator
    ) -> _Floor:
        """Estimate the density; ``references`` is how many independent ones the ranks rest on."""
        grid = np.array(settings.thresholds)
        edges = np.concatenate([[0.0], grid, [1.0]])
        share = np.histogram(position, edges)[0] / len(position)
        below = np.cumsum(share)[:-1] / grid
        weight = _threshold_weights(below, grid, len(position))
        value = min(float(weight @ below), MOST)
        # Both sides are drawn again; the weights are chosen anew each time, as they were once.
        drawn = rng.multinomial(len(position), share, settings.resamples).cumsum(axis=1)[:, :-1]
        base = rng.multinomial(references, np.diff(edges), settings.resamples).cumsum(axis=1)
        base_share = np.maximum(base[:, :-1], 0.5) / references
        again = drawn / len(position) / base_share
        weights = _threshold_weights(again, grid, len(position))
        tail = (1 - settings.level) / 2
        low, high = np.quantile((weights * again).sum(axis=-1), [tail, 1 - tail])
        inside = np.mean((position > MIDDLE[0]) & (position < MIDDLE[1]))
        middle = max(float(inside) - value * (MIDDLE[1] - MIDDLE[0]), 0.0)
        # Where recognised facts of the other kind reach the middle, some reach the end as well
        # and are counted: the truth may lie lower, and the bootstrap cannot know.
        low = max(min(low, value) * (1 - settings.mismatch) - middle, 0.0)
        high = min(max(high, value) * (1 + settings.mismatch), MOST)
        return cls(position, weight, Estimate(value, float(low), float(high)), middle)


def _threshold_weights(below: Floats, grid: Floats, count: int) -> Floats:
    """Weigh thresholds [..., t] by 1 / (variance + bias^2) of F(c) / c.

    F(c) / c rises with c as true facts come in, while its variance falls. As in Storey's choice
    of lambda, the bias is measured from (nearly) the least of the values.
    """
    least = np.quantile(below, 0.1, axis=-1, keepdims=True)
    variance = np.maximum(below, 1 / count) / (grid * count)
    weight = 1 / (variance + np.maximum(below - least, 0.0) ** 2)
    scaled: Floats = weight / weight.sum(axis=-1, keepdims=True)
    return scaled


def _check_given(beta: float | None, alpha: float | None) -> None:
    for name, value in (("beta", beta), ("alpha", alpha)):
        if value is not None and not 0 <= value <= 1:
            raise SettingsError(f"{name}={value} must lie between 0 and 1.")
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


def _doubt(
    beta: Estimate, scores: tuple[Floats, Floats], low_end: _Floor, settings: PriorSettings
) -> str:
    """Return why beta cannot be told, or nothing."""
    for name, score in zip(("collected", "uncollected"), scores, strict=True):
        if len(score) < settings.least:
            return (
                f"Only {len(score)} {name} facts have a score; at least {settings.least} are "
                "needed to estimate the priors, so give beta."
            )
    if beta.high - beta.low > settings.widest:
        return (
            f"{low_end.share.value:.1%} of the collected facts score like uncollected ones, and "
            f"{low_end.middle:.1%} in between: scores cannot tell wrong facts from true ones "
            f"that the model does not know. beta lies between {beta.low:.3f} and "
            f"{beta.high:.3f}; give it if you know it."
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
    k1 = _group_shares(high_end, place[1], len(names), alpha / beta if beta else 0.0, settings)
    columns: dict[str, NDArray[np.generic]] = {
        "group": names,
        "collected": np.bincount(place[0], minlength=len(names)),
        "uncollected": np.bincount(place[1], minlength=len(names)),
    }
    for suffix, one, two in (("", 0, 0), ("_low", 1, 2), ("_high", 2, 1)):
        shares = (1 - k2[two]) / (1 - k1[one] * k2[two])
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
    per_fact = ((floor.position[:, None] < grid) / grid) @ floor.weight
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
    value = pooled + trust * (own - pooled)
    half = ndtri((1 + settings.level) / 2) * np.sqrt(np.where(seen, trust * variance, between))
    low = (value - half) * (1 - settings.mismatch) - floor.middle
    high = (value + half) * (1 + settings.mismatch)
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
