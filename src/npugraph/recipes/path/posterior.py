"""From judged facts to probabilities: the label posterior of a path model, without folds.

A path model judges a stored fact with its own edges hidden, so the fact is not evidence for itself,
and stored facts can be compared with facts that are not stored. These are corruptions of stored
ones. A corruption is judged while the fact it was made of is hidden, so both are asked of
the same graph.

The three values of :class:`~npugraph.recipes.path.judged.Judged` become one score: the log odds of
a logistic regression of stored facts against corruptions, whose weights are not negative. What it
says of a fact follows from the mixture equations of :mod:`npugraph.calibration.probability`,
with the shares of true facts estimated. The truth is not needed anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from npugraph.arrays import Floats, Ints
from npugraph.calibration.calibrate import Calibration, calibrate
from npugraph.calibration.class_priors import Priors
from npugraph.calibration.thresholds import PRIORS
from npugraph.data.corrupt import Roles
from npugraph.data.corrupt.replace import entity_of_pool
from npugraph.recipes.path.judged import Judge, Judged
from npugraph.seeds import generator

# Stored facts, and corruptions, that a posterior is fitted to at most.
MOST = 20_000
# Pull of the weights to 0: facts that can be told apart entirely would have endless ones.
RIDGE = 1e-4


@dataclass(frozen=True, eq=False)
class PathPosterior:
    """How likely a judged fact is true.

    Attributes:
        weights: of the three values of ``Judged``, each the mean of both directions: [3], >= 0.
        calibration: what a weighted sum says.
    """

    weights: Floats
    calibration: Calibration

    @property
    def priors(self) -> Priors:
        """The estimated shares of true facts, and whether they can be told at all."""
        return self.calibration.priors

    def score(self, judged: Judged) -> Floats:
        """Return one number per fact [n], to order facts by; higher is more plausible."""
        return values_of(judged) @ self.weights

    def if_stored(self, judged: Judged) -> Floats:
        """Return the probability that stored facts [n] are true."""
        return self._probability(judged, stored=True)

    def if_not_stored(self, judged: Judged) -> Floats:
        """Return the probability that facts [n] that are not stored are true.

        It is for facts like the corruptions. Among the best answers of many questions more are
        true by chance than it says, since those were chosen by the score.
        """
        return self._probability(judged, stored=False)

    def _probability(self, judged: Judged, stored: bool) -> Floats:
        table = self.calibration.judge(self.score(judged), collected=stored)
        found: Floats = table["probability"].to_numpy().copy()
        return found


def values_of(judged: Judged) -> Floats:
    """Return the three values of judged facts, each the mean of the directions: [n, 3]."""
    parts = (judged.raw, judged.among_all, judged.among_new)
    return np.stack([part.double().mean(0).cpu().numpy() for part in parts], axis=1)


def fit_posterior(
    stored: Judged, others: Judged, relation: Tensor, other_relation: Tensor, seed: int = 0
) -> PathPosterior | None:
    """Learn how likely judged facts are true.

    Args:
        stored: stored facts [n], judged with their own edges hidden.
        others: corruptions [m], judged by the same model.
        relation: of the stored facts, int64 [n].
        other_relation: of the corruptions, int64 [m].
        seed: every draw follows from it.

    Returns:
        The posterior; None where there are too few facts of either sort to learn from.
    """
    high, low = values_of(stored), values_of(others)
    if min(len(high), len(low)) < PRIORS.least_scores:
        return None
    weights = log_odds(high, low)
    groups: tuple[Ints, Ints] = (relation.cpu().numpy(), other_relation.cpu().numpy())
    found = calibrate(
        high @ weights, low @ weights, group=groups[0], pool_group=groups[1], seed=seed
    )
    return PathPosterior(weights, found)


def log_odds(high: Floats, low: Floats) -> Floats:
    """Return weights [k] >= 0 by which facts of values [n, k] and [m, k] are told apart best.

    Logistic regression with a constant; both sorts count the same. No weight is negative: that a
    value is higher never speaks against a fact.

    >>> high, low = np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [-1.0, 0.0]])
    >>> log_odds(high, low).round(1)
    array([0.9, 0. ])
    """
    from scipy.optimize import minimize

    values = np.concatenate([high, low])
    centre, width = values.mean(0), values.std(0)
    # A value that is the same everywhere says nothing, and must not divide by 0.
    scale = np.where(width > 0, width, 1.0)
    x = np.column_stack([np.ones(len(values)), (values - centre) / scale])
    label = np.repeat([1.0, 0.0], [len(high), len(low)])
    share = np.where(label == 1, 0.5 / len(high), 0.5 / len(low))

    def loss(line: Floats) -> tuple[float, Floats]:
        z = np.clip(x @ line, -700, 700)
        error = share * (1 / (1 + np.exp(-z)) - label)
        value = float(share @ (np.logaddexp(0, z) - label * z)) + RIDGE * float(line @ line)
        return value, error @ x + 2 * RIDGE * line

    bounds = [(None, None)] + [(0.0, None)] * values.shape[1]
    start = np.append(0.0, np.ones(values.shape[1]))
    options = {"ftol": 1e-12, "gtol": 1e-8}
    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options).x
    weights: Floats = found[1:] / scale
    return weights


@torch.no_grad()
def posterior_of(system: Judge, *, most: int = MOST, seed: int = 0) -> PathPosterior | None:
    """Fit the posterior of a model to (a seeded sample of) the facts it stores.

    A corruption has one end replaced by an entity that stands in that place of the relation
    elsewhere. Wrong facts may be as plausible as that; among easier corruptions they would pass for
    true ones. Where wrong facts are easier they lie below the corruptions and, since the ratio of
    the densities never falls, are taken for wrong all the same.

    Args:
        system: the model; it judges about two facts per sampled one.
        most: facts of either sort at most.
        seed: every draw follows from it.

    Returns:
        The posterior; None where the graph has too few facts.
    """
    rng, index = generator(seed, "posterior"), system.stored.to(torch.device("cpu"))
    places = torch.randperm(len(index), generator=rng)[:most]
    facts = index.facts()[places]
    roles = Roles(index.facts(), system.num_entities, system.num_relations)
    drawn, _ = entity_of_pool("typed", roles)(facts, rng)
    new = ~index.contains(drawn)
    drawn, origin = drawn[new], places[new]
    stored = system.judge(facts.to(system.device))
    others = system.judge(drawn.to(system.device), beside=origin.to(system.device))
    return fit_posterior(stored, others, facts[:, 1], drawn[:, 1], seed)
