"""Say which rows of a graph's files decisions change; all formats follow from that."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npugraph.errors import DataError
from npugraph.patching.patch import Decision, Fact


@dataclass(frozen=True)
class Edits:
    """Changes of rows, counted from 0 over all files.

    Attributes:
        removed: rows that go.
        replaced: row -> the fact that takes its place.
        added: facts that come.
    """

    removed: frozenset[int]
    replaced: Mapping[int, Fact]
    added: tuple[Fact, ...]

    def of_file(self, start: int, count: int, first: bool) -> Edits:
        """Return those of the file with rows from ``start`` on; the first file gets new facts."""
        rows = range(start, start + count)
        return Edits(
            frozenset(row - start for row in self.removed if row in rows),
            {row - start: new for row, new in self.replaced.items() if row in rows},
            self.added if first else (),
        )

    def __bool__(self) -> bool:
        return bool(self.removed or self.replaced or self.added)


def resolve(table: pa.Table, decisions: Sequence[Decision]) -> tuple[Edits, tuple[Decision, ...]]:
    """Return what happens to the rows of a table, and the decisions as they are carried out.

    All repeats of a fact share its fate. A fact never comes in twice: a replacement that is stored
    already, comes from another decision, or is itself called wrong only removes.

    Args:
        table: columns head, relation, tail; the rows of all files, one after the other.
        decisions: at most one per fact.
    """
    gone = {one.fact for one in decisions if one.change != "add"}
    wanted = gone | {one.new or one.fact for one in decisions}
    rows = find_rows(table, wanted)
    missing = sorted(fact for fact in gone if fact not in rows)
    if missing:
        raise DataError(
            f"The fact {missing[0]} is decided about, but the graph does not hold it; are these "
            "the answers of another graph?"
        )
    removed: set[int] = set()
    replaced: dict[int, Fact] = {}
    added: list[Fact] = []
    coming: set[Fact] = set()
    done: list[Decision] = []
    for one in decisions:
        new = one.new or one.fact
        fresh = new not in coming and new not in rows
        if one.change == "add":
            if fresh:
                added.append(new)
                coming.add(new)
                done.append(one)
        elif one.change == "replace" and fresh:
            replaced |= dict.fromkeys(rows[one.fact], new)
            coming.add(new)
            done.append(one)
        else:
            removed.update(rows[one.fact])
            done.append(dataclasses.replace(one, change="remove", new=None))
    return Edits(frozenset(removed), replaced, tuple(added)), tuple(done)


def find_rows(table: pa.Table, facts: Collection[Fact]) -> dict[Fact, list[int]]:
    """Return the rows of each fact that a table holds; no Python code runs for the other rows."""
    chosen = np.ones(len(table), dtype=bool)
    for name in Fact._fields:
        known = pa.array({getattr(fact, name) for fact in facts}, pa.string())
        chosen &= pc.is_in(table[name], value_set=known).to_numpy()
    places = np.flatnonzero(chosen)
    few = table.select(Fact._fields).take(pa.array(places)).to_pylist()
    found: dict[Fact, list[int]] = {}
    for place, row in zip(places.tolist(), few, strict=True):
        fact = Fact(**row)
        if fact in facts:
            found.setdefault(fact, []).append(place)
    return found


def changed_table(table: pa.Table, edits: Edits) -> pa.Table:
    """Return the facts of a table (head, relation, tail) after the changes."""
    places = pa.array(sorted(edits.replaced), pa.int64())
    mask = np.zeros(len(table), dtype=bool)
    mask[places.to_numpy()] = True
    columns = {}
    for name in Fact._fields:
        new = pa.array([getattr(edits.replaced[row], name) for row in places.to_pylist()])
        column = table[name].combine_chunks()
        columns[name] = pc.replace_with_mask(column, pa.array(mask), new.cast(pa.string()))
    kept = np.ones(len(table), dtype=bool)
    kept[sorted(edits.removed)] = False
    more = {
        name: pa.array([getattr(fact, name) for fact in edits.added], pa.string())
        for name in Fact._fields
    }
    return pa.concat_tables([pa.table(columns).filter(pa.array(kept)), pa.table(more)])
