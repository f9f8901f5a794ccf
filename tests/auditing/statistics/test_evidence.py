"""From features to probabilities, on made graphs whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npugraph.auditing.statistics import evidence as module
from npugraph.auditing.statistics.evidence import (
    FactArrays,
    TruthModel,
    fit_truth_model,
    profile_pools,
)
from npugraph.auditing.statistics.low_end import LowEnd
from npugraph.auditing.statistics.noise_kinds import NoiseProfile
from npugraph.auditing.statistics.stacking import Stack
from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.calibration.class_priors import Interval, Priors
from npugraph.calibration.probability import DensityRatio
from npugraph.errors import DataError
from npugraph.metrics import auroc, average_precision, ece

KINDS = ("random", "one-sided", "typed")
CENTRES = {"true": (6.0, 6.0), "random": (0.0, 0.0), "one-sided": (0.0, 3.5), "typed": (3.5, 0.0)}


def draw(kinds: np.ndarray, rng: np.random.Generator) -> FactArrays:
    """Draw facts of the given kinds; their plain score is the mean of the two features."""
    features = rng.normal(size=(len(kinds), 2)) + np.array([CENTRES[k] for k in kinds])
    fold, relation = (rng.integers(0, size, len(kinds)) for size in (2, 5))
    return FactArrays(features, fold, relation, features.mean(1))


def made(
    kind: str, beta: float, seed: int, facts: int = 2000
) -> tuple[FactArrays, np.ndarray, dict]:
    rng = np.random.default_rng(seed)
    true = rng.random(facts) < beta
    pools = {k: draw(np.repeat(k, facts), rng) for k in KINDS}
    return draw(np.where(true, "true", kind), rng), true, pools


@pytest.mark.parametrize("kind", KINDS)
def test_priors_and_probabilities_are_right_for_every_kind(kind: str) -> None:
    collected, true, pools = made(kind, 0.94, seed=1)
    verdict = fit_truth_model(collected, pools)
    assert max(verdict.profile.weight, key=verdict.profile.weight.__getitem__) == kind
    beta = verdict.priors.beta
    assert beta.value == pytest.approx(true.mean(), abs=0.015)
    assert beta.low <= true.mean() <= beta.high
    assert auroc(true, verdict.stack.collected) > 0.99
    middle, low, high = verdict.probability(verdict.stack.collected, collected=True)
    # 120 wrong facts: their number alone is uncertain by half a percent of all facts.
    assert ece(middle, true) < 0.02
    assert (low <= middle).all()
    assert (middle <= high).all()


def test_the_same_seed_gives_the_same_verdict() -> None:
    collected, _, pools = made("random", 0.95, seed=2, facts=150)
    one, two, other = (fit_truth_model(collected, pools, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.stack.collected, two.stack.collected)
    assert one.priors.beta == two.priors.beta
    assert one.profile == two.profile
    scores = np.linspace(-5, 5, 9)
    np.testing.assert_array_equal(one.ratio(scores), two.ratio(scores))
    assert one.priors.beta != other.priors.beta


def test_a_given_beta_stands() -> None:
    collected, _, pools = made("random", 0.95, seed=4, facts=300)
    priors = fit_truth_model(collected, pools, beta=0.8, alpha=0.01).priors
    assert priors.beta == (0.8, 0.8, 0.8)
    assert priors.alpha == (0.01, 0.01, 0.01)


def test_a_missing_kind_and_a_missing_fold_are_no_obstacle() -> None:
    collected, true, pools = made("random", 0.9, seed=5, facts=500)
    empty = pools["typed"].select(np.zeros(500, dtype=bool))
    verdict = fit_truth_model(collected, {"random": pools["random"], "typed": empty})
    assert verdict.profile.weight == {"random": 1.0, "typed": 0.0}
    # Some 15 facts at the low end tell it.
    assert verdict.priors.beta.value == pytest.approx(true.mean(), abs=0.06)
    # A pool that has no facts of one fold.
    kept = pools["random"].fold != 0
    part = pools["random"].select(kept)
    verdict = fit_truth_model(collected, {"random": pools["random"], "one-sided": part})
    assert np.isfinite(verdict.stack.collected).all()


def ended(
    wrong: tuple[str, ...], seed: int, facts: int = 4000, beta: float = 0.95
) -> tuple[FactArrays, np.ndarray, dict]:
    """Make facts that are wrong at one end or another: feature 0 tells heads, feature 1 tails."""
    rng = np.random.default_rng(seed)

    def at(end: np.ndarray) -> FactArrays:
        features = rng.normal(size=(len(end), 2)) + 6.0
        features[end == 0, 0] -= 5.0
        features[end == 2, 1] -= 5.0
        fold, relation = (rng.integers(0, size, len(end)) for size in (2, 5))
        return FactArrays(features, fold, relation, features.mean(1), end)

    true = rng.random(facts) < beta
    place = rng.choice([{"head": 0, "tail": 2}[end] for end in wrong], facts)
    pool = at(rng.choice([0, 2], facts))
    return at(np.where(true, -1, place)), true, {"one-sided": pool}


@pytest.mark.parametrize("end", ["head", "tail"])
def test_wrong_facts_at_one_end_are_told_and_counted(end: str) -> None:
    errors = []
    for seed in (1, 2, 3):
        collected, true, pools = ended((end,), seed=seed)
        verdict = fit_truth_model(collected, pools)
        assert verdict.wrong_end == end
        assert set(verdict.profile.weight) == {"one-sided, head", "one-sided, tail"}
        assert verdict.profile.weight[f"one-sided, {end}"] > 0.95
        beta = verdict.priors.beta
        assert verdict.priors.identifiable
        assert beta.low <= true.mean() <= beta.high
        # Without the ends half of the pool hides what there is.
        blind = fit_truth_model(collected, {k: replace(p, replaced=None) for k, p in pools.items()})
        assert blind.wrong_end is None
        errors.append([beta.value - true.mean(), blind.priors.beta.value - true.mean()])
    # Some 60 facts at the low end tell it; three draws tell more than one.
    told, hidden = np.mean(errors, 0)
    assert told == pytest.approx(0, abs=0.01)
    assert abs(hidden) > 2 * abs(told)


def test_wrong_facts_teach_the_score_little() -> None:
    found = []
    for seed in range(4):
        collected, true, pools = made("typed", 0.9, seed=seed)
        alike = Thresholds(score_doubted=1.0)  # every collected fact counts the same
        for thresholds in (alike, TUNED):
            model = fit_truth_model(collected, pools, thresholds=thresholds)
            found.append(average_precision(~true, -model.stack.collected))
    assert np.mean(found[1::2]) > np.mean(found[::2])


@pytest.mark.parametrize("seed", range(6))
def test_no_end_is_named_where_nothing_is_wrong(seed: int) -> None:
    collected, _, pools = ended(("tail",), seed=seed, beta=1.0)
    assert profile_pools(collected, pools)[2] is None


@pytest.mark.parametrize(
    ("head", "tail", "random", "by_whole", "end"),
    [
        (0.002, 0.030, 0.002, 0.040, "tail"),  # a clear case, whatever whole pools find
        (0.030, 0.002, 0.002, 0.040, "head"),
        (0.008, 0.012, 0.002, 0.010, "tail"),  # whole pools find less than half
        (0.008, 0.012, 0.002, 0.020, None),  # whole pools find nearly as much
        (0.008, 0.012, 0.006, 0.010, None),  # fewer at the tail than elsewhere
        (0.001, 0.004, 0.000, 0.000, None),  # next to nothing
    ],
)
def test_when_an_end_is_named(
    head: float, tail: float, random: float, by_whole: float, end: str | None
) -> None:
    share = {"x, head": head, "x, tail": tail, "random": random}
    profile = NoiseProfile(share, share)
    assert (
        module._wrong_end(profile, {"x, head": "head", "x, tail": "tail"}, by_whole, TUNED) == end
    )


def test_a_pool_is_cut_only_by_ends_that_it_has() -> None:
    collected, _, pools = ended(("tail",), seed=1, facts=1000)
    whole = pools["one-sided"]
    assert whole.replaced is not None
    few = whole.replaced.copy()
    few[5:] = 2
    kept, _, end = profile_pools(collected, {"one-sided": replace(whole, replaced=few)})
    assert list(kept) == ["one-sided"]
    assert end is None
    # Nor where some facts had no single end replaced.
    some = np.where(np.arange(1000) < 200, -1, whole.replaced)
    assert list(profile_pools(collected, {"one-sided": replace(whole, replaced=some)})[0]) == [
        "one-sided"
    ]
    kept, profile, end = profile_pools(collected, pools)
    assert end == "tail"
    assert list(kept) == list(profile.share) == ["one-sided, head", "one-sided, tail"]
    assert sum(len(pool.fold) for pool in kept.values()) == 1000


def test_pools_stay_whole_where_both_ends_are_wrong() -> None:
    collected, _, pools = ended(("head", "tail"), seed=2)
    verdict = fit_truth_model(collected, pools)
    whole = fit_truth_model(collected, {k: replace(p, replaced=None) for k, p in pools.items()})
    assert verdict.wrong_end is None
    assert verdict.priors.beta == whole.priors.beta
    np.testing.assert_array_equal(verdict.stack.collected, whole.stack.collected)


def test_features_that_tell_nothing_are_called_so() -> None:
    collected, _, pools = made("random", 0.95, seed=6, facts=300)
    flat = {
        kind: replace(pool, features=np.zeros((300, 2)), score=np.zeros(300))
        for kind, pool in pools.items()
    }
    blank = replace(collected, features=np.zeros((300, 2)), score=np.zeros(300))
    verdict = fit_truth_model(blank, flat)
    assert not verdict.priors.identifiable
    for values in verdict.probability(verdict.stack.collected, collected=True):
        assert ((values >= 0) & (values <= 1)).all()


def test_a_dozen_facts_are_too_few_and_say_so() -> None:
    collected, _, pools = made("random", 1.0, seed=7, facts=12)
    fold = np.arange(12) % 3
    small = {kind: replace(pool, fold=fold) for kind, pool in pools.items()}
    verdict = fit_truth_model(replace(collected, fold=fold), small)
    assert not verdict.priors.identifiable
    assert "Only 12 collected facts" in verdict.priors.reason
    with pytest.raises(DataError, match="at least two folds"):
        fit_truth_model(replace(collected, fold=np.zeros(12, dtype=np.int64)), small)


def by_hand(beta: Interval, low: LowEnd, *, given: bool = False) -> TruthModel:
    """Return a verdict with log rho = score."""
    ratio = DensityRatio(np.array([0.0]), np.array([0.0]), slope=1.0)
    priors = Priors(beta, Interval(0.1, 0.05, 0.15), True)
    stack = Stack({}, np.zeros(0), {})
    return TruthModel(NoiseProfile({}, {}), stack, priors, ratio, low, given=given)


def test_a_probability_is_the_share_over_the_density_ratio() -> None:
    # A twentieth of the facts is at the low end; a fifth of these may be true.
    verdict = by_hand(Interval(0.9, 0.85, 0.95), LowEnd(0.05, 0.05, 0.05, 0.01))
    middle, low, high = verdict.probability(np.log([1e-6, 0.05, 0.5]), collected=True)
    assert middle == pytest.approx([0.1, 0.1, 0.91])
    assert low == pytest.approx([0.0, 0.0, 0.9])
    assert high == pytest.approx([0.2, 0.2, 0.92])
    assert verdict.probability(np.log([1.0]), collected=False)[0] == pytest.approx([0.1])
    assert all(len(x) == 0 for x in verdict.probability(np.zeros(0), collected=True))


def test_a_given_share_leaves_an_interval() -> None:
    low_end = LowEnd(0.05, 0.05, 0.05, 0.01)
    verdict = by_hand(Interval(0.98, 0.98, 0.98), low_end, given=True)
    middle, low, high = verdict.probability(np.log([0.05, 0.5]), collected=True)
    assert middle == pytest.approx([0.6, 0.96])
    assert (low < middle).all()
    # Less than the low end holds by itself cannot be wrong there for sure.
    assert high == pytest.approx(middle)
