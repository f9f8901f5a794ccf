"""The log-likelihood over every entity."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from npugraph.objectives.base import Objective, Scored
from npugraph.objectives.reduce import fact_mean


class SoftmaxN3(Objective):
    """``-log softmax(scores)[target] + n3 * (|h|^3 + |r|^3 + |t|^3)`` (Lacroix et al. 2018)."""

    def __init__(self, n3: float) -> None:
        """``n3`` weighs the cube of the nuclear 3-norm against the log-likelihood."""
        super().__init__()
        self.n3 = n3

    def forward(self, scored: Scored) -> Tensor:
        """Return the mean over the batch, of the likelihood by weight."""
        scores = scored.scores.float() if scored.scores.dtype.itemsize < 4 else scored.scores
        if scored.counts is not None:
            scores = scores.masked_fill(~scored.counts, -torch.inf)
        each = nn.functional.cross_entropy(scores, scored.target, reduction="none")
        loss = fact_mean(each, scored.weight)
        if self.n3:
            cubes = torch.stack([(part**3).sum() for part in scored.factors]).sum()
            loss = loss + self.n3 * self.peers.sum(cubes) / len(scored.target)
        return loss
