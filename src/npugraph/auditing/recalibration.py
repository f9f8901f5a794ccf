"""What answers teach: probabilities that hold for them, and the share of wrong facts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npugraph.auditing.answers import RIGHT, UNSURE, WRONG, Answers, Learned
from npugraph.auditing.out_of_fold import CrossFit
from npugraph.auditing.result import Judgement
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.statistics.answers import (
    LEAST_ANSWERS,
    RANDOM,
    Answered,
    Predictors,
    check_answers,
    drawn_share,
    random_share,
    recalibrate,
)
from npugraph.auditing.statistics.evidence import TruthModel
from npugraph.calibration.class_priors import Interval, Priors


def learn(
    judged: Judgement,
    crossfit: CrossFit,
    model: TruthModel,
    answers: Answers,
    settings: AuditSettings,
) -> tuple[Judgement, Learned]:
    """Recalibrate the probabilities of the collected facts by answers.

    Facts that are known to be right get probability 1. Those that are known to be wrong are not
    among the collected ones; what the views say of them is learned from all the same.
    """
    used = int((answers.said != UNSURE).sum())
    check = None
    if used >= LEAST_ANSWERS:
        facts, answered = _predictors(judged, crossfit, model, answers)
        found = recalibrate(facts, answered, level=settings.thresholds.level)
        stored = slice(0, len(judged.facts))
        judged = replace(
            judged,
            probability=found.probability[stored],
            low=found.low[stored],
            high=found.high[stored],
        )
        place = min(settings.budget, len(judged.facts)) - 1
        last = np.partition(judged.probability, place)[place]
        check = check_answers(facts, answered, found.probability <= last, seed=settings.seed)
    share, random = answered_share(answers, len(judged.facts) + len(answers.wrong), settings)
    return _known_right(judged, crossfit, answers), Learned(
        used if used >= LEAST_ANSWERS else 0, random, share, check
    )


def _predictors(
    judged: Judgement, crossfit: CrossFit, model: TruthModel, answers: Answers
) -> tuple[Predictors, Answered]:
    """Return what is said of the collected facts, then of those known to be wrong; the answers."""
    wrong = crossfit.known_wrong
    score = model.stack.score(wrong.features.numpy(), wrong.fold.numpy())
    facts = Predictors.of(
        np.concatenate([judged.score, score]),
        probability=np.concatenate(
            [judged.probability, model.probability(score, collected=True)[0]]
        ),
        relation=np.concatenate([judged.facts[:, 1].numpy(), wrong.facts[:, 1].numpy()]),
    )
    index = crossfit.folds.graph.index()
    right = index.places(answers.right).numpy()
    rows = np.concatenate([right, len(judged.facts) + np.arange(len(wrong.facts))])
    drawn = np.concatenate([answers.drawn[answers.said == value] for value in (RIGHT, WRONG)])
    return facts, Answered(rows, np.arange(len(rows)) < len(right), drawn)


def _known_right(judged: Judgement, crossfit: CrossFit, answers: Answers) -> Judgement:
    """Give probability 1 to the facts that are known to be right."""
    if not len(answers.right):
        return judged
    right = crossfit.folds.graph.index().places(answers.right).numpy()
    probability, low, high = (
        values.copy() for values in (judged.probability, judged.low, judged.high)
    )
    for values in (probability, low, high):
        values[right] = 1.0
    return replace(judged, probability=probability, low=low, high=high)


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


def told_priors(priors: Priors, learned: Learned, settings: AuditSettings) -> Priors:
    """Return the priors with the share of true facts that random answers tell.

    A share that the user gives stands.
    """
    if learned.share is None or settings.beta is not None:
        return priors
    value, low, high = learned.share
    return replace(
        priors, beta=Interval(1 - value, 1 - high, 1 - low), identifiable=True, reason=""
    )
