"""The view ``pairs``: as ``embedding``, but all facts between the same two entities are held out.

Where wrong facts support one another, as when one pair is extracted under several relations, a
system that has seen one of them finds the others plausible. Here the folds keep the facts of a pair
together, so nothing that was said of the two is known to the system that judges them. It costs as
many trainings as there are folds.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from npugraph.auditing.features import FEATURES
from npugraph.auditing.folds import Folds
from npugraph.auditing.views.base import ViewInputs
from npugraph.auditing.views.embedding import EmbeddingView, fit_systems
from npugraph.seeds import number


class PairsView:
    """Judges each fact by the system that knows nothing said of its two ends together."""

    name = "pairs"
    columns = FEATURES

    def __init__(self, by_pair: EmbeddingView, seed: int) -> None:
        """Judge by systems whose folds follow from the pairs of facts."""
        self.by_pair = by_pair
        self.seed = seed

    def features(self, facts: Tensor, fold: int) -> Tensor:
        """Return the features of facts [n, 3], stored or not: float32 [n, f].

        The system is that of the fact's pair, whatever the ``fold``.
        """
        folds = self.by_pair.folds
        own = pair_fold(facts, folds.graph.num_entities, folds.count, self.seed)
        out = torch.empty(len(facts), len(self.columns))
        for which in torch.unique(own).tolist():
            mine = own == which
            out[mine] = self.by_pair.features(facts[mine], which)
        return out


def pairs_view(inputs: ViewInputs) -> PairsView:
    """Train one system per fold of pairs."""
    seed = inputs.settings.seed
    own = replace(inputs, folds=folds_by_pair(inputs.folds, seed))
    # Facts of any fold may be about pairs of all.
    systems = fit_systems(own, "pairs", "pairs", keep=own.folds.count)
    return PairsView(EmbeddingView(own.folds, systems, inputs.settings), seed)


def folds_by_pair(folds: Folds, seed: int) -> Folds:
    """Return folds of the same facts that keep the facts between two entities together."""
    size = folds.graph.num_entities
    fold = pair_fold(folds.graph.facts, size, folds.count, seed)
    planted = folds.planted
    if planted is not None:
        planted = replace(planted, fold=pair_fold(planted.facts, size, folds.count, seed))
    return replace(folds, fold=fold, planted=planted)


def pair_fold(facts: Tensor, num_entities: int, count: int, seed: int) -> Tensor:
    """Return the fold of the pair of each fact [n, 3], whichever end comes first: int64 [n].

    >>> pair_fold(torch.tensor([[3, 0, 5], [5, 1, 3]]), 9, 4, 0).unique().numel()
    1
    """
    low, high = facts[:, [0, 2]].aminmax(dim=1)
    # Any pair has a fold, stored or not; the product wraps around and so mixes the bits.
    mixed = (low * num_entities + high + number(seed, "pairs") % 2**31) * 0x9E3779B97F4A7C1
    return (mixed >> 32) % count
