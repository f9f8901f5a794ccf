"""Read Parquet: all of a file, or some rows at a time where it does not fit memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from npugraph.data.io.checks import roles_and_more
from npugraph.data.io.encode import Numbered
from npugraph.data.io.formats import ROLES
from npugraph.data.io.layout import ReadOptions, assign_roles, position
from npugraph.data.io.numbering import worth
from npugraph.data.io.shares import Share, UnusualError, read_shares
from npugraph.errors import DataError, in_one_line

# Rows that are read at a time.
ROWS = 1 << 18


def read_parquet(path: Path, options: ReadOptions) -> pa.Table:
    """Read a Parquet file into a checked table."""
    try:
        file = _opened(path, options)
        table = pyarrow.parquet.read_table(path, columns=file.wanted)
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, error) from None
    return roles_and_more(table, str(path), file.roles, options)


def stream_parquet(path: Path, options: ReadOptions) -> Iterator[pa.Table]:
    """Yield the same, some rows at a time."""
    try:
        for _, table in _opened(path, options).tables():
            yield table
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, error) from None


def number_parquet(path: Path, options: ReadOptions) -> Numbered | None:
    """Read a large file of several row groups, its names numbered; None: it is for read_parquet."""
    try:
        groups = _Groups(_opened(path, options))
    except (pa.ArrowInvalid, OSError):
        return None
    threads = min(pa.cpu_count(), len(groups.starts))
    # One group is read faster column by column.
    if threads < 2 or not worth(groups.size):
        return None
    found = read_shares(groups.work, groups.stop, threads)
    if found is None or len(found) == 0:
        return None
    return replace(
        found, beside=pa.concat_tables([groups.beside[i] for i in sorted(groups.beside)])
    )


@dataclass(frozen=True)
class _Opened:
    """A file, the names of its columns by role, and those of all columns that are wanted."""

    path: Path
    options: ReadOptions
    roles: dict[str, str]
    wanted: list[str]

    def tables(
        self, groups: list[int] | None = None, start: int = 0, threads: bool = True
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield checked tables of some rows, each with the number of rows before it.

        Args:
            groups: the row groups to read, None for all.
            start: how many rows there are before them.
            threads: read columns side by side.
        """
        with pyarrow.parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(ROWS, groups, self.wanted, use_threads=threads):
                table = pa.table(batch)
                yield (
                    start,
                    roles_and_more(table, str(self.path), self.roles, self.options, start),
                )
                start += len(batch)


class _Groups:
    """The row groups of a file, of which several threads take one after the other."""

    def __init__(self, file: _Opened) -> None:
        about = pyarrow.parquet.read_metadata(file.path)
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        self._file = file
        self._next: Iterator[int] = iter(range(len(groups)))
        self.size = sum(group.total_byte_size for group in groups)
        self.starts = list(accumulate((group.num_rows for group in groups[:-1]), initial=0))
        self.beside: dict[int, pa.Table] = {}

    def work(self) -> Share:
        """Number the names of group after group until there is none."""
        share = Share()
        try:
            while (group := next(self._next, None)) is not None:
                tables = self._file.tables([group], self.starts[group], threads=False)
                for start, table in tables:
                    known = zip(share.columns(), ROLES[:3], strict=True)
                    ids = [names.add_column(table[role]) for names, role in known]
                    share.parts.append((start, ids))
                    self.beside[start] = table.drop_columns(ROLES[:3])
        except DataError:
            # The other reader says what is wrong first in the file.
            raise UnusualError from None
        return share

    def stop(self) -> None:
        """Let there be no next group."""
        self._next = iter(())


def _opened(path: Path, options: ReadOptions) -> _Opened:
    names = pyarrow.parquet.read_schema(path).names
    roles = assign_roles(str(path), path, names, True, options.columns)
    more = [position(path, names, True, name) for name in options.beside]
    wanted = [names[i] for i in {*roles.values(), *more}]
    twice = next((name for name in wanted if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path}: {names.count(twice)} columns are called {twice!r}; rename some.")
    return _Opened(path, options, {role: names[i] for role, i in roles.items()}, wanted)


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = in_one_line(error)
    return DataError(f"{path}: not a readable Parquet file, or one that breaks off ({reason}).")
