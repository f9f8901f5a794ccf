"""What a path model says of facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from npugraph.graph import SIDES, Side, TripleIndex


@dataclass(frozen=True)
class Judged:
    """What a path model says of facts, one row per side that was asked for: [sides, n] each.

    Attributes:
        raw: the score.
        among_all: logarithm of its share in a softmax over all entities.
        among_new: the same, without the other answers that are stored.
    """

    raw: Tensor
    among_all: Tensor
    among_new: Tensor


class Judge(Protocol):
    """A model that judges facts without themselves."""

    stored: TripleIndex
    num_entities: int
    num_relations: int

    @property
    def device(self) -> torch.device:
        """Where it is."""

    def judge(
        self, facts: Tensor, sides: Sequence[Side] = SIDES, beside: Tensor | None = None
    ) -> Judged:
        """Score facts [n, 3], own edges hidden where stored, as answers for each of ``sides``.

        With ``beside`` [n], numbers of stored facts, a fact is asked of the graph that the stored
        fact of that number is asked of.
        """
