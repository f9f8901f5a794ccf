"""Estimates of the priors on made graphs whose truth is known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from npugraph.auditing.statistics.class_priors import (
    Priors,
    PriorSettings,
    best_bin,
    estimate_priors,
)
from npugraph.errors import DataError, SettingsError


@dataclasses.dataclass
class Made:
    """Scores drawn from the two-component model; relations differ in level and in wrong facts."""

    collected: np.ndarray
    uncollected: np.ndarray
    collected_group: np.ndarray
    uncollected_group: np.ndarray
    true: np.ndarray
    beta: float
    alpha: float


def make(seed: int, beta: float, alpha: float, *, facts: int = 8000, unknown: float = 0.0) -> Made:
    """Draw a graph of 20 relations; wrong facts are even over relations, true ones are not.

    ``unknown`` is the share of true facts that score like false ones.
    """
    rng = np.random.default_rng(seed)
    sizes = 1 / np.arange(1, 21)
    sizes /= sizes.sum()
    level = rng.normal(0, 3, 20)

    def draw(true: np.ndarray, group: np.ndarray) -> np.ndarray:
        seen = true & (rng.random(len(true)) >= unknown)
        return (
            np.where(seen, rng.normal(5, 1.2, len(true)), rng.normal(0, 1, len(true)))
            + (level[group])
        )

    true = rng.random(facts) < beta
    group = np.where(true, rng.choice(20, facts, p=sizes), rng.integers(0, 20, facts))
    other_group = np.repeat(group, 5)
    other_true = rng.random(5 * facts) < alpha
    scores = draw(true, group), draw(other_true, other_group)
    return Made(*scores, group, other_group, true, float(true.mean()), float(other_true.mean()))


def estimate(made: Made, **options: object) -> Priors:
    return estimate_priors(
        made.collected,
        made.uncollected,
        collected_group=made.collected_group,
        uncollected_group=made.uncollected_group,
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("beta", "alpha"), [(0.989, 0.06), (0.96, 0.02), (0.916, 0.004)])
def test_priors_are_found_and_lie_in_their_intervals(beta: float, alpha: float) -> None:
    inside = 0
    for seed in range(10):
        made = make(seed, beta, alpha)
        priors = estimate(made)
        assert abs(priors.beta.value - made.beta) <= 0.015
        assert abs(priors.alpha.value - made.alpha) <= 0.015
        assert priors.identifiable, priors.reason
        inside += priors.beta.low <= made.beta <= priors.beta.high
        inside += priors.alpha.low <= made.alpha <= priors.alpha.high
    assert inside >= 18


def test_the_bootstrap_alone_covers_as_stated() -> None:
    """Without allowance for bias, on data without bias, 90% intervals hold about 90%."""
    settings = PriorSettings(mismatch=0.0, unknown=0.0, thresholds=(0.3,), resamples=300)
    inside = []
    for seed in range(60):
        made = make(seed, 0.9, 0.0, facts=1500)
        beta = estimate(made, settings=settings).beta
        inside.append(beta.low <= 0.9 <= beta.high)
    assert 0.78 <= np.mean(inside) <= 0.99


def test_allowances_for_bias_are_what_they_say() -> None:
    """Only k2 is uncertain where alpha is given as 0: beta = 1 - k2, so each term can be read."""
    made = make(6, 0.95, 0.0)
    bare = estimate(made, alpha=0.0, settings=PriorSettings(mismatch=0.0, unknown=0.0)).beta
    wide = estimate(made, alpha=0.0, settings=PriorSettings(mismatch=0.2, unknown=0.0)).beta
    assert wide.value == pytest.approx(bare.value)
    assert 1 - wide.low == pytest.approx(1.2 * (1 - bare.low))
    assert 1 - wide.high == pytest.approx(0.8 * (1 - bare.high))
    both = estimate(made, alpha=0.0, settings=PriorSettings(mismatch=0.2, unknown=0.01)).beta
    assert both.value == pytest.approx(bare.value + 0.005)
    assert both.low == pytest.approx(wide.low)
    assert both.high == pytest.approx(wide.high + 0.01)


def test_ranks_within_relations_beat_pooled_scores() -> None:
    errors = {"groups": 0.0, "pooled": 0.0, "best bin": 0.0}
    for seed in range(5):
        made = make(seed, 0.95, 0.02)
        pooled = estimate_priors(made.collected, made.uncollected)
        errors["groups"] += abs(estimate(made).beta.value - made.beta)
        errors["pooled"] += abs(pooled.beta.value - made.beta)
        errors["best bin"] += abs(best_bin(made.collected, made.uncollected)[0] - made.beta)
    assert errors["groups"] < errors["pooled"]
    assert errors["groups"] < errors["best bin"]


def test_unknown_true_facts_make_the_priors_unidentifiable() -> None:
    made = make(0, 0.96, 0.001, unknown=0.2)
    priors = estimate(made)
    assert not priors.identifiable
    assert "of the collected facts score like uncollected ones" in priors.reason
    assert priors.beta.low <= made.beta <= priors.beta.high == 1
    assert priors.alpha.low == 0


def test_unknown_true_facts_below_all_others_are_noticed() -> None:
    """A sparse graph: what the model does not know it scores lower than any corruption."""
    made = make(1, 0.96, 0.001)
    made.collected[np.flatnonzero(made.true)[::20]] -= 15
    priors = estimate(made)
    assert not priors.identifiable
    assert "pile up at the lowest scores" in priors.reason
    assert priors.beta.low <= made.beta <= priors.beta.high


def test_wrong_facts_that_are_harder_than_the_uncollected_are_noticed() -> None:
    """Wrong facts of the right type: none lies at the low end."""
    made = make(2, 0.95, 0.001)
    made.collected[~made.true] += 1.5
    priors = estimate(made)
    assert not priors.identifiable
    assert "still rises" in priors.reason
    # The interval grows, but no score can say by how much it should.
    assert priors.beta.low < 0.995
    assert priors.beta.high == 1


def test_scores_that_tell_nothing_are_unidentifiable() -> None:
    rng = np.random.default_rng(0)
    priors = estimate_priors(rng.normal(size=3000), rng.normal(size=9000))
    assert not priors.identifiable
    assert priors.beta.value > priors.alpha.value


def test_few_facts_are_unidentifiable_and_say_so() -> None:
    priors = estimate_priors([1.0], [0.0])
    assert not priors.identifiable
    assert "Only 1 collected facts" in priors.reason
    assert 0 <= priors.alpha.value < priors.beta.value <= 1
    assert "uncollected" in estimate_priors(np.arange(200.0), [0.0]).reason


def test_given_priors_override() -> None:
    made = make(1, 0.95, 0.05)
    both = estimate(made, beta=0.7, alpha=0.2)
    assert both.beta == (0.7, 0.7, 0.7)
    assert both.alpha == (0.2, 0.2, 0.2)
    assert both.identifiable
    one = estimate(made, beta=0.95)
    assert one.beta == (0.95, 0.95, 0.95)
    assert one.alpha.value == pytest.approx(0.05, abs=0.01)
    other = estimate(made, alpha=0.05)
    assert other.alpha == (0.05, 0.05, 0.05)
    assert other.beta.value == pytest.approx(0.95, abs=0.01)
    # A given beta overrules the doubt, and moves the groups with it.
    assert estimate_priors([1.0, 2.0], [0.0], beta=0.9).identifiable
    assert one.groups is not None
    assert both.groups is not None
    rows = one.groups["collected"].to_numpy()
    for priors, beta in ((one, 0.95), (both, 0.7)):
        assert priors.groups is not None
        mean = np.average(priors.groups["beta"].to_numpy(), weights=rows)
        assert mean == pytest.approx(beta, abs=0.02)


def test_groups_follow_their_own_wrong_facts() -> None:
    made = make(2, 0.93, 0.01, facts=20_000)
    priors = estimate(made)
    table = priors.groups
    assert table is not None
    assert table["group"].to_pylist() == list(range(20))
    assert table["collected"].to_pylist() == np.bincount(made.collected_group).tolist()
    assert table["uncollected"].to_pylist() == np.bincount(made.uncollected_group).tolist()
    truth = np.array([made.true[made.collected_group == g].mean() for g in range(20)])
    own = np.abs(table["beta"].to_numpy() - truth).mean()
    assert own < 0.5 * np.abs(priors.beta.value - truth).mean()
    low, high = table["beta_low"].to_numpy(), table["beta_high"].to_numpy()
    assert ((low <= truth) & (truth <= high)).mean() >= 0.8
    beta, alpha = priors.of_groups([3, 99])
    assert beta.tolist() == [table["beta"][3].as_py(), priors.beta.value]
    assert alpha[1] == priors.alpha.value
    assert (table["beta"].to_numpy() > table["alpha"].to_numpy()).all()


def test_equal_groups_are_drawn_together() -> None:
    """Where relations do not differ, their estimates must not either: the noise is shrunk away."""
    rng = np.random.default_rng(5)
    group = rng.integers(0, 50, 5000)
    true = rng.random(5000) < 0.95
    scores = np.where(true, rng.normal(6, 1, 5000), rng.normal(0, 1, 5000))
    others = rng.normal(0, 1, 25_000)
    priors = estimate_priors(
        scores, others, collected_group=group, uncollected_group=np.repeat(group, 5)
    )
    assert priors.groups is not None
    own = np.array([true[group == g].mean() for g in range(50)])
    assert priors.groups["beta"].to_numpy().std() < 0.5 * own.std()


def test_the_same_seed_gives_the_same_answer() -> None:
    made = make(3, 0.95, 0.02, facts=1000)
    assert estimate(made).beta == estimate(made).beta
    assert estimate(made).beta != estimate(made, settings=PriorSettings(seed=1)).beta


def test_monotone_changes_of_the_scores_change_nothing() -> None:
    made = make(4, 0.95, 0.02, facts=1000)
    bent = dataclasses.replace(
        made, collected=np.exp(made.collected / 9), uncollected=np.exp(made.uncollected / 9)
    )
    assert estimate(made).beta == estimate(bent).beta


def slow_best_bin(positive: list[float], unlabeled: list[float]) -> float:
    best, answer = np.inf, np.nan
    for c in sorted(positive):
        share_p = np.mean([p >= c for p in positive])
        share_u = np.mean([u >= c for u in unlabeled])
        slack = np.sqrt(np.log(40) / 2 / len(unlabeled)) + np.sqrt(np.log(40) / 2 / len(positive))
        bound = share_u / share_p + 1.01 * slack / share_p
        if bound < best:
            best, answer = bound, share_u / share_p
    return min(answer, 0.98)


def test_best_bin_is_its_formula() -> None:
    rng = np.random.default_rng(1)
    high, low = rng.normal(2, 1, 60).round(1), rng.normal(0, 1, 80).round(1)
    k1 = slow_best_bin(high.tolist(), low.tolist())
    k2 = slow_best_bin((-low).tolist(), (-high).tolist())
    beta, alpha = best_bin(high, low)
    assert beta == pytest.approx((1 - k2) / (1 - k1 * k2))
    assert alpha == pytest.approx(k1 * beta)


def test_mistakes_are_sentences() -> None:
    with pytest.raises(DataError, match=r"collected\[0\] is nan"):
        estimate_priors([np.nan], [1.0])
    with pytest.raises(DataError, match="uncollected is empty"):
        estimate_priors([1.0], [])
    with pytest.raises(DataError, match="groups of both"):
        estimate_priors([1.0], [1.0], collected_group=[0])
    with pytest.raises(DataError, match="same length"):
        estimate_priors([1.0], [1.0], collected_group=[0, 1], uncollected_group=[0])
    with pytest.raises(SettingsError, match="beta=1.5"):
        estimate_priors([1.0], [1.0], beta=1.5)
    for given_prior in ({"beta": 0.0}, {"alpha": 1.0}, {"alpha": -0.1}, {"beta": np.nan}):
        with pytest.raises(SettingsError, match=f"{next(iter(given_prior))}="):
            estimate_priors([1.0], [1.0], **given_prior)
    with pytest.raises(SettingsError, match="must be above alpha"):
        estimate_priors([1.0], [1.0], beta=0.1, alpha=0.2)
    for wrong in (
        {"thresholds": ()},
        {"thresholds": (0.2, 0.1)},
        {"thresholds": (0.0, 0.1)},
        {"level": 1.0},
        {"mismatch": 1.0},
        {"resamples": 0},
        {"unknown": -0.1},
        {"level_within": 0.9},
    ):
        with pytest.raises(SettingsError):
            PriorSettings(**wrong)  # type: ignore[arg-type]
