"""The facts that are drawn at random, and what the answers on them say of all stored facts.

They are asked for in a fixed order that follows from the seed. An answer counts as that on a drawn
fact as soon as the order has reached the fact, however it came to be answered: so the facts that
were judged because they are suspicious are not missing among the drawn ones.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import expit

from npugraph.arrays import Floats, Ints
from npugraph.auditing.statistics.answers import (
    Predictors,
    SequentialDraw,
    enough_answers,
    random_share,
)
from npugraph.calibration.class_priors import Interval
from npugraph.errors import RunError
from npugraph.review.material import Material
from npugraph.review.queue import even_numbers
from npugraph.review.records import LEVEL, Share
from npugraph.review.store import Store


@dataclass(frozen=True, eq=False)
class Draw:
    """An order of the stored facts in which they are drawn.

    Attributes:
        rows: numbers of the facts in their order [m].
        place: where each fact stands in it [n]; -1 for a proposed fact.
        design: chances that follow the posterior; None where all facts have the same.
        half_width: in estimate mode, where to stop.
    """

    rows: Ints
    place: Ints
    design: SequentialDraw | None = None
    half_width: float | None = None

    @classmethod
    def evenly(cls, material: Material, seed: int) -> Draw:
        """Draw stored facts with the same chance each."""
        stored = np.flatnonzero(material.stored)
        rows = stored[np.argsort(even_numbers(material, seed, "review")[stored], kind="stable")]
        return cls(rows, _places(rows, len(material)))

    @classmethod
    def by_posterior(cls, material: Material, seed: int, half_width: float) -> Draw:
        """Draw stored facts with chances that follow what the audit says of them."""
        stored = np.flatnonzero(material.stored)
        design = SequentialDraw.of(guessed(material, stored), seed=seed)
        rows = stored[design.rows]
        return cls(rows, _places(rows, len(material)), design, half_width)

    def reached(self, drawn: Ints) -> int:
        """Return how many facts the order has come to, by the facts answered as drawn ones."""
        return int(self.place[drawn].max(initial=-1)) + 1

    def share(self, said: Floats, known: tuple[int, int]) -> Share | None:
        """Return the share of wrong facts.

        Args:
            said: of the facts that the order has come to [k]: 1 wrong, 0 right, nan not settled.
            known: how many of all stored facts are settled as right, and as wrong; they bound it.
        """
        sure = np.isfinite(said)
        answers, wrong, count = int(sure.sum()), int(np.nansum(said)), len(self.rows)
        if not answers:
            return None
        if self.design is None:
            found = _even_share(wrong, answers, count)
        else:
            found = self.design.estimate(said, level=LEVEL, stopped=self.enough(said))
        least, most = known[1] / count, 1 - known[0] / count
        value, low, high = (float(min(max(end, least), most)) for end in found)
        how: Literal["evenly", "posterior"] = "evenly" if self.design is None else "posterior"
        return Share(value, low, high, answers, wrong, len(said) - answers, count, how)

    def enough(self, said: Floats) -> bool:
        """Tell whether the interval is as narrow as was asked for; ``said`` as for the share."""
        if self.design is None or self.half_width is None or not len(said):
            return False
        return enough_answers(self.design, said, self.half_width, level=LEVEL)

    def chances(self, reached: int) -> Floats | None:
        """Return the chances with which the facts that were come to were drawn; None: all equal."""
        return None if self.design is None else self.design.chance(reached)


@lru_cache(maxsize=256)
def _even_share(wrong: int, answers: int, facts: int) -> Interval:
    return random_share(wrong, answers, facts, level=LEVEL)


def _places(rows: Ints, count: int) -> Ints:
    place = np.full(count, -1)
    place[rows] = np.arange(len(rows))
    return place


def guessed(material: Material, rows: Ints) -> Floats:
    """Return probabilities of some facts to draw by; they need not hold.

    Where the audit promises none, its scores are taken for log-odds about a usual level.
    """
    if material.reliable[0]:
        return material.probability[rows]
    score = material.score[rows]
    known = np.isfinite(score)
    guess = np.zeros(len(rows))
    if known.any():
        facts = Predictors.of(score[known])
        guess[known] = expit(facts.columns.sum(1) + facts.level)
    return guess


def frozen_design(store: Store, material: Material, seed: int) -> int:
    """Return the seed that the estimate began with; refuse to go on with another audit."""
    rows = np.flatnonzero(material.stored)
    digest = hashlib.sha256(np.ascontiguousarray(guessed(material, rows)).tobytes()).hexdigest()[
        :16
    ]
    begun, print_of = store.begin("estimate", f"{seed} {digest}").split()
    if print_of != digest:
        raise RunError(
            f"{store.path} holds an estimate that was begun before this audit was made, with other "
            "chances; take the answers along with npugraph audit --answers, into another folder, "
            "and estimate there."
        )
    return int(begun)
