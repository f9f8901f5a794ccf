"""Estimates of the priors on made graphs whose truth is known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from npugraph.auditing.thresholds import Thresholds
from npugraph.calibration.class_priors import Priors, estimate_priors
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
    thresholds = Thresholds(prior_mismatch=0.0, unknown=0.0, prior_ends=(0.3,), prior_resamples=300)
    inside = []
    for seed in range(60):
        made = make(seed, 0.9, 0.0, facts=1500)
        beta = estimate(made, thresholds=thresholds).beta
        inside.append(beta.low <= 0.9 <= beta.high)
    assert 0.78 <= np.mean(inside) <= 0.99


def test_allowances_for_bias_are_what_they_say() -> None:
    """Only k2 is uncertain where alpha is given as 0: beta = 1 - k2, so each term can be read."""
    made = make(6, 0.95, 0.0)
    bare = estimate(made, alpha=0.0, thresholds=Thresholds(prior_mismatch=0.0, unknown=0.0)).beta
    wide = estimate(made, alpha=0.0, thresholds=Thresholds(prior_mismatch=0.2, unknown=0.0)).beta
    assert wide.value == pytest.approx(bare.value)
    assert 1 - wide.low == pytest.approx(1.2 * (1 - bare.low))
    assert 1 - wide.high == pytest.approx(0.8 * (1 - bare.high))
    both = estimate(made, alpha=0.0, thresholds=Thresholds(prior_mismatch=0.2, unknown=0.01)).beta
    assert both.value == pytest.approx(bare.value + 0.005)
    assert both.low == pytest.approx(wide.low)
    assert both.high == pytest.approx(wide.high + 0.01)


def test_ranks_within_relations_beat_pooled_scores() -> None:
    errors = {"groups": 0.0, "pooled": 0.0}
    for seed in range(5):
        made = make(seed, 0.95, 0.02)
        pooled = estimate_priors(made.collected, made.uncollected)
        errors["groups"] += abs(estimate(made).beta.value - made.beta)
        errors["pooled"] += abs(pooled.beta.value - made.beta)
    assert errors["groups"] < errors["pooled"]


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
    # A given beta overrules the doubt.
    assert estimate_priors([1.0, 2.0], [0.0], beta=0.9).identifiable


def test_the_same_seed_gives_the_same_answer() -> None:
    made = make(3, 0.95, 0.02, facts=1000)
    assert estimate(made).beta == estimate(made).beta
    assert estimate(made).beta != estimate(made, seed=1).beta


def test_monotone_changes_of_the_scores_change_nothing() -> None:
    made = make(4, 0.95, 0.02, facts=1000)
    bent = dataclasses.replace(
        made, collected=np.exp(made.collected / 9), uncollected=np.exp(made.uncollected / 9)
    )
    assert estimate(made).beta == estimate(bent).beta


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
        {"prior_ends": ()},
        {"prior_ends": (0.2, 0.1)},
        {"profile_ends": (0.0, 0.1)},
        {"level": 1.0},
        {"prior_mismatch": 1.0},
        {"prior_resamples": 0},
        {"unknown": -0.1},
        {"level_within": 0.9},
    ):
        with pytest.raises(SettingsError):
            Thresholds(**wrong)  # type: ignore[arg-type]
