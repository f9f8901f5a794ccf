"""What a sampler is, and the one that draws nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from npugraph.graph import Side


@dataclass(frozen=True)
class Candidates:
    """Entities to put in place of one side of a batch of facts.

    Attributes:
        ids: int64 [g, k]; row i serves the i-th of g runs of the batch's facts, so g = b gives
            every fact candidates of its own and g = 1 shares them over the batch. A run has
            ceil(b / g) facts; the last may have fewer.
        counts: bool [b, k], False where the candidate makes a collected fact; None: all count.
        vectors: [g, m, w], representations of m further candidates that are no entity, or None.
            ``counts`` is [b, k + m] then.
    """

    ids: Tensor
    counts: Tensor | None = None
    vectors: Tensor | None = None


class Sampler(nn.Module, ABC):
    """Chooses the candidates that a collected fact is compared with.

    A sampler sees training facts alone. What it must remember between steps is kept in buffers:
    they move with the system and are part of a checkpoint.
    """

    @abstractmethod
    def candidates(
        self, facts: Tensor, rows: Tensor, side: Side, rng: torch.Generator
    ) -> Candidates | None:
        """Return what to put in place of ``side``, or None for every entity.

        Args:
            facts: the batch, int64 [b, 3].
            rows: the numbers of these training facts, int64 [b].
            side: which end is replaced.
            rng: the source of every draw.
        """

    def looked_up(self, facts: int) -> int | None:
        """Return about how many candidates so many facts are compared with; None: every entity."""
        return None


class AllEntities(Sampler):
    """Every entity is a candidate; nothing is drawn."""

    def candidates(
        self, facts: Tensor, rows: Tensor, side: Side, rng: torch.Generator
    ) -> Candidates | None:
        """Return None: every entity."""
        return None
