"""The facts that are drawn at random, and what the answers on them say of all stored facts.

They are asked for in a fixed order that follows from the seed and their names. An answer counts as
that on a drawn fact as soon as the order has reached the fact, however it came to be answered: so
the facts that were judged because they are suspicious are not missing among the drawn ones.

In estimate mode there are several such orders, one per stratum of similar scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from npugraph.arrays import Floats, Ints
from npugraph.auditing.statistics.answers import (
    Counts,
    cut,
    narrow_enough,
    next_strata,
    random_share,
    stratified_share,
)
from npugraph.calibration.class_priors import Interval
from npugraph.errors import RunError
from npugraph.review.material import Material
from npugraph.review.queue import even_numbers
from npugraph.review.records import LEVEL, Share
from npugraph.review.store import Answer, Store


@dataclass(frozen=True, eq=False)
class Draw:
    """Orders in which stored facts are drawn, one per stratum.

    Attributes:
        orders: numbers of the facts of each stratum in their order.
        stratum: of each fact [n]; -1 for a proposed fact.
        place: where each fact stands in the order of its stratum [n].
        by_strata: whether there are strata; all facts have the same chance otherwise.
        half_width: in estimate mode, where to stop.
    """

    orders: tuple[Ints, ...]
    stratum: Ints
    place: Ints
    by_strata: bool = False
    half_width: float | None = None

    @classmethod
    def of(
        cls,
        material: Material,
        seed: int,
        *,
        by_strata: bool = False,
        half_width: float | None = None,
    ) -> Draw:
        """Draw stored facts evenly, or by strata of their scores."""
        stored = np.flatnonzero(material.stored)
        codes = strata(material) if by_strata else np.zeros(len(stored), dtype=np.int64)
        rows = stored[np.lexsort((even_numbers(material, seed, "review")[stored], codes))]
        orders = tuple(np.split(rows, np.cumsum(np.bincount(codes))[:-1]))
        stratum, place = (np.full(len(material), -1) for _ in range(2))
        for number, order in enumerate(orders):
            stratum[order], place[order] = number, np.arange(len(order))
        return cls(orders, stratum, place, by_strata, half_width)

    @property
    def sizes(self) -> Ints:
        """How many facts each stratum has."""
        return np.array([len(order) for order in self.orders])

    def reached(self, drawn: Ints) -> Ints:
        """Return how far each order was come to [h], by the facts that were answered as drawn."""
        ends = np.zeros(len(self.orders), dtype=np.int64)
        np.maximum.at(ends, self.stratum[drawn], self.place[drawn] + 1)
        return ends

    def come_to(self, drawn: Ints) -> Ints:
        """Return the facts that the orders were come to."""
        ends = self.reached(drawn)
        return np.concatenate([o[:end] for o, end in zip(self.orders, ends, strict=True)])

    def in_turn(self, rows: Ints, said: Floats) -> Iterator[Ints]:
        """Yield the orders, the one from which a fact should be drawn next first.

        Args:
            rows: facts that were come to [k].
            said: of these: 1 wrong, 0 right, nan not settled.
        """
        counts = Counts.of(self.sizes, self.stratum[rows], said)
        for number in next_strata(counts):
            yield self.orders[number]

    def share(self, rows: Ints, said: Floats, known: tuple[int, int]) -> Share | None:
        """Return the share of wrong facts.

        Args:
            rows: facts that were come to [k].
            said: of these: 1 wrong, 0 right, nan not settled.
            known: how many of all stored facts are settled as right, and as wrong; they bound it.
        """
        counts = Counts.of(self.sizes, self.stratum[rows], said)
        answers, wrong = int(counts.answers.sum()), int(counts.wrong.sum())
        count = int(self.sizes.sum())
        if not answers:
            return None
        if self.by_strata:
            found = stratified_share(counts, level=LEVEL)
        else:
            found = _even_share(wrong, answers, count)
        least, most = known[1] / count, 1 - known[0] / count
        value, low, high = (float(min(max(end, least), most)) for end in found)
        how: Literal["evenly", "strata"] = "strata" if self.by_strata else "evenly"
        return Share(value, low, high, answers, wrong, len(rows) - answers, count, how)

    def enough(self, rows: Ints, said: Floats) -> bool:
        """Tell whether the interval is as narrow as was asked for.

        Args:
            rows: facts that were come to, in the order of their answers [k].
            said: as for the share.
        """
        if self.half_width is None or not len(rows):
            return False
        return narrow_enough(self.sizes, self.stratum[rows], said, self.half_width, level=LEVEL)

    def chance(self, number: int, reached: Ints) -> float | None:
        """Return with what chance a fact was drawn, given how far the orders were come to.

        It is None where all had the same, and 0 where the fact was not drawn.
        """
        stratum = int(self.stratum[number])
        if stratum < 0 or self.place[number] >= reached[stratum]:
            return 0.0
        return float(reached[stratum] / self.sizes[stratum]) if self.by_strata else None


@lru_cache(maxsize=256)
def _even_share(wrong: int, answers: int, facts: int) -> Interval:
    return random_share(wrong, answers, facts, level=LEVEL)


def strata(material: Material) -> Ints:
    """Return the stratum of each stored fact [m], by what the audit says of it."""
    score = material.score[material.stored]
    least = np.nanmin(score) if np.isfinite(score).any() else 0.0
    # What was known to be wrong has no score.
    return cut(np.where(np.isfinite(score), score, least - 1))


def frozen_seed(store: Store, material: Material, seed: int) -> int:
    """Return the seed that an estimate began with; refuse to go on with other strata."""
    digest = hashlib.sha256(strata(material).astype(np.int8).tobytes()).hexdigest()[:16]
    begun, strata_then = store.begin("estimate", f"{seed} {digest}").split()
    if strata_then != digest:
        raise RunError(
            f"{store.path} holds an estimate that was begun with other strata, before this audit "
            "was made or by another version of npugraph; take the answers along with npugraph "
            "audit --answers, into another folder, and estimate there."
        )
    return int(begun)


def begun_draw(store: Store, material: Material) -> Draw | None:
    """Return the draw that a desk has begun in a store, without a desk; None where none did.

    Raises:
        RunError: an estimate was begun with another audit.
    """
    seed = store.begun("seed")
    if seed is None:
        return None
    if store.begun("estimate") is None:
        return Draw.of(material, int(seed))
    return Draw.of(material, frozen_seed(store, material, int(seed)), by_strata=True)


def as_drawn(rows: Sequence[Answer], draw: Draw, material: Material) -> list[Answer]:
    """Mark answers by how their facts were drawn, with the chance where that differed.

    A fact that the order has come to is marked as random, however it was answered.

    Args:
        rows: all answers that hold.
        draw: the orders that the desk follows.
        material: the audit.
    """
    numbers = np.array([material.number(row.fact) for row in rows], dtype=np.int64)
    drawn = np.array([row.drawn == "random" for row in rows], dtype=bool)
    reached = draw.reached(numbers[drawn & (numbers >= 0)])
    marked = []
    for row, number in zip(rows, numbers.tolist(), strict=True):
        chance = draw.chance(number, reached) if number >= 0 else 0.0
        drawn_as = "chosen" if chance == 0 else "random"
        marked.append(replace(row, drawn=drawn_as, chance=chance or None))
    return marked
