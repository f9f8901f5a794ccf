"""Turn names into graphs: one sorted vocabulary, and the ids of every column."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.compiling import Loop
from npugraph.data.io import loops
from npugraph.data.io.formats import ROLES
from npugraph.data.io.names import similarity_note
from npugraph.data.io.numbering import (
    Distinct,
    Ids,
    Places,
    loop,
    merged,
    number_column,
    sorted_order,
    worth,
)
from npugraph.graph import Annotations, KnowledgeGraph, Vocabulary

log = logging.getLogger(__name__)

# Facts whose ids are written at a time.
ROWS = 1 << 17
# Before the names of columns that are kept beside the facts; no column of a fact begins so.
MORE = "+"


class Block(NamedTuple):
    """Some names of a column: which of the several has them, and the place of each in it [n]."""

    names: int
    places: Ids


class Part(NamedTuple):
    """Some facts, one after the other."""

    head: Block
    relation: Block
    tail: Block


@dataclass(frozen=True)
class Numbered:
    """Facts whose names are numbered, for several parts of them, which may have some in common.

    Attributes:
        entities: several times distinct names.
        relations: likewise.
        parts: the facts in the order of their records.
        beside: the other columns of all facts; a table without columns where there are none.
    """

    entities: list[Distinct]
    relations: list[Distinct]
    parts: list[Part]
    beside: pa.Table = field(default_factory=lambda: pa.table({}))

    def __len__(self) -> int:
        return sum(len(part.head.places) for part in self.parts)


def number_table(table: pa.Table) -> Numbered:
    """Number the names of a checked table.

    Raises:
        pa.ArrowInvalid: one is no UTF-8.
    """
    roles = ROLES[:3]
    # A column is numbered on one core; others work meanwhile.
    with ThreadPoolExecutor(max(1, pa.cpu_count())) as pool:
        found = list(pool.map(number_column, (table[role] for role in roles)))
    (heads, head), (relations, relation), (tails, tail) = found
    part = Part(Block(0, head), Block(0, relation), Block(1, tail))
    return Numbered([heads, tails], [relations], [part], table.drop_columns(roles))


def joined(files: Sequence[Numbered]) -> Numbered:
    """Put the facts of several files one after the other; ``row`` is that within the file."""
    entities: list[Distinct] = []
    relations: list[Distinct] = []
    parts, beside = [], []
    for facts in files:
        for head, relation, tail in facts.parts:
            moved = (
                Block(block.names + len(arrays), block.places)
                for block, arrays in ((head, entities), (relation, relations), (tail, entities))
            )
            parts.append(Part(*moved))
        entities += facts.entities
        relations += facts.relations
        more = facts.beside
        if "row" not in more.column_names:
            # A table without columns is one without rows, too.
            columns = {name: more[name] for name in more.column_names}
            more = pa.table({**columns, "row": np.arange(1, len(facts) + 1)})
        beside.append(more)
    more = pa.concat_tables(beside, promote_options="default")
    return Numbered(entities, relations, parts, more)


def encode_tables(
    tables: Sequence[pa.Table], sources: Sequence[str], beside: Sequence[Annotations | None]
) -> list[KnowledgeGraph]:
    """Turn the names of several tables into ids of common vocabularies."""
    return encode([number_table(table) for table in tables], sources, beside)


def encode(
    facts: Sequence[Numbered],
    sources: Sequence[str],
    beside: Sequence[Annotations | None],
    extra_entities: Sequence[str] = (),
    extra_relations: Sequence[str] = (),
) -> list[KnowledgeGraph]:
    """Turn numbered facts into graphs with common vocabularies; they are used up by that."""
    entities, heads = _dictionary([each.entities for each in facts], extra_entities, "entity")
    relations, middle = _dictionary([each.relations for each in facts], extra_relations, "relation")
    note_similar(entities, relations)
    return [
        KnowledgeGraph(
            entities,
            relations,
            _ids(each, heads[i], middle[i]),
            confidence=_numbers(each.beside, "confidence", torch.float64),
            label=_numbers(each.beside, "label", torch.int8),
            rows=_rows(each),
            source=sources[i],
            annotations=beside[i],
            columns={
                name.removeprefix(MORE): each.beside[name].combine_chunks()
                for name in each.beside.column_names
                if name.startswith(MORE)
            },
        )
        for i, each in enumerate(facts)
    ]


def note_similar(*vocabularies: Vocabulary) -> None:
    """Say so where names differ in white space and the like alone."""
    for words in vocabularies:
        note = similarity_note(words.labels, words.kind)
        if note:
            log.warning("%s", note)


def _numbers(table: pa.Table, role: str, dtype: torch.dtype) -> Tensor | None:
    if role not in table.column_names:
        return None
    # A fact without a label has -1; one of several files may have no confidences.
    missing = np.nan if role == "confidence" else -1
    return torch.from_numpy(pc.fill_null(table[role], missing).to_numpy().copy()).to(dtype)


def _rows(facts: Numbered) -> Tensor:
    rows = _numbers(facts.beside, "row", torch.int64)
    return torch.arange(1, len(facts) + 1) if rows is None else rows


def _ids(
    facts: Numbered, entities: list[NDArray[np.int64]], relations: list[NDArray[np.int64]]
) -> Tensor:
    """Return the facts as ids, given the id of each name: int64 [n, 3]."""
    ids = np.empty((len(facts), 3), np.int64)
    place: Loop = loop(loops.place) if worth(ids.nbytes) else _place

    def write(part: Part, first: int, some: NDArray[np.int64]) -> None:
        rows = slice(first, first + len(some))
        head, relation, tail = part
        known = entities[head.names], relations[relation.names], entities[tail.names]
        place(*(block.places[rows] for block in part), *known, some)

    jobs, start = [], 0
    with ThreadPoolExecutor(max(1, pa.cpu_count())) as pool:
        for part in facts.parts:
            count = len(part.head.places)
            mine, start = ids[start : start + count], start + count
            for first in range(0, count, ROWS):
                jobs.append(pool.submit(write, part, first, mine[first : first + ROWS]))
        for job in jobs:
            job.result()
    return torch.from_numpy(ids)


def _place(
    head: Ids,
    relation: Ids,
    tail: Ids,
    heads: Places,
    relations: Places,
    tails: Places,
    ids: Places,
) -> None:
    """Do what :func:`.loops.place` does."""
    ids[:, 0] = heads[head]
    ids[:, 1] = relations[relation]
    ids[:, 2] = tails[tail]


def _dictionary(
    names: Sequence[Sequence[Distinct]], extra: Sequence[str], kind: str
) -> tuple[Vocabulary, list[list[NDArray[np.int64]]]]:
    """Give all names ids of one sorted vocabulary; return them in the shape they are given."""
    several = [some for each in names for some in each]
    if extra:
        several.append(pa.array(extra, pa.string()))
    every, places = merged(several)
    order = sorted_order(every)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    found = iter(places)
    ids = [[rank[next(found)] for _ in each] for each in names]
    return Vocabulary(every.take(pa.array(order)), kind), ids
