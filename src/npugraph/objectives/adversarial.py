"""The logistic loss, with candidates weighed by how plausible they look."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import logsigmoid

from npugraph.objectives.base import Objective, Scored
from npugraph.objectives.reduce import fact_mean, power_penalty, rival_share, split


class SelfAdversarial(Objective):
    """Self-adversarial negative sampling (Sun et al. 2019).

        1/2 mean_i [-log sigmoid(s_i)] + 1/2 mean_i [-sum_k p_ik log sigmoid(-s_ik)]
        p_i = softmax_k(temperature * s_ik), without gradient, over the candidates that count

    Means over facts are by weight. ``temperature`` 0 gives the plain logistic loss. A fact without
    a candidate that counts adds nothing to the second term.

    ``penalty`` weighs ``|h|^p + |r|^p + |t|^p``, p = ``power``, averaged over the facts of the
    batch. The published code takes the cubes of the whole tables at every step instead; a weight
    of lambda there is about lambda * E / 2 here for an entity of average degree, but only about
    lambda * R for a relation, so no one weight is the same.
    """

    def __init__(self, temperature: float, penalty: float = 0.0, power: int = 3) -> None:
        """Choose how strongly plausible candidates count, and the weight of the penalty."""
        super().__init__()
        self.temperature = temperature
        self.penalty = penalty
        self.power = power
        self.uses_factors = penalty > 0

    def forward(self, scored: Scored) -> Tensor:
        """Return the loss."""
        scores, collected, rivals = split(scored)
        share = rival_share(scores, rivals, self.temperature)
        against = -(share * logsigmoid(-scores)).sum(1)
        loss = fact_mean(against - logsigmoid(collected), scored.weight) / 2
        if self.penalty:
            loss = loss + self.penalty * self.peers.sum(power_penalty(scored.factors, self.power))
        return loss
