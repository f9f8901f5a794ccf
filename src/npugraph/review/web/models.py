"""What goes in and out over HTTP: pydantic models, made of the records of the Python API.

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
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from npugraph.review.questions import Prediction, Scored

# What comes in has no surprises; what goes out is what the record holds.
ASKED = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
TOLD = ConfigDict(extra="forbid", frozen=True)
LONGEST_NAME = 20_000
MOST_FACTS = 1000
MOST_ANSWERS = 1000

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]


class Problem(BaseModel):
    """Why there is no other answer."""

    model_config = TOLD
    status: int = Field(description="The status of the answer, once more.")
    error: str = Field(description="One sentence: what is wrong, and what to do.")
    fields: list[str] = Field(description="Which fields of the request are wrong; empty: none.")


class FactIn(BaseModel):
    """A fact, by names."""

    model_config = ASKED
    head: Name = Field(description="Name of the head.")
    relation: Name = Field(description="Name of the relation.")
    tail: Name = Field(description="Name of the tail.")

    def names(self) -> tuple[str, str, str]:
        """Return the three names."""
        return self.head, self.relation, self.tail


class ScoreIn(BaseModel):
    """Facts to score."""

    model_config = ASKED
    facts: list[FactIn] = Field(
        min_length=1, max_length=MOST_FACTS, description="The facts, known or not."
    )


class _Question(BaseModel):
    model_config = ASKED
    relation: Name = Field(description="Name of the relation.")
    k: int = Field(10, ge=1, le=MOST_ANSWERS, description="How many answers.")
    only_new: bool = Field(False, description="Leave out the answers that are known facts.")


class TailsOf(_Question):
    """The question (head, relation, ?)."""

    head: Name = Field(description="Name of the head.")


class HeadsOf(_Question):
    """The question (?, relation, tail)."""

    tail: Name = Field(description="Name of the tail.")


class ExplainIn(FactIn):
    """A fact to explain."""

    top: int = Field(5, ge=1, le=100, description="At most so many pieces of each kind.")


@dataclass(frozen=True)
class ScoredFacts:
    """Facts with their scores, one for each that was asked for, in their order."""

    facts: tuple[Scored, ...]


@dataclass(frozen=True)
class Predictions:
    """The most plausible entities, best first."""

    predictions: tuple[Prediction, ...]


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
    _, _, listed = (inspect.getdoc(record) or "").partition("Attributes:\n")
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", listed, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def as_model(record: Any) -> BaseModel:
    """Return a record as its model."""
    kind: type = type(record)
    return mirrored(kind).model_validate(dataclasses.asdict(record))
