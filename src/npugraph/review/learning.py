"""What answers teach, without a new training: probabilities of all facts, and their order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from npugraph.arrays import Floats, Ints
from npugraph.auditing.statistics.answers import (
    CHOSEN,
    LEAST_ANSWERS,
    RANDOM,
    Answered,
    Predictors,
    check_answers,
    recalibrate,
)
from npugraph.review.material import Bools, Material
from npugraph.review.records import Order


@dataclass(frozen=True, eq=False)
class Judged:
    """What is thought of all facts [n] at some time.

    Attributes:
        probability: of being true; nan where nothing is known but an order.
        low: lower end of its 90% interval; ``high`` likewise.
        score: higher is more plausible; orders facts of equal probability.
        allowed: whether probabilities may be shown: of stored facts, of proposed ones.
        used: answers behind the probabilities of stored facts; 0: those of the audit.
        reason: a sentence on what the answers say of the probabilities.
    """

    material: Material
    probability: Floats
    low: Floats
    high: Floats
    score: Floats
    allowed: tuple[bool, bool]
    used: int = 0
    reason: str = ""

    @classmethod
    def of_audit(cls, material: Material) -> Judged:
        """Return what the audit said."""
        score = np.where(np.isfinite(material.score), material.score, -np.inf)
        figures = (material.probability, material.low, material.high)
        return cls(material, *figures, score, material.reliable)

    def shown(self, number: int) -> tuple[float | None, float | None, float | None]:
        """Return the probability of a fact and the ends of its interval, where they are allowed."""
        if not self.allowed[0 if self.material.stored[number] else 1]:
            return None, None, None
        value, low, high = self.probability[number], self.low[number], self.high[number]
        if not np.isfinite(value):
            return None, None, None
        return float(value), float(low), float(high)

    @cached_property
    def gain(self) -> Floats:
        """How probably a look at each fact finds an error [n]; nan where it is known of none.

        A fact whose relation has no probabilities goes by others of its kind with such scores.
        """
        stored = self.material.stored
        gain = np.where(stored, 1 - self.probability, self.probability)
        for kind in (stored, ~stored):
            lacking = kind & ~np.isfinite(gain)
            known = kind & np.isfinite(gain) & np.isfinite(self.score)
            if lacking.any() and known.any():
                order = np.flatnonzero(known)[np.argsort(self.score[known], kind="stable")]
                gain[lacking] = np.interp(self.score[lacking], self.score[order], gain[order])
        return gain

    @cached_property
    def place(self) -> Ints:
        """Where each fact stands in the order of its kind [n], from 0."""
        place = np.empty(len(self.gain), dtype=np.int64)
        for stored in (True, False):
            rows = np.flatnonzero(self.material.stored == stored)
            score = self.score[rows] if stored else -self.score[rows]
            gain = np.where(np.isfinite(self.gain[rows]), self.gain[rows], 0.0)
            place[rows[np.lexsort((score, -gain))]] = np.arange(len(rows))
        return place

    @cached_property
    def by_yield(self) -> Ints:
        """All facts, by how probably a look finds an error.

        Where that is not known of one kind, the two kinds take turns.
        """
        if np.isfinite(self.gain).all():
            return np.lexsort((self.place, -self.gain))
        return np.lexsort((~self.material.stored, self.place))

    @cached_property
    def by_teaching(self) -> Ints:
        """All facts, by how much an answer should teach.

        An answer on a fact of a large relation says something of many others, and the less the
        better the relation is known; an answer that is foretold says nothing.
        """
        relation = self.material.facts[:, 1]
        chance = np.where(np.isfinite(self.probability), self.probability, 0.5)
        value = chance * (1 - chance)
        # Of equally open facts the more suspicious one may also find an error.
        order = np.lexsort((self.place, -value, relation))
        size = np.bincount(relation)
        start = np.cumsum(size) - size
        turn = np.empty(len(order), dtype=np.int64)
        turn[order] = np.arange(len(order)) - start[relation[order]]
        return np.lexsort((self.place, -(value + 1e-9) * size[relation] / (1 + turn)))

    def order(self, name: Order) -> Ints:
        """Return all facts in an order."""
        return self.by_yield if name == "yield" else self.by_teaching


class Learner:
    """Recalibrates what an audit said; thread-safe, since it holds nothing that changes."""

    def __init__(self, material: Material, *, budget: int, seed: int) -> None:
        """Prepare what does not change with the answers."""
        self._material = material
        self._budget = budget
        self._seed = seed
        self._predictors = self._prepared()

    def _prepared(self) -> list[tuple[int, Predictors]]:
        """Where the facts of either kind begin, and what the audit says of them."""
        material, stored = self._material, self._material.num_stored
        found = []
        for start, end, reliable in (
            (0, stored, material.reliable[0]),
            (stored, len(material), material.reliable[1]),
        ):
            if start == end:
                continue
            part = slice(start, end)
            score = material.score[part]
            # A fact that was known to be wrong has no score; the least one says what is known.
            least = np.nanmin(score) if np.isfinite(score).any() else 0.0
            facts = Predictors.of(
                np.where(np.isfinite(score), score, least),
                probability=_filled(material.probability[part]) if reliable else None,
                relation=material.facts[part, 1],
                source=material.source[part] if material.sources else None,
                views=material.features if start == 0 else None,
            )
            found.append((start, facts))
        return found

    def learn(self, rows: Ints, wrong: Bools, random: Bools) -> Judged:
        """Return the judgement after answers.

        Args:
            rows: numbers of the facts that are settled [m].
            wrong: bool [m].
            random: bool [m], those that were drawn at random.
        """
        judged = Judged.of_audit(self._material)
        figures = [values.copy() for values in (judged.probability, judged.low, judged.high)]
        allowed, used, reason = list(judged.allowed), 0, ""
        for kind, (start, facts) in enumerate(self._predictors):
            mine = (rows >= start) & (rows < start + len(facts.columns))
            if mine.sum() < LEAST_ANSWERS:
                continue
            drawn = np.where(random[mine], RANDOM, CHOSEN)
            answers = Answered(rows[mine] - start, ~wrong[mine], drawn)
            found = recalibrate(facts, answers)
            for values, new in zip(
                figures, (found.probability, found.low, found.high), strict=True
            ):
                values[start : start + len(new)] = new
            if kind == 0:
                last = min(self._budget, len(found.probability)) - 1
                least = np.partition(found.probability, last)[last]
                check = check_answers(facts, answers, found.probability <= least, seed=self._seed)
                used, reason = len(answers), check.reason
                # The answers may carry probabilities that the audit could not promise, or refute
                # those that it did.
                allowed[0] = check.holds or (allowed[0] and not check.enough)
        probability, low, high = figures
        return replace(
            judged,
            probability=probability,
            low=low,
            high=high,
            allowed=(allowed[0], allowed[1]),
            used=used,
            reason=reason,
        )


def _filled(probability: Floats) -> Floats:
    """Return probabilities [n] with the mean of all in place of what is not told."""
    known = np.isfinite(probability)
    return np.where(known, probability, probability[known].mean() if known.any() else 0.5)
