"""The positive-unlabeled risk of PUDA."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from npugraph.objectives.base import Objective, Scored
from npugraph.objectives.reduce import fact_mean, rival_mean, split


class PURisk(Objective):
    """``pi P+ + (U - pi P-  if U > pi P-  else 0)`` (Tang et al. 2022).

        P+ = mean -log sigmoid(s_i)    P- = mean -log sigmoid(-s_i)
        U  = mean -log sigmoid(s_i - s_ik)

    U compares a fact with its unlabeled candidates; pi P- takes out of it what the true ones among
    them are expected to add. Where the difference is negative it is noise, and left out.
    """

    def __init__(self, prior: float) -> None:
        """``prior``, pi, is the share of true facts among the unlabeled ones."""
        super().__init__()
        self.prior = prior

    def forward(self, scored: Scored) -> Tensor:
        """Return the risk."""
        scores, collected, rivals = split(scored)
        positive = self.prior * fact_mean(-logsigmoid(collected), scored.weight)
        negative = self.prior * fact_mean(-logsigmoid(-collected), scored.weight)
        gap = -logsigmoid(collected.unsqueeze(1) - scores)
        unlabeled = fact_mean(rival_mean(gap, rivals), scored.weight)
        # where(), not if: looking at the numbers would wait for the GPU at every step.
        return positive + torch.where(unlabeled > negative, unlabeled - negative, 0.0)
