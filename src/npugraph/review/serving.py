"""What a reviewer should judge now."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from npugraph.review.cards import Why
from npugraph.review.estimate import Draw
from npugraph.review.learning import Judged
from npugraph.review.material import Material
from npugraph.review.queue import Selector, even_numbers
from npugraph.review.records import DeskSettings, Filters
from npugraph.review.tally import DISPUTE, OPEN, UNSURE, Tally

# Seconds for which a fact that was served to one reviewer is not served to another.
HELD = 900.0


@dataclass(frozen=True)
class Served:
    """A fact that a reviewer has before them, and until when it is theirs."""

    number: int
    why: Why
    until: float = 0.0

    @property
    def blind(self) -> bool:
        """Whether the opinions of the model and of others are hidden."""
        return self.why in ("random", "agreement", "dispute")


class Serving:
    """Chooses among what is in dispute, judged once, drawn at random, and most worth a look."""

    def __init__(
        self, material: Material, tally: Tally, selector: Selector, draw: Draw, asked: DeskSettings
    ) -> None:
        """Serve from the facts of an audit; the tally changes."""
        self._material, self._tally = material, tally
        self._selector, self._draw, self._asked = selector, draw, asked
        # Which judged facts a second reviewer gets: a random order of its own.
        self._second = even_numbers(material, asked.seed, "agreement")
        self._served: dict[str, Served] = {}

    def of(self, reviewer: str, number: int) -> Served | None:
        """Return how a fact was served to a reviewer who has it before them."""
        served = self._served.get(reviewer)
        return served if served is not None and served.number == number else None

    def release(self, reviewer: str, number: int | None = None) -> None:
        """Take a fact, or whatever it is, from before a reviewer."""
        if number is None or self.of(reviewer, number) is not None:
            self._served.pop(reviewer, None)

    def next(self, reviewer: str, filters: Filters, judged: Judged) -> Served | None:
        """Return what a reviewer has or gets; None where nothing is left."""
        served = self._served.pop(reviewer, None)
        if served is None or not self._still(served, reviewer, filters, judged):
            served = self._choose(reviewer, filters, judged)
        if served is not None:
            served = replace(served, until=time.monotonic() + HELD)
            self._served[reviewer] = served
        return served

    def enough(self) -> bool:
        """Tell whether the share of wrong facts is known as well as was asked for."""
        rows = self._draw.come_to(self._tally.drawn_facts())
        rows = rows[np.argsort(self._tally.first_answers(rows), kind="stable")]
        return self._draw.enough(rows, self._tally.said(rows))

    def _still(self, served: Served, reviewer: str, filters: Filters, judged: Judged) -> bool:
        if self._tally.answered_by(reviewer, served.number):
            return False
        if served.number in self._tally.skipped.get(reviewer, ()):
            return False
        if filters == Filters():
            return True
        return bool(self._selector.mask(filters, judged, reviewer)[served.number])

    def _choose(self, reviewer: str, filters: Filters, judged: Judged) -> Served | None:
        if filters == Filters():
            number = self._dispute(reviewer)
            if number is not None:
                return Served(number, "dispute")
            number = self._agreement(reviewer)
            if number is not None:
                return Served(number, "agreement")
            number = self._random(reviewer)
            if number is not None:
                return Served(number, "random")
            if self._asked.estimate is not None:
                return None
        passing = self._selector.mask(filters, judged, reviewer)
        if not filters.state:
            passing &= self._unsettled()
        order = judged.order(self._asked.order)
        number = self._first(order[passing[order]], reviewer)
        if number is None:
            return None
        if self._tally.state[number] == DISPUTE:
            return Served(number, "dispute")
        return Served(number, "suspect" if self._material.stored[number] else "missing")

    def _unsettled(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return on which facts nobody is sure [n]."""
        return np.asarray((self._tally.state == OPEN) | (self._tally.state == UNSURE))

    def _first(self, numbers: Iterable[int], reviewer: str) -> int | None:
        """Return the first fact that a reviewer may get: neither answered nor put aside."""
        now = time.monotonic()
        taken = {one.number for one in self._served.values() if one.until > now}
        taken |= self._tally.skipped.get(reviewer, set())
        for number in numbers:
            if number not in taken and not self._tally.answered_by(reviewer, number):
                return int(number)
        return None

    def _dispute(self, reviewer: str) -> int | None:
        """Return a fact on which others disagree."""
        return self._first(np.flatnonzero(self._tally.state == DISPUTE), reviewer)

    def _agreement(self, reviewer: str) -> int | None:
        """Return a fact that one other reviewer has judged, when one is due."""
        answered = self._tally.by_fact
        if self._tally.several + 1 > self._asked.agreement_share * (len(answered) + 1):
            return None
        once = [number for number, answers in answered.items() if len(answers) == 1]
        return self._first(sorted(once, key=lambda number: self._second[number]), reviewer)

    def _random(self, reviewer: str) -> int | None:
        """Return the next fact that is drawn, when one is due."""
        if self._asked.estimate is None:
            drawn, answered = len(self._tally.drawn), len(self._tally.by_fact)
            if drawn + 1 > self._asked.random_share * (answered + 1):
                return None
        elif self.enough():
            return None
        rows, unsettled = self._draw.come_to(self._tally.drawn_facts()), self._unsettled()
        for order in self._draw.in_turn(rows, self._tally.said(rows)):
            number = self._first(order[unsettled[order]], reviewer)
            if number is not None:
                return number
        return None
