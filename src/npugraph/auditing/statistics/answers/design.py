"""Draw facts one after the other so that few answers tell the share of wrong facts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from npugraph.arrays import Floats, Ints, probabilities
from npugraph.auditing.statistics.answers.share import drawn_share
from npugraph.calibration.class_priors import Interval
from npugraph.errors import DataError
from npugraph.seeds import number

# Share of the draws that go to all facts evenly. The least chance of a fact, and so the most
# weight of an error that nobody suspected, follows from it.
EVEN_SHARE = 0.5
# The interval is looked at after so many answers, and every so many from then on.
FIRST_LOOK, LOOK_EVERY = 30, 10
# An interval at which one stopped may miss the truth by this part of what is allowed: by
# simulation the rest is lost by looking again and again.
STOPPED = 0.6


@dataclass(frozen=True, eq=False)
class SequentialDraw:
    """All facts in the order in which to ask for them, at whatever number one stops.

    Each fact gets a number u / q: u even in (0, 1), q its share of the draws. The facts are asked
    for by rising numbers. After n answers the chance of each of them was min(1, q t) where t is
    the number of the next fact: with these chances sums are unbiased at every n, and no two
    facts depend on one another (priority sampling: Duffield, Lund and Thorup 2007).

    For the difference estimator the best q is the standard deviation of what an answer says,
    sqrt(p (1 - p)) (Neyman 1934); a part of the draws is even.

    Attributes:
        rows: the facts in the order in which to ask for them, [n].
        priority: u / q of these, ascending, [n].
        share: q of these, [n].
        suspected: probability that each of these is wrong, [n].

    >>> draw = SequentialDraw.of(np.full(1000, 0.9), seed=1)
    >>> draw.estimate(np.zeros(100)).low
    0.0
    """

    rows: Ints
    priority: Floats
    share: Floats
    suspected: Floats

    @classmethod
    def of(
        cls, probability: ArrayLike, *, seed: int, even_share: float = EVEN_SHARE
    ) -> SequentialDraw:
        """Draw from facts by the probabilities [n] that they are true, known before any answer."""
        wrong = 1 - probabilities(probability)
        if not len(wrong):
            raise DataError("There are no facts to draw from.")
        deviation = np.sqrt(wrong * (1 - wrong))
        # Where everything is certain all draws are even.
        uneven = 1 - even_share if deviation.any() else 0.0
        share = (1 - uneven + uneven * deviation / max(deviation.mean(), 1e-300)) / len(wrong)
        chance = np.random.default_rng(number(seed, "draw")).random(len(wrong))
        priority = chance / share
        rows = np.argsort(priority, kind="stable")
        return cls(rows, priority[rows], share[rows], wrong[rows])

    def chance(self, count: int) -> Floats:
        """Return the chances with which the first ``count`` facts were drawn: [count]."""
        if count >= len(self.rows):
            return np.ones(len(self.rows))
        return np.asarray(np.minimum(1.0, self.share[:count] * self.priority[count]))

    def estimate(self, wrong: ArrayLike, *, level: float = 0.95, stopped: bool = False) -> Interval:
        """Return the share of wrong facts by the answers on the first facts.

        Args:
            wrong: [k], of the first k facts in their order: 1 wrong, 0 right, nan unsure. Facts on
                which nobody is sure count as wrong as often as the others.
            level: how often the interval should hold the truth.
            stopped: the answers end where the interval was narrow enough, so it is made wider.
        """
        said = np.asarray(wrong, dtype=np.float64)
        if said.ndim != 1 or not 0 < len(said) <= len(self.rows):
            raise DataError(f"There must be 1 to {len(self.rows)} answers, not {said.shape}.")
        sure = np.isfinite(said)
        if not sure.any():
            return Interval(float(self.suspected.mean()), 0.0, 1.0)
        return drawn_share(
            said[sure] > 0,
            self.chance(len(said))[sure],
            suspected=self.suspected[: len(said)][sure],
            mean_suspected=float(self.suspected.mean()),
            level=1 - STOPPED * (1 - level) if stopped else level,
        )


def enough_answers(
    draw: SequentialDraw, wrong: ArrayLike, half_width: float, *, level: float = 0.95
) -> bool:
    """Tell whether the interval is narrow enough to stop.

    One that looks after every answer stops where chance made the interval narrow. So it is
    looked at every ten answers, must be narrow enough at two looks in a row, and is that of
    ``stopped`` answers.

    Args:
        draw: the order of the facts.
        wrong: the answers so far, as :meth:`SequentialDraw.estimate` takes them.
        half_width: half the width that is wanted.
        level: how often the interval should hold the truth.
    """
    said = np.asarray(wrong, dtype=np.float64)
    looks = range(FIRST_LOOK, len(said) + 1, LOOK_EVERY)[-2:]
    if len(said) == len(draw.rows):
        return True
    ends = [draw.estimate(said[:count], level=level, stopped=True) for count in looks]
    return len(ends) == 2 and all(end.high - end.low <= 2 * half_width for end in ends)
