"""What all answers together say of each fact; rows of the store come in one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from npugraph.review.material import Material
from npugraph.review.records import Agreement
from npugraph.review.store import Answer

STATES = ("open", "right", "wrong", "unsure", "dispute", "known")
OPEN, RIGHT, WRONG, UNSURE, DISPUTE, KNOWN = range(6)


class Tally:
    """The answers that hold, by fact and by reviewer.

    Attributes:
        state: int8 [n], places in STATES.
        last: number of the last row that is counted.
        by_fact: for each answered fact, the answer of each reviewer.
        skipped: for each reviewer, the facts that were skipped.
        sure: answered facts that are settled as right or wrong.
    """

    def __init__(self, material: Material) -> None:
        """Begin without answers."""
        self._material = material
        self.state: NDArray[np.int8] = np.where(material.known >= 0, KNOWN, OPEN).astype(np.int8)
        self.last = 0
        self.by_fact: dict[int, dict[str, Answer]] = {}
        self.skipped: dict[str, set[int]] = {}
        self.sure = 0
        # All rows of a reviewer on a fact that are not undone, the last one counts.
        self._held: dict[tuple[str, int], list[Answer]] = {}
        self._number_of: dict[int, int] = {}

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
        answers = self.by_fact.setdefault(number, {})
        if held:
            answers[row.reviewer] = held[-1]
        else:
            answers.pop(row.reviewer, None)
            if not answers:
                del self.by_fact[number]
        self._settle(number)
        return number

    def _settle(self, number: int) -> None:
        before = self.state[number]
        known = self._material.known[number] >= 0
        now = verdict(list(self.by_fact.get(number, {}).values()))
        self.state[number] = KNOWN if known and now == OPEN else now
        settled = (RIGHT, WRONG)
        self.sure += int(self.state[number] in settled) - int(before in settled)

    def mine(self, reviewer: str) -> list[int]:
        """Return the facts that a reviewer has answered."""
        return [number for (name, number), held in self._held.items() if held and name == reviewer]

    def answered_by(self, reviewer: str, number: int) -> bool:
        """Tell whether a reviewer has answered a fact."""
        return reviewer in self.by_fact.get(number, ())

    def said(self) -> NDArray[np.float64]:
        """Return what is settled of each fact [n]: 1 wrong, 0 right, nan not settled."""
        known = self._material.known
        said = np.full(len(self.state), np.nan)
        said[(self.state == RIGHT) | ((self.state == KNOWN) & (known == 1))] = 0.0
        said[(self.state == WRONG) | ((self.state == KNOWN) & (known == 0))] = 1.0
        return said

    def agreement(self) -> Agreement:
        """Return how far reviewers agree who judged the same facts."""
        several = [list(a.items()) for a in self.by_fact.values() if len(a) > 1]
        pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
        every: list[tuple[str, str]] = []
        for answers in several:
            # In the order in which they were given.
            answers.sort(key=lambda item: item[1].id)
            words = [(name, STATES[verdict([row])]) for name, row in answers]
            for place, (one, first) in enumerate(words):
                for other, second in words[place + 1 :]:
                    every.append((first, second))
                    turned = one > other
                    said = (second, first) if turned else (first, second)
                    pairs.setdefault((other, one) if turned else (one, other), []).append(said)
        agreed = sum(len({verdict([row]) for _, row in answers}) == 1 for answers in several)
        return Agreement(
            len(several),
            agreed,
            int((self.state == DISPUTE).sum()),
            cohens_kappa(every),
            tuple((*names, len(said), cohens_kappa(said)) for names, said in sorted(pairs.items())),
        )


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
