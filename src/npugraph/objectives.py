"""Objectives: from the scores of a batch to one number to minimise.

An objective sees scores, never the model: rows are collected facts, columns are candidates for
the missing side, ``target`` says which column is the collected entity itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Scored:
    """What an objective sees of one side of a batch.

    Attributes:
        scores: [b, c], higher is more plausible.
        target: int64 [b], the column of the collected entity.
        factors: moduli of the representations of head, relation and tail, [b, m] each.
    """

    scores: Tensor
    target: Tensor
    factors: tuple[Tensor, ...]


class Objective(nn.Module, ABC):
    """Maps scores to a loss, averaged over the facts of the batch."""

    @abstractmethod
    def forward(self, scored: Scored) -> Tensor:
        """Return the loss, a scalar."""


class SoftmaxN3(Objective):
    """``-log softmax(scores)[target] + n3 * (|h|^3 + |r|^3 + |t|^3)`` (Lacroix et al. 2018)."""

    def __init__(self, n3: float) -> None:
        """``n3`` weighs the cube of the nuclear 3-norm against the log-likelihood."""
        super().__init__()
        self.n3 = n3

    def forward(self, scored: Scored) -> Tensor:
        """Return the mean over the batch."""
        loss = nn.functional.cross_entropy(scored.scores.float(), scored.target)
        if self.n3:
            cubes = torch.stack([(part**3).sum() for part in scored.factors]).sum()
            loss = loss + self.n3 * cubes / len(scored.target)
        return loss
