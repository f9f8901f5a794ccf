"""The noise profile, on made mixtures whose shares are known."""

from __future__ import annotations

import numpy as np
import pytest

from npugraph.auditing.statistics.noise_kinds import NoiseProfile, noise_profile
from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.errors import DataError

KINDS = ("random", "one-sided", "typed")
# Where the facts of each kind lie in a plane; true facts are far from all of them.
CENTRES = {"true": (7.0, 7.0), "random": (0.0, 0.0), "one-sided": (0.0, 4.0), "typed": (4.0, 0.0)}

Pools = dict[str, tuple[np.ndarray, np.ndarray]]


FEW = Thresholds(profile_facts=200)


def draw(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(count, 2)) + CENTRES[kind]


def made(
    shares: dict[str, float], seed: int, facts: int = 3000, folds: tuple[int, ...] = (0, 1, 2)
) -> tuple[np.ndarray, np.ndarray, Pools]:
    rng = np.random.default_rng(seed)
    counts = {kind: round(share * facts) for kind, share in shares.items()}
    parts = [draw("true", facts - sum(counts.values()), rng)]
    parts += [draw(kind, count, rng) for kind, count in counts.items()]
    pools = {kind: (draw(kind, 2000, rng), rng.choice(folds, 2000)) for kind in KINDS}
    return np.concatenate(parts), rng.choice(folds, facts), pools


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_is_found_and_the_others_are_not(kind: str) -> None:
    profile = noise_profile(*made({kind: 0.05}, seed=1))
    assert profile.share[kind] == pytest.approx(0.05, abs=0.012)
    assert profile.weight[kind] > 0.95
    assert sum(profile.weight.values()) == pytest.approx(1)


def test_a_mixture_is_taken_apart() -> None:
    profile = noise_profile(*made({"random": 0.06, "typed": 0.03}, seed=2, facts=8000))
    assert profile.share["random"] == pytest.approx(0.06, abs=0.015)
    assert profile.share["typed"] == pytest.approx(0.03, abs=0.01)
    assert profile.share["one-sided"] < 0.008
    squares = {kind: share**2 for kind, share in profile.share.items()}
    for kind, weight in profile.weight.items():
        assert weight == pytest.approx(squares[kind] / sum(squares.values()))


def test_clean_facts_have_next_to_no_wrong_ones() -> None:
    profile = noise_profile(*made({}, seed=3))
    assert sum(profile.share.values()) < 0.004


def test_the_same_seed_gives_the_same_profile_and_numbers_of_folds_do_not_matter() -> None:
    features, fold, pools = made({"typed": 0.04}, seed=4, facts=300)
    first = noise_profile(features, fold, pools, thresholds=FEW, seed=5)
    assert noise_profile(features, fold, pools, thresholds=FEW, seed=5) == first
    assert noise_profile(features, fold, pools, thresholds=FEW, seed=6) != first
    renamed = {kind: (x, 2 * of_fold + 6) for kind, (x, of_fold) in pools.items()}
    assert noise_profile(features, 2 * fold + 6, renamed, thresholds=FEW, seed=5) == first


def test_a_kind_without_facts_in_both_halves_gets_nothing() -> None:
    features, fold, pools = made({"random": 0.05}, seed=6, facts=1500)
    pools["one-sided"] = (np.zeros((0, 2)), np.zeros(0, dtype=np.int64))
    pools["typed"] = (pools["typed"][0], np.full(2000, 1))
    profile = noise_profile(features, fold, pools)
    assert profile.weight == {"random": 1.0, "one-sided": 0.0, "typed": 0.0}
    assert profile.share["typed"] == 0.0
    assert profile.share["random"] == pytest.approx(0.05, abs=0.02)


def test_constant_features_prefer_no_kind() -> None:
    fold = np.arange(300) % 5
    pools = {kind: (np.zeros((300, 3)), fold) for kind in KINDS}
    profile = noise_profile(np.zeros((300, 3)), fold, pools)
    assert list(profile.weight.values()) == pytest.approx([1 / 3] * 3)
    assert sum(profile.share.values()) == pytest.approx(1, abs=0.01)


def test_a_handful_of_facts_still_gives_weights() -> None:
    features, fold, pools = made({}, seed=7, facts=6, folds=(0, 1))
    fold = np.array([0, 1, 0, 1, 0, 1])
    profile = noise_profile(features, fold, {k: (x[:4], fold[:4]) for k, (x, _) in pools.items()})
    assert sum(profile.weight.values()) == pytest.approx(1)
    assert all(0 <= share <= 1 for share in profile.share.values())


def test_one_fold_and_empty_pools_are_refused() -> None:
    features, fold, pools = made({}, seed=8, facts=50)
    with pytest.raises(DataError, match="at least two folds"):
        noise_profile(features, np.zeros_like(fold), pools)
    empty = {kind: (x[:0], of_fold[:0]) for kind, (x, of_fold) in pools.items()}
    with pytest.raises(DataError, match="both halves"):
        noise_profile(features, fold, empty)


def told(share: dict[str, float], amid: dict[str, float]) -> NoiseProfile:
    return NoiseProfile(share, dict.fromkeys(share, 1 / len(share)), amid=amid)


def test_all_kinds_count_the_same_where_nothing_shows() -> None:
    weight = told({"random": 0.0, "typed": 0.0}, {"random": 0.0, "typed": 0.0}).weight_with(TUNED)
    assert weight == {"random": 0.5, "typed": 0.5}


def test_a_kind_that_would_show_is_not_taken_to_be_missed_where_another_does() -> None:
    shown = TUNED.score_shown
    weight = told({"random": 0.0, "typed": shown}, {"random": 0.0, "typed": 0.0}).weight_with(TUNED)
    assert weight == {"random": 0.0, "typed": 1.0}
    # Where less shows, some of it may be.
    half = told({"random": 0.0, "typed": shown / 2}, {"random": 0.0, "typed": 0.0})
    assert 0 < half.weight_with(TUNED)["random"] < 0.5


def test_a_kind_that_lies_among_true_facts_counts_more() -> None:
    share = {"random": 0.0, "crowded": 0.0, "typed": 0.02}
    weight = told(share, {"random": 0.001, "crowded": 0.05, "typed": 0.02}).weight_with(TUNED)
    assert weight["random"] < 0.001 < 0.2 < weight["crowded"] < weight["typed"]
    assert sum(weight.values()) == pytest.approx(1)


def test_how_many_stored_facts_lie_amid_a_kind() -> None:
    profile = noise_profile(*made({"typed": 0.05}, seed=5))
    # The planted ones alone: true facts are far away.
    assert profile.amid["typed"] == pytest.approx(0.05, abs=0.015)
    assert profile.amid["random"] < 0.01
    left = profile.without({"random"}, TUNED.profile_ridge)
    assert left.amid == {kind: profile.amid[kind] for kind in ("one-sided", "typed")}
