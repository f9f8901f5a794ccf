"""What all answers together say of each fact; rows of the store come in one by one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from npugraph.arrays import Floats, Ints
from npugraph.review.material import Material
from npugraph.review.records import Agreement, Pair
from npugraph.review.store import Answer

STATES = ("open", "right", "wrong", "unsure", "dispute", "known")
OPEN, RIGHT, WRONG, UNSURE, DISPUTE, KNOWN = range(6)


class Tally:
    """The answers that hold, by fact and by reviewer.

    Attributes:
        state: int8 [n], places in STATES.
        last: number of the last row that is counted.
        by_fact: for each answered fact, the answer of each reviewer.
        by_reviewer: for each reviewer, the facts they have answered.
        skipped: for each reviewer, the facts that were skipped.
        drawn: facts that were answered as drawn at random.
        several: how many facts have answers of several reviewers.
        sure: how many answered facts are settled as right or wrong.
    """

    def __init__(self, material: Material) -> None:
        """Begin without answers."""
        self._material = material
        self.state: NDArray[np.int8] = np.where(material.known >= 0, KNOWN, OPEN).astype(np.int8)
        self.last = 0
        self.by_fact: dict[int, dict[str, Answer]] = {}
        self.by_reviewer: dict[str, set[int]] = {}
        self.skipped: dict[str, set[int]] = {}
        self.drawn: set[int] = set()
        self.several = 0
        self.sure = 0
        # All rows of a reviewer on a fact that are not undone; the last one counts.
        self._held: dict[tuple[str, int], list[Answer]] = {}

    def add(self, row: Answer) -> int:
        """Count one more row; return the number of its fact, -1 where the audit has no such."""
        self.last = max(self.last, row.id)
        number = self._material.number(row.fact)
        if number < 0:
            return number
        held = self._held.setdefault((row.reviewer, number), [])
        if row.undoes is None:
            held.append(row)
        else:
            held[:] = [one for one in held if one.id != row.undoes]
        self._hold(row.reviewer, number, held[-1] if held else None)
        return number

    def _hold(self, reviewer: str, number: int, row: Answer | None) -> None:
        """Make a row, or none, the answer of a reviewer on a fact."""
        answers = self.by_fact.setdefault(number, {})
        before = len(answers) > 1
        mine = self.by_reviewer.setdefault(reviewer, set())
        if row is None:
            answers.pop(reviewer, None)
            mine.discard(number)
        else:
            answers[reviewer] = row
            mine.add(number)
        self.several += int(len(answers) > 1) - int(before)
        if any(one.drawn == "random" for one in answers.values()):
            self.drawn.add(number)
        else:
            self.drawn.discard(number)
        if not answers:
            del self.by_fact[number]
        self._settle(number, verdict(tuple(answers.values())))

    def _settle(self, number: int, now: int) -> None:
        settled = (RIGHT, WRONG)
        self.sure += int(now in settled) - int(self.state[number] in settled)
        known = self._material.known[number] >= 0
        self.state[number] = KNOWN if known and now == OPEN else now

    def skip(self, reviewer: str, number: int) -> None:
        """Remember that a reviewer does not want to judge a fact."""
        if number >= 0:
            self.skipped.setdefault(reviewer, set()).add(number)

    def mine(self, reviewer: str) -> Ints:
        """Return the facts that a reviewer has answered."""
        return _array(self.by_reviewer.get(reviewer, ()))

    def put_aside(self, reviewer: str) -> Ints:
        """Return the facts that a reviewer has skipped."""
        return _array(self.skipped.get(reviewer, ()))

    def drawn_facts(self) -> Ints:
        """Return the facts that were answered as drawn at random."""
        return _array(self.drawn)

    def answered_by(self, reviewer: str, number: int) -> bool:
        """Tell whether a reviewer has answered a fact."""
        return reviewer in self.by_fact.get(number, ())

    def said(self, numbers: Ints) -> Floats:
        """Return what is settled of some facts [m]: 1 wrong, 0 right, nan not settled."""
        state, known = self.state[numbers], self._material.known[numbers]
        right = (state == RIGHT) | ((state == KNOWN) & (known == 1))
        wrong = (state == WRONG) | ((state == KNOWN) & (known == 0))
        return np.where(right, 0.0, np.where(wrong, 1.0, np.nan))

    def first_answers(self, numbers: Ints) -> Ints:
        """Return the number of the first answer on each of some facts [m]; 0 without any."""
        held = (self.by_fact.get(number, {}) for number in numbers.tolist())
        return np.array([min((r.id for r in a.values()), default=0) for a in held], dtype=np.int64)

    def settled(self) -> Ints:
        """Return the facts that are settled, by answers or from before."""
        return np.flatnonzero(np.isin(self.state, (RIGHT, WRONG, KNOWN)))

    def learnable(self) -> Ints:
        """Return the facts that are settled by answers; the audit knew of the others."""
        return np.flatnonzero(np.isin(self.state, (RIGHT, WRONG)))

    def agreement(self) -> Agreement:
        """Return how far reviewers agree who judged the same facts."""
        several = [sorted(a.values(), key=_by_id) for a in self.by_fact.values() if len(a) > 1]
        words = [[(row.reviewer, STATES[verdict((row,))]) for row in rows] for rows in several]
        pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
        every: list[tuple[str, str]] = []
        for said in words:
            for place, one in enumerate(said):
                for other in said[place + 1 :]:
                    every.append((one[1], other[1]))
                    first, second = sorted((one, other))
                    pairs.setdefault((first[0], second[0]), []).append((first[1], second[1]))
        return Agreement(
            len(several),
            sum(len({word for _, word in said}) == 1 for said in words),
            int((self.state == DISPUTE).sum()),
            cohens_kappa(every),
            tuple(
                Pair(*names, len(said), cohens_kappa(said)) for names, said in sorted(pairs.items())
            ),
        )


def _by_id(row: Answer) -> int:
    return row.id


def _array(numbers: Collection[int]) -> Ints:
    return np.fromiter(numbers, dtype=np.int64, count=len(numbers))


def verdict(answers: Sequence[Answer]) -> int:
    """Return what the answers of several reviewers on one fact say together, as a state.

    Most of those who are sure decide; as many on either side are in dispute.
    """
    wrong = sum(row.wrong is True for row in answers)
    right = sum(row.wrong is False for row in answers)
    if wrong != right:
        return WRONG if wrong > right else RIGHT
    if wrong:
        return DISPUTE
    return UNSURE if answers else OPEN


def cohens_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa of pairs of words; None without any, or where all words are the same.

    >>> cohens_kappa([("right", "right"), ("wrong", "wrong"), ("right", "wrong")])
    0.4
    """
    if not pairs:
        return None
    count = len(pairs)
    words = {word for pair in pairs for word in pair}
    agreed = sum(one == other for one, other in pairs) / count
    chance = sum(
        sum(one == word for one, _ in pairs) * sum(other == word for _, other in pairs)
        for word in words
    ) / (count * count)
    return None if chance == 1 else round((agreed - chance) / (1 - chance), 12)
