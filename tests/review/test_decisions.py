"""What answers decide: the majority of those who are sure, and nothing in dispute."""

from __future__ import annotations

from itertools import count

import pytest

from npugraph.errors import DataError
from npugraph.patching import Decision, Fact
from npugraph.review.decisions import decide, settled_true
from npugraph.review.store import Answer

FACT = Fact("Rome", "capital_of", "Spain")
RIGHT = FACT._replace(tail="Italy")
MALTA = FACT._replace(tail="Malta")
_numbers = count()


def said(who: str, word: str, new: Fact | None = None, stored: bool = True) -> Answer:
    changed = (
        {} if new is None else dict(zip(("new_head", "new_relation", "new_tail"), new, strict=True))
    )
    return Answer(
        f"k{next(_numbers)}", *FACT, stored, word, who, **changed, probability=0.25,
        note=f"by {who}", time=f"2026-01-0{len(who)}T00:00:00Z",
    )  # fmt: skip


def short(answers: list[Answer]) -> list[tuple[str, Fact, Fact | None]]:
    return [(one.change, one.fact, one.new) for one in decide(answers)]


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ([("A", "true")], []),
        ([("A", "unsure")], []),
        ([("A", "false")], [("remove", FACT, None)]),
        ([("A", "wrong-relation")], [("remove", FACT, None)]),
        ([("A", "correct", RIGHT)], [("replace", FACT, RIGHT)]),
        # In dispute, until a third reviewer comes.
        ([("A", "false"), ("B", "true")], []),
        ([("A", "false"), ("B", "true"), ("C", "false")], [("remove", FACT, None)]),
        ([("A", "false"), ("B", "true"), ("C", "true")], []),
        # Who is unsure does not vote.
        ([("A", "false"), ("B", "unsure")], [("remove", FACT, None)]),
        # Wrong for sure, but not what is right.
        ([("A", "correct", RIGHT), ("B", "correct", MALTA)], [("remove", FACT, None)]),
        ([("A", "correct", RIGHT), ("B", "false")], [("replace", FACT, RIGHT)]),
        # Nobody heeds the correction of a reviewer who is outvoted.
        ([("A", "correct", RIGHT), ("B", "true"), ("C", "true")], []),
    ],
)  # fmt: skip
def test_stored_facts(answers: list[tuple], wanted: list[tuple]) -> None:
    assert short([said(*one) for one in answers]) == wanted


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ([("A", "true")], [("add", FACT, None)]),
        ([("A", "false")], []),
        ([("A", "unsure")], []),
        ([("A", "true"), ("B", "false")], []),
        ([("A", "correct", RIGHT)], [("add", RIGHT, None)]),
    ],
)
def test_missing_facts(answers: list[tuple], wanted: list[tuple]) -> None:
    assert short([said(*one, stored=False) for one in map(padded, answers)]) == wanted


def padded(answer: tuple) -> tuple:
    return answer if len(answer) == 3 else (*answer, None)


def test_who_when_and_why() -> None:
    (one,) = decide([said("Bo", "false"), said("A", "false"), said("Eve", "true")])
    assert one.reviewers == ("A", "Bo")
    assert one.time == "2026-01-02T00:00:00Z"
    assert one.note == "by Bo; by A"
    assert (one.why, one.probability) == ("answer", 0.25)


def test_the_quarantine_does_not_touch_what_was_judged() -> None:
    other = Decision("remove", RIGHT, why="quarantine", probability=0.1)
    own = Decision("remove", FACT, why="quarantine", probability=0.1)
    for word in ("true", "unsure"):
        assert decide([said("A", word)], [own, other]) == [other]
    assert [one.why for one in decide([said("A", "false")], [own, other])] == [
        "answer",
        "quarantine",
    ]
    assert decide([], [own, other]) == [own, other]


def test_what_is_settled_as_true() -> None:
    assert settled_true([said("A", "true")]) == [FACT]
    assert settled_true([said("A", "true"), said("B", "false")]) == []


def test_a_replacement_needs_another_fact() -> None:
    for new in (None, FACT):
        with pytest.raises(DataError, match="a replacement, and that alone, has a new fact"):
            Decision("replace", FACT, new)
