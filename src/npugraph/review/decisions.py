"""What answers decide: the false facts go, the corrected ones change, the missing ones come.

Facts of which nobody is sure, or on which as many are on either side, are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from npugraph.patching import Decision, Fact
from npugraph.review.store import Answer
from npugraph.review.tally import RIGHT, WRONG, verdict

V = TypeVar("V")


def decide(answers: Iterable[Answer], quarantine: Sequence[Decision] = ()) -> list[Decision]:
    """Return the decisions of answers that hold and, if given, of an audit's quarantine.

    Args:
        answers: as ``Store.current`` has them, at most one per reviewer and fact.
        quarantine: what the audit itself would do; a fact with an answer is not touched by it.

    >>> said = Answer("k", "Rome", "capital_of", "Spain", True, "false", "Ada")
    >>> [one.change for one in decide([said])]
    ['remove']
    """
    by_fact = _by_fact(answers)
    found = [_decision(fact, said) for fact, said in by_fact.items()]
    return [
        *(one for one in found if one is not None),
        *(one for one in quarantine if one.fact not in by_fact),
    ]


def settled_true(answers: Iterable[Answer]) -> list[Fact]:
    """Return the facts that most of those who are sure call true."""
    return [fact for fact, said in _by_fact(answers).items() if verdict(said) == RIGHT]


def _by_fact(answers: Iterable[Answer]) -> dict[Fact, list[Answer]]:
    found: dict[Fact, list[Answer]] = {}
    for answer in answers:
        found.setdefault(Fact(*answer.fact), []).append(answer)
    return found


def _decision(fact: Fact, answers: Sequence[Answer]) -> Decision | None:
    """Return what the answers on one fact decide; None: nothing."""
    state, stored = verdict(answers), answers[0].stored
    if state == WRONG:
        said = [answer for answer in answers if answer.wrong]
        new = _agreed(_corrected(answer) for answer in said)
        if stored:
            wrong = Decision("remove", fact) if new is None else Decision("replace", fact, new)
            return _told(wrong, said)
        # The proposed fact is wrong, but the reviewer knows the right one.
        return None if new is None else _told(Decision("add", new), said)
    if state == RIGHT and not stored:
        return _told(Decision("add", fact), [answer for answer in answers if not answer.wrong])
    return None


def _corrected(answer: Answer) -> Fact | None:
    """Return the fact that a reviewer puts in the place of another."""
    new = Fact(
        answer.new_head or answer.head,
        answer.new_relation or answer.relation,
        answer.new_tail or answer.tail,
    )
    return None if new == answer.fact else new


def _agreed(values: Iterable[V | None]) -> V | None:
    """Return the value that all who give one agree on; None where they do not."""
    given = {value for value in values if value is not None}
    return given.pop() if len(given) == 1 else None


def _told(decision: Decision, answers: Sequence[Answer]) -> Decision:
    """Add who said so, when, what they wrote, and what the audit thought of it."""
    chances = [answer.probability for answer in answers if answer.probability is not None]
    return replace(
        decision,
        probability=chances[-1] if chances else None,
        reviewers=tuple(sorted({answer.reviewer for answer in answers})),
        time=max(answer.time for answer in answers) or None,
        note="; ".join(answer.note for answer in answers if answer.note),
    )
