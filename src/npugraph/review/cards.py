"""What a reviewer sees of one fact."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from npugraph.names import shorten
from npugraph.report import Evidence
from npugraph.review.store import Answer

# Why a fact is served.
Why = Literal["", "suspect", "missing", "random", "agreement", "dispute"]
_LINK = re.compile(r"https?://[^\s<>\"'`{}|\\^]+")


@dataclass(frozen=True)
class Name:
    """A name as the input has it, as it is shown, and where it leads.

    >>> Name.of("http://example.org/Rome", "Rome").link
    'http://example.org/Rome'
    >>> Name.of("javascript:alert(1)", "x").link
    ''
    """

    name: str
    shown: str
    link: str = ""

    @classmethod
    def of(cls, name: str, shown: str | None = None) -> Name:
        """Make one; only a whole web address is a link."""
        return cls(
            name, shorten(name) if shown is None else shown, name if _LINK.fullmatch(name) else ""
        )


@dataclass(frozen=True)
class Issue:
    """What breaks a regularity of the graph."""

    kind: str
    sentence: str


@dataclass(frozen=True)
class Neighbour:
    """A stored fact that shares an entity with the one on the card; ``state`` as of a card."""

    number: int
    head: Name
    relation: Name
    tail: Name
    state: str = "open"


@dataclass(frozen=True)
class Fix:
    """A proposed correction: put ``name`` in the place of ``side``.

    Attributes:
        side: which part is wrong.
        name: what should be there.
        stored: that fact is stored already: the wrong one is to be taken out, and that is all.
    """

    side: Literal["head", "relation", "tail"]
    name: Name
    stored: bool = False


@dataclass(frozen=True)
class Card:
    """One fact.

    Attributes:
        number: of the fact in this audit.
        head: its names; ``relation`` and ``tail`` likewise.
        stored: whether the graph holds it; False for a proposed missing fact.
        state: open, right, wrong, unsure, dispute or known (before the review).
        why: why it is served; empty on a page.
        blind: what the model thinks is hidden until the answer is given: probability, place,
            evidence, paths, correction, issues and the answers of others are empty.
        place: its place in the order of its kind, from 1.
        probability: that it is true, in [0, 1]; None where the verdict allows none.
        low: ends of its 90% interval; ``high`` likewise.
        source: where the input has it from.
        correction: what may be meant instead.
        issues: what it breaks.
        answers: those that hold, of all reviewers.
        group: the name it is grouped by, on a grouped page.
        evidence: sentences; None where nobody looked yet, as on a page.
        paths: what the score rests on, as sentences.
        neighbours: stored facts around it; empty on a page.
        note: why there is no evidence, where there is none.
    """

    number: int
    head: Name
    relation: Name
    tail: Name
    stored: bool
    state: str
    why: Why = ""
    blind: bool = False
    place: int | None = None
    probability: float | None = None
    low: float | None = None
    high: float | None = None
    source: str = ""
    correction: Fix | None = None
    issues: tuple[Issue, ...] = ()
    answers: tuple[Answer, ...] = ()
    group: str = ""
    evidence: Evidence | None = None
    paths: tuple[str, ...] = ()
    neighbours: tuple[Neighbour, ...] = field(default=())
    note: str = ""
