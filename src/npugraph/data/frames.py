"""Graphs that are in memory: DataFrames, Arrow tables, columns, parts, arrays, lists of facts.

Nothing but pyarrow, numpy and torch is imported here. Other libraries' frames are known by what
they offer: ``__arrow_c_stream__``, ``to_arrow()`` or ``__dataframe__``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.interchange
import torch
from torch import Tensor

from npugraph.data.io import ReadOptions, check_table, encode_tables, local_copy, read_table
from npugraph.data.io.formats import ROLES, looks_like_header
from npugraph.errors import DataError, nearest
from npugraph.graph import PARTS, KnowledgeGraph, Splits, Vocabulary

FORMS = (
    "a name of 'npugraph datasets list', the path of a file or folder, a DataFrame or Arrow table, "
    "a dict of columns or of parts, an array [n, 3], or a list of (head, relation, tail)"
)


def graph_from_memory(data: Any, options: ReadOptions) -> KnowledgeGraph:
    """Return the graph of facts that are in memory; a dict of parts gives one with parts.

    >>> graph = graph_from_memory([("Rome", "capital_of", "Italy")], ReadOptions())
    >>> graph.entities.label(1)
    'Rome'
    """
    parts = _parts(data)
    if parts is None:
        return _encode([rows_of(data, options)], [type(data).__name__])[0]
    given = [name for name in PARTS if name in parts and not _is_empty(parts[name])]
    if not given:
        raise DataError("All parts of the graph are empty.")
    graphs = dict(
        zip(given, _encode([rows_of(parts[n], options, n) for n in given], given), strict=True)
    )
    empty = graphs[given[0]].with_facts(torch.empty(0, 3, dtype=torch.int64))
    train, valid, test = (graphs.get(name, empty) for name in PARTS)
    return Splits("graph", train, valid, test).whole()


def _is_empty(data: Any) -> bool:
    return isinstance(data, Sized) and not isinstance(data, str) and len(data) == 0


def rows_of(data: Any, options: ReadOptions, what: str = "") -> pa.Table | Tensor:
    """Return facts as a table of names (head, relation, tail, ...), or as ids int64 [n, 3].

    Args:
        data: a path, a graph, a frame, columns, an array or a list of facts.
        options: which columns are which.
        what: how error messages call it; its type where empty.
    """
    what = what or type(data).__name__
    if isinstance(data, str | os.PathLike):
        return read_table(local_copy(data), options)[0]
    if isinstance(data, Splits):
        data = data.whole()
    if isinstance(data, KnowledgeGraph):
        return data.to_table()
    if isinstance(data, Tensor | np.ndarray):
        return _rows_of_array(np.asarray(data.cpu() if isinstance(data, Tensor) else data), what)
    if isinstance(data, list | tuple):
        return _rows_of_list(data, options, what)
    return _checked(as_arrow(data, what), options, what)


def _parts(data: Any) -> Mapping[str, Any] | None:
    """Return a dict of parts, or None where it is none."""
    if not isinstance(data, Mapping) or not any(name in data for name in PARTS):
        return None
    for name in data:
        if name not in PARTS:
            hint = nearest(str(name), PARTS)
            raise DataError(f"A graph has the parts {', '.join(PARTS)}, not {name!r}.{hint}")
    return data


def as_arrow(data: Any, what: str) -> pa.Table:
    """Turn a frame or a dict of columns into an Arrow table."""
    try:
        if isinstance(data, Mapping):
            return pa.table({str(name): _column(values) for name, values in data.items()})
        if isinstance(data, pa.Table):
            return data
        if type(data).__module__.startswith("pandas.") and hasattr(data, "columns"):
            return pa.Table.from_pandas(data, preserve_index=False)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        if callable(getattr(data, "to_arrow", None)):
            return pa.table(data.to_arrow())
        if hasattr(data, "__dataframe__"):
            return pyarrow.interchange.from_dataframe(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise DataError(f"The {what} cannot be read as a table of facts ({reason}).") from None
    raise DataError(f"A graph cannot be made of {_word(data)}; give {FORMS}.")


def _column(values: Any) -> Any:
    if isinstance(values, Tensor):
        return values.cpu().numpy()
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str) else values


def _checked(table: pa.Table, options: ReadOptions, what: str) -> pa.Table:
    names = table.column_names
    if options.columns is None and not looks_like_header(names):
        raise DataError(
            f"The {what} has the columns {', '.join(names) or '(none)'}, but needs head, relation "
            "and tail; rename them, or name them in that order: ReadOptions(columns=(...))."
        )
    if len(table) == 0:
        raise DataError(f"The {what} holds no facts.")
    return check_table(table, f"The {what}", options)


def _rows_of_list(data: Sequence[Any], options: ReadOptions, what: str) -> pa.Table | Tensor:
    """Read a list of facts: tuples of names or of ids, or dicts."""
    if len(data) == 0:
        raise DataError(f"The {what} holds no facts.")
    if all(isinstance(row, Mapping) for row in data):
        return _checked(pa.Table.from_pylist([dict(row) for row in data]), options, what)
    rows = [
        tuple(row) if isinstance(row, list | tuple | np.ndarray | Tensor) else () for row in data
    ]
    for number, row in enumerate(rows, 1):
        if not 3 <= len(row) <= len(ROLES) or len(row) != len(rows[0]):
            raise DataError(
                f"The {what}, row {number}: {data[number - 1]!r} is no fact; give (head, relation, "
                "tail), perhaps with a confidence and a label, as in the first row."
            )
    if len(rows[0]) == 3 and all(_is_id(value) for row in rows for value in row):
        return _ids(np.array(rows, dtype=np.int64), what)
    for number, row in enumerate(rows, 1):
        for role, value in zip(ROLES[:3], row, strict=False):
            if not isinstance(value, str):
                raise DataError(
                    f"The {what}, row {number}: the {role} {value!r} is not a text; give names "
                    "throughout, or whole numbers (ids) throughout."
                )
    columns = dict(zip(ROLES, zip(*rows, strict=True), strict=False))
    plain = ReadOptions(columns=tuple(columns))
    return _checked(as_arrow(columns, what), plain, what)


def _is_id(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _rows_of_array(array: np.ndarray[Any, Any], what: str) -> pa.Table | Tensor:
    """Read an array [n, 3] of names or of ids."""
    if array.ndim != 2 or array.shape[1] != 3:
        raise DataError(
            f"The {what} has the shape {tuple(array.shape)}; an array of facts is [n, 3]."
        )
    if np.issubdtype(array.dtype, np.integer):
        return _ids(array.astype(np.int64), what)
    if array.dtype.kind not in "UOT":
        raise DataError(
            f"The {what} holds {array.dtype}; facts are names (text) or ids (whole numbers)."
        )
    return _rows_of_list(array.tolist(), ReadOptions(), what)


def _ids(array: np.ndarray[Any, Any], what: str) -> Tensor:
    if len(array) == 0:
        raise DataError(f"The {what} holds no facts.")
    if array.min() < 0:
        raise DataError(f"The {what} holds the id {array.min()}; ids are whole numbers from 0.")
    return torch.from_numpy(np.ascontiguousarray(array))


def _encode(rows: list[pa.Table | Tensor], names: list[str]) -> list[KnowledgeGraph]:
    """Turn tables of names, or ids, into graphs over the same vocabularies."""
    tables = [part for part in rows if not isinstance(part, Tensor)]
    if len(tables) == len(rows):
        return encode_tables(tables, names, [None] * len(rows))
    if tables:
        raise DataError("Some parts hold names and others ids; give one or the other.")
    ids = torch.cat([part for part in rows if isinstance(part, Tensor)])
    entities = _numbered(int(ids[:, [0, 2]].max()) + 1, len(ids), "entity")
    relations = _numbered(int(ids[:, 1].max()) + 1, len(ids), "relation")
    graphs = []
    for part, name in zip(rows, names, strict=True):
        assert isinstance(part, Tensor)
        graphs.append(KnowledgeGraph(entities, relations, part, source=name))
    return graphs


def _numbered(count: int, facts: int, kind: str) -> Vocabulary:
    """Return names for ids: the ids themselves, in their own order."""
    if count > 1000 + 10 * facts:
        raise DataError(
            f"The ids of {kind} go up to {count - 1:,} in {facts:,} facts; number from 0 without "
            "large gaps, or give the ids as text."
        )
    return Vocabulary(pa.array([str(i) for i in range(count)], pa.string()), kind)


def _word(data: Any) -> str:
    """Name a value that is no graph."""
    text = repr(data)
    return f"{text if len(text) <= 40 else 'a value'} ({type(data).__name__})"
