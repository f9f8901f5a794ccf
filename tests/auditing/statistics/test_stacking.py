"""The stacked score: what it learns, from which rows, and what it never sees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npugraph.auditing.statistics.stacking import mixed_pool, stack
from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.errors import DataError

EVEN = {"near": 0.5, "far": 0.5}


def made(
    seed: int, facts: int = 1500
) -> tuple[np.ndarray, np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Collected facts around (0, 0); near ones differ in x, far ones in y."""
    rng = np.random.default_rng(seed)

    def sample(x: float, y: float) -> tuple[np.ndarray, np.ndarray]:
        return rng.normal(size=(facts, 2)) + (x, y), rng.integers(0, 3, facts)

    return *sample(0, 0), {"near": sample(2, 0), "far": sample(0, 6)}


def test_log_odds_are_the_log_ratio_of_the_densities() -> None:
    """With one pool that differs by 2 in x, log p_collected / p_pool is 2 - 2 x."""
    features, fold, pools = made(0, facts=4000)
    found = stack(features, fold, {"near": pools["near"]}, {"near": 1.0})
    middle = np.abs(features[:, 0] - 1) < 1
    expected = 2 - 2 * features[middle, 0]
    assert np.corrcoef(found.collected[middle], expected)[0, 1] > 0.9
    assert np.abs(np.mean(found.collected[middle] - expected)) < 0.3


def test_the_weight_of_a_kind_shifts_its_odds() -> None:
    features, fold, pools = made(1, facts=800)
    even = stack(features, fold, pools, EVEN)
    near = stack(features, fold, pools, {"near": 1.0, "far": 0.0})
    # Twice the weight: log 2 more against near facts; far ones are known all the same.
    shift = even.pools["near"].mean() - near.pools["near"].mean()
    assert shift == pytest.approx(np.log(2), abs=0.35)
    assert near.pools["far"].mean() < np.quantile(near.collected, 0.1)


def test_facts_that_are_doubted_count_less() -> None:
    """Half of the collected facts lie where far ones do: doubted, they no longer speak for it."""
    features, fold, pools = made(6, facts=800)
    features[::2] += (0, 6)
    asked: list[tuple[int, int]] = []

    def counts(of: int, known: np.ndarray) -> np.ndarray:
        asked.append((of, len(known)))
        return (known[:, 1] < 3).astype(float)

    believed, doubted = (stack(features, fold, pools, EVEN, given) for given in (None, counts))
    assert doubted.pools["far"].mean() < believed.pools["far"].mean() - 2
    # Each classifier asks about what it learns from: the facts of the other folds.
    assert asked == [(of, int((fold != of).sum())) for of in range(3)]
    # However doubted, a fact counts a little.
    least = Thresholds(score_doubted=1.0)
    alike = stack(features, fold, pools, EVEN, counts, thresholds=least)
    np.testing.assert_array_equal(alike.collected, believed.collected)


def test_no_fact_is_judged_by_a_model_that_saw_its_fold() -> None:
    """Facts of fold 2 are changed: only the models of the other folds may change."""
    features, fold, pools = made(2, facts=400)
    changed = features.copy()
    changed[fold == 2] += 3
    before, after = (stack(x, fold, pools, EVEN) for x in (features, changed))
    probe = np.random.default_rng(0).normal(size=(50, 2))
    for number in range(3):
        of_fold = np.full(50, number)
        same = np.array_equal(before.score(probe, of_fold), after.score(probe, of_fold))
        assert same == (number == 2)


def test_scores_repeat_and_agree_with_those_stored() -> None:
    features, fold, pools = made(3, facts=250)
    found, again = (
        stack(features, fold, pools, EVEN, thresholds=Thresholds(score_facts=150), seed=4)
        for _ in range(2)
    )
    np.testing.assert_array_equal(found.collected, again.collected)
    np.testing.assert_array_equal(found.score(features, fold), found.collected)
    for kind, (x, of_fold) in pools.items():
        np.testing.assert_array_equal(found.score(x, of_fold), found.pools[kind])
    other = stack(features, fold, pools, EVEN, thresholds=Thresholds(score_facts=150), seed=5)
    assert not np.array_equal(found.collected, other.collected)


def test_a_sample_of_the_rows_is_enough() -> None:
    features, fold, pools = made(5, facts=800)
    whole, part = (
        stack(features, fold, pools, EVEN, thresholds=Thresholds(score_facts=most))
        for most in (10_000, 300)
    )
    assert np.corrcoef(whole.collected, part.collected)[0, 1] > 0.75


def test_degenerate_input() -> None:
    features, fold, pools = made(6, facts=60)
    pools["far"] = (np.zeros((0, 2)), np.zeros(0, dtype=np.int64))
    found = stack(features, fold, pools, EVEN)
    assert found.pools["far"].shape == (0,)
    constant = stack(np.zeros((60, 2)), fold, {"near": (np.zeros((60, 2)), fold)}, {"near": 1.0})
    np.testing.assert_allclose(constant.collected, 0.0, atol=1e-6)
    with pytest.raises(DataError, match="too few facts"):
        stack(features, fold, {"far": pools["far"]}, {"far": 1.0})
    with pytest.raises(DataError, match="too few facts"):
        stack(features, np.zeros_like(fold), pools, EVEN)


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=4),
    st.lists(st.integers(0, 20), min_size=4, max_size=4),
    st.integers(0, 9),
)
def test_a_mixed_pool_is_in_proportion_and_without_repeats(
    sizes: list[int], raw: list[int], seed: int
) -> None:
    total = sum(raw[: len(sizes)]) or 1
    weight = {str(k): raw[k] / total for k in range(len(sizes))}
    pools = {str(k): np.zeros(size) for k, size in enumerate(sizes)}
    places = mixed_pool(pools, weight, np.random.default_rng(seed))
    large = [k for k in pools if weight[k] >= TUNED.small_kind]
    size = min((len(pools[k]) / weight[k] for k in large), default=0.0)
    for kind, chosen in places.items():
        assert len(np.unique(chosen)) == len(chosen)
        assert set(chosen.tolist()) <= set(range(len(pools[kind])))
        assert len(chosen) == min(int(size * weight[kind]), len(pools[kind]))


def test_a_kind_of_small_weight_does_not_shrink_the_pool() -> None:
    pools = {"many": np.zeros(1000), "few": np.zeros(3)}
    places = mixed_pool(pools, {"many": 0.99, "few": 0.01}, np.random.default_rng(0))
    assert len(places["many"]) == 1000
    assert places["few"].tolist() == [0, 1, 2]
