"""What comes out over HTTP: pydantic models, made of the records of the Python API.

A record (a frozen dataclass) is the only place where its fields are written down: ``mirrored``
makes the model of it, with the descriptions of its docstring.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import re
import types
from dataclasses import dataclass
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from npugraph.review import Answer, Card, Facet, Saved, Share
from npugraph.review.questions import Prediction, Scored

TOLD = ConfigDict(extra="forbid", frozen=True)


class Problem(BaseModel):
    """Why there is no other answer."""

    model_config = TOLD
    status: int = Field(description="The status of the answer, once more.")
    error: str = Field(description="One sentence: what is wrong, and what to do.")
    fields: list[str] = Field(description="Which fields of the request are wrong; empty: none.")


@dataclass(frozen=True)
class ScoredFacts:
    """Facts with their scores, one for each that was asked for, in their order."""

    facts: tuple[Scored, ...]


@dataclass(frozen=True)
class Predictions:
    """The most plausible entities, best first."""

    predictions: tuple[Prediction, ...]


@dataclass(frozen=True)
class Served:
    """What a reviewer should judge now.

    Attributes:
        card: the fact; null where nothing is left.
    """

    card: Card | None


@dataclass(frozen=True)
class Undone:
    """What became of an undo.

    Attributes:
        saved: what was taken back; null where there was nothing.
    """

    saved: Saved | None


@dataclass(frozen=True)
class AnswerPage:
    """Answers that hold, neither taken back nor replaced, oldest first.

    Attributes:
        answers: some of them.
        next_cursor: for the next ones; empty after the last.
    """

    answers: tuple[Answer, ...]
    next_cursor: str


@dataclass(frozen=True)
class Estimate:
    """What the answers say of all stored facts.

    Attributes:
        share: of wrong facts, with its 95% interval; null before the first fact drawn at random.
        wanted: the half width that is asked for, in estimate mode.
        enough: in estimate mode, whether it is reached.
    """

    share: Share | None
    wanted: float | None
    enough: bool


@dataclass(frozen=True)
class Found:
    """Names that hold a text, the best fit first.

    Attributes:
        names: each with how it is shown, and in how many stored facts it is.
    """

    names: tuple[Facet, ...]


@functools.cache
def mirrored(record: type) -> type[BaseModel]:
    """Return the model of a record, which is a dataclass.

    >>> from npugraph.explaining import Usage
    >>> mirrored(Usage).model_json_schema()["properties"]["count"]["description"]
    'other facts of the relation with the entity on this side.'
    """
    hints, told = get_type_hints(record), described(record)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        about: dict[str, Any] = {"description": told.get(field.name)}
        if field.default is not dataclasses.MISSING:
            about["default"] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            about["default_factory"] = field.default_factory
        fields[field.name] = (_model_type(hints[field.name]), Field(**about))
    first = (inspect.getdoc(record) or "").split("\n\n")[0]
    made: Any = create_model  # its overloads do not take names from a dict
    return cast(type[BaseModel], made(record.__name__, __config__=TOLD, __doc__=first, **fields))


def _model_type(kind: Any) -> Any:
    """Put models in the place of the records in a type."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return mirrored(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is None or origin is Literal:
        return kind
    parts = tuple(_model_type(part) for part in inner)
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, parts)
    return origin[parts]


def described(record: type) -> dict[str, str]:
    """Return what the docstring of a dataclass says of its fields."""
    told: dict[str, str] = {}
    # What a base says of its fields holds here, too.
    for kind in reversed([one for one in record.__mro__ if dataclasses.is_dataclass(one)]):
        _, _, listed = (inspect.getdoc(kind) or "").partition("Attributes:\n")
        found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", listed, re.MULTILINE)
        told |= {name: " ".join(text.split()) for name, text in found}
    return told


def as_model(record: Any) -> BaseModel:
    """Return a record as its model."""
    kind: type = type(record)
    return mirrored(kind).model_validate(dataclasses.asdict(record))
