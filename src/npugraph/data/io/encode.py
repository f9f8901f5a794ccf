"""Turn tables of names into graphs: one sorted vocabulary, and the ids of every column."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.data.io.names import similarity_note
from npugraph.graph import Annotations, KnowledgeGraph, Vocabulary

log = logging.getLogger(__name__)

# Before the names of columns that are kept beside the facts; no column of a fact begins so.
MORE = "+"
# The distinct values of a column in the order they first stand in, and which of them is where.
_Encoded = tuple[pa.Array, NDArray[np.int32]]


def encode_tables(
    tables: list[pa.Table],
    sources: list[str],
    beside: Sequence[Annotations | None],
    extra_entities: Sequence[str] = (),
    extra_relations: Sequence[str] = (),
) -> list[KnowledgeGraph]:
    """Turn the labels of several tables into ids of common vocabularies."""
    roles = ("head", "tail", "relation")
    # Arrow encodes a column on one core, and lets others work meanwhile.
    with ThreadPoolExecutor(max(1, pa.cpu_count())) as pool:
        found = list(pool.map(_encode, (table[role] for role in roles for table in tables)))
    cut = 2 * len(tables)
    entities, entity_ids = _dictionary(found[:cut], extra_entities, "entity")
    relations, relation_ids = _dictionary(found[cut:], extra_relations, "relation")
    note_similar(entities, relations)
    graphs = []
    for i, table in enumerate(tables):
        columns = [entity_ids[i], relation_ids[i], entity_ids[len(tables) + i]]
        rows = _numbers(table, "row", torch.int64)
        if rows is None:
            rows = torch.arange(1, len(table) + 1)
        graphs.append(
            KnowledgeGraph(
                entities,
                relations,
                torch.from_numpy(np.stack(columns, axis=1)),
                confidence=_numbers(table, "confidence", torch.float64),
                label=_numbers(table, "label", torch.int8),
                rows=rows,
                source=sources[i],
                annotations=beside[i],
                columns={
                    name.removeprefix(MORE): table[name].combine_chunks()
                    for name in table.column_names
                    if name.startswith(MORE)
                },
            )
        )
    return graphs


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


def _encode(column: pa.ChunkedArray) -> _Encoded:
    """Number the distinct values of a string column as they come."""
    encoded = column.dictionary_encode()
    if encoded.num_chunks == 0:
        return pa.array([], pa.string()), np.empty(0, np.int32)
    # All chunks have the same dictionary.
    indices = [chunk.indices.to_numpy() for chunk in encoded.chunks]
    return encoded.chunk(0).dictionary, np.concatenate(indices)


def _dictionary(
    columns: Sequence[_Encoded], extra: Sequence[str], kind: str
) -> tuple[Vocabulary, list[NDArray[np.int64]]]:
    """Give several encoded columns ids of one sorted vocabulary."""
    # Only distinct names are hashed a second time.
    every, place = _encode(
        pa.chunked_array([*(words for words, _ in columns), pa.array(extra, pa.string())])
    )
    order = pc.sort_indices(every).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    ids, start = [], 0
    for words, indices in columns:
        ids.append(rank[place[start : start + len(words)]][indices])
        start += len(words)
    return Vocabulary(every.take(pa.array(order)), kind), ids
