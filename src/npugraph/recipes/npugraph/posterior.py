"""Label posteriors: how likely a fact is true, from the two collection probabilities.

``psi1`` and ``psi0`` are the scores of the two heads; phi = sigmoid(psi) is the probability of
being collected in class y = 1 and y = 0. What the classes mean is the *reading*:

- ``exception`` (default): y = 1 means "the collection label is wrong". A collected fact is then
  an exception if it is false, an uncollected one if it is true.
- ``printed``: y = 1 means "the fact is true", as the paper names it.

``beta`` is always the share of true facts among the collected ones and ``alpha`` that among the
uncollected ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from npugraph.arrays import first_by_key
from npugraph.graph import TripleIndex

Reading = Literal["exception", "printed"]
UnlabeledForm = Literal["literal", "phi"]


def logit(probability: float) -> float:
    """Return log(p / (1 - p)).

    >>> logit(0.5)
    0.0
    """
    return math.log(probability) - math.log1p(-probability)


@dataclass(frozen=True)
class Posterior:
    """Turns the two scores of a fact into its posterior; all functions are elementwise.

    Attributes:
        reading: what class 1 means.
        beta: share of true facts among collected ones.
        alpha: share of true facts among uncollected ones.
        unlabeled_form: ``literal`` weighs an uncollected fact by 1 - phi, as the formula says;
            ``phi`` by phi, which ranks better in the printed reading.
    """

    reading: Reading = "exception"
    beta: float = 0.96
    alpha: float = 0.01
    unlabeled_form: UnlabeledForm = "literal"

    def collected_class(self, psi1: Tensor, psi0: Tensor) -> Tensor:
        """Return the logit of w~l, the posterior of class 1 of a collected fact.

        ``w~l = p phi1 / (p phi1 + (1 - p) phi0)``, where p is beta in the printed reading and
        1 - beta in the exception reading.
        """
        prior = logit(self.beta if self.reading == "printed" else 1 - self.beta)
        return prior + logsigmoid(psi1) - logsigmoid(psi0)

    def uncollected_class(self, psi1: Tensor, psi0: Tensor) -> Tensor:
        """Return the logit of w~u, the posterior of class 1 of an uncollected fact.

        ``w~u = alpha (1 - phi1) / (alpha (1 - phi1) + (1 - alpha)(1 - phi0))``.
        """
        if self.unlabeled_form == "phi":
            return logit(self.alpha) + logsigmoid(psi1) - logsigmoid(psi0)
        return logit(self.alpha) + logsigmoid(-psi1) - logsigmoid(-psi0)

    def true_if_collected(self, psi1: Tensor, psi0: Tensor) -> Tensor:
        """Return the probability that a collected fact is true."""
        # Double precision: close to 1, single precision would make ties of different facts.
        weight = self.collected_class(psi1.double(), psi0.double())
        return torch.sigmoid(-weight if self.reading == "exception" else weight)

    def true_if_uncollected(self, psi1: Tensor, psi0: Tensor) -> Tensor:
        """Return the probability that an uncollected fact is true."""
        return torch.sigmoid(self.uncollected_class(psi1.double(), psi0.double()))

    def plausibility(self, psi1: Tensor, psi0: Tensor) -> Tensor:
        """Return the score that entities are ranked by; higher is more plausible."""
        if self.reading == "exception":
            return psi0
        return logsigmoid(psi1) - logsigmoid(psi0)


class RunningPosterior(nn.Module):
    """The posterior of the collected facts as a running mean over the epochs.

        mean_t = mean_{t-1} + max(1 - momentum, 1 / t) (P_t - mean_{t-1})

    A system learns its facts by heart, the wrong ones too, but in every epoch it forgets others:
    the posterior of one epoch is noisy where that of several is not. It is the plain mean until
    1 / t is below 1 - momentum, so that the first epochs have no weight of their own.
    """

    mean: Tensor
    epochs: Tensor

    def __init__(
        self, facts: Tensor, num_entities: int, num_relations: int, momentum: float = 0.0
    ) -> None:
        """Remember the collected facts [n, 3]; momentum 0 keeps the latest epoch, 1 the mean."""
        super().__init__()
        self.momentum = momentum
        self.index = TripleIndex(facts, num_entities, num_relations)
        # Rows that repeat a fact have one place in the index; the first of them stands for all.
        self.rows = first_by_key(self.index.places(facts))
        self.register_buffer("mean", torch.zeros(len(facts), dtype=torch.float64))
        self.register_buffer("epochs", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def update(self, probability: Tensor) -> None:
        """Take in the posterior [n] of one more epoch."""
        self.epochs += 1
        step = max(1 - self.momentum, 1 / int(self.epochs))
        self.mean += step * (probability - self.mean)

    def recall(self, facts: Tensor, otherwise: Tensor) -> Tensor:
        """Return the mean for facts [m, 3] that were collected, ``otherwise`` [m] for the rest."""
        if self.epochs == 0 or len(self.rows) == 0:
            return otherwise
        place = self.index.to(facts.device).places(facts)
        mean = self.mean[self.rows.to(facts.device)[place]]
        return torch.where(place >= 0, mean.to(otherwise.dtype), otherwise)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        # Runs of versions that had no running mean: there is nothing to recall.
        state_dict.setdefault(f"{prefix}mean", torch.zeros_like(self.mean))
        state_dict.setdefault(f"{prefix}epochs", torch.zeros_like(self.epochs))
        super()._load_from_state_dict(state_dict, prefix, *args)


def health(probability: Tensor, plausibility: Tensor) -> dict[str, float | bool]:
    """Describe the posterior of collected facts [n], so that a degenerate one is seen.

    ``agreement`` is the rank correlation of probability and plausibility; below zero the
    posterior orders facts against the score: the two classes have changed places.
    """
    agreement = _rank_correlation(probability, plausibility)
    return {
        "posterior_mean": float(probability.mean()),
        "posterior_spread": float(probability.std(unbiased=False)),
        "posterior_below_half": float((probability < 0.5).double().mean()),
        "posterior_agreement": agreement,
        "label_switching": agreement < 0,
    }


def _rank_correlation(left: Tensor, right: Tensor) -> float:
    """Return Spearman's correlation of two vectors [n]; 0 where one of them is constant."""
    from scipy.stats import spearmanr

    pair = [values.double().cpu().numpy() for values in (left, right)]
    if any(np.ptp(values) == 0 for values in pair):
        return 0.0
    return float(spearmanr(*pair).statistic)
