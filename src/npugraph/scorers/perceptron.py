"""Perceptron scores over [h ; r ; t], with the first layer kept as one block a slot."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from npugraph.graph import Side
from npugraph.kernels import perceptron_scores
from npugraph.scorers.base import Scorer


class MLP(Scorer):
    """``w . relu(W_h h + W_r r + W_t t + b) + c``: a perceptron over [h ; r ; t] (ERMLP).

    The first layer is kept as one block a slot. An entity is then projected once, and a fact
    costs a gather, an addition, an activation and a dot product.
    """

    def __init__(self, width: int, hidden: int, rng: torch.Generator | None = None) -> None:
        """``width`` numbers per entity and relation, ``hidden`` units."""
        super().__init__()
        bound = (3 * width) ** -0.5

        def even(*shape: int, limit: float = bound) -> nn.Parameter:
            return nn.Parameter((torch.rand(shape, generator=rng) * 2 - 1) * limit)

        self.head, self.relation, self.tail = (even(width, hidden) for _ in range(3))
        self.bias = even(hidden)
        self.out = even(hidden, limit=hidden**-0.5)
        self.shift = nn.Parameter(torch.zeros(()))

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        hidden = head @ self.head + (relation @ self.relation + self.bias) + tail @ self.tail
        return torch.relu(hidden) @ self.out + self.shift

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity, tile by tile: no tensor of queries x entities x hidden is made."""
        given, missing = (self.head, self.tail) if side == "tail" else (self.tail, self.head)
        query = known @ given + relation @ self.relation + self.bias
        return perceptron_scores(query, entities @ missing, self.out) + self.shift
