"""What answers of reviewers say: recalibrated probabilities, and the share of wrong facts.

Functions of plain arrays. ``recalibrate`` learns from every answer how probable each fact is;
``share`` gives the share of wrong facts by the answers that were drawn at random, whatever
the probabilities are worth; ``design`` and ``strata`` draw facts so that few answers tell that
share.
"""

from __future__ import annotations

from npugraph.auditing.statistics.answers.check import Check, agrees, check_answers
from npugraph.auditing.statistics.answers.design import SequentialDraw, enough_answers
from npugraph.auditing.statistics.answers.recalibrate import (
    CHOSEN,
    LEAST_ANSWERS,
    RANDOM,
    UNKNOWN,
    Answered,
    Predictors,
    Recalibrated,
    recalibrate,
)
from npugraph.auditing.statistics.answers.share import drawn_share, random_share
from npugraph.auditing.statistics.answers.strata import (
    Counts,
    cut,
    narrow_enough,
    next_strata,
    stratified_share,
)

__all__ = [
    "CHOSEN",
    "LEAST_ANSWERS",
    "RANDOM",
    "UNKNOWN",
    "Answered",
    "Check",
    "Counts",
    "Predictors",
    "Recalibrated",
    "SequentialDraw",
    "agrees",
    "check_answers",
    "cut",
    "drawn_share",
    "enough_answers",
    "narrow_enough",
    "next_strata",
    "random_share",
    "recalibrate",
    "stratified_share",
]
