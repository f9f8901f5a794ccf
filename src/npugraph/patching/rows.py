"""Change rows of a Parquet file; all columns, their types and the order of the rows stay."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from npugraph.data.io import ReadOptions
from npugraph.data.io.layout import assign_roles
from npugraph.errors import DataError, in_one_line
from npugraph.patching.lines import Edited
from npugraph.patching.patch import Entry, Fact
from npugraph.patching.resolve import Edits

ADDED = {"confidence": 1.0, "label": 1}


@dataclass(frozen=True)
class RowEdit:
    """A changed Parquet file: the file, its rows that went and that came, digests of all rows."""

    file: Edited
    removed_rows: str
    inserted_rows: str
    facts_before: str
    facts_after: str


def edit_rows(path: Path, data: bytes, options: ReadOptions, edits: Edits) -> RowEdit:
    """Change the facts of a Parquet file."""
    old = _read(data)
    roles = column_roles(path, data, options)
    changed = sorted((*edits.removed, *edits.replaced))
    coming = sorted(edits.replaced)
    rewritten = _rewritten(old, roles, [edits.replaced[row] for row in coming], coming, path)
    into = pa.concat_tables([rewritten, _added(old.schema, roles, edits.added, path)])
    kept = _without(old, changed)
    # A row stands after as many as stood before it and did not go.
    gone = np.array(sorted(edits.removed), dtype=np.int64)
    numbers = [row - int(np.searchsorted(gone, row)) for row in coming]
    numbers += range(len(kept) + len(coming), len(kept) + len(into))
    new = _with(kept, into, numbers)
    out = old.take(pa.array(changed, pa.int64()))
    written = _write(new, data)
    file = Edited(
        written,
        _entries(out, changed, roles),
        _entries(into, numbers, roles),
    )
    digests = digest_of(data), digest_of(written)
    return RowEdit(file, _packed(out), _packed(into), *digests)


def exchange_rows(
    data: bytes, out: Sequence[Entry], into: Sequence[Entry], rows: str, name: str
) -> bytes:
    """Take rows out of a Parquet file and put others in, which ``rows`` holds."""
    old = _read(data)
    if any(not 0 < entry.number <= len(old) for entry in out):
        raise DataError(f"{name}: the patch is damaged; it names rows that are not there.")
    kept = _without(old, [entry.number - 1 for entry in out])
    fresh = _unpacked(rows, name)
    if fresh.schema != old.schema or len(fresh) != len(into):
        raise DataError(f"{name}: its columns are not those that the patch was made for.")
    return _write(_with(kept, fresh, [entry.number - 1 for entry in into]), data)


def column_roles(path: Path, data: bytes, options: ReadOptions) -> dict[str, str]:
    """Return which columns hold what: role -> name of the column."""
    names = pyarrow.parquet.read_schema(pa.BufferReader(data)).names
    return {
        role: names[place]
        for role, place in assign_roles(str(path), path, names, True, options.columns).items()
    }


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of what a file holds: all columns, their types, the rows in their order.

    It does not depend on how the file is compressed, or cut into groups of rows.
    """
    table = _read(data)
    found = hashlib.sha256()
    for field, column in zip(table.schema, table.columns, strict=True):
        found.update(repr((field.name, str(field.type), field.nullable)).encode())
        for chunk in column.chunks:
            for value in _plain(chunk).to_pylist():
                found.update(repr(value).encode("utf-8", "surrogatepass") + b"\x1e")
    return found.hexdigest()


def _plain(values: pa.Array) -> pa.Array:
    """Return times as the numbers they are kept as: Python has no nanoseconds."""
    if not pa.types.is_temporal(values.type):
        return values
    return values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())


def _read(data: bytes) -> pa.Table:
    return pyarrow.parquet.read_table(pa.BufferReader(data))


def _write(table: pa.Table, like: bytes) -> bytes:
    """Write a table with the compression of another file."""
    about = pyarrow.parquet.ParquetFile(pa.BufferReader(like)).metadata
    kind = about.row_group(0).column(0).compression if about.num_row_groups else "SNAPPY"
    # The writer has another word for it than the reader.
    kind = "NONE" if kind == "UNCOMPRESSED" else kind
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(table, sink, compression=kind)
    return bytes(sink.getvalue())


def _without(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    kept = np.ones(len(table), dtype=bool)
    kept[np.array(rows, dtype=np.int64)] = False
    return table.filter(pa.array(kept))


def _with(table: pa.Table, fresh: pa.Table, numbers: Sequence[int]) -> pa.Table:
    """Put rows into a table, at their numbers in what is returned."""
    order = np.full(len(table) + len(fresh), -1, dtype=np.int64)
    order[np.array(numbers, dtype=np.int64)] = len(table) + np.arange(len(fresh))
    order[order < 0] = np.arange(len(table))
    return pa.concat_tables([table, fresh]).take(pa.array(order))


def _rewritten(
    table: pa.Table, roles: Mapping[str, str], new: Sequence[Fact], rows: Sequence[int], path: Path
) -> pa.Table:
    """Return some rows with other facts; a label that called the old fact wrong is turned."""
    taken = table.take(pa.array(rows, pa.int64()))
    for name in Fact._fields:
        column = roles[name]
        values = [getattr(fact, name) for fact in new]
        taken = _set(taken, column, _typed(values, table.schema.field(column), path))
    if "label" in roles and len(rows):
        column = roles["label"]
        labels = taken[column].to_pylist()
        turned = [ADDED["label"] if _wrong(value) else value for value in labels]
        taken = _set(taken, column, _typed(turned, table.schema.field(column), path))
    return taken


def _wrong(label: object) -> bool:
    return label is not None and label != "" and float(str(label)) == 0


def _added(
    schema: pa.Schema, roles: Mapping[str, str], facts: Sequence[Fact], path: Path
) -> pa.Table:
    """Return rows of new facts; columns that say nothing of them are empty."""
    by_column = {column: role for role, column in roles.items()}
    columns = []
    for field in schema:
        role = by_column.get(field.name)
        if role in Fact._fields:
            values: list[object] = [getattr(fact, role) for fact in facts]
        else:
            values = [ADDED.get(role or "")] * len(facts)
        if facts and values[0] is None and not field.nullable:
            raise DataError(
                f"{path}: the column {field.name!r} must not be empty, so that no fact can be "
                "added to it; make it nullable."
            )
        columns.append(_typed(values, field, path))
    return pa.table(columns, schema=schema)


def _set(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return table.set_column(
        table.schema.get_field_index(column), table.schema.field(column), values
    )


def _typed(values: Sequence[object], field: pa.Field, path: Path) -> pa.Array:
    """Return values in the type of their column."""
    if all(value is None for value in values):
        return pa.nulls(len(values), field.type)
    try:
        texts = all(value is None or isinstance(value, str) for value in values)
        plain = pa.array(values, pa.string()) if texts else pa.array(values)
        return plain.cast(field.type)
    except (pa.ArrowException, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{path}: the column {field.name!r} of type {field.type} cannot hold a new name "
            f"({reason})."
        ) from None


def _entries(table: pa.Table, rows: Sequence[int], roles: Mapping[str, str]) -> tuple[Entry, ...]:
    fields = [table[roles[name]].cast(pa.string()).to_pylist() for name in Fact._fields]
    texts = ("\t".join(fact) for fact in zip(*fields, strict=True))
    return tuple(Entry(row + 1, text) for row, text in zip(rows, texts, strict=True))


def _packed(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return base64.b64encode(sink.getvalue()).decode("ascii")


def _unpacked(text: str, name: str) -> pa.Table:
    try:
        return pa.ipc.open_stream(base64.b64decode(text, validate=True)).read_all()
    except (ValueError, pa.ArrowException) as error:
        raise DataError(
            f"{name}: the rows of the patch are damaged ({in_one_line(error)})."
        ) from None
