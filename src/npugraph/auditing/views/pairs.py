"""The view ``pairs``: as ``embedding``, but all facts between the same two entities are held out.

Where wrong facts support one another, as when one pair is extracted under several relations, a
system that has seen one of them finds the others plausible. Here the folds keep the facts of a pair
together, so nothing that was said of the two is known to the system that judges them. It costs as
many trainings as there are folds.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

import pyarrow as pa
import torch
from torch import Tensor

from npugraph.auditing.features import FEATURES
from npugraph.auditing.folds import Folds
from npugraph.auditing.views.base import ViewInputs
from npugraph.auditing.views.embedding import EmbeddingView, fit_systems
from npugraph.graph import Vocabulary
from npugraph.seeds import number


class PairsView:
    """Judges each fact by the system that knows nothing said of its two ends together."""

    name = "pairs"
    columns = FEATURES

    def __init__(self, by_pair: EmbeddingView, seed: int) -> None:
        """Judge by systems whose folds follow from the pairs of facts."""
        self.by_pair = by_pair
        self.codes = name_codes(by_pair.folds.graph.entities, seed)

    def features(self, facts: Tensor, fold: int, more: Tensor | None = None) -> Tensor:
        """Return the features of facts [n, 3], stored or not: float32 [n, f].

        The system is that of the fact's pair, whatever the ``fold``.
        """
        own = pair_fold(facts, self.codes, self.by_pair.folds.count)
        out = torch.empty(len(facts), len(self.columns))
        for which in torch.unique(own).tolist():
            mine = own == which
            beside = None if more is None else more[mine]
            out[mine] = self.by_pair.features(facts[mine], which, beside)
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
    codes = name_codes(folds.graph.entities, seed)
    fold = pair_fold(folds.graph.facts, codes, folds.count)
    planted = folds.planted
    if planted is not None:
        planted = replace(planted, fold=pair_fold(planted.facts, codes, folds.count))
    return replace(folds, fold=fold, planted=planted)


def name_codes(entities: Vocabulary, seed: int) -> Tensor:
    """Return a number for each name, int64 [E], that stays the same when others come and go."""
    key = number(seed, "pairs").to_bytes(8, "big")
    codes = (
        int.from_bytes(blake2b(name, digest_size=7, key=key).digest(), "big")
        for name in entities.labels.cast(pa.binary()).to_pylist()
    )
    return torch.tensor(list(codes), dtype=torch.int64)


def pair_fold(facts: Tensor, codes: Tensor, count: int) -> Tensor:
    """Return the fold of the pair of each fact [n, 3], whichever end comes first: int64 [n].

    Any pair has one, stored or not; it follows from the ``codes`` [E] of its two names.

    >>> codes = name_codes(Vocabulary.of(["a", "b", "c"]), 0)
    >>> pair_fold(torch.tensor([[0, 0, 2], [2, 1, 0]]), codes, 4).unique().numel()
    1
    """
    low, high = codes[facts[:, [0, 2]]].aminmax(dim=1)
    # The product wraps around and so mixes the bits.
    mixed = (low * 3 + high) * 0x9E3779B97F4A7C1
    return (mixed >> 32) % count
