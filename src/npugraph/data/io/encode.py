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

from npugraph.data.io.formats import ROLES
from npugraph.data.io.names import similarity_note
from npugraph.data.io.numbering import Ids, number_column, sorted_order
from npugraph.graph import Annotations, KnowledgeGraph, Vocabulary

log = logging.getLogger(__name__)

# Facts whose ids are written at a time.
ROWS = 1 << 17
# Before the names of columns that are kept beside the facts; no column of a fact begins so.
MORE = "+"


class Block(NamedTuple):
    """Some names of a column: which array has them, and the place of each in it [n]."""

    names: int
    places: Ids


class Part(NamedTuple):
    """Some facts, one after the other."""

    head: Block
    relation: Block
    tail: Block


@dataclass(frozen=True)
class Numbered:
    """Facts whose names are numbered, by several arrays of names that may have some in common.

    Attributes:
        entities: arrays of distinct names.
        relations: likewise.
        parts: the facts in the order of their records.
        beside: the other columns of all facts; a table without columns where there are none.
    """

    entities: list[pa.Array]
    relations: list[pa.Array]
    parts: list[Part]
    beside: pa.Table = field(default_factory=lambda: pa.table({}))

    def __len__(self) -> int:
        return sum(len(part.head.places) for part in self.parts)


def number_table(table: pa.Table) -> Numbered:
    """Number the names of a checked table."""
    roles = ROLES[:3]
    # A column is numbered on one core; others work meanwhile.
    with ThreadPoolExecutor(max(1, pa.cpu_count())) as pool:
        found = list(pool.map(number_column, (table[role] for role in roles)))
    (heads, head), (relations, relation), (tails, tail) = found
    part = Part(Block(0, head), Block(0, relation), Block(1, tail))
    return Numbered([heads, tails], [relations], [part], table.drop_columns(roles))


def joined(files: Sequence[Numbered]) -> Numbered:
    """Put the facts of several files one after the other; ``row`` is that within the file."""
    entities: list[pa.Array] = []
    relations: list[pa.Array] = []
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
    """Turn numbered facts into graphs with common vocabularies."""
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
    """Return the facts as ids, given the id of each name of each array: int64 [n, 3]."""
    ids = np.empty((len(facts), 3), np.int64)

    def write(rows: NDArray[np.int64], part: Part, some: slice) -> None:
        for column, (block, known) in enumerate(
            zip(part, (entities, relations, entities), strict=True)
        ):
            rows[some, column] = known[block.names][block.places[some]]

    start = 0
    with ThreadPoolExecutor(max(1, pa.cpu_count())) as pool:
        jobs = []
        for part in facts.parts:
            count = len(part.head.places)
            rows, start = ids[start : start + count], start + count
            for i in range(0, count, ROWS):
                jobs.append(pool.submit(write, rows, part, slice(i, i + ROWS)))
        for job in jobs:
            job.result()
    return torch.from_numpy(ids)


def _dictionary(
    names: Sequence[Sequence[pa.Array]], extra: Sequence[str], kind: str
) -> tuple[Vocabulary, list[list[NDArray[np.int64]]]]:
    """Give the names of all arrays ids of one sorted vocabulary, in the shape they are given."""
    arrays = [array for each in names for array in each]
    if len(arrays) == 1 and not extra:
        every, place = arrays[0], np.arange(len(arrays[0]), dtype=np.int32)
    else:
        every, place = number_column(pa.chunked_array([*arrays, pa.array(extra, pa.string())]))
    order = sorted_order(every)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    ends = iter(np.split(rank[place], np.cumsum([len(array) for array in arrays])))
    ids = [[next(ends) for _ in each] for each in names]
    return Vocabulary(every.take(pa.array(order)), kind), ids
