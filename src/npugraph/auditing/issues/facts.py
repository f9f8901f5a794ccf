"""A graph prepared for the checks: its distinct facts as arrays, and how regular a share is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npugraph.arrays import Floats, Ints
from npugraph.auditing.issues.literals import DATE, NUMBER, Bools, Values
from npugraph.auditing.issues.told import Told
from npugraph.graph import KnowledgeGraph, Side
from npugraph.names import shorten
from npugraph.rules import wilson_lower

# A regularity counts where this share of the other cases keeps to it, and where the lower end of
# Wilson's interval of that share is at least the second number: a few cases prove nothing.
KEPT, SURE = 0.98, 0.95
# Columns of what the checks find.
COLUMNS = ("kind", "score", "head", "relation", "tail", "other", "sentence")
# Share of a relation's tails that are numbers or dates where its tails are values.
VALUES = 0.9
# Values may have several lines; a field of a TSV file has one.
BREAKS = r"[\t\r\n]+"
OTHER: dict[Side, Side] = {"head": "tail", "tail": "head"}


@dataclass(frozen=True, eq=False)
class Facts:
    """The distinct facts of a graph, in the order of their keys.

    Attributes:
        graph: the graph.
        head: int64 [n]; ``relation`` and ``tail`` likewise.
        first: int64 [n], where each fact first stands in the input, from 0.
        place: int64 [m], which distinct fact each input row is.
        told: what the user says about the graph.
    """

    graph: KnowledgeGraph
    head: Ints
    relation: Ints
    tail: Ints
    first: Ints
    place: Ints
    told: Told = field(default_factory=lambda: Told())

    @classmethod
    def of(cls, graph: KnowledgeGraph, told: Told | None = None) -> Facts:
        """Prepare a graph."""
        index = graph.index()
        head, relation, tail = np.ascontiguousarray(index.facts().numpy().T)
        place = index.places(graph.facts).numpy()
        first = np.full(len(head), len(place), np.int64)
        # From the last row to the first: the earliest place stays.
        first[place[::-1]] = np.arange(len(place))[::-1]
        return cls(graph, head, relation, tail, first, place, told or Told())

    def __len__(self) -> int:
        return len(self.head)

    @cached_property
    def valued(self) -> Bools:
        """Which relations [R] have values for tails: numbers or dates that are no entities.

        A graph whose heads are called by numbers has numbers for names, and no values.
        """
        names, sizes = self.graph.entities.labels, (self.graph.num_entities, self.num_relations)
        looks = pc.or_(
            pc.match_substring_regex(names, NUMBER), pc.match_substring_regex(names, DATE)
        )
        value = looks.to_numpy(zero_copy_only=False).astype(bool)
        is_head = np.zeros(sizes[0], bool)
        is_head[self.head] = True
        if not value.any() or 2 * (value & is_head).sum() > is_head.sum():
            return np.zeros(sizes[1], bool)
        share = self.by_relation((value & ~is_head)[self.tail]) / np.maximum(self.counts, 1)
        return share >= VALUES

    @cached_property
    def values(self) -> Values | None:
        """The literals of the input and the facts whose tails are values; None without any."""
        columns = ["head", "relation", "value", "language"]
        rows = np.flatnonzero(self.valued[self.relation])
        names = self.names(rows[np.argsort(self.first[rows], kind="stable")])
        none = pa.array([""] * len(rows), pa.string())
        whole = pa.table([*names.values(), none], names=columns)
        if self.graph.annotations is not None:
            literals = self.graph.annotations.literals.select(columns)
            language = pc.fill_null(literals["language"], "")
            whole = pa.concat_tables([whole, literals.set_column(3, "language", language)])
        distinct = whole.group_by(columns, use_threads=False).aggregate([]).select(columns)
        return Values.of(distinct) if len(distinct) else None

    @property
    def num_relations(self) -> int:
        """R."""
        return self.graph.num_relations

    @cached_property
    def counts(self) -> Ints:
        """How many facts each relation has, int64 [R]."""
        return self.by_relation(np.ones(len(self), bool))

    def by_relation(self, chosen: Bools) -> Ints:
        """Count chosen facts [n] by relation, int64 [R]."""
        return np.bincount(self.relation[chosen], minlength=self.num_relations)

    def short(self, name: str) -> str:
        """Write a name in a sentence."""
        return shorten(self.graph.readable(name), 60)

    def named(self, relation: int) -> str:
        """Write the name of a relation in a sentence."""
        return self.short(self.graph.relations.label(relation))

    def entity(self, number: int) -> str:
        """Return the name of an entity."""
        return self.graph.entities.label(number)

    def names(self, rows: Ints) -> dict[str, pa.Array]:
        """Return the names of facts [k]: the columns head, relation, tail."""
        entities, relations = self.graph.entities.labels, self.graph.relations.labels
        return {
            "head": entities.take(pa.array(self.head[rows])),
            "relation": relations.take(pa.array(self.relation[rows])),
            "tail": entities.take(pa.array(self.tail[rows])),
        }

    def end(self, side: Side) -> Ints:
        """Return the entities at one end of the facts, int64 [n]."""
        return self.head if side == "head" else self.tail


def regular(keeping: Ints | int, cases: Ints | int) -> Floats:
    """Return how surely cases keep to a rule: the lower end of Wilson's interval.

    The case that breaks it is not counted, so ``cases`` are the others.

    >>> regular(np.array([99, 9]), np.array([99, 9])).round(2).tolist()
    [0.96, 0.7]
    """
    cases = np.maximum(cases, 0)
    return wilson_lower(np.minimum(keeping, cases), cases)


def strong(keeping: Ints | int, cases: Ints | int, kept: float = KEPT, sure: float = SURE) -> Bools:
    """Tell whether cases keep to a rule so surely that a case that breaks it is worth a look.

    >>> strong(np.array([99, 9, 970]), np.array([99, 9, 1000])).tolist()
    [True, False, False]
    """
    enough = np.asarray(keeping) >= kept * np.asarray(cases)
    return enough & (regular(keeping, cases) >= sure)


def listed(
    kind: str,
    score: Sequence[float] | Floats,
    sentence: Sequence[str],
    **columns: Sequence[str | None] | pa.Array,
) -> pa.Table:
    """Return a table of occurrences [k]; head, relation, tail and other are empty if not given."""
    count = len(sentence)
    empty = pa.nulls(count, pa.string())
    given = {
        name: pc.replace_substring_regex(pa.array(values, pa.string()), BREAKS, " ")
        for name, values in columns.items()
    }
    return pa.table(
        {
            "kind": pa.array([kind] * count, pa.string()),
            "score": pa.array(np.round(np.asarray(score, np.float64), 4)),
            **{name: given.get(name, empty) for name in COLUMNS[2:6]},
            "sentence": pa.array(sentence, pa.string()),
        }
    )


def one_line(name: str) -> str:
    r"""Write a name as the tables of the checks have it.

    >>> one_line("New\nYork")
    'New York'
    """
    return re.sub(BREAKS, " ", name)


def text(fact: Sequence[str]) -> str:
    """Write a fact for a cell or a sentence.

    >>> text(("Rome", "capital_of", "Italy"))
    'Rome, capital_of, Italy'
    """
    return ", ".join(fact)
