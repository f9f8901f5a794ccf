"""Name the first bad line of a text file.

This runs only after the fast reader has refused a file, so it may be slow: it reads line by line
and checks what the reader checks, in the order a person would.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa


@dataclass(frozen=True)
class Record:
    """One record of a text file.

    Attributes:
        first: number of the line it begins on, from 1.
        last: number of the line it ends on; quoted fields may hold line ends.
        fields: its fields.
        problem: a sentence, where these bytes are no record; empty otherwise.
        closed: whether a line end follows; that of the last record may be missing.
    """

    first: int
    last: int
    fields: list[str]
    problem: str = ""
    closed: bool = True


def first_problem(
    path: Path, compression: str | None, delimiter: str, header: bool, roles: Mapping[str, int]
) -> str | None:
    """Return ``line N: ...`` for the first line that cannot be a fact, or None.

    Args:
        path: the file.
        compression: ``gzip``, ``zstd`` or None.
        delimiter: the character between fields; fields may be quoted unless it is a tab.
        header: whether the first record names the columns.
        roles: role (head, relation, tail, confidence, label) -> position of its column.
    """
    width = 0
    for record in records(path, compression, delimiter):
        is_header = header and not width
        width = width or len(record.fields)
        problem = record.problem or _problem(record.fields, width, {} if is_header else roles)
        if problem:
            hint = "" if record.closed else " Does the file break off there?"
            return f"line {record.first}: {problem}{hint}"
    return None


def records(path: Path, compression: str | None, delimiter: str) -> Iterator[Record]:
    """Yield the records that are not blank; the last one may be a problem instead.

    Raises:
        OSError: the file breaks off or is damaged.
    """
    with pa.input_stream(str(path), compression=compression) as stream:
        yield from records_of(stream, delimiter)


def records_of(stream: pa.NativeFile, delimiter: str) -> Iterator[Record]:
    """Yield the same of an open stream."""
    lines = _Lines(stream)
    try:
        if delimiter == "\t":
            for line in lines:
                if text := line.rstrip("\r\n"):
                    closed = len(text) < len(line)
                    yield Record(lines.number, lines.number, text.split("\t"), closed=closed)
        else:
            yield from _quoted_records(lines, delimiter)
    except UnicodeDecodeError as error:
        sentence = f"byte {error.start + 1} is not valid UTF-8 ({error.reason})."
        yield Record(lines.number, lines.number, [], sentence)


class _Lines:
    """The lines of a stream, ended as Arrow ends them: by LF, CR LF or CR."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self.number = 0
        self._chunks = io.BufferedReader(stream)

    def __iter__(self) -> Iterator[str]:
        for chunk in self._chunks:
            for line in chunk.splitlines(keepends=True):
                self.number += 1
                text = line.decode("utf-8")
                yield text.removeprefix("\ufeff") if self.number == 1 else text


def _quoted_records(lines: _Lines, delimiter: str) -> Iterator[Record]:
    csv.field_size_limit(sys.maxsize)
    raw: list[str] = []

    def kept() -> Iterator[str]:
        for line in lines:
            raw.append(line)
            yield line

    first = 1
    for fields in csv.reader(kept(), delimiter=delimiter):
        if fields:
            if _is_open("".join(raw), delimiter):
                yield Record(first, lines.number, [], "a quote is opened and never closed.")
                return
            closed = raw[-1].endswith(("\r", "\n"))
            yield Record(first, lines.number, fields, closed=closed)
        first = lines.number + 1
        raw.clear()


def _is_open(text: str, delimiter: str) -> bool:
    """Tell whether a record ends inside quotes, as only the last one of a file can."""
    if text.count('"') % 2 == 0:
        return False
    try:
        list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        return "unexpected end" in str(error)
    return False


def _problem(fields: list[str], width: int, roles: Mapping[str, int]) -> str | None:
    if len(fields) != width:
        return f"{len(fields)} columns where the first line has {width}."
    for role, position in roles.items():
        value = fields[position]
        if value == "" and role == "label":
            continue
        if value == "":
            return f"the {role} is empty."
        if role in ("confidence", "label"):
            try:
                # Arrow decides what a number is: Python's float() also takes 0_1.
                number = pa.scalar(value).cast(pa.float64()).as_py()
            except pa.ArrowInvalid:
                return f"the {role} {value!r} is not a number."
            if not 0 <= number <= 1:
                return f"the {role} {value} is outside [0, 1]."
            if role == "label" and number not in (0, 1):
                return f"the {role} {value} is neither 0 nor 1."
    return None
