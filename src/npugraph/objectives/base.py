"""What an objective sees, and what it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from npugraph.peers import ALONE, Peers


@dataclass(frozen=True)
class Scored:
    """What an objective sees of one side of a batch.

    Attributes:
        scores: [b, c], higher is more plausible.
        target: int64 [b], the column of the collected entity. With drawn candidates it is 0.
        factors: moduli of the representations of head, relation and tail, [b, m] each.
        counts: bool [b, c], False for a column that is neither the collected entity nor an
            uncollected one and must not count; None: all count.
        weight: [b], how much each fact counts; None: all the same.
        confidence: [b] in [0, 1], what the graph says of each fact; None: nothing.
    """

    scores: Tensor
    target: Tensor
    factors: tuple[Tensor, ...]
    counts: Tensor | None = None
    weight: Tensor | None = None
    confidence: Tensor | None = None


class Objective(nn.Module, ABC):
    """Maps scores to a loss, averaged over the facts of the batch.

    ``uses_factors`` says whether the loss looks at ``Scored.factors``; where it does not, they are
    not made. A penalty that is a sum over dimensions is summed over ``peers``, for the loss; its
    gradient needs no other rank.
    """

    uses_factors: bool = True
    peers: Peers = ALONE

    @abstractmethod
    def forward(self, scored: Scored) -> Tensor:
        """Return the loss, a scalar."""
