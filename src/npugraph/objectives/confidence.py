"""Fitting the confidence that a graph gives to each fact."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from npugraph.objectives.base import Objective, Scored
from npugraph.objectives.reduce import fact_mean, power_penalty, rival_mean, split


class ConfidenceMSE(Objective):
    """``mean_i [(p_i - c_i)^2 + mean_k p_ik^2] + l2/2 mean_i (|h|^2 + |r|^2 + |t|^2)``.

    The loss of UKGE (Chen et al. 2019): candidates are taken to have confidence 0, and a fact that
    comes without a confidence to have 1. With ``link`` "sigmoid" p is the sigmoid of the score.
    With "clip" p is the score itself: it is clipped to [0, 1] only when it is used as a
    probability, for a clipped one has no gradient.
    """

    def __init__(self, link: Literal["sigmoid", "clip"], l2: float = 0.0) -> None:
        """Choose how a score becomes a confidence, and the weight of the penalty."""
        super().__init__()
        self.link = link
        self.l2 = l2

    def forward(self, scored: Scored) -> Tensor:
        """Return the loss."""
        scores, collected, rivals = split(scored)
        if self.link == "sigmoid":
            scores, collected = torch.sigmoid(scores), torch.sigmoid(collected)
        wanted = 1.0 if scored.confidence is None else scored.confidence.to(scores.dtype)
        error = (collected - wanted).square() + rival_mean(scores.square(), rivals)
        loss = fact_mean(error, scored.weight)
        if self.l2:
            loss = loss + self.l2 / 2 * power_penalty(scored.factors, 2)
        return loss
