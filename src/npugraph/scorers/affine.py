"""A scorer whose scores are shifted and scaled by two learned numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from npugraph.graph import Side
from npugraph.scorers.base import Scorer


class Affine(Scorer):
    """``w g(h, r, t) + b`` around another score g: the link of UKGE (Chen et al. 2019).

    w and b start at 1 and 0. They put the scores where a sigmoid, or [0, 1], can use them.
    """

    def __init__(self, inner: Scorer) -> None:
        """Scale and shift the scores of ``inner``."""
        super().__init__()
        self.inner = inner
        self.weight = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(()))

    def entity_width(self, dimension: int) -> int:
        """As for the inner scorer."""
        return self.inner.entity_width(dimension)

    def relation_width(self, dimension: int) -> int:
        """As for the inner scorer."""
        return self.inner.relation_width(dimension)

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        return self.weight * self.inner.score(head, relation, tail) + self.bias

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity."""
        return self.weight * self.inner.score_all(known, relation, entities, side) + self.bias

    def factors(self, representation: Tensor) -> Tensor:
        """As for the inner scorer."""
        return self.inner.factors(representation)
