"""Read graphs from TSV, CSV, Parquet, N-Triples and Turtle.

Arrow parses a file and turns its names into ids, column by column; of large files several threads
read parts, with compiled loops (:mod:`.shares`). No Python code runs per row. Only when a file
turns out to be bad is it read again, line by line, to name the first bad line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from npugraph.data.io.encode import Numbered, encode, number_table
from npugraph.data.io.formats import COMPRESSION, RDF, TEXT, split_suffixes
from npugraph.data.io.layout import ReadOptions
from npugraph.data.io.parquet import number_parquet, read_parquet, stream_parquet
from npugraph.data.io.rdf import read_rdf
from npugraph.data.io.text import number_text, read_text, stream_text
from npugraph.errors import DataError, no_such_file
from npugraph.graph import Annotations, KnowledgeGraph, Splits

SPLITS = ("train", "valid", "test")


def read_graph(path: str | os.PathLike[str], options: ReadOptions | None = None) -> KnowledgeGraph:
    """Read one file into a graph; every record is kept, in order.

    Raises:
        DataError: one sentence that names the file, the line and what is wrong with it.
    """
    facts, beside = number_file(Path(path), options or ReadOptions())
    return encode([facts], [str(path)], [beside])[0]


def read_splits(
    folder: str | os.PathLike[str], options: ReadOptions | None = None, name: str | None = None
) -> Splits:
    """Read a folder that holds train, valid and test in any known format.

    Optional files: ``entities.txt`` and ``relations.txt`` (one label per line) add names that no
    fact mentions; ``truth.tsv`` marks a graph that was perturbed on purpose and is not read here.
    """
    folder = Path(folder)
    options = options or ReadOptions()
    paths = [find_part(folder, part) for part in SPLITS]
    facts, beside = zip(*(number_file(path, options) for path in paths), strict=True)
    extra = [_read_names(folder / f"{kind}.txt") for kind in ("entities", "relations")]
    train, valid, test = encode(facts, [str(path) for path in paths], beside, *extra)
    truth = folder / "truth.tsv"
    name = name or folder.resolve().name
    return Splits(name, train, valid, test, folder, truth if truth.exists() else None)


def read_own_table(path: Path) -> pa.Table:
    """Read a TSV file with a header that this package wrote, all of it as text.

    Without a file it is a table without columns.
    """
    if not path.is_file():
        return pa.table({})
    with path.open(encoding="utf-8") as file:
        names = file.readline().rstrip("\n").split("\t")
    return pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )


def find_part(folder: Path, part: str) -> Path:
    """Return the file of one split in a folder, whatever its format."""
    endings = [s + c for s in (*TEXT, ".parquet", *RDF) for c in ("", *COMPRESSION)]
    for ending in endings:
        if (folder / (part + ending)).is_file():
            return folder / (part + ending)
    raise DataError(
        f"{folder}: no file {part}.tsv (or .csv, .parquet, .nt, .ttl, also .gz or .zst); "
        "a folder of splits needs train, valid and test."
    )


def number_file(path: Path, options: ReadOptions) -> tuple[Numbered, Annotations | None]:
    """Read one file, its names numbered, and what else an RDF file says."""
    suffix = _format(path)
    if suffix not in RDF:
        found = (number_text if suffix in TEXT else number_parquet)(path, options)
        if found is not None:
            return found, None
    table, beside = read_table(path, options)
    try:
        return number_table(table), beside
    except pa.ArrowInvalid:
        raise DataError(f"{path}: a name is not valid UTF-8.") from None


def read_table(path: Path, options: ReadOptions) -> tuple[pa.Table, Annotations | None]:
    """Read one file into a table with columns head, relation, tail[, confidence][, label].

    Returns:
        The table, and what else an RDF file says: its literals, which are no facts between
        entities, and its prefixes.
    """
    suffix, beside = _format(path), None
    if suffix in TEXT:
        table = read_text(path, options)
    elif suffix in RDF:
        table, beside = read_rdf(path, suffix, options.literals)
    else:
        table = read_parquet(path, options)
    if len(table) == 0:
        raise DataError(f"{path}: the file holds no facts.")
    return table, beside


def stream_table(path: Path, options: ReadOptions) -> Iterator[tuple[pa.Table, Annotations | None]]:
    """Yield the same in parts that fit memory; an RDF file is one part."""
    suffix, count = _format(path), 0
    if suffix in RDF:
        yield read_table(path, options)
        return
    for table in (stream_text if suffix in TEXT else stream_parquet)(path, options):
        count += len(table)
        yield table, None
    if count == 0:
        raise DataError(f"{path}: the file holds no facts.")


def _format(path: Path) -> str:
    """Return the suffix of a file that is there and can be read."""
    if not path.is_file():
        raise no_such_file(path)
    suffix = split_suffixes(path)[0]
    if suffix not in (*TEXT, ".parquet", *RDF):
        raise DataError(
            f"{path}: unknown format {suffix or '(no suffix)'!r}; "
            "use .tsv, .csv, .txt, .parquet, .nt or .ttl, also with .gz or .zst."
        )
    return suffix


def _read_names(path: Path) -> list[str]:
    """Read one name per line; only LF and CR LF end a line, for a name may hold U+2028."""
    if not path.is_file():
        return []
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} is not valid UTF-8 ({error.reason})"
        raise DataError(f"{path}: {reason}.") from None
    names = (line.removesuffix("\r") for line in text.split("\n"))
    return [name for name in names if name]
