"""The self-test in figures: what became of facts that the audit planted, and of a clean part.

Planted facts are known to be wrong and were judged as stored ones are. Facts of a part that is
believed clean are known to be right. Pure functions on arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npugraph.auditing.statistics.envelope import most_wrong
from npugraph.auditing.statistics.evidence import FactArrays, TruthModel, leave_out
from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.metrics import auroc

Bools = NDArray[np.bool_]
Floats = NDArray[np.floating]
# Bins of the reliability curve, all of the same width.
BINS = 10


@dataclass(frozen=True)
class FamilyTest:
    """What became of the planted facts of one family, judged without pools of that family.

    Attributes:
        family: its name.
        planted: how many facts there are.
        auroc: how well they are told from stored facts; half is chance.
        called_wrong: the share of them that should be wrong by their probabilities; all are.
    """

    family: str
    planted: int
    auroc: float
    called_wrong: float


@dataclass(frozen=True)
class CurvePoint:
    """Stored facts of about the same probability, and what planted facts say of them.

    Attributes:
        probability: of being true, the mean over these facts.
        true: the share of them that is true if wrong facts lie where the planted ones do.
        low: the lower end of its interval; ``high`` likewise.
        facts: how many there are.
    """

    probability: float
    true: float
    low: float
    high: float
    facts: int


@dataclass(frozen=True)
class CleanTest:
    """What the audit would say of facts that are believed to be right.

    Attributes:
        facts: how many there are.
        called_wrong: how many of them have a probability below one half.
        expected: how many of as many true facts should have, by the probabilities themselves.
        refutes: whether clearly more are called wrong than should be.
    """

    facts: int
    called_wrong: int
    expected: float
    refutes: bool


@dataclass(frozen=True)
class SelfTest:
    """The self-test of an audit.

    Attributes:
        families: one row per family.
        planted: facts that were planted.
        auroc: how well all of them are told from stored facts, with all pools.
        at_low_end: share of them at the low end of their own pools, beside what is expected there:
            1 where planted facts look as the pools do.
        at_low_end_high: the upper end of its interval: few planted facts tell little.
        corrected: share of the corrections that are right where an end of a fact is replaced.
        most_wrong: the largest share of wrong facts that the scores do not rule out, whatever mix
            of the planted kinds they are of.
        curve: the reliability curve.
        clean: what is said of facts that are believed to be right; None where there are too few.
    """

    families: tuple[FamilyTest, ...] = ()
    planted: int = 0
    auroc: float = 0.5
    at_low_end: float = 1.0
    at_low_end_high: float = 1.0
    corrected: float = 0.0
    most_wrong: float = 1.0
    curve: tuple[CurvePoint, ...] = ()
    clean: CleanTest | None = None


def run_self_test(
    model: TruthModel,
    collected: FactArrays,
    pools: Mapping[str, FactArrays],
    planted: Mapping[str, FactArrays],
    families: Mapping[str, tuple[str, ...]],
    *,
    about: Bools | None = None,
    thresholds: Thresholds = TUNED,
    seed: int = 0,
) -> SelfTest:
    """Judge planted facts, each family by pools of the others.

    Args:
        model: what all pools taught.
        collected: the collected facts.
        pools: by kind, uncollected facts.
        planted: by kind, facts that are known to be wrong and were judged as collected ones.
        families: the kinds of each family.
        about: which collected facts [n] all planted ones are told from; None: all.
        thresholds: what was tuned.
        seed: every draw follows from it.
    """
    planted = {kind: facts for kind, facts in planted.items() if len(facts.fold)}
    if not planted:
        return SelfTest()
    rows = []
    for family, kinds in families.items():
        mine = [planted[kind] for kind in kinds if kind in planted]
        others = {kind: pool for kind, pool in pools.items() if kind not in kinds}
        if not mine or not others:
            continue
        left = model
        if len(others) < len(pools):
            left = leave_out(model, kinds, collected, pools, thresholds=thresholds, seed=seed)
        score = np.concatenate([left.stack.score(each.features, each.fold) for each in mine])
        called = 1 - left.probability(score, collected=True)[0]
        told = told_apart(left.stack.collected, score)
        rows.append(FamilyTest(family, len(score), told, float(called.mean())))
    scores = {kind: model.stack.score(each.features, each.fold) for kind, each in planted.items()}
    every = np.concatenate(list(scores.values()))
    stored = model.stack.collected if about is None else model.stack.collected[about]
    return SelfTest(
        tuple(rows),
        len(every),
        told_apart(stored, every),
        *_at_low_end(model, scores, thresholds),
        most_wrong=most_wrong(stored, {**scores, **_whole(model)}, thresholds),
        curve=reliability(model, scores, thresholds.level),
    )


def told_apart(stored: Floats, planted: Floats) -> float:
    """Return the AUROC of planted facts against stored ones; the latter should score higher."""
    label = np.repeat([True, False], [len(stored), len(planted)])
    return auroc(label, np.concatenate([stored, planted]))


def _whole(model: TruthModel) -> dict[str, Floats]:
    """Return the scores of each pool, those that were cut by end together."""
    whole: dict[str, list[Floats]] = {}
    for name, score in model.stack.pools.items():
        whole.setdefault(_kind(name), []).append(score)
    return {kind: np.concatenate(parts) for kind, parts in whole.items()}


def _weights(model: TruthModel) -> dict[str, float]:
    """Return how much each kind counts, those that were cut by end together."""
    weight: dict[str, float] = {}
    for name, value in model.profile.weight.items():
        weight[_kind(name)] = weight.get(_kind(name), 0.0) + value
    return weight


def _kind(name: str) -> str:
    """Return the kind of a pool that may have been cut by end."""
    return name.split(",")[0]


def _at_low_end(
    model: TruthModel, scores: Mapping[str, Floats], thresholds: Thresholds
) -> tuple[float, float]:
    """Return how many planted facts are at the low end of their pools, beside what is expected.

    The second number is the upper end of an interval of the first.
    """
    from scipy.stats import beta

    whole, weight = _whole(model), _weights(model)
    kinds = [kind for kind in scores if weight.get(kind)]
    if not kinds:
        return 1.0, 1.0
    part = thresholds.low_part
    shares = [float(np.mean(scores[kind] <= np.quantile(whole[kind], part))) for kind in kinds]
    weights = np.array([weight[kind] for kind in kinds])
    weights /= weights.sum()
    share = float(weights @ shares)
    # So many facts, drawn from the mixture of kinds, would tell as much.
    drawn = 1 / float((weights**2 / [len(scores[kind]) for kind in kinds]).sum())
    end = beta.ppf((1 + thresholds.level) / 2, share * drawn + 0.5, (1 - share) * drawn + 0.5)
    return share / part, float(end) / part


def reliability(
    model: TruthModel, planted: Mapping[str, Floats], level: float
) -> tuple[CurvePoint, ...]:
    """Return the reliability curve of the collected facts, by scores of planted ones per kind.

    Let W be the number of wrong facts by the probabilities, n_b that of the collected facts in a
    bin of probabilities, and q_b the share of the planted facts whose probability is in it, kinds
    weighed as they seem to occur. If wrong facts lie where planted ones do, W q_b / n_b of the bin
    are wrong. So the curve tests where wrong facts lie, and not how many there are.
    """
    from scipy.stats import beta

    weight = {kind: _weights(model).get(kind, 0.0) for kind in planted}
    total = sum(weight.values())
    if not total:
        return ()
    chance = model.probability(model.stack.collected, collected=True)[0]
    wrong = float((1 - chance).sum())
    inside, size = np.zeros(BINS), 0.0
    for kind, score in planted.items():
        own = model.probability(score, collected=True)[0]
        inside += weight[kind] / total * np.bincount(_bins(own), minlength=BINS) / len(own)
        size += (weight[kind] / total) ** 2 / len(own)
    # So many facts, drawn from the mixture of kinds, would tell as much.
    drawn, tail = 1 / size, (1 - level) / 2
    ends = beta.ppf([[tail], [1 - tail]], inside * drawn + 0.5, (1 - inside) * drawn + 0.5)
    of_bin, points = _bins(chance), []
    for number in np.unique(of_bin):
        own = chance[of_bin == number]
        value, low, high = (
            float(np.clip(1 - wrong * share / len(own), 0, 1))
            for share in (inside[number], ends[1][number], ends[0][number])
        )
        points.append(
            CurvePoint(float(own.mean()), value, min(low, value), max(high, value), len(own))
        )
    return tuple(points)


def _bins(probability: Floats) -> NDArray[np.int64]:
    return np.minimum((probability * BINS).astype(np.int64), BINS - 1)


def check_clean(
    probability: Floats, high: Floats, clean: Bools, thresholds: Thresholds = TUNED
) -> CleanTest | None:
    """Return what is said of facts that are believed to be right, or None where these are few.

    Called wrong is what has a probability below one half. Of the facts that are called wrong some
    are true, as their probabilities say, and so a part of all true facts should be called wrong.
    The clean part refutes the probabilities where clearly more of it is.

    Args:
        probability: of being true, of all collected facts [n].
        high: the upper end of its interval [n].
        clean: which facts are believed to be right [n].
        thresholds: what was tuned.
    """
    from scipy.stats import binom

    count = int(clean.sum())
    if count < thresholds.least_clean:
        return None
    wrong = probability < 0.5
    called = int((wrong & clean).sum())
    # By the upper end of the interval: what may be true is no reason to doubt.
    share = float(high[wrong].sum()) / max(float(high.sum()), 1.0)
    clear = float(binom.sf(called - 1, count, share)) < (1 - thresholds.level) / 2
    return CleanTest(count, called, count * share, clear)
