"""Read TSV and CSV by Arrow: all of a file, or block by block where it does not fit memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from npugraph.data.io.blocks import read_blocks, suits
from npugraph.data.io.checks import check_fields, with_more
from npugraph.data.io.diagnose import first_problem, records
from npugraph.data.io.encode import MORE, Numbered
from npugraph.data.io.layout import Layout, ReadOptions, position, text_layout
from npugraph.data.io.numbering import Names, worth
from npugraph.errors import DataError

log = logging.getLogger(__name__)

BLOCK = 1 << 23


def read_text(path: Path, options: ReadOptions) -> pa.Table:
    """Read a text file into a checked table."""
    file = _opened(path, options)
    try:
        with pa.input_stream(str(path), compression=file.layout.compression) as stream:
            table = pyarrow.csv.read_csv(stream, **file.arrow_options())
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(file.explain(error)) from None
    found = file.checked(table)
    file.doubt_header(file.like_header(found))
    return found


def number_text(path: Path, options: ReadOptions) -> Numbered | None:
    """Read a large text file of three columns, its names numbered; None: it is for read_text."""
    if not worth(path.stat().st_size) or options.beside:
        return None
    # Warnings are for when it is sure who reads the file.
    try:
        layout = text_layout(path, options, warn=False)
    except DataError:
        return None
    found = read_blocks(path, layout) if suits(layout) else None
    if found is None or len(found) == 0:
        return None
    file = _opened(path, options)
    file.doubt_header(file.numbered_like_header(found))
    return found


def stream_text(path: Path, options: ReadOptions) -> Iterator[pa.Table]:
    """Yield the same block by block."""
    file, doubtful = _opened(path, options), 0
    try:
        with pa.input_stream(str(path), compression=file.layout.compression) as stream:
            for batch in pyarrow.csv.open_csv(stream, **file.arrow_options()):
                found = file.checked(pa.table(batch))
                doubtful += file.like_header(found)
                yield found
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(file.explain(error)) from None
    file.doubt_header(doubtful)


@dataclass(frozen=True)
class _Opened:
    """A text file whose layout is known.

    Attributes:
        path: where it is.
        layout: how it is laid out.
        more: names of further columns that are kept, and their positions.
        guessed: whether nobody said if there is a header.
    """

    path: Path
    layout: Layout
    more: dict[str, int]
    guessed: bool

    def arrow_options(self) -> dict[str, Any]:
        """Return how Arrow is to read it: columns are c0, c1, ... there."""
        layout, quoted = self.layout, self.layout.delimiter != "\t"
        columns = [f"c{i}" for i in range(len(layout.names))]
        wanted = {*layout.roles.values(), *self.more.values()}
        return {
            "read_options": pyarrow.csv.ReadOptions(
                column_names=columns,
                # Arrow skips lines, blank ones and those within quotes included.
                skip_rows=layout.first.last if layout.header else 0,
                block_size=BLOCK,
            ),
            "parse_options": pyarrow.csv.ParseOptions(
                delimiter=layout.delimiter,
                quote_char='"' if quoted else False,
                newlines_in_values=quoted,
            ),
            "convert_options": pyarrow.csv.ConvertOptions(
                include_columns=[columns[i] for i in wanted],
                column_types=dict.fromkeys(columns, pa.string()),
                strings_can_be_null=False,
            ),
        }

    def checked(self, table: pa.Table) -> pa.Table:
        """Return the columns of facts by their roles, and those that are kept beside them."""
        beside = [(MORE + name, table[f"c{i}"]) for name, i in self.more.items()]
        roles = self.layout.roles
        table = table.select([f"c{i}" for i in roles.values()]).rename_columns(list(roles))
        return with_more(check_fields(table, self.explain), beside)

    def explain(self, error: object) -> str:
        """Find the first bad line; fall back on Arrow's words for damage that is in no line."""
        layout = self.layout
        try:
            problem = first_problem(
                self.path, layout.compression, layout.delimiter, layout.header, layout.roles
            )
        except OSError as damage:
            return f"{self.path}: the file breaks off or is damaged ({damage})."
        return f"{self.path}, {problem}" if problem else f"{self.path}: cannot be read ({error})."

    def like_header(self, table: pa.Table) -> int:
        """Count the facts whose relation is the word that was taken for the column's name."""
        if not (self.layout.header and self.guessed):
            return 0
        return int(pc.sum(pc.equal(table["relation"], self._word())).as_py() or 0)

    def numbered_like_header(self, facts: Numbered) -> int:
        """Count the same of facts whose names are numbered."""
        if not (self.layout.header and self.guessed):
            return 0
        names = (x.labels() if isinstance(x, Names) else x for x in facts.relations)
        found = [pc.index(some, self._word()).as_py() for some in names]
        return sum(int((block.places == found[block.names]).sum()) for _, block, _ in facts.parts)

    def _word(self) -> str:
        return self.layout.first.fields[self.layout.roles["relation"]]

    def doubt_header(self, count: int) -> None:
        """Say so where a word that was taken for a column's name is the relation of facts, too."""
        if count:
            first, word = self.layout.first, self._word()
            log.warning(
                "%s, line %d (%s) is read as the names of the columns, but %r is the relation of "
                "%s facts, too; if the line is a fact, say --no-header.",
                *(self.path, first.first, ", ".join(first.fields), word, f"{count:,}"),
            )


def _opened(path: Path, options: ReadOptions) -> _Opened:
    """Find out how a file is laid out; refuse one without facts, or with a quote left open."""
    found = text_layout(path, options)
    delimiter, compression = found.delimiter, found.compression
    more = {name: position(path, found.names, found.header, name) for name in options.beside}
    if found.header and _is_last(path, compression, delimiter):
        raise DataError(f"{path}: the file holds no facts.")
    if delimiter != "\t" and _odd_quotes(path, compression):
        problem = first_problem(path, compression, delimiter, found.header, found.roles)
        if problem:
            raise DataError(f"{path}, {problem}")
    return _Opened(path, found, more, options.header is None)


def _is_last(path: Path, compression: str | None, delimiter: str) -> bool:
    """Tell whether the first record is the only one."""
    found = records(path, compression, delimiter)
    next(found)
    return next(found, None) is None


def _odd_quotes(path: Path, compression: str | None) -> bool:
    """Tell whether a file has an odd number of quotes: one may never be closed."""
    count = 0
    with pa.input_stream(str(path), compression=compression) as stream:
        try:
            while block := stream.read(1 << 22):
                count += block.count(b'"')
        except OSError:  # the reader names the damage
            return False
    return count % 2 == 1
