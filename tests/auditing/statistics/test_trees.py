"""Binned trees: the same as scikit-learn's own, at less cost."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from npugraph.auditing.statistics.trees import BINS, Trees, bin_edges


def made(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Smooth, rounded, constant and heavily tied features, with uneven weights."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(rows, 4)).astype(np.float32)
    features[:, 1] = np.round(features[:, 1], 1)
    features[:, 2] = 3.0
    features[rows // 2 :, 3] = 0.0
    label = features[:, 0] + features[:, 1] + rng.normal(size=rows) > 0
    return features, label, np.where(label, rng.choice([0.01, 0.5, 1.3], rows), 1.0)


@pytest.mark.parametrize("rows", [150, 2000])
def test_the_trees_are_those_of_the_plain_library(rows: int) -> None:
    features, label, weight = made(rows)
    ours = Trees.fit(features, label, weight, rounds=20, leaves=7, least_leaf=10)
    plain = HistGradientBoostingClassifier(
        max_iter=20,
        max_leaf_nodes=7,
        min_samples_leaf=10,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    ).fit(features, label, sample_weight=weight)
    theirs = plain.decision_function(features)
    # Older releases bin without weights, so their trees differ a little.
    assert np.corrcoef(ours.log_odds(features), theirs)[0, 1] > 0.99
    assert np.abs(ours.log_odds(features) - theirs).mean() < 0.1


def test_bins_hold_equal_weight() -> None:
    rng = np.random.default_rng(1)
    values, weight = rng.normal(size=20_000), rng.random(20_000)
    edges = bin_edges(values, weight)
    inside = np.bincount(np.searchsorted(edges, values), weight, minlength=BINS)
    assert len(edges) == BINS - 1
    np.testing.assert_allclose(inside / weight.sum(), 1 / BINS, atol=2e-4)


def test_heavy_ties_make_fewer_bins() -> None:
    values = np.concatenate([np.zeros(9000), np.linspace(1, 2, 1000)])
    edges = bin_edges(values, np.ones(10_000))
    assert (np.diff(edges) > 0).all()
    assert len(edges) < 30
