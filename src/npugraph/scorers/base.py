"""What a score function is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from npugraph.graph import Side


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

    def factors(self, representation: Tensor) -> Tensor:
        """Return the moduli that the N3 penalty is taken of: [..., width] to [..., m]."""
        return representation.abs()
