"""Do the answers carry the probabilities? Those on some answers are foretold by the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npugraph.arrays import Floats
from npugraph.auditing.statistics.answers.recalibrate import (
    RANDOM,
    Answered,
    Fitted,
    Predictors,
)
from npugraph.seeds import number

# Fewer answers cannot tell whether probabilities hold: of facts drawn at random, of facts as
# suspicious as those that are listed, and of either sort.
LEAST_RANDOM, LEAST_SUSPICIOUS, LEAST_OF_EITHER = 20, 20, 10
# Found and foretold may differ by so many standard deviations.
MOST_DEVIATION = 2.0
PARTS = 5


@dataclass(frozen=True)
class Check:
    """Whether answers carry probabilities.

    Attributes:
        enough: whether there are enough answers to tell.
        holds: True where there are and they came out as foretold.
        reason: a sentence.
    """

    enough: bool
    holds: bool
    reason: str


def check_answers(
    facts: Predictors, answers: Answered, suspicious: NDArray[np.bool_], *, seed: int = 0
) -> Check:
    """Tell whether the probabilities that answers give hold, by the answers themselves.

    The answers are cut into five parts, and each part is foretold by the other four. Among
    suspicious facts, and among the others, about as many must be wrong as was foretold.

    Args:
        facts: what an audit says of all facts.
        answers: on some of them.
        suspicious: bool [n], facts at least as suspicious as the last one that is listed.
        seed: the parts follow from it.
    """
    listed = suspicious[answers.rows]
    short = _too_few(answers, listed)
    if short:
        return Check(False, False, short)
    wrong = 1 - foretell(facts, answers, seed=seed)
    said = []
    for name, mine in (("suspicious facts", listed), ("other facts", ~listed)):
        expected, found = float(wrong[mine].sum()), int((~answers.true[mine]).sum())
        text = f"of {int(mine.sum())} answered {name} {expected:.1f} were foretold to be wrong"
        if _differs(wrong[mine], answers.true[mine]):
            return Check(
                True, False, f"The answers do not carry probabilities: {text}, {found} are."
            )
        said.append(f"{text} and {found} are")
    return Check(True, True, f"The probabilities rest on the answers: {'; '.join(said)}.")


def agrees(
    probability: NDArray[np.floating], answers: Answered, suspicious: NDArray[np.bool_]
) -> bool:
    """Tell whether answers are as the probabilities [n] of an audit have it, but for chance.

    Among ``suspicious`` facts [n], and among the others.
    """
    wrong, listed = 1 - probability[answers.rows], suspicious[answers.rows]
    return not any(_differs(wrong[mine], answers.true[mine]) for mine in (listed, ~listed))


def _differs(wrong: NDArray[np.floating], true: NDArray[np.bool_]) -> bool:
    """Tell whether more or fewer facts are wrong than their chances of it [m] foretell."""
    expected, found = float(wrong.sum()), int((~true).sum())
    deviation = float(np.sqrt((wrong * (1 - wrong)).sum()))
    return abs(found - expected) > MOST_DEVIATION * max(deviation, 0.5)


def _too_few(answers: Answered, listed: NDArray[np.bool_]) -> str:
    """Return which answers are lacking, as a sentence; empty where there are enough."""
    wrong = int((~answers.true).sum())
    for what, count, least in (
        ("facts drawn at random", int((answers.drawn == RANDOM).sum()), LEAST_RANDOM),
        ("facts as suspicious as those listed", int(listed.sum()), LEAST_SUSPICIOUS),
        ("wrong facts", wrong, LEAST_OF_EITHER),
        ("right facts", len(answers) - wrong, LEAST_OF_EITHER),
    ):
        if count < least:
            return f"Answers on {count} {what} are too few to carry probabilities; {least} do."
    return ""


def foretell(facts: Predictors, answers: Answered, *, seed: int = 0) -> Floats:
    """Return the probability of each answered fact [m] by the answers of the other parts."""
    rng = np.random.default_rng(number(seed, "answers"))
    part = rng.permutation(len(answers)) % PARTS
    probability = np.empty(len(answers))
    for mine in (part == place for place in range(PARTS)):
        fitted = Fitted.of(facts, answers.select(~mine))
        probability[mine] = fitted.judge(facts, answers.rows[mine]).probability
    return probability
