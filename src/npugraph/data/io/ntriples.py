"""Read N-Triples at the speed of Arrow: lines of three plain IRIs are cut up, no parser runs.

Any other line (literals, blank nodes, escapes, what is said of other statements, names that are no
IRIs) is left for the parser. What both see together is what the parser alone would see.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from npugraph.data.io.formats import ROLES, split_suffixes
from npugraph.data.io.iris import NAMES

# Letters of an IRI that every parser takes as they are; others are the parser's business.
_LETTER = (
    r"(?:[0-9A-Za-z._~!$&'()*+,;=:@\x{a1}-\x{d7ff}\x{f900}-\x{fdcf}\x{fdf0}-\x{ffef}-]"
    r"|%[0-9A-Fa-f]{2})"
)
_END = rf"(?:\?(?:{_LETTER}|[/?])*)?(?:#(?:{_LETTER}|[/?])*)?"
_HOST = rf"//[0-9A-Za-z._~-]+(?::[0-9]+)?(?:/(?:{_LETTER}|/)*)?"
_IRI = rf"<[A-Za-z][0-9A-Za-z+.-]*:(?:{_HOST}|{_LETTER}(?:{_LETTER}|/)*){_END}>"
_PLAIN = rf"^{_IRI} {_IRI} {_IRI} \.$"
# What is about other statements, and names of ours within IRIs.
_SPECIAL = rf"22-rdf-syntax-ns#(?:reifies|subject|predicate|object|Statement)>|<{NAMES}"
_EMPTY = r"^[ \t]*(?:#.*)?$"
# A character that no line of N-Triples needs: a line with it is the parser's business.
_NO_DELIMITER = "\x01"
_BLOCK = 1 << 23


@dataclass(frozen=True)
class Lines:
    """The lines of a file, divided.

    Attributes:
        facts: head, relation, tail and row of the plain ones.
        others: the other lines that hold a triple, each with its row.
        rows: int64 [len(others)], the numbers of these triples in the file, from 1.
        count: how many triples there are, if each of the others holds one.
    """

    facts: pa.Table
    others: pa.ChunkedArray
    rows: NDArray[np.int64]
    count: int

    def text(self) -> bytes:
        """Return the others as a file of their own."""
        return b"".join(line.encode() + b"\n" for line in self.others.to_pylist())


def divide(path: Path) -> Lines | None:
    """Divide a file into plain lines and others; None where that cannot be done safely."""
    try:
        lines = _read(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        # The parser says what is wrong.
        return None
    if lines is None:
        return None
    with ThreadPoolExecutor(max(1, pa.cpu_count())) as pool:
        parts = list(pool.map(_divide, lines.chunks))
    facts, others, rows, start = [], [], [], 0
    for part in parts:
        row = pa.array(part.facts["row"].to_numpy() + start)
        facts.append(part.facts.set_column(3, "row", row))
        others += part.others.chunks
        rows.append(part.rows + start)
        start += part.count
    if not parts:
        return None
    return Lines(
        pa.concat_tables(facts),
        pa.chunked_array(others, pa.string()),
        np.concatenate(rows),
        start,
    )


def _read(path: Path) -> pa.ChunkedArray | None:
    """Return the lines that are not empty; None for a file that begins with a byte order mark."""
    compression = split_suffixes(path)[1]
    with pa.input_stream(str(path), compression=compression) as stream:
        if stream.read(3) == b"\xef\xbb\xbf":
            return None
    with pa.input_stream(str(path), compression=compression) as stream:
        table = pyarrow.csv.read_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(column_names=["line"], block_size=_BLOCK),
            parse_options=pyarrow.csv.ParseOptions(delimiter=_NO_DELIMITER, quote_char=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={"line": pa.string()}, strings_can_be_null=False
            ),
        )
    return table["line"]


def _divide(lines: pa.Array) -> Lines:
    """Divide some lines; rows are counted from the first of them."""
    plain = pc.match_substring_regex(lines, _PLAIN)
    special = pc.match_substring_regex(lines, _SPECIAL)
    if pc.any(special, min_count=0).as_py():
        plain = pc.and_not(plain, special)
    mask = plain.to_numpy(zero_copy_only=False)
    holds = mask.copy()
    holds[~mask] = ~pc.match_substring_regex(lines.filter(pc.invert(plain)), _EMPTY).to_numpy(
        zero_copy_only=False
    )
    row = np.cumsum(holds)
    other = holds & ~mask
    chosen = lines if mask.all() else lines.filter(plain)
    # "<a>", "<b>", "<c>" and "." of each line, one after the other.
    fields = pc.split_pattern(chosen, " ").flatten()
    place = np.arange(0, 4 * len(chosen), 4)
    columns = [pc.ascii_trim(fields.take(pa.array(place + i)), "<>") for i in range(3)]
    facts = pa.table([*columns, pa.array(row[mask])], names=[*ROLES[:3], "row"])
    others = pa.chunked_array([lines.filter(pa.array(other))], pa.string())
    return Lines(facts, others, row[other], int(holds.sum()))


def merged(plain: pa.Table, parsed: pa.Table) -> pa.Table:
    """Put the facts of both together again, in the order of their rows."""
    if len(parsed) == 0:
        return plain
    whole = pa.concat_tables([plain, parsed])
    order = np.argsort(np.concatenate([t["row"].to_numpy() for t in (plain, parsed)]))
    return whole.take(pa.array(order))
