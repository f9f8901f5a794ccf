"""Read Parquet: all of a file, or some rows at a time where it does not fit memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from npugraph.data.io.checks import roles_and_more
from npugraph.data.io.layout import ReadOptions, assign_roles, position
from npugraph.errors import DataError

# Rows that are read at a time.
ROWS = 1 << 18


def read_parquet(path: Path, options: ReadOptions) -> pa.Table:
    """Read a Parquet file into a checked table."""
    try:
        roles, wanted = _columns(path, options)
        table = pyarrow.parquet.read_table(path, columns=wanted)
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, error) from None
    return roles_and_more(table, str(path), roles, options)


def stream_parquet(path: Path, options: ReadOptions) -> Iterator[pa.Table]:
    """Yield the same, some rows at a time."""
    before = 0
    try:
        roles, wanted = _columns(path, options)
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(ROWS, columns=wanted):
                yield roles_and_more(pa.table(batch), str(path), roles, options, before)
                before += len(batch)
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, error) from None


def _columns(path: Path, options: ReadOptions) -> tuple[dict[str, str], list[str]]:
    """Return the names of the columns by role, and of all that are wanted."""
    names = pyarrow.parquet.read_schema(path).names
    roles = assign_roles(str(path), path, names, True, options.columns)
    more = [position(path, names, True, name) for name in options.beside]
    wanted = [names[i] for i in {*roles.values(), *more}]
    return {role: names[i] for role, i in roles.items()}, wanted


def _unreadable(path: Path, error: object) -> DataError:
    return DataError(f"{path}: not a readable Parquet file, or one that breaks off ({error}).")
