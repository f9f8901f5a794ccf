"""One number to order stored facts by: wrong ones first, whatever kind of wrong they are.

Which of the three values of :class:`~npugraph.recipes.path.judged.Judged` tells wrong facts best
depends on how they are wrong: facts of random parts have a low score, plausible ones a low share
among the answers to their question. Nobody knows the kind beforehand. So for every kind k a
logistic regression tells stored facts from corruptions of that kind, which gives the logarithm z_k
of the ratio of the two densities, and the number is that of the ratio to all kinds together,

    -log(sum over k of w_k e^(-z_k)),

low where a kind explains the fact much better than the graph does. How much a kind counts, w_k,
goes with the share of the stored facts that seem to be of it
(:mod:`npugraph.calibration.noise_shares`); where none shows, all count the same. No truth is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from npugraph.arrays import Floats
from npugraph.calibration.noise_shares import equation, solve
from npugraph.calibration.thresholds import PRIORS
from npugraph.data.corrupt import Roles
from npugraph.data.corrupt.replace import Change, entity_of_pool, random
from npugraph.recipes.path.judged import Judge, Judged
from npugraph.recipes.path.posterior import log_odds, values_of
from npugraph.seeds import generator

# Stored facts, and corruptions of each kind, that it is fitted to at most: four numbers a kind.
MOST = 8000
# Quantiles of a kind below which stored facts are counted.
ENDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
# Pull of the shares to 0.
RIDGE = 1e-3
# Share of the stored facts that any kind may have although none shows.
UNSEEN = 1e-3


@dataclass(frozen=True, eq=False)
class Credibility:
    """How much better the graph explains a judged fact than any kind of error does.

    Attributes:
        weights: of the three values, each the mean of both directions, by kind: [kinds, 3], >= 0.
        constants: added to their sums: [kinds].
        counts: how much each kind counts; they sum to 1: [kinds].
    """

    weights: Floats
    constants: Floats
    counts: Floats

    def __call__(self, judged: Judged) -> Floats:
        """Return one number per fact [n]; higher is more credible."""
        from scipy.special import logsumexp

        ratios = values_of(judged) @ self.weights.T + self.constants
        found: Floats = -logsumexp(-ratios, axis=1, b=self.counts)
        return found


def fit_credibility(stored: Judged, kinds: list[Judged]) -> Credibility | None:
    """Compare stored facts with corruptions, one kind at a time; None where there are too few."""
    high, lows = values_of(stored), [values_of(others) for others in kinds]
    if min(len(values) for values in (high, *lows)) < PRIORS.least_scores:
        return None
    weights = np.stack([log_odds(high, low) for low in lows])
    constants = [constant(high @ line, low @ line) for low, line in zip(lows, weights, strict=True)]
    counts = _shares(high, lows, weights) + UNSEEN
    return Credibility(weights, np.array(constants), counts / counts.sum())


def _shares(high: Floats, lows: list[Floats], weights: Floats) -> Floats:
    """Return the share of the stored facts that seems to be of each kind: [kinds]."""
    rows = []
    for kind, line in enumerate(weights):
        scores = [values @ line for values in (high, *lows)]
        rows.append(equation(scores, kind + 1, ENDS)[0])
    return solve(np.stack(rows), RIDGE)


def constant(high: Floats, low: Floats) -> float:
    """Return c for which sigmoid(x + c) is a probability of the first sort, both as frequent.

    Then its mean over both sorts is one half.

    >>> round(constant(np.array([2.0, 3.0]), np.array([0.0, 1.0])), 6)
    -1.5
    """
    from scipy.optimize import brentq
    from scipy.special import expit

    def excess(c: float) -> float:
        return float(expit(high + c).mean() + expit(low + c).mean() - 1)

    both = np.concatenate([high, low])
    found: float = brentq(excess, -both.max() - 1, -both.min() + 1)
    return found


@torch.no_grad()
def credibility_of(system: Judge, *, most: int = MOST, seed: int = 0) -> Credibility | None:
    """Fit to (a seeded sample of) the facts that a model stores.

    The kinds are a triple of random parts, an end replaced by any entity, and an end replaced by
    one that is seen in that role. A corruption is judged beside a stored fact, so both are asked of
    the same graph.
    """
    rng, index = generator(seed, "credibility"), system.stored.to(torch.device("cpu"))
    places = torch.randperm(len(index), generator=rng)[:most]
    facts = index.facts()[places]
    roles = Roles(index.facts(), system.num_entities, system.num_relations)
    changes: list[Change] = [random(index)]
    changes += [entity_of_pool("one-sided", roles), entity_of_pool("typed", roles)]
    kinds = []
    for change in changes:
        drawn, _ = change(facts, rng)
        new = ~index.contains(drawn)
        beside = places[new].to(system.device)
        kinds.append(system.judge(drawn[new].to(system.device), beside=beside))
    return fit_credibility(system.judge(facts.to(system.device)), kinds)
