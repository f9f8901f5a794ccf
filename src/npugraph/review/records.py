"""What goes into the desk and comes out of it: plain frozen records, free of HTML and HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from npugraph.errors import SettingsError, nearest
from npugraph.review.cards import Card, Name
from npugraph.review.store import Answer
from npugraph.settings import check_ranges, setting

Order = Literal["yield", "teaches"]
Grouping = Literal["", "entity", "relation"]
Kind = Literal["", "stored", "suspect", "missing"]
# ``open``: nobody was sure so far; ``right``, ``wrong``: settled; ``known`` before the review.
State = Literal[
    "", "open", "answered", "right", "wrong", "unsure", "dispute", "known", "skipped", "mine"
]
# How often the intervals of the desk hold the truth.
LEVEL = 0.95


@dataclass(frozen=True)
class DeskSettings:
    """What a review is asked for."""

    budget: int | None = setting(None, "answers planned; none: the budget of the audit", low=1)
    random_share: float = setting(
        0.2,
        "share of the facts that are drawn at random, the model's opinion hidden",
        low=0,
        high=1,
    )
    agreement_share: float = setting(
        0.05, "share of the facts that a second reviewer judges again", low=0, high=1
    )
    order: Order = setting("yield", "yield: what is most probably wrong or missing; or teaches")
    estimate: float | None = setting(
        None,
        "draw facts until the share of wrong ones is known to this much either way",
        low=0.001,
        high=0.5,
    )
    learn_every: int = setting(20, "answers between two recalibrations", low=1)
    seed: int = setting(0, "every random draw follows from it", low=0)

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        check_ranges(self)
        check_word("order", self.order, get_args(Order))
        if self.random_share + self.agreement_share > 1:
            raise SettingsError(
                f"random_share={self.random_share} and agreement_share={self.agreement_share} are "
                "more than 1 together."
            )


@dataclass(frozen=True)
class Filters:
    """Which facts; what is empty lets all through.

    Attributes:
        kind: ``stored``, ``suspect`` (the stored facts most probably wrong) or ``missing``.
        relation: its name.
        source: the value of the audit's source column.
        issue: a kind of issue.
        text: part of a name, as given or as shown, in any case.
        entity: name of an entity, as head or tail.
        state: a word of State; ``mine`` are those that the reviewer has answered.
    """

    kind: Kind = ""
    relation: str = ""
    source: str = ""
    issue: str = ""
    text: str = ""
    entity: str = ""
    state: State = ""

    def __post_init__(self) -> None:
        """Refuse words that are no kind and no state."""
        check_word("kind", self.kind, get_args(Kind))
        check_word("state", self.state, get_args(State))


def check_word(name: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse a word that is none of the known ones."""
    if value not in known:
        words = [word for word in known if word]
        hint = nearest(str(value), words) or f" Use {', '.join(words)}."
        raise SettingsError(f"{name}={value!r} is unknown.{hint}")


@dataclass(frozen=True)
class AnswerIn:
    """An answer as it is sent.

    Attributes:
        key: made by the sender, new for every answer; sent again, it changes nothing.
        answer: true, false, unsure, wrong-relation or correct.
        new_head: for ``correct``: what is right instead, where it differs; for
            ``wrong-relation`` the right relation, if it is known.
        new_relation: likewise.
        new_tail: likewise.
        confidence: the reviewer's own, in [0, 1].
        note: in the reviewer's words.
    """

    key: str
    answer: str
    new_head: str | None = None
    new_relation: str | None = None
    new_tail: str | None = None
    confidence: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Saved:
    """What became of an answer, or of an undo.

    Attributes:
        answers: the rows that were kept or taken back.
        numbers: of their facts; -1 for a fact that the audit does not know.
        repeated: the key was known, so that nothing was added.
    """

    answers: tuple[Answer, ...]
    numbers: tuple[int, ...]
    repeated: bool = False


@dataclass(frozen=True)
class Group:
    """Facts of a page that belong together: the name they share, and how many there are."""

    name: Name
    count: int


@dataclass(frozen=True)
class Page:
    """Some of the facts that pass the filters.

    Attributes:
        cards: without evidence.
        total: how many pass.
        next_cursor: for the next page; empty after the last.
        groups: those of the cards, in their order; empty where nothing is grouped.
    """

    cards: tuple[Card, ...]
    total: int
    next_cursor: str = ""
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True)
class Facet:
    """A value that can be filtered by, and how many facts have it."""

    value: str
    shown: str
    count: int


@dataclass(frozen=True)
class Facets:
    """Values of each filter; each list is counted with the other filters alone."""

    kind: tuple[Facet, ...] = ()
    relation: tuple[Facet, ...] = ()
    source: tuple[Facet, ...] = ()
    issue: tuple[Facet, ...] = ()
    state: tuple[Facet, ...] = ()


@dataclass(frozen=True)
class Preview:
    """What answering all facts of some filters would touch.

    Attributes:
        count: facts that would get the answer.
        left: facts that pass the filters and would not: the reviewer has answered them.
        cards: the first of those that would.
    """

    count: int
    left: int
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Share:
    """The share of wrong facts among all that are stored, by the facts drawn at random alone.

    Attributes:
        value: the share; with its 95% interval from ``low`` to ``high``.
        answers: drawn facts on which somebody is sure.
        wrong: how many of these are wrong.
        open: drawn facts on which nobody is sure: unsure, skipped or in dispute.
        facts: that they were drawn from.
        drawn: ``evenly``, or by ``strata`` of their scores.
    """

    value: float
    low: float
    high: float
    answers: int
    wrong: int
    open: int
    facts: int
    drawn: Literal["evenly", "strata"]


@dataclass(frozen=True)
class Progress:
    """How far the review is.

    Attributes:
        answered: facts with an answer.
        mine: facts that this reviewer has answered.
        right: facts settled as right; ``wrong``, ``unsure`` and ``disputes`` likewise. A missing
            fact that is true counts as ``right``.
        budget: answers planned.
        remaining: of these.
        random: answers on facts drawn at random.
        share: of wrong facts, as far as it is known.
        learned: answers that the present probabilities rest on; 0: those of the audit.
        until_learning: answers until the next recalibration.
        expected: of the next facts in order, as many as ``learn_every``, how many should be
            wrong or missing; None where no probability is allowed.
        estimate: the half width that is wanted, in estimate mode.
        enough: in estimate mode, whether it is reached.
        said: sentences for people.
    """

    answered: int
    mine: int
    right: int
    wrong: int
    unsure: int
    disputes: int
    budget: int
    remaining: int
    random: int
    share: Share | None
    learned: int
    until_learning: int
    expected: float | None
    estimate: float | None = None
    enough: bool = False
    said: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Pair:
    """How far two reviewers agree.

    Attributes:
        one: name of the first.
        other: name of the second.
        facts: that both judged.
        kappa: Cohen's, of their answers; None where both always gave the same one.
    """

    one: str
    other: str
    facts: int
    kappa: float | None


@dataclass(frozen=True)
class Agreement:
    """How far reviewers agree who judged the same facts.

    Attributes:
        facts: that several reviewers judged.
        agreed: those on which they all say the same.
        disputes: those that wait for one more reviewer.
        kappa: Cohen's kappa over all pairs of answers, 1 agreement, 0 chance; None without pairs
            or where everybody always gave the same answer.
        pairs: each two reviewers who judged the same facts.
    """

    facts: int
    agreed: int
    disputes: int
    kappa: float | None
    pairs: tuple[Pair, ...] = ()
