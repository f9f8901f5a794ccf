"""What an audit says of a fact beside the evidence that can be checked by hand, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Speaks = Literal["for", "against"]
RemarkKind = Literal["known", "place", "columns", "issue"]

# How every sentence on the place of a fact begins.
OVERALL = "All evidence together"
# How every sentence on an issue begins.
ISSUE = "Issue ("
# Columns that change the odds by less than this factor have not moved a fact.
MOVED = 1.05


@dataclass(frozen=True)
class Remark:
    """A sentence of an audit about one fact.

    Attributes:
        kind: ``known``: what a label or an answer says; ``place``: where all evidence together
            puts it; ``columns``: what the columns of the input say; ``issue``: what was found
            without a model.
        speaks: ``for`` or ``against`` the fact.
        text: the sentence.
    """

    kind: RemarkKind
    speaks: Speaks
    text: str


@dataclass(frozen=True)
class Place:
    """Where all evidence together puts a fact.

    Attributes:
        number: from 1; of stored facts the most suspicious is first, of proposed ones the most
            probable.
        among: how many there are.
        stored: whether it is a stored fact.
        listed: whether it is on the list of suspects, or of missing facts.
    """

    number: int
    among: int
    stored: bool
    listed: bool

    def remarks(self, probability: float | None) -> tuple[Remark, ...]:
        """Say it so that it agrees with the probability, where one is told.

        >>> Place(12, 4239, True, True).remarks(0.04)[0].text
        'All evidence together makes it the 12th most suspicious of 4,239 stored facts.'
        """
        if probability is None and not self.listed:
            return ()
        most, kind = ("suspicious", "stored") if self.stored else ("probable", "proposed")
        # What the place of a listed fact says, and what the probability says.
        leans: Speaks = "against" if self.stored else "for"
        right = leans == "for" if probability is None else probability >= 0.5
        verdict: Speaks = "for" if right else "against"
        nth = "" if self.number == 1 else f"{ordinal(self.number)} "
        said = f"{OVERALL} makes it the {nth}most {most} of {self.among:,} {kind} facts"
        if verdict == leans:
            return (Remark("place", leans, f"{said}."),)
        other = "right than wrong" if right else "wrong than right"
        if self.listed:
            still = f"{OVERALL} still makes it more probably {other}."
            return Remark("place", leans, f"{said}."), Remark("place", verdict, still)
        if self.stored and 2 * self.number > self.among:
            less = f"less suspicious than {self.number - 1:,} of the {self.among - 1:,} other"
            return (Remark("place", verdict, f"{OVERALL} makes it {less} stored facts."),)
        return (Remark("place", verdict, f"{said}, and still more probably {other}."),)


def known_remarks(known: bool | None) -> tuple[Remark, ...]:
    """Say who says that a fact is right, or wrong; None: nobody does.

    >>> known_remarks(False)[0].text
    'A label of the input or an answer says that it is wrong.'
    """
    if known is None:
        return ()
    text = f"A label of the input or an answer says that it is {'right' if known else 'wrong'}."
    return (Remark("known", "for" if known else "against", text),)


def column_remarks(odds: float | None, columns: Sequence[str]) -> tuple[Remark, ...]:
    """Say by how much columns of the input moved a fact.

    Args:
        odds: the factor by which all of them change the odds of its being wrong; None: not known.
        columns: their names.

    >>> column_remarks(0.5, ["confidence"])[0].text
    'The column confidence makes it less suspicious: it divides the odds of its being wrong by 2.0.'
    """
    if odds is None or not columns or 1 / MOVED < odds < MOVED:
        return ()
    *others, last = columns
    subject = f"The columns {', '.join(others)} and {last}" if others else f"The column {last}"
    against = odds > 1
    doing = {
        (True, True): "make it more suspicious: they multiply",
        (True, False): "make it less suspicious: they divide",
        (False, True): "makes it more suspicious: it multiplies",
        (False, False): "makes it less suspicious: it divides",
    }[bool(others), against]
    by = odds if against else 1 / odds
    text = f"{subject} {doing} the odds of its being wrong by {by:.1f}."
    return (Remark("columns", "against" if against else "for", text),)


def issue_remarks(issues: Sequence[tuple[str, str]]) -> tuple[Remark, ...]:
    """Say which issues are about a fact, each with its kind and its sentence.

    >>> issue_remarks([("self-loop", "All others join two different entities.")])[0].text
    'Issue (self-loop): All others join two different entities.'
    """
    return tuple(
        Remark("issue", "against", f"{ISSUE}{kind}): {sentence}") for kind, sentence in issues
    )


def ordinal(number: int) -> str:
    """Write a place.

    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 22, 1003)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '13th', '22nd', '1,003rd']
    """
    ends = {1: "st", 2: "nd", 3: "rd"}
    end = "th" if number % 100 in (11, 12, 13) else ends.get(number % 10, "th")
    return f"{number:,}{end}"
