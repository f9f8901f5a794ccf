"""What is asked over HTTP: each question a pydantic model, its limits in the OpenAPI."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from npugraph.review import AnswerIn, Filters
from npugraph.review.desk import MOST_ON_PAGE
from npugraph.review.records import Grouping, Kind, Order, State
from npugraph.review.store import Word

# An address holds texts alone, and a number is read from one; JSON has numbers of its own.
ADDRESS = ConfigDict(extra="forbid", frozen=True)
BODY = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
LONGEST_NAME, LONGEST_NOTE, LONGEST_KEY = 20_000, 10_000, 200
MOST_FACTS, MOST_ANSWERS = 1000, 1000


def _whole(value: object) -> object:
    """Take 3.0 for 3, as JSON does; strictness would not."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = BeforeValidator(_whole)
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Wanted = Annotated[str, Field(max_length=LONGEST_NAME)]
Key = Annotated[str, Field(min_length=1, max_length=LONGEST_KEY)]
Cursor = Annotated[str, Field(pattern="^[0-9]{0,12}$")]


class FactIn(BaseModel):
    """A fact, by names."""

    model_config = BODY
    head: Name = Field(description="Name of the head.")
    relation: Name = Field(description="Name of the relation.")
    tail: Name = Field(description="Name of the tail.")

    def names(self) -> tuple[str, str, str]:
        """Return the three names."""
        return self.head, self.relation, self.tail


class ScoreIn(BaseModel):
    """Facts to score."""

    model_config = BODY
    facts: list[FactIn] = Field(
        min_length=1, max_length=MOST_FACTS, description="The facts, known or not."
    )


class _Question(BaseModel):
    model_config = BODY
    relation: Name = Field(description="Name of the relation.")
    k: Annotated[int, Field(ge=1, le=MOST_ANSWERS), Whole] = Field(
        10, description="How many answers."
    )
    only_new: bool = Field(False, description="Leave out the answers that are known facts.")


class TailsOf(_Question):
    """The question (head, relation, ?)."""

    head: Name = Field(description="Name of the head.")


class HeadsOf(_Question):
    """The question (?, relation, tail)."""

    tail: Name = Field(description="Name of the tail.")


class ExplainIn(FactIn):
    """A fact to explain."""

    top: Annotated[int, Field(ge=1, le=100), Whole] = Field(
        5, description="At most so many pieces of each kind."
    )


class ReviewerIn(BaseModel):
    """Who asks."""

    model_config = ADDRESS
    reviewer: Key = Field(description="Name of the reviewer.")


class FiltersIn(ReviewerIn):
    """Which facts; what is empty lets all through."""

    kind: Kind = Field("", description="Stored facts, suspects among them, or missing ones.")
    relation: Wanted = Field("", description="Name of the relation.")
    source: Wanted = Field("", description="Value of the audit's source column.")
    issue: Wanted = Field("", description="A kind of issue.")
    text: Wanted = Field("", description="Part of a name, in any case.")
    entity: Wanted = Field("", description="Name of an entity, as head or tail.")
    state: State = Field("", description="What was answered.")

    def filters(self) -> Filters:
        """Return the desk's filters."""
        return Filters(
            kind=self.kind,
            relation=self.relation,
            source=self.source,
            issue=self.issue,
            text=self.text,
            entity=self.entity,
            state=self.state,
        )


class PageIn(FiltersIn):
    """Which page of the queue."""

    order: Order | None = Field(None, description="Default: the order of the review.")
    group_by: Grouping = Field("", description="Put facts together that share this.")
    cursor: Cursor = Field("", description="The next_cursor of the page before.")
    size: int = Field(50, ge=1, le=MOST_ON_PAGE, description="Facts of a page at most.")


class AnswersIn(BaseModel):
    """Which answers."""

    model_config = ADDRESS
    reviewer: Annotated[str, Field(max_length=LONGEST_KEY)] = Field(
        "", description="Whose; empty: everybody's."
    )
    cursor: Cursor = Field("", description="The next_cursor of the page before.")
    size: int = Field(100, ge=1, le=MOST_ANSWERS, description="Answers of a page at most.")


class SearchIn(BaseModel):
    """Which names."""

    model_config = ADDRESS
    text: Wanted = Field(description="Part of a name, in any case.")
    limit: int = Field(10, ge=1, le=100, description="How many at most.")


class SaidIn(ReviewerIn):
    """What a reviewer says."""

    model_config = BODY
    key: Key = Field(description="New for every answer; sent again, it changes nothing.")
    answer: Word = Field(description="What the reviewer says of the fact.")
    new_head: Name | None = Field(None, description="For 'correct': the right head, if another.")
    new_relation: Name | None = Field(
        None, description="For 'correct' and 'wrong-relation': the right relation, if another."
    )
    new_tail: Name | None = Field(None, description="For 'correct': the right tail, if another.")
    confidence: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="The reviewer's own, in [0, 1]."
    )
    note: Annotated[str, Field(max_length=LONGEST_NOTE)] = Field("", description="In own words.")

    def said(self) -> AnswerIn:
        """Return the desk's form of it."""
        return AnswerIn(
            key=self.key,
            answer=self.answer,
            new_head=self.new_head,
            new_relation=self.new_relation,
            new_tail=self.new_tail,
            confidence=self.confidence,
            note=self.note,
        )


Number = Annotated[int, Field(ge=0, le=2**53), Whole]


class OneAnswerIn(SaidIn):
    """An answer about one fact."""

    number: Number = Field(description="Number of the fact in this audit.")


class SkipIn(ReviewerIn):
    """A fact that a reviewer puts aside."""

    model_config = BODY
    number: Number = Field(description="Number of the fact in this audit.")


class UndoIn(ReviewerIn):
    """Whose last answer is taken back."""

    model_config = BODY
    key: Key = Field(description="New for every undo; sent again, it changes nothing.")


class BulkIn(FiltersIn):
    """One answer about all facts that pass the filters."""

    model_config = BODY
    key: Key = Field(description="New for every answer; sent again, it changes nothing.")
    answer: Literal["true", "false", "unsure", "wrong-relation"] = Field(
        description="What the reviewer says of each fact."
    )
    note: Annotated[str, Field(max_length=LONGEST_NOTE)] = Field("", description="In own words.")
    count: Annotated[int, Field(ge=0), Whole] = Field(
        description="Of the preview; where it is another by now, nothing is kept."
    )

    def said(self) -> AnswerIn:
        """Return the desk's form of it."""
        return AnswerIn(key=self.key, answer=self.answer, note=self.note)
