"""Literal values of entities, and what they mean: points in time, numbers, or text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from npugraph.arrays import Floats, Ints

Bools = NDArray[np.bool_]
NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
DATE = r"^[+-]?[0-9]{4,}-[0-9]{2}(-[0-9]{2}([T ].*)?)?(Z|[+-][0-9]{2}:[0-9]{2})?$"
# The parts of a date; month and day may be missing.
_PARTS = (
    r"^(?P<year>[+-]?[0-9]{3,})(?:-(?P<month>[0-9]{2}))?(?:-(?P<day>[0-9]{2}))?"
    r"(?:[T ].*|Z|[+-][0-9]{2}:[0-9]{2})?$"
)
# Whole numbers in this range, throughout a relation, are years.
YEARS = (1000, 2100)
# Share of a relation's values that are numbers, or dates, where it is a relation of such.
SORT = 0.9
DATES, NUMBERS, TEXTS = 2, 1, 0


@dataclass(frozen=True, eq=False)
class Values:
    """The literal values of a graph, one row per distinct record.

    Attributes:
        entities: names of those that have values; ``entity`` int64 [n] are places in it.
        relations: names of the relations with values; ``relation`` int64 [n] likewise.
        value: text [n] as it was given.
        language: int64 [n], one number per language.
        sort: int64 [K], whether a relation has dates, numbers or texts.
        low: float64 [n], the least number or point in time that the value may mean; nan for text.
        high: float64 [n], the greatest.
    """

    entities: pa.Array
    relations: pa.Array
    entity: Ints
    relation: Ints
    value: pa.Array
    language: Ints
    sort: Ints
    low: Floats
    high: Floats

    @classmethod
    def of(cls, given: pa.Table) -> Values:
        """Measure distinct literals, given as texts: head, relation, value, language."""
        entities, relations, languages = (
            given[name].combine_chunks().dictionary_encode()
            for name in ("head", "relation", "language")
        )
        relation = relations.indices.to_numpy().astype(np.int64)
        value = given["value"].combine_chunks()
        sort, low, high = _measured(value, relation, len(relations.dictionary))
        return cls(
            entities.dictionary,
            relations.dictionary,
            entities.indices.to_numpy().astype(np.int64),
            relation,
            value,
            languages.indices.to_numpy().astype(np.int64),
            sort,
            low,
            high,
        )

    @cached_property
    def group(self) -> Ints:
        """The first record with the same entity, relation and language as each: int64 [n]."""
        pair = self.entity * len(self.relations) + self.relation
        key = pair * (self.language.max() + 1) + self.language
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        return first[place]

    def names(self, rows: Ints) -> dict[str, pa.Array]:
        """Return the columns head, relation, tail of records [k]."""
        taken = pa.array(rows)
        return {
            "head": self.entities.take(pa.array(self.entity[rows])),
            "relation": self.relations.take(pa.array(self.relation[rows])),
            "tail": self.value.take(taken),
        }


def _measured(value: pa.Array, relation: Ints, count: int) -> tuple[Ints, Floats, Floats]:
    """Return the sort of each relation [K], and what each value [n] means at least and at most."""
    total = np.maximum(np.bincount(relation, minlength=count), 1)
    dated, numeric = (
        pc.match_substring_regex(value, form).to_numpy(zero_copy_only=False)
        for form in (DATE, NUMBER)
    )
    number = np.full(len(value), np.nan)
    number[numeric] = value.filter(pa.array(numeric)).cast(pa.float64()).to_numpy()
    year = numeric & (number >= YEARS[0]) & (number <= YEARS[1]) & (number == np.floor(number))

    def share(chosen: Bools) -> Floats:
        return np.bincount(relation[chosen], minlength=count) / total

    # Years beside full dates are dates; years alone must be all that there is.
    dates = (share(dated | year) >= SORT) & ((share(dated) > 0) | (share(year) == 1))
    sort = np.where(dates, DATES, np.where(share(numeric) >= SORT, NUMBERS, TEXTS))
    low, high = np.full(len(value), np.nan), np.full(len(value), np.nan)
    numbers = numeric & (sort == NUMBERS)[relation]
    low[numbers] = high[numbers] = number[numbers]
    points = np.flatnonzero((dated | year) & (sort == DATES)[relation])
    low[points], high[points] = _times(value.take(pa.array(points)))
    return sort, low, high


def _times(value: pa.Array) -> tuple[Floats, Floats]:
    """Return the first and the last day that a date [n] may mean, in years."""
    parts = pc.extract_regex(value, _PARTS)

    def part(name: str) -> Floats:
        texts = pc.struct_field(parts, name)
        given = pc.if_else(pc.equal(texts, ""), None, texts)
        return np.asarray(given.cast(pa.float64()).to_numpy(zero_copy_only=False))

    year, month, day = part("year"), part("month"), part("day")
    low = year + (np.nan_to_num(month, nan=1) - 1) / 12 + (np.nan_to_num(day, nan=1) - 1) / 372
    high = year + (np.nan_to_num(month, nan=12) - 1) / 12 + (np.nan_to_num(day, nan=31) - 1) / 372
    return low, high
