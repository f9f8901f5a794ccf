"""Find and change the lines of facts in TSV, CSV and N-Triples files."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from npugraph.data.io import Layout, ReadOptions, text_layout
from npugraph.data.io.diagnose import records_of
from npugraph.errors import DataError
from npugraph.patching.lines import ENDS, MARK, Edited, Lines, edit_lines
from npugraph.patching.patch import Fact
from npugraph.patching.resolve import Edits
from npugraph.patching.terms import fact_of_line, has_own, term_text

# What a fact that people add has in the columns confidence and label: they say that it is true.
ADDED = {"confidence": "1", "label": "1"}
_TERM = re.compile(r'<[^<>"]*>|_:[^\s<>"]*[^\s<>".]|"(?:[^"\\]|\\.)*"(?:@[\w-]+|\^\^<[^<>"]*>)?')


# The lines of a record, from 0, both ends included; a million of them are made at once.
Span = tuple[int, int]


def edit_text(path: Path, data: bytes, options: ReadOptions, edits: Edits) -> Edited:
    """Change the facts of a TSV or CSV file; all its other columns stay."""
    layout = text_layout(path, options, warn=False)
    lines = Lines.of(data)
    spans = _text_spans(lines, data, layout)

    def rewritten(text: str, new: Fact) -> str:
        fields = raw_fields(text, layout.delimiter)
        for role, name in new._asdict().items():
            place = layout.roles[role]
            if _plain(fields[place], layout.delimiter) != name:
                fields[place] = _field(name, layout.delimiter, path)
        label = layout.roles.get("label")
        if label is not None and _is_zero(_plain(fields[label], layout.delimiter)):
            # The wrong fact was known to be wrong; this one is said to be right.
            fields[label] = ADDED["label"]
        return layout.delimiter.join(fields)

    def added(fact: Fact) -> str:
        names = {**fact._asdict(), **ADDED}
        fields = [""] * len(layout.names)
        for role, place in layout.roles.items():
            fields[place] = _field(names[role], layout.delimiter, path)
        return layout.delimiter.join(fields)

    return _edit(lines, spans, edits, rewritten, added)


def edit_ntriples(path: Path, data: bytes, triples: int, edits: Edits) -> Edited:
    """Change the facts of an N-Triples file, one per line.

    Args:
        path: how errors call it.
        data: its bytes.
        triples: how many triples the reader found; rows of ``edits`` count them all.
        edits: the changes.
    """
    lines, own = Lines.of(data), has_own(data)
    places = [
        place
        for place, line in enumerate(lines.lines)
        if (text := line.strip()) and not text.startswith(b"#")
    ]
    if len(places) != triples:
        raise DataError(
            f"{path}: {triples:,} triples on {len(places):,} lines, so that it cannot be changed "
            "line by line; write one triple per line, or use Turtle."
        )

    def rewritten(text: str, new: Fact) -> str:
        old = fact_of_line(text)
        found = list(_TERM.finditer(text))[:3]
        for match, before, name in reversed(list(zip(found, old, new, strict=True))):
            if before != name:
                text = text[: match.start()] + term_text(name, str(path), own) + text[match.end() :]
        return text

    def added(fact: Fact) -> str:
        return " ".join([*(term_text(name, str(path), own) for name in fact), "."])

    return _edit(lines, [(place, place) for place in places], edits, rewritten, added)


def _edit(
    lines: Lines,
    spans: Sequence[Span],
    edits: Edits,
    rewritten: Callable[[str, Fact], str],
    added: Callable[[Fact], str],
) -> Edited:
    """Change the lines of records; ``rewritten`` and ``added`` make the text of a record."""
    replaced: dict[int, bytes] = {}
    for row in (*edits.removed, *edits.replaced):
        first, last = spans[row]
        replaced |= dict.fromkeys(range(first, last + 1), b"")
    for row, new in edits.replaced.items():
        first, last = spans[row]
        whole = b"".join(lines.lines[first : last + 1])
        body = whole.rstrip(ENDS)
        # Where a name holds line ends, the new record has more lines or fewer.
        text = rewritten(body.decode("utf-8"), new).encode()
        replaced[first] = text + whole[len(body) :]
    return edit_lines(lines, replaced, [added(fact).encode() for fact in edits.added])


def _text_spans(lines: Lines, data: bytes, layout: Layout) -> list[Span]:
    """Return the lines of each record, without the header."""
    if layout.delimiter == "\t":
        blank = (b"\n", b"\r\n", b"\r")
        spans = [(i, i) for i, line in enumerate(lines.lines) if line not in blank]
    else:
        body = pa.BufferReader(data[len(MARK) :] if lines.mark else data)
        found = records_of(body, layout.delimiter)
        spans = [(record.first - 1, record.last - 1) for record in found]
    return spans[1:] if layout.header else spans


def raw_fields(text: str, delimiter: str) -> list[str]:
    r"""Cut a record into its fields as they are written, quotes and all.

    >>> raw_fields('a,"b,c",d', ",")
    ['a', '"b,c"', 'd']
    """
    if delimiter == "\t":
        return text.split("\t")
    one = re.escape(delimiter)
    pattern = re.compile(rf'("(?:[^"]|"")*"(?!")[^{one}]*|[^{one}]*)(?:{one}|$)', re.S)
    fields, place = [], 0
    while True:
        match = pattern.match(text, place)
        assert match is not None  # the second alternative fits anything
        fields.append(match[1])
        place = match.end()
        if match.end(1) == len(text):
            return fields


def _plain(raw: str, delimiter: str) -> str:
    """Return the value of a field as it is written."""
    if delimiter == "\t" or not raw.startswith('"'):
        return raw
    csv.field_size_limit(sys.maxsize)
    return next(csv.reader(io.StringIO(raw, newline=""), delimiter=delimiter))[0]


def _field(name: str, delimiter: str, path: Path) -> str:
    """Write a name as a field, quoted where it must be."""
    if delimiter == "\t":
        if re.search(r"[\t\r\n]", name):
            raise DataError(
                f"{path}: {name!r} holds a tab or a line end, which TSV cannot; correct the answer."
            )
        return name
    if re.search(rf'["\r\n{re.escape(delimiter)}]', name):
        return '"' + name.replace('"', '""') + '"'
    return name


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0
    except ValueError:
        return False
