"""Held-out facts among proposals tell which of the others are true, and how many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from npugraph.auditing.statistics.recovery import Recovery, judge_proposals
from npugraph.auditing.thresholds import TUNED
from npugraph.calibration.class_priors import Interval
from npugraph.metrics import auroc, ece

FOLDS = 4


def proposals(
    seed: int, share: float, true_share: float = 0.3, count: int = 20_000, gap: float = 4.0
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Features, folds, which are true, and which of the true ones are stored: ``share`` of them."""
    rng = np.random.default_rng(seed)
    true = rng.random(count) < true_share
    features = rng.normal(size=(count, 3))
    features[:, 0] += gap * true
    return features, rng.integers(FOLDS, size=count), true, true & (rng.random(count) < share)


@pytest.mark.parametrize("share", [0.15, 0.4, 0.75])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_true_ones_are_found_and_counted(seed: int, share: float) -> None:
    features, fold, true, stored = proposals(seed, share)
    found = judge_proposals(features, fold, stored)
    assert found is not None
    assert found.stored_share.low < share < found.stored_share.high
    assert found.stored_share.value == pytest.approx(share, rel=0.3)
    new = ~stored
    assert auroc(true[new], found.score[new]) > 0.97
    assert ece(found.probability[new], true[new]) < 0.08
    assert (found.low <= found.probability).all()
    assert (found.probability <= found.high).all()


def test_the_probability_rises_with_the_score() -> None:
    features, fold, _, stored = proposals(3, 0.3, gap=1.5)
    found = judge_proposals(features, fold, stored)
    assert found is not None
    order = np.argsort(found.score, kind="stable")
    for values in (found.probability, found.low, found.high):
        assert (np.diff(values[order]) >= 0).all()
        assert ((values >= 0) & (values <= 1)).all()


def test_a_graph_that_lacks_nothing_has_nothing_proposed() -> None:
    """Where the system can be sure of some facts, all of which are stored, the others are false."""
    features, fold, true, stored = proposals(4, share=1.0, gap=6.0)
    assert (stored == true).all()
    found = judge_proposals(features, fold, stored)
    assert found is not None
    assert found.probability[~stored].mean() < 0.01
    assert found.missing_share(FOLDS).value < 0.01


def test_nobody_is_judged_by_what_was_learnt_from_it() -> None:
    """Features without any meaning: learning by heart would tell stored proposals apart."""
    rng = np.random.default_rng(5)
    features, fold = rng.normal(size=(3000, 40)), rng.integers(FOLDS, size=3000)
    stored = rng.random(3000) < 0.3
    found = judge_proposals(features, fold, stored)
    assert found is not None
    assert auroc(stored, found.score) == pytest.approx(0.5, abs=0.04)


def test_equal_seeds_give_equal_judgements() -> None:
    features, fold, _, stored = proposals(6, 0.3, count=4000)
    one, other = (judge_proposals(features, fold, stored, seed=9) for _ in range(2))
    assert one is not None
    assert other is not None
    assert (one.score == other.score).all()
    assert one.stored_share == other.stored_share


def test_too_few_found_again_say_nothing() -> None:
    features, fold, _, stored = proposals(7, 0.3, count=4000)
    few = stored & (np.cumsum(stored) < TUNED.least_found)
    assert judge_proposals(features, fold, few) is None
    none = np.zeros((0, 3)), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    assert judge_proposals(*none) is None
    # All of one fold: nothing is left to learn from.
    assert judge_proposals(features, fold, stored & (fold == 1)) is None


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 20))
def test_the_share_of_missing_facts_follows_from_the_counts(
    stored: int, missing: int, folds: int
) -> None:
    held_out = stored / folds
    share = held_out / (held_out + missing)
    nothing = np.zeros(0)
    made = Recovery(nothing, nothing, nothing, nothing, Interval(share, 0.5 * share, share))
    found = made.missing_share(folds)
    assert found.value == pytest.approx(missing / (stored + missing))
    assert found.low <= found.value <= found.high
