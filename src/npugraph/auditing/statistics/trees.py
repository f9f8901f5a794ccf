"""Boosted trees that tell two sorts of rows apart, on features cut into bins once.

The trees are scikit-learn's. Their thresholds are weighted quantiles, for which scikit-learn goes
through all rows again for each quantile of each feature; that took longer than the trees. Here a
feature is sorted once, and the trees are given the numbers of its bins.

Measured on the features of the demo's audit (4,239 facts, 12,000 in pools, seed 0; one thread of an
x86-64 CPU): noise profile and score take 3.2 s of processor time, 16.2 s with scikit-learn's own
bins; AUROC .9818 and AP .698 of the planted facts both ways. On UMLS (random noise, rate 0.3,
seed 0, systems of six passes): 2.9 s and 14.5 s, AUROC .996 and AP .857 both ways.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]

# Bins per feature at most, as many as the trees can hold.
BINS = 255


@dataclass(frozen=True)
class Trees:
    """A trained classifier.

    Attributes:
        edges: by feature, the upper ends of its bins but the last, ascending.
        model: scikit-learn's classifier of bin numbers.
    """

    edges: tuple[NDArray[np.float64], ...]
    model: HistGradientBoostingClassifier

    @classmethod
    def fit(
        cls,
        features: Floats,
        label: Bools,
        weight: Floats,
        *,
        rounds: int,
        leaves: int,
        least_leaf: int = 20,
        looked_at: float = 1.0,
        seed: int = 0,
    ) -> Trees:
        """Train on rows [n, f] with labels [n] and weights [n].

        Args:
            features: what is known of each row.
            label: which rows are of the sort that should score high.
            weight: how much each row counts.
            rounds: how many trees there are.
            leaves: leaves per tree at most.
            least_leaf: rows per leaf at least.
            looked_at: share of the features, drawn anew, among which each split is chosen.
            seed: every draw follows from it.
        """
        edges = tuple(bin_edges(column, weight) for column in features.T)
        model = HistGradientBoostingClassifier(
            max_iter=rounds,
            learning_rate=0.1,
            max_leaf_nodes=leaves,
            min_samples_leaf=least_leaf,
            l2_regularization=1.0,
            max_features=looked_at,
            early_stopping=False,
            random_state=seed,
        )
        model.fit(bin_numbers(features, edges), label, sample_weight=weight)
        return cls(edges, model)

    def log_odds(self, features: Floats) -> NDArray[np.float64]:
        """Return how much rather than not rows [n, f] are of the high sort: [n]."""
        odds: NDArray[np.float64] = self.model.decision_function(bin_numbers(features, self.edges))
        return odds

    def probability(self, features: Floats) -> NDArray[np.float64]:
        """Return the chance that rows [n, f] are of the high sort: [n]."""
        return 1 / (1 + np.exp(-self.log_odds(features)))


def bin_edges(values: Floats, weight: Floats) -> NDArray[np.float64]:
    """Cut values [n] into at most BINS bins of equal weight; return where one ends: [k].

    Few distinct values get a bin each.

    >>> bin_edges(np.array([2.0, 0.0, 1.0, 1.0]), np.ones(4)).tolist()
    [0.5, 1.5]
    """
    order = np.argsort(values, kind="stable")
    # In double precision before means are taken: two neighbours may have none between them.
    ordered = values[order].astype(np.float64)
    distinct = np.unique(ordered)
    if len(distinct) <= BINS:
        return (distinct[1:] + distinct[:-1]) / 2
    total = np.cumsum(weight[order], dtype=np.float64)
    wanted = np.linspace(0, 1, BINS + 1)[1:-1] * total[-1]
    place = np.minimum(np.searchsorted(total, wanted), len(ordered) - 1)
    after = np.minimum(place + 1, len(ordered) - 1)
    # A quantile that falls exactly between two rows is their mean.
    between = total[place] - wanted <= np.finfo(np.float64).eps
    return np.unique(np.where(between, (ordered[place] + ordered[after]) / 2, ordered[place]))


def bin_numbers(features: Floats, edges: tuple[NDArray[np.float64], ...]) -> NDArray[np.float64]:
    """Return the number of the bin of each feature: [n, f].

    >>> bin_numbers(np.array([[0.0], [0.5], [9.0]]), (np.array([0.5, 1.5]),)).T.tolist()
    [[0.0, 0.0, 2.0]]
    """
    numbers = np.empty(features.shape)
    for feature, ends in enumerate(edges):
        numbers[:, feature] = np.searchsorted(ends, features[:, feature])
    return numbers
