"""Name the first bad line of a text file.

This runs only after the fast reader has refused a file, so it may be slow: it reads line by line
and checks what the reader checks, in the order a person would.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa


def first_problem(
    path: Path, compression: str | None, delimiter: str, header: bool, roles: Mapping[str, int]
) -> str | None:
    """Return ``line N ...`` for the first line that cannot be a fact, or None.

    Args:
        path: the file.
        compression: ``gzip``, ``zstd`` or None.
        delimiter: the character between fields; fields may be quoted unless it is a tab.
        header: whether the first line names the columns.
        roles: role (head, relation, tail, confidence, label) -> position of its column.
    """
    width = 0
    try:
        for number, fields in _records(path, compression, delimiter):
            if isinstance(fields, str):
                return f"line {number}: {fields}"
            width = width or len(fields)
            problem = _problem(fields, width, {} if header and number == 1 else roles)
            if problem:
                return f"line {number}: {problem}"
    except OSError as error:
        return f"the file breaks off or is damaged ({error})."
    return None


def _records(
    path: Path, compression: str | None, delimiter: str
) -> Iterator[tuple[int, list[str] | str]]:
    """Yield (line number, fields), or (line number, sentence) where the bytes are no text."""
    with pa.input_stream(str(path), compression=compression) as stream:
        for number, line in enumerate(io.BufferedReader(stream), 1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                yield number, f"byte {error.start + 1} is not valid UTF-8 ({error.reason})."
                return
            text = text.rstrip("\r\n")
            if not text:
                continue
            if delimiter == "\t":
                yield number, text.split("\t")
            else:
                yield number, next(csv.reader([text], delimiter=delimiter))


def _problem(fields: list[str], width: int, roles: Mapping[str, int]) -> str | None:
    if len(fields) != width:
        return f"{len(fields)} columns where the first line has {width}."
    for role, position in roles.items():
        value = fields[position]
        if value == "":
            return f"the {role} is empty."
        if role in ("confidence", "label"):
            try:
                inside = 0 <= float(value) <= 1
            except ValueError:
                return f"the {role} {value!r} is not a number."
            if not inside:
                return f"the {role} {value} is outside [0, 1]."
    return None
