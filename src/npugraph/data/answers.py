"""Read what people say of facts: right, wrong or unsure, and how the fact was drawn."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from npugraph.data.frames import as_arrow
from npugraph.data.io.diagnose import records
from npugraph.data.io.formats import TEXT, named_roles, split_suffixes
from npugraph.errors import DataError, in_one_line, no_such_file

WORDS = {
    **dict.fromkeys(("true", "right", "correct", "yes", "1", "1.0"), 1),
    **dict.fromkeys(("false", "wrong", "incorrect", "no", "0", "0.0"), 0),
    # The desk's words for facts that are wrong as they stand.
    **dict.fromkeys(("wrong-relation", "corrected"), 0),
    **dict.fromkeys(("unsure", "unknown", "?"), -1),
}
DRAWN = ("random", "chosen")
FACT = ("head", "relation", "tail")
# The column that says in which rows cells are escaped for spreadsheets.
ESCAPED = "escaped"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")


def escape(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula: an apostrophe comes before it.

    >>> escape("=1+1"), escape("'n"), escape("Rome")
    ("'=1+1", "''n", 'Rome')
    """
    return "'" + text if text.startswith(_FORMULA) else text


def unescape(text: str) -> str:
    """Take back what ``escape`` did.

    >>> unescape(escape("'=a")), unescape("Rome")
    ("'=a", 'Rome')
    """
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text


@dataclass(frozen=True)
class AnswerRows:
    """Answers as they were given, one row each.

    Attributes:
        facts: columns head, relation, tail.
        said: 1 true, 0 wrong, -1 unsure.
        drawn: ``random``, ``chosen`` or empty, not told.
        chance: of having been drawn; None where not told.
        open: rows without an answer; they are not among the others.
    """

    facts: pa.Table
    said: tuple[int, ...]
    drawn: tuple[str, ...]
    chance: tuple[float | None, ...]
    open: int


def read_answers(source: Any) -> AnswerRows:
    """Read answers from a file (.tsv, .csv, .txt, .parquet), a frame, columns or a list of dicts.

    Columns: head, relation, tail, answer (true, false, unsure; also right, wrong, 1, 0), and, if
    known, drawn (random, chosen) and chance, that of a random fact to be drawn. Others are left.
    A row without an answer has not been judged yet.

    >>> rows = read_answers(
    ...     [{"head": "a", "relation": "r", "tail": "b", "answer": "wrong", "drawn": "random"}]
    ... )
    >>> rows.said, rows.drawn
    ((0,), ('random',))
    """
    facts, said, drawn, chance, unanswered = [], [], [], [], 0
    for place, row in answer_fields(source):
        if not row["answer"]:
            unanswered += 1
            continue
        for name in FACT:
            if not row[name]:
                raise DataError(f"{place}: an empty {name}.")
        facts.append([row[name] for name in FACT])
        said.append(_said(row, place))
        how = row["drawn"].lower()
        drawn.append(how and _one_of(how, dict(zip(DRAWN, DRAWN, strict=True)), place, "drawn"))
        chance.append(_chance(row["chance"], place))
    if not said and not unanswered and isinstance(source, str | os.PathLike):
        raise DataError(
            f"{source}: the file holds no answers, only a header; add a row for each fact that was "
            "judged, or leave the file out."
        )
    columns = zip(*facts, strict=True) if facts else ((), (), ())
    table = pa.table(
        {name: pa.array(column, pa.string()) for name, column in zip(FACT, columns, strict=True)}
    )
    return AnswerRows(table, tuple(said), tuple(drawn), tuple(chance), unanswered)


def _said(row: Mapping[str, str], place: str) -> int:
    """Return what a row says: 1 true, 0 wrong, -1 unsure."""
    word = _one_of(row["answer"], WORDS, place, "answer", "true, false or unsure")
    if word != 1 or not any(row[f"new_{name}"] for name in FACT):
        return int(word)
    if row["answer"].lower() == "correct":
        # Not that the fact is correct: it is corrected to another one, which stands beside it.
        return 0
    raise DataError(
        f"{place}: the fact is called {row['answer']}, and another fact stands beside it in "
        "new_head, new_relation or new_tail; empty those, or say false."
    )


def _one_of(text: str, known: Mapping[str, Any], place: str, name: str, words: str = "") -> Any:
    value = known.get(text.lower())
    if value is None:
        raise DataError(f"{place}: the {name} {text!r} must be {words or ' or '.join(known)}.")
    return value


def _chance(text: str, place: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise DataError(f"{place}: the chance {text!r} must be a number above 0 and at most 1.")
    return value


def answer_fields(source: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield where each row stands and its fields as text; those that are not there are empty."""
    if not isinstance(source, str | os.PathLike):
        rows = isinstance(source, list) and all(isinstance(row, Mapping) for row in source)
        table = pa.Table.from_pylist(source) if rows else as_arrow(source, type(source).__name__)
        yield from _of_table(table, "The answers")
        return
    path = Path(source)
    if not path.is_file():
        raise no_such_file(path)
    suffix, compression = split_suffixes(path)
    if suffix == ".parquet":
        try:
            table = pyarrow.parquet.read_table(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(
                f"{path}: not a readable Parquet file ({in_one_line(error)})."
            ) from None
        yield from _of_table(table, str(path))
    elif suffix in TEXT:
        yield from _of_text(path, compression, TEXT[suffix])
    else:
        raise DataError(f"{path}: answers are read from .tsv, .csv, .txt or .parquet.")


def _of_table(table: pa.Table, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    columns = _columns(table.column_names, name)
    for number, row in enumerate(table.to_pylist(), 1):
        values = list(row.values())
        given = {key: values[place] for key, place in columns.items()}
        # A column of booleans, or of numbers, is an answer as well as words are.
        text = {key: "" if v is None or v != v else str(v).strip() for key, v in given.items()}
        yield f"{name}, row {number}", _EMPTY | text


def _of_text(
    path: Path, compression: str | None, delimiter: str
) -> Iterator[tuple[str, dict[str, str]]]:
    columns: dict[str, int] = {}
    width = 0
    try:
        for record in records(path, compression, delimiter):
            place = f"{path}, line {record.first}"
            if record.problem:
                raise DataError(f"{place}: {record.problem}")
            if not columns:
                columns, width = _columns(record.fields, place), len(record.fields)
                continue
            # A spreadsheet leaves out the tabs after the last field that is filled.
            fields = record.fields + [""] * (width - len(record.fields))
            if len(fields) > width:
                raise DataError(f"{place}: {len(fields)} columns where the header has {width}.")
            if columns.get(ESCAPED) is not None and fields[columns[ESCAPED]].strip():
                fields = [unescape(field) for field in fields]
            names = {name: fields[column] for name, column in columns.items() if name in VERBATIM}
            more = {name: fields[column].strip() for name, column in columns.items()}
            yield place, _EMPTY | more | names
    except OSError as error:
        raise DataError(
            f"{path}: the file breaks off or is damaged ({in_one_line(error)})."
        ) from None
    if not columns:
        raise DataError(f"{path}: the file is empty; {_NEEDED}.")


# White space is part of these.
VERBATIM = (*FACT, "new_head", "new_relation", "new_tail", "note")
# Columns that a review adds.
SAID = ("said", *VERBATIM[3:], "confidence", "probability", "reviewer", "time", "stored", "key")
_NEEDED = "answers have a header with head, relation, tail, answer and, if known, drawn and chance"
_EMPTY = dict.fromkeys((*FACT, "answer", "drawn", "chance", ESCAPED, *SAID), "")


def _columns(names: Sequence[str], place: str) -> dict[str, int]:
    """Return where each column stands, by the names in the header."""
    found = {role: column for role, column in named_roles(names).items() if role in FACT}
    words = [name.strip().lower() for name in names]
    found |= {name: words.index(name) for name in _EMPTY if name in words}
    missing = [name for name in (*FACT, "answer") if name not in found]
    if missing:
        raise DataError(f"{place}: no column is called {missing[0]!r}; {_NEEDED}.")
    return found
