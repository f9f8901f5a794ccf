"""From features to probabilities: noise profile, one score, priors, density ratio.

Pure functions on arrays. Nothing here knows a graph or a system: whoever has features of
collected and of uncollected facts, judged out of fold, can use it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from npugraph.auditing.statistics.low_end import LowEnd, low_end
from npugraph.auditing.statistics.noise_kinds import NoiseProfile, noise_profile
from npugraph.auditing.statistics.stacking import Counts, Stack, mixed_pool, stack
from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.calibration.calibrate import probability_of
from npugraph.calibration.class_priors import Priors, estimate_priors
from npugraph.calibration.probability import DensityRatio
from npugraph.seeds import number

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]

# No density ratio is taken to be smaller.
LEAST_RATIO = 1e-6
# The ends of a fact by their place in it.
ENDS = {0: "head", 2: "tail"}


class _Asked(TypedDict):
    """What every step is given."""

    thresholds: Thresholds
    seed: int


@dataclass(frozen=True)
class FactArrays:
    """Facts as arrays.

    Attributes:
        features: [n, f].
        fold: [n], the fold whose system judged the fact.
        relation: [n].
        score: [n], the plain score of that system.
        replaced: [n], which end of an uncollected fact was replaced: a key of ENDS, or -1 where
            it was no single end. None where nobody knows.
        support: [n], in how many other facts the less known of its two ends is. None: not counted.
    """

    features: Floats
    fold: Ints
    relation: Ints
    score: Floats
    replaced: Ints | None = None
    support: Ints | None = None

    def select(self, kept: NDArray[np.bool_]) -> FactArrays:
        """Return the facts that are ``kept`` [n]."""
        return FactArrays(
            self.features[kept],
            self.fold[kept],
            self.relation[kept],
            self.score[kept],
            None if self.replaced is None else self.replaced[kept],
            None if self.support is None else self.support[kept],
        )


@dataclass(frozen=True)
class TruthModel:
    """What the features say, and how scores become probabilities.

    Attributes:
        profile: what kind of wrong facts there seem to be.
        stack: one score from all features.
        priors: the shares of true facts.
        ratio: the density ratio p_collected / p_uncollected of that score.
        low_end: how pure the lowest scores are.
        wrong_end: the end at which most wrong facts are wrong, or None.
        given: whether the share of true facts was given.
    """

    profile: NoiseProfile
    stack: Stack
    priors: Priors
    ratio: DensityRatio
    low_end: LowEnd = LowEnd(0.0, 0.0, 0.0, TUNED.unknown)
    wrong_end: str | None = None
    given: bool = False

    def probability(self, score: Floats, collected: bool) -> tuple[Floats, Floats, Floats]:
        """Return the probability that facts of these scores [n] are true, and its 90% interval.

        A collected fact is wrong with probability share / rho: as many wrong facts as the pool
        has there, and ``rho`` as many collected ones. No rho is taken to be below the density of
        the low end: chance alone makes the lowest scores rarer than their neighbours. By the upper
        end of the interval all that may be true at the low end is true, by the lower one nothing,
        and wrong facts are as dense as may be; the probability itself takes half of what may be
        true. Uncollected facts: see :func:`probability_of`.
        """
        ratio = self.ratio(score)
        if not collected:
            return probability_of(ratio, self.priors, 0.0, collected)
        low = self.low_end
        least = max(low.low - low.unknown, 0.0)
        share = 1 - self.priors.beta.value if self.given else (least + low.low) / 2
        if self.given:
            least = min(least, share)
        rho = np.maximum(ratio, max(low.low, share, LEAST_RATIO))
        most = max(share, low.low, low.most)
        return 1 - share / rho, 1 - np.minimum(most / rho, 1.0), 1 - least / rho


def fit_truth_model(
    collected: FactArrays,
    pools: Mapping[str, FactArrays],
    *,
    beta: float | None = None,
    alpha: float | None = None,
    thresholds: Thresholds = TUNED,
    seed: int = 0,
) -> TruthModel:
    """Judge collected facts against pools of uncollected ones, by kind of wrong fact.

    Returns the profile, one score, the priors and how scores become probabilities.

    Args:
        collected: the collected facts.
        pools: by kind, uncollected facts.
        beta: known share of true facts among the collected ones, or None.
        alpha: known share of true facts among the uncollected ones, or None.
        thresholds: what was tuned.
        seed: every draw follows from it.
    """
    pools, profile, wrong_end = profile_pools(collected, pools, thresholds, seed)
    given = {"beta": beta, "alpha": alpha}
    return _fit(collected, pools, profile, wrong_end, given, thresholds, seed)


def leave_out(
    model: TruthModel,
    kinds: Container[str],
    collected: FactArrays,
    pools: Mapping[str, FactArrays],
    *,
    thresholds: Thresholds = TUNED,
    seed: int = 0,
) -> TruthModel:
    """Return what the pools of the other kinds teach, as if there were none of these.

    The noise profile is made from the equations that the model has: no classifier of it is trained
    again. Arguments as for :func:`fit_truth_model`, which made the model.
    """
    used = pools if model.wrong_end is None else _by_end(pools, thresholds.least_of_end)[0]
    gone = [name for name in used if name.split(",")[0] in kinds]
    left = {name: pool for name, pool in used.items() if name not in gone}
    profile = model.profile.without(gone, thresholds.profile_ridge)
    given: dict[str, float | None] = {"beta": None, "alpha": None}
    return _fit(collected, left, profile, model.wrong_end, given, thresholds, seed)


def _fit(
    collected: FactArrays,
    pools: Mapping[str, FactArrays],
    profile: NoiseProfile,
    wrong_end: str | None,
    given: Mapping[str, float | None],
    thresholds: Thresholds,
    seed: int,
) -> TruthModel:
    """Return one score, the priors and how scores become probabilities, by a noise profile.

    The score is learnt twice: a draft from all collected facts alike, then the score from each by
    the lower end of its probability. What is probably wrong teaches little about what is right.
    A fold's classifier doubts by the fold's own draft: another one has seen the facts that it is
    to judge, and would tell it which of them are collected.
    """
    weight, everything = profile.weight_with(thresholds), np.ones(len(collected.fold), dtype=bool)

    def fitted(counts: Counts | None, rounds: int) -> TruthModel:
        asked: _Asked = {"thresholds": replace(thresholds, score_rounds=rounds), "seed": seed}
        known = (collected.features, collected.fold, _arrays(pools), weight, counts)
        parts = (stack(*known, **asked), collected, pools, everything, profile, wrong_end)
        return _calibrate(*parts, given, asked)

    draft = fitted(None, thresholds.draft_rounds)

    def undoubted(fold: int, features: Floats) -> Floats:
        score = draft.stack.models[fold].log_odds(features)
        return draft.probability(score, collected=True)[1]

    return fitted(undoubted, thresholds.score_rounds)


def narrow(
    model: TruthModel,
    collected: FactArrays,
    pools: Mapping[str, FactArrays],
    about: NDArray[np.bool_],
    *,
    beta: float | None = None,
    alpha: float | None = None,
    thresholds: Thresholds = TUNED,
    seed: int = 0,
) -> TruthModel:
    """Return how scores become probabilities among some of the collected facts.

    Scores are those of the model. The share of wrong facts, and how pure the low end is, are told
    by the facts ``about`` [n] alone: they may be worse than the others, or less known. Other
    arguments as for :func:`fit_truth_model`, which made the model.
    """
    used = pools if model.wrong_end is None else _by_end(pools, thresholds.least_of_end)[0]
    given = {"beta": beta, "alpha": alpha}
    asked: _Asked = {"thresholds": thresholds, "seed": seed}
    parts = (model.stack, collected, used, about, model.profile, model.wrong_end)
    return _calibrate(*parts, given, asked)


def _calibrate(
    stacked: Stack,
    collected: FactArrays,
    pools: Mapping[str, FactArrays],
    about: NDArray[np.bool_],
    profile: NoiseProfile,
    wrong_end: str | None,
    given: Mapping[str, float | None],
    asked: _Asked,
) -> TruthModel:
    """Return the priors of the facts ``about`` [n], and how their scores become probabilities."""
    thresholds, seed = asked["thresholds"], asked["seed"]
    score = stacked.collected[about]
    rng = np.random.default_rng(number(seed, "pool"))
    places = mixed_pool(stacked.pools, profile.weight, rng, thresholds)
    pool = np.concatenate([stacked.pools[kind][places[kind]] for kind in pools])
    priors = estimate_priors(score, pool, **given, **asked)
    kinds = {
        kind: (stacked.pools[kind], each.support)
        for kind, each in pools.items()
        if each.support is not None and profile.weight[kind] >= thresholds.small_kind
    }
    own = None if collected.support is None else collected.support[about]
    low = low_end(score, pool, own, kinds, rises=priors.rises, thresholds=thresholds)
    if given["beta"] is None:
        priors = low.humble(priors, thresholds)
    ratio = DensityRatio.fit(score, pool)
    return TruthModel(profile, stacked, priors, ratio, low, wrong_end, given["beta"] is not None)


def profile_pools(
    collected: FactArrays,
    pools: Mapping[str, FactArrays],
    thresholds: Thresholds = TUNED,
    seed: int = 0,
) -> tuple[Mapping[str, FactArrays], NoiseProfile, str | None]:
    """Estimate the noise profile; where one end alone is wrong, of pools that are cut by end.

    Where only tails are wrong, a pool with heads replaced as well looks half empty, and hides what
    there is. Where both are wrong, whole pools are better: there is less to estimate.

    Returns the pools, their profile and the end that is wrong, or None.
    """
    asked: _Asked = {"thresholds": thresholds, "seed": seed}
    whole = noise_profile(collected.features, collected.fold, _arrays(pools), **asked)
    cut, end_of = _by_end(pools, thresholds.least_of_end)
    if end_of:
        profile = noise_profile(collected.features, collected.fold, _arrays(cut), **asked)
        wrong_end = _wrong_end(profile, end_of, sum(whole.share.values()), thresholds)
        if wrong_end is not None:
            return cut, profile, wrong_end
    return pools, whole, None


def _arrays(pools: Mapping[str, FactArrays]) -> dict[str, tuple[Floats, Ints]]:
    """Return the features and folds of each pool."""
    return {kind: (pool.features, pool.fold) for kind, pool in pools.items()}


def _name(kind: str, end: str | None) -> str:
    """Return what a pool is called that was cut by end, or was not."""
    return kind if end is None else f"{kind}, {end}"


def _by_end(
    pools: Mapping[str, FactArrays], least: float
) -> tuple[dict[str, FactArrays], dict[str, str]]:
    """Cut the pools of single ends by end; return all pools, and the ends of those that were cut.

    A pool that knows no end, or has less than the share ``least`` of one of them, stays whole.
    """
    cut: dict[str, FactArrays] = {}
    end_of: dict[str, str] = {}
    for kind, pool in pools.items():
        at = {} if pool.replaced is None else {end: pool.replaced == p for p, end in ENDS.items()}
        counts = [int(kept.sum()) for kept in at.values()]
        size = len(pool.fold)
        if sum(counts) < size or min(counts, default=0) <= least * size:
            cut[kind] = pool
            continue
        for end, kept in at.items():
            cut[_name(kind, end)] = pool.select(kept)
            end_of[_name(kind, end)] = end
    return cut, end_of


def _wrong_end(
    profile: NoiseProfile, end_of: Mapping[str, str], by_whole: float, thresholds: Thresholds
) -> str | None:
    """Return the end at which most wrong facts are wrong, or None.

    Args:
        profile: of the pools that were cut.
        end_of: the end of each of them.
        by_whole: the share of wrong facts that whole pools find.
        thresholds: what was tuned.
    """
    at = dict.fromkeys(ENDS.values(), 0.0)
    for kind, end in end_of.items():
        at[end] += profile.share[kind]
    most = max(at, key=at.__getitem__)
    found = sum(profile.share.values())
    elsewhere = found - at[most]
    clear = at[most] > thresholds.one_ended * elsewhere
    hidden = at[most] > elsewhere and found > thresholds.found_more * by_whole
    return most if at[most] > thresholds.least_at_end and (clear or hidden) else None
