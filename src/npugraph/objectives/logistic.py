"""Logistic losses: each score is the logit of being a fact."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from npugraph.errors import SettingsError
from npugraph.objectives.base import Objective, Scored
from npugraph.objectives.reduce import fact_mean, split


class Logistic(Objective):
    """Binary cross entropy of the collected fact against its candidates.

        mean_i [ (-log sigmoid(s_i) - sum_k log sigmoid(-s_ik)) / (1 + K_i) ] + l2 * |h, r, t|^2

    over the K_i candidates of fact i that count, by the facts' weights where they have any. The
    penalty is the sum, over head, relation and tail, of the mean square of their numbers.
    """

    def __init__(self, l2: float = 0.0) -> None:
        """``l2`` weighs the penalty."""
        super().__init__()
        self.l2 = l2

    def forward(self, scored: Scored) -> Tensor:
        """Return the loss."""
        scores, collected, rivals = split(scored)
        against = (-logsigmoid(-scores)).masked_fill(~rivals, 0.0).sum(1)
        each = (against - logsigmoid(collected)) / (1 + rivals.sum(1))
        loss = fact_mean(each, scored.weight)
        if self.l2:
            squares = torch.stack([part.square().mean() for part in scored.factors])
            loss = loss + self.l2 * squares.sum()
        return loss


class SmoothedLogistic(nn.Module):
    """Binary cross entropy over every entity, given all answers (Dettmers et al. 2018).

    Labels y become ``(1 - smoothing) y + 1 / E`` where smoothing is above 0, as in the public code
    of ConvE and CompGCN; the loss is the mean over queries and entities.
    """

    def __init__(self, smoothing: float = 0.1) -> None:
        """Choose how far labels are drawn together."""
        super().__init__()
        if not 0 <= smoothing < 1:
            raise SettingsError(f"smoothing={smoothing} must be at least 0 and below 1.")
        self.smoothing = smoothing

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of scores [b, E], given labels [b, E] of 0 and 1."""
        # 1 / E is nothing in half precision.
        scores = scores.float() if scores.dtype.itemsize < 4 else scores
        labels = labels.to(scores.dtype)
        if self.smoothing:
            labels = (1 - self.smoothing) * labels + 1 / labels.shape[1]
        return binary_cross_entropy_with_logits(scores, labels)
