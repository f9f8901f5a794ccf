"""The margin loss of the translational models."""

from __future__ import annotations

from torch import Tensor

from npugraph.objectives.base import Objective, Scored
from npugraph.objectives.reduce import fact_mean, rival_mean, rival_share, split


class Margin(Objective):
    """``mean_i mean_k max(d_i - d_ik, -m) + m`` with distances d = -score (Bordes et al. 2013).

    That is the hinge ``max(0, m - score_i + score_ik)``. It is a mean over facts and over their
    candidates, not a sum, so a step of plain gradient descent moves by learning_rate / batch_size
    for each fact: the published step size goes with the published 100 batches an epoch.

    With ``temperature`` a above 0 the mean over candidates is by weights softmax_k(a score_ik),
    without gradient, as in :class:`SelfAdversarial`: on a large graph nearly all candidates are far
    enough after a few epochs, and a plain mean hardly sees those that are not.
    """

    def __init__(self, margin: float, temperature: float = 0.0) -> None:
        """A candidate is far enough when it scores ``margin`` below the collected fact."""
        super().__init__()
        self.margin = margin
        self.temperature = temperature
        self.uses_factors = False

    def forward(self, scored: Scored) -> Tensor:
        """Return the mean over facts, by weight, of the mean over their candidates."""
        scores, collected, rivals = split(scored)
        # The sum over facts [b] first: one pass over [b, c] instead of two.
        hinge = (scores + (self.margin - collected).unsqueeze(1)).clamp(min=0)
        if self.temperature == 0:
            return fact_mean(rival_mean(hinge, rivals), scored.weight)
        share = rival_share(scores, rivals, self.temperature)
        return fact_mean((hinge * share).sum(1), scored.weight)
