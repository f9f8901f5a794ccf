"""From judged facts to probabilities: the label posterior of a path model, without folds.

A path model judges a stored fact with its own edges hidden, so the fact is not evidence for itself,
and stored facts can be compared with facts that are not stored. These are corruptions of stored
ones, of several kinds. A corruption is judged while the fact it was made of is hidden, so both are
asked of the same graph.

The values of :class:`~npugraph.recipes.path.judged.Judged` become one score
(:mod:`~npugraph.recipes.path.credibility`), in which kinds count as much as they seem to be there.
What it says of a fact follows from the mixture equations of
:mod:`npugraph.calibration.probability`, beside corruptions of all kinds in the same proportions,
with the shares of true facts estimated. The truth is not needed anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from npugraph.arrays import Floats
from npugraph.calibration.calibrate import Calibration, calibrate
from npugraph.calibration.class_priors import Priors
from npugraph.data.corrupt import Noise, Roles
from npugraph.data.corrupt.replace import entity_of_pool, random
from npugraph.recipes.path.credibility import Credibility, fit_credibility
from npugraph.recipes.path.judged import Judge, Judged
from npugraph.seeds import generator

# Stored facts, and corruptions of all kinds together, that a posterior is fitted to at most.
MOST = 20_000
# An end is replaced by an entity that stands in that place of the relation elsewhere.
PLAUSIBLE: tuple[Noise, ...] = ("typed",)
# Beside these: random parts, and an end replaced by any entity.
KINDS: tuple[Noise, ...] = ("random", "one-sided", *PLAUSIBLE)


@dataclass(frozen=True, eq=False)
class PathPosterior:
    """How likely a judged fact is true.

    Attributes:
        credibility: one number per fact, to order facts by.
        calibration: what such a number says.
    """

    credibility: Credibility
    calibration: Calibration

    @property
    def priors(self) -> Priors:
        """The estimated shares of true facts, and whether they can be told at all."""
        return self.calibration.priors

    def score(self, judged: Judged) -> Floats:
        """Return one number per fact [n], to order facts by; higher is more plausible."""
        return self.credibility(judged)

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


def fit_posterior(
    stored: Judged,
    kinds: Sequence[Judged],
    relation: Tensor,
    relations: Sequence[Tensor],
    seed: int = 0,
) -> PathPosterior | None:
    """Learn how likely judged facts are true.

    Args:
        stored: stored facts [n], judged with their own edges hidden.
        kinds: corruptions [m] of each kind, in random order, judged by the same model.
        relation: of the stored facts, int64 [n].
        relations: of the corruptions of each kind, int64 [m].
        seed: every draw follows from it.

    Returns:
        The posterior; None where there are too few facts of any sort to learn from.
    """
    credibility = fit_credibility(stored, kinds)
    if credibility is None:
        return None
    # As many of each kind as its share says; of the kind that sets the limit all are taken.
    sizes = np.array([len(of_kind) for of_kind in relations])
    total = (sizes / credibility.counts).min()
    taken = [slice(0, round(total * share)) for share in credibility.counts]
    pool = [credibility(one)[part] for one, part in zip(kinds, taken, strict=True)]
    groups = [one[part].cpu().numpy() for one, part in zip(relations, taken, strict=True)]
    found = calibrate(
        credibility(stored),
        np.concatenate(pool),
        group=relation.cpu().numpy(),
        pool_group=np.concatenate(groups),
        seed=seed,
    )
    return PathPosterior(credibility, found)


@torch.no_grad()
def posterior_of(
    system: Judge,
    *,
    kinds: Sequence[Noise] = KINDS,
    most: int = MOST,
    thorough: bool = False,
    seed: int = 0,
) -> PathPosterior | None:
    """Fit the posterior of a model to (a seeded sample of) the facts it stores.

    Wrong facts may be as plausible as corruptions of an end by an entity of that role; among easier
    ones alone they would pass for true.

    Args:
        system: the model; it judges as many corruptions as sampled facts on large graphs, and one
            of each kind per fact on small ones.
        kinds: of corruptions, some of KINDS.
        most: facts of either sort at most.
        thorough: judge on thinned graphs, too; then it is for facts that are judged so.
        seed: every draw follows from it.

    Returns:
        The posterior; None where the graph has too few facts.
    """
    rng, index = generator(seed, "posterior"), system.stored.to(torch.device("cpu"))
    places = torch.randperm(len(index), generator=rng)[:most]
    facts = index.facts()[places]
    roles = Roles(index.facts(), system.num_entities, system.num_relations)
    each = -(-most // len(kinds))
    judge = system.judge_thoroughly if thorough else system.judge
    drawn, judged = [], []
    for kind in kinds:
        change = random(index) if kind == "random" else entity_of_pool(kind, roles)
        made, _ = change(facts[:each], rng)
        new = ~index.contains(made)
        drawn.append(made[new, 1])
        beside = places[:each][new].to(system.device)
        judged.append(judge(made[new].to(system.device), beside=beside))
    return fit_posterior(judge(facts.to(system.device)), judged, facts[:, 1], drawn, seed)
