"""What a score function is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial

import torch
from torch import Tensor, nn

from npugraph.arrays import in_runs
from npugraph.graph import Side
from npugraph.peers import Peers


class Scorer(nn.Module, ABC):
    """A score function over representations of width ``entity_width`` and ``relation_width``."""

    def entity_width(self, dimension: int) -> int:
        """Return how many numbers represent an entity at this dimension."""
        return dimension

    def relation_width(self, dimension: int) -> int:
        """Return how many numbers represent a relation at this dimension."""
        return dimension

    @abstractmethod
    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts: [..., width] each, broadcast against each other, to [...]."""

    @abstractmethod
    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing side.

        Shapes: known [..., q, w], relation [..., q, v], entities [..., E, w] to [..., q, E]. With
        leading dimensions each group of queries has entities of its own.
        """

    def against(
        self, known: Tensor, relation: Tensor, missing: Tensor, pool: Tensor, side: Side
    ) -> Tensor:
        """Score facts, then candidates for their missing side, as a training step needs both.

        Shapes: known and missing [b, w], relation [b, v]; pool [g, k, w], where row i serves the
        i-th of g runs of the facts, see :func:`npugraph.arrays.in_runs`; to [b, 1 + k]. It is
        ``score`` and ``score_all`` side by side; a scorer may share between them what is the same.
        """
        head, tail = (known, missing) if side == "tail" else (missing, known)
        positive = self.score(head, relation, tail).unsqueeze(1)
        negative = in_runs(partial(self.score_all, side=side), (known, relation), pool)
        return torch.cat([positive, negative], 1)

    def part(self, peers: Peers) -> Scorer | None:
        """Return the score of one rank's columns, where the sum over the ranks is the score.

        None: this score is no sum over dimensions, and cannot be split.
        """
        return None

    def step_bytes(self, queries: int) -> int:
        """Return about how many bytes a step with so many queries holds beside its scores."""
        return 0

    def factors(self, representation: Tensor) -> Tensor:
        """Return the moduli that the N3 penalty is taken of: [..., width] to [..., m]."""
        return representation.abs()
