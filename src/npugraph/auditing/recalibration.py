"""What answers teach: probabilities that hold for them, and the share of wrong facts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from npugraph.arrays import Ints, first_by_key
from npugraph.auditing.answers import RIGHT, UNSURE, WRONG, Answers, Learned
from npugraph.auditing.columns import source_groups
from npugraph.auditing.judgement import Judgement
from npugraph.auditing.out_of_fold import CrossFit
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.statistics.answers import (
    LEAST_ANSWERS,
    RANDOM,
    Answered,
    Predictors,
    agrees,
    check_answers,
    drawn_share,
    random_share,
    recalibrate,
)
from npugraph.calibration.class_priors import Interval, Priors
from npugraph.graph import KnowledgeGraph


def stored_graph(whole: KnowledgeGraph, crossfit: CrossFit) -> KnowledgeGraph:
    """Return the rows of the facts of :func:`judge_stored`, with their columns."""
    index = whole.index()
    first = first_by_key(index.codes(whole.facts))
    facts = torch.cat([crossfit.collected.facts, crossfit.known_wrong.facts])
    return whole.select(first[index.places(facts)])


def learn(
    stored: Judgement,
    graph: KnowledgeGraph,
    answers: Answers,
    settings: AuditSettings,
    *,
    trusted: bool,
) -> tuple[Judgement, Learned]:
    """Return the judgement of the collected facts, recalibrated by answers.

    Where probabilities hold without answers, and these are too few to carry others but agree with
    them, they stay: so few answers would make them worse.

    Facts that are known to be right get probability 1. Those that are known to be wrong are not
    among the collected ones; what the views say of them is learned from all the same.

    Args:
        stored: judgement of the collected facts, then of those known to be wrong.
        graph: the same facts with their columns.
        answers: what is known.
        settings: what is asked for.
        trusted: whether the probabilities hold without answers. Otherwise the answers begin with
            the order of the facts alone.
    """
    count = len(stored.facts) - len(answers.wrong)
    used, check, kept = int((answers.said != UNSURE).sum()), None, False
    right = graph.select(torch.arange(count)).index().places(answers.right).numpy()
    if used >= LEAST_ANSWERS:
        facts = Predictors.of(
            stored.score,
            probability=stored.probability if trusted else None,
            relation=stored.facts[:, 1].numpy(),
            source=source_groups(graph, settings),
        )
        drawn = np.concatenate([answers.drawn[answers.said == value] for value in (RIGHT, WRONG)])
        rows = np.concatenate([right, np.arange(count, len(stored.facts))])
        answered = Answered(rows, np.arange(len(rows)) < len(right), drawn)
        found = recalibrate(facts, answered, level=settings.thresholds.level)
        listed = _listed(found.probability, count, settings.budget)
        check = check_answers(facts, answered, listed, seed=settings.seed)
        listed = _listed(stored.probability, count, settings.budget)
        kept = trusted and not check.enough and agrees(stored.probability, answered, listed)
        if not kept:
            stored = replace(stored, probability=found.probability, low=found.low, high=found.high)
    else:
        used = 0
    share, random = answered_share(answers, len(stored.facts), settings)
    return _collected(stored, count, right), Learned(used, random, share, check, kept)


def _listed(probability: NDArray[np.floating], count: int, budget: int) -> NDArray[np.bool_]:
    """Tell which facts [n] are as suspicious as the first of the ``count`` collected ones."""
    place = min(budget, count) - 1
    listed: NDArray[np.bool_] = probability <= np.partition(probability[:count], place)[place]
    return listed


def _collected(stored: Judgement, count: int, right: Ints) -> Judgement:
    """Return the first facts; those that are known to be right get probability 1."""
    figures = [values[:count].copy() for values in (stored.probability, stored.low, stored.high)]
    for values in figures:
        values[right] = 1.0
    return Judgement(stored.facts[:count], stored.fold[:count], stored.score[:count], *figures)


def answered_share(
    answers: Answers, facts: int, settings: AuditSettings
) -> tuple[Interval | None, int]:
    """Return the share of wrong facts by the random answers alone, and how many these are.

    It is None where they are too few. What is known of single facts bounds it.
    """
    sure = (answers.drawn == RANDOM) & (answers.said != UNSURE)
    wrong, chance = answers.said[sure] == WRONG, answers.chance[sure]
    if len(wrong) < LEAST_ANSWERS:
        return None, 0
    level = settings.thresholds.level
    if np.isfinite(chance).all():
        share = drawn_share(wrong, chance, level=level)
    else:
        share = random_share(int(wrong.sum()), len(wrong), facts, level=level)
    least, most = len(answers.wrong) / facts, 1 - len(answers.right) / facts
    return Interval(*(min(max(end, least), most) for end in share)), len(wrong)


def told_priors(
    priors: Priors, most_wrong: float, learned: Learned, settings: AuditSettings
) -> Priors:
    """Return the priors with the share of true facts that random answers tell.

    Without these its interval reaches to what no score rules out: errors that look like true facts
    are not seen, and may be there. A share that the user gives stands.
    """
    if settings.beta is not None:
        return priors
    if learned.share is None:
        value, low, high = priors.beta
        return replace(priors, beta=Interval(value, min(low, 1 - most_wrong), high))
    value, low, high = learned.share
    return replace(
        priors, beta=Interval(1 - value, 1 - high, 1 - low), identifiable=True, reason=""
    )
