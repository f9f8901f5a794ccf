"""nPUGraph's objective, and the losses that stand in its place in the ablation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from npugraph.errors import SettingsError


@dataclass(frozen=True)
class Heads:
    """The two scores of a batch of collected facts and of their uncollected ones.

    Attributes:
        collected1: psi1 of the collected facts, [b]; ``collected0`` likewise psi0.
        uncollected1: psi1 of their K uncollected facts, [b, K]; ``uncollected0`` likewise psi0.
        weight: [b, K], 0 where there was no uncollected fact to draw, else 1.
    """

    collected1: Tensor
    collected0: Tensor
    uncollected1: Tensor
    uncollected0: Tensor
    weight: Tensor


class CollectionPosterior(Protocol):
    """What the objective needs of a posterior: logits of class 1, elementwise."""

    @property
    def reading(self) -> Literal["exception", "printed"]:
        """What class 1 means."""

    def collected_class(self, psi1: Tensor, psi0: Tensor) -> Tensor:
        """Return the logit of w~l."""

    def uncollected_class(self, psi1: Tensor, psi0: Tensor) -> Tensor:
        """Return the logit of w~u."""


Estimate = Literal["em", "closed"]


class NoisyPU(nn.Module):
    """The noisy positive-unlabeled objective of nPUGraph: L_triple + L_KL + L_reg.

        L_triple = - mean_ik [ w_i log phi1(s_i) + (1 - w_i) log phi0(s_i)
                             + w_ik log phi1*(s_i, s_ik) + (1 - w_ik) log phi0*(s_i, s_ik) ]
        L_KL     = mean_i KL(w_i || w~_i) + mean_ik KL(w_ik || w~_ik)
        L_reg    = mean_i w_i + mean_ik w_ik

    with phi*_y(s_i, s_ik) = sigmoid(psi_y(s_i) - psi_y(s_ik)) in the exception reading, the sign
    that the paper's constraint asks for, and the opposite in the printed one.

    The free weights w are not a table: uncollected facts are drawn anew. ``em`` sets them to the
    posterior w~ with the gradient stopped; KL and L1 then have no gradient. ``closed`` sets them to
    the exact optimum of the printed objective,
    ``logit w = logit w~ + (log phi1 - log phi0 - reg_weight) / kl_weight``.
    """

    def __init__(
        self,
        posterior: CollectionPosterior,
        estimate: Estimate = "em",
        kl_weight: float = 1.0,
        reg_weight: float = 1.0,
    ) -> None:
        """Choose how w is found, and the weights of the two regularisers."""
        super().__init__()
        if estimate == "closed" and kl_weight <= 0:
            raise SettingsError(f"kl_weight={kl_weight} must be above 0 with estimate=closed.")
        self.posterior = posterior
        self.estimate = estimate
        self.kl_weight = kl_weight
        self.reg_weight = reg_weight

    def terms(self, heads: Heads) -> dict[str, Tensor]:
        """Return the three terms, unweighted: triple, kl, reg."""
        sign = 1.0 if self.posterior.reading == "exception" else -1.0
        gap1 = sign * (heads.collected1.unsqueeze(1) - heads.uncollected1)
        gap0 = sign * (heads.collected0.unsqueeze(1) - heads.uncollected0)
        prior_l = self.posterior.collected_class(heads.collected1, heads.collected0)
        prior_u = self.posterior.uncollected_class(heads.uncollected1, heads.uncollected0)
        log1_l, log0_l = logsigmoid(heads.collected1), logsigmoid(heads.collected0)
        log1_u, log0_u = logsigmoid(gap1), logsigmoid(gap0)
        w_l = self._weights(prior_l, log1_l - log0_l)
        w_u = self._weights(prior_u, log1_u - log0_u)
        share = heads.weight / heads.weight.sum().clamp(min=1.0)
        fit_l = (w_l * log1_l + (1 - w_l) * log0_l).mean()
        fit_u = (share * (w_u * log1_u + (1 - w_u) * log0_u)).sum()
        return {
            "triple": -(fit_l + fit_u),
            "kl": _bernoulli_kl(w_l, prior_l).mean() + (share * _bernoulli_kl(w_u, prior_u)).sum(),
            "reg": w_l.mean() + (share * w_u).sum(),
        }

    def _weights(self, prior: Tensor, gain: Tensor) -> Tensor:
        if self.estimate == "em":
            return torch.sigmoid(prior).detach()
        return torch.sigmoid(prior + (gain - self.reg_weight) / self.kl_weight).detach()

    def forward(self, heads: Heads) -> Tensor:
        """Return the weighted sum of the terms."""
        terms = self.terms(heads)
        total = terms["triple"]
        if self.estimate == "closed":
            total = total + self.kl_weight * terms["kl"] + self.reg_weight * terms["reg"]
        return total


def _bernoulli_kl(weight: Tensor, prior_logit: Tensor) -> Tensor:
    """Return KL(Bernoulli(w) || Bernoulli(sigmoid(prior_logit))), elementwise."""
    entropy: Tensor = torch.special.entr(weight) + torch.special.entr(1 - weight)
    cross = weight * logsigmoid(prior_logit) + (1 - weight) * logsigmoid(-prior_logit)
    return -entropy - cross


Ranking = Literal["margin", "pairwise", "pointwise"]


class WithoutPU(nn.Module):
    """The losses that take the collection label for the truth: the ablation "without nPU".

    On one score psi per fact: ``margin`` is max(0, margin - psi(s) + psi(s_u)), ``pairwise`` is
    -log sigmoid(psi(s) - psi(s_u)), ``pointwise`` is -log sigmoid(psi(s)) - log sigmoid(-psi(s_u)).
    """

    def __init__(self, kind: Ranking, margin: float = 1.0) -> None:
        """Choose the loss."""
        super().__init__()
        self.kind = kind
        self.margin = margin

    def forward(self, heads: Heads) -> Tensor:
        """Return the mean over collected facts and over their uncollected ones."""
        positive, negative = heads.collected0, heads.uncollected0
        gap = positive.unsqueeze(1) - negative
        share = heads.weight / heads.weight.sum().clamp(min=1.0)
        if self.kind == "margin":
            return (share * (self.margin - gap).clamp(min=0)).sum()
        if self.kind == "pairwise":
            return -(share * logsigmoid(gap)).sum()
        return -logsigmoid(positive).mean() - (share * logsigmoid(-negative)).sum()
