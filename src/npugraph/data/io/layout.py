"""How a file is laid out: whether it has a header, and which of its columns hold what."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from npugraph.data.io.diagnose import Record, records
from npugraph.data.io.formats import (
    ROLES,
    TEXT,
    looks_like_header,
    might_be_header,
    named_roles,
    split_suffixes,
)
from npugraph.errors import DataError, nearest

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadOptions:
    """How to read a graph file; None means: find out from the file.

    Attributes:
        header: whether a text file's first line names its columns.
        columns: names or positions (from 0) of head, relation, tail and, if wanted, confidence
            and label.
        delimiter: the character between the fields of a text file.
        literals: keep RDF literals as entities instead of counting and skipping them.
        beside: names or positions of further columns to keep beside the facts.
    """

    header: bool | None = None
    columns: tuple[str | int, ...] | None = None
    delimiter: str | None = None
    literals: bool = False
    beside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a column list that cannot be right before any file is opened."""
        if self.columns is not None and not 3 <= len(self.columns) <= len(ROLES):
            raise DataError(
                f"Name 3 to 5 columns (head, relation, tail, confidence, label), "
                f"not {len(self.columns)}."
            )
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise DataError(
                f"The delimiter is {self.delimiter!r}, but it must be one character other than a "
                "quote or a line end."
            )


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out.

    Attributes:
        delimiter: the character between fields; fields may be quoted unless it is a tab.
        compression: gzip, zstd or None.
        first: the first record.
        header: whether it names the columns.
        names: the names of the columns, or their positions.
        roles: head, relation, tail, confidence, label -> position of its column.
    """

    delimiter: str
    compression: str | None
    first: Record
    header: bool
    names: tuple[str, ...]
    roles: Mapping[str, int]


def text_layout(path: Path, options: ReadOptions, *, warn: bool = True) -> Layout:
    """Find out how a text file is laid out; ``warn``: say so where that is not sure."""
    suffix, compression = split_suffixes(path)
    delimiter = options.delimiter or TEXT[suffix]
    first = first_record(path, compression, delimiter)
    header = _has_header(first, options)
    asked = options.header is not None or options.columns is not None
    if warn and not asked and might_be_header(first.fields):
        log.warning(
            "%s, line %d (%s) is read as a fact; if it names the columns, say --header.",
            *(path, first.first, ", ".join(first.fields)),
        )
    names = first.fields if header else [str(i) for i in range(len(first.fields))]
    roles = assign_roles(f"{path}, line {first.first}", path, names, header, options.columns)
    return Layout(delimiter, compression, first, header, tuple(names), roles)


def _has_header(first: Record, options: ReadOptions) -> bool:
    """Tell whether the first record names the columns: as told, by its words, or by --columns."""
    if options.header is not None:
        return options.header
    named = [c for c in options.columns or () if isinstance(c, str) and not c.isdigit()]
    if named and all(name in first.fields for name in named):
        return True
    return looks_like_header(first.fields)


def first_record(path: Path, compression: str | None, delimiter: str) -> Record:
    """Return the first record that is not blank."""
    try:
        first = next(records(path, compression, delimiter), None)
    except OSError as error:
        raise DataError(f"{path}: cannot be opened as {compression or 'text'} ({error}).") from None
    if first is None:
        raise DataError(
            f"{path}: the file is empty; a fact per line is needed: head, relation and tail."
        )
    if first.problem:
        raise DataError(f"{path}, line {first.first}: {first.problem}")
    return first


def assign_roles(
    place: str,
    path: Path,
    names: Sequence[str],
    named: bool,
    columns: tuple[str | int, ...] | None,
) -> dict[str, int]:
    """Say which column holds what: role -> position."""
    if columns is not None:
        return {
            role: position(path, names, named, column)
            for role, column in zip(ROLES, columns, strict=False)
        }
    if named:
        found = named_roles(names)
        if all(role in found for role in ROLES[:3]):
            return found
    if len(names) in (3, 4):
        return dict(zip(ROLES, range(len(names)), strict=False))
    hint = "" if len(names) > 1 else " Is the delimiter right?"
    raise DataError(
        f"{place}: {len(names)} columns, and it is not clear which are head, relation and "
        f"tail; name them (columns head,relation,tail by name, or by position from 0).{hint}"
    )


def position(path: Path, names: Sequence[str], named: bool, column: str | int) -> int:
    """Return where a column stands that a user names, or gives by its position."""
    if isinstance(column, int) or (column.isdigit() and not (named and column in names)):
        if 0 <= int(column) < len(names):
            return int(column)
        raise DataError(f"{path}: there is no column {column}; it has {len(names)}, from 0.")
    if not named:
        raise DataError(
            f"{path}: column {column!r} is named, but the file has no header line; give the "
            "position, from 0, or say --header if the first line names the columns."
        )
    if column not in names:
        raise DataError(f"{path}: no column is called {column!r}.{nearest(column, list(names))}")
    return names.index(column)
