"""Read facts that do not fit memory: DuckDB numbers the names, and spills to a folder.

The result is an ordinary graph with the ids that the ordinary reader gives. But its names and ids
lie in files that are mapped into memory: what is not looked at takes none. The files have no name
any more once they are mapped; they are gone when the graph is.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.data.io.encode import MORE, note_similar
from npugraph.data.io.formats import RDF, split_suffixes
from npugraph.data.io.layout import ReadOptions
from npugraph.data.io.parts import has_blank_nodes, note_blank_nodes
from npugraph.data.io.read import stream_table
from npugraph.errors import DataError, writing
from npugraph.graph import Annotations, KnowledgeGraph, Vocabulary, joined_annotations
from npugraph.machine import free_memory

log = logging.getLogger(__name__)

# Bytes that the ordinary reader holds at most: per byte of a text file, of an RDF file, and per row
# of a Parquet file. Text becomes about so many times larger when it is unpacked.
TEXT_BYTES, RDF_BYTES, ROW_BYTES, UNPACKED = 3, 6, 250, 6
# Shares of the free memory: beyond the first, reading spills; the second is DuckDB's.
MOST_SHARE, DUCKDB_SHARE = 0.5, 0.25
LEAST_MEMORY = 256 * 2**20
# Rows that come from DuckDB at a time.
ROWS = 1 << 17
NUMBERS = {"row": np.int64, "confidence": np.float64, "label": np.int8}


def expected_bytes(files: Sequence[Path]) -> int:
    """Return about how many bytes the ordinary reader would hold at most."""
    total = 0
    for path in files:
        suffix, compression = split_suffixes(path)
        size = path.stat().st_size * (UNPACKED if compression else 1)
        if suffix == ".parquet":
            try:
                total += ROW_BYTES * pyarrow.parquet.read_metadata(path).num_rows
            except (pa.ArrowException, OSError):  # the reader says what is wrong
                total += size
        else:
            total += size * (RDF_BYTES if suffix in RDF else TEXT_BYTES)
    return total


def needs_spill(files: Sequence[Path], source: str) -> bool:
    """Tell whether files are too large to be read the ordinary way, and say so.

    The rule: what reading would hold is more than half of the memory that is free.

    Raises:
        DataError: it is more than all of it, and DuckDB is not installed.
    """
    free = free_memory()
    needed = expected_bytes(files)
    if free is None or needed <= MOST_SHARE * free:
        return False
    sizes = (
        f"{source}: reading needs about {needed / 2**30:,.1f} GiB of memory and "
        f"{free / 2**30:,.1f} GiB are free"
    )
    if _duckdb() is None:
        if needed <= free:
            return False
        raise DataError(
            f"{sizes}; install DuckDB, which reads it with less: pip install 'npugraph[large]'."
        )
    log.warning("%s, so DuckDB numbers the names in files; --spill says where.", sizes)
    return True


def _duckdb() -> Any:
    """Return DuckDB, or None where it is not installed."""
    try:
        import duckdb
    except ImportError:
        return None
    return duckdb


@dataclass(frozen=True)
class _Mapped:
    """All facts of some files, in files that are mapped into memory.

    Attributes:
        entities: the names of entities.
        relations: the names of relations.
        facts: int64 [n, 3].
        numbers: row, confidence and label [n], those that there are.
        beside: what each file says beside its facts.
        columns: the columns that were asked for.
    """

    entities: Vocabulary
    relations: Vocabulary
    facts: Tensor
    numbers: dict[str, Tensor]
    beside: list[Annotations | None]
    columns: dict[str, pa.Array]


def read_spilled(
    files: Sequence[Path],
    source: str,
    options: ReadOptions,
    folder: Path | None = None,
    memory: int | None = None,
) -> KnowledgeGraph:
    """Read files as one graph, as ``read_parts`` does, in bounded memory.

    Args:
        files: any formats. Of an RDF file all is held in memory while it is read.
        source: what the graph is called in messages.
        options: how to read.
        folder: where to put files of some three times the size of the text; None: where the
            system keeps temporary files.
        memory: bytes that DuckDB may use; None: a quarter of what is free.
    """
    found = _number(files, source, options, folder, memory)
    note_similar(found.entities, found.relations)
    return KnowledgeGraph(
        found.entities,
        found.relations,
        found.facts,
        confidence=found.numbers.get("confidence"),
        label=found.numbers.get("label"),
        rows=found.numbers["row"],
        source=source,
        annotations=joined_annotations(found.beside),
        columns=found.columns,
    )


def _number(
    files: Sequence[Path],
    source: str,
    options: ReadOptions,
    folder: Path | None,
    memory: int | None,
) -> _Mapped:
    """Read files into DuckDB, number the names, and map what comes of it."""
    duckdb = _duckdb()
    if duckdb is None:
        raise DataError(
            f"{source}: --spill needs DuckDB; install it with: pip install 'npugraph[large]'."
        )
    with _workplace(folder) as work:
        if memory is None:
            memory = int(DUCKDB_SHARE * (free_memory() or 4 * LEAST_MEMORY))
        config = {
            "memory_limit": f"{max(memory, LEAST_MEMORY) // 2**20}MiB",
            "temp_directory": str(work / "spilled"),
            "threads": max(1, pa.cpu_count()),
        }
        try:
            with (
                duckdb.connect(str(work / "facts.duckdb"), config=config) as database,
                closing(_Numbers(work)) as numbers,
                writing(work.parent),
            ):
                return _numbered(database, numbers, files, options, work)
        except duckdb.Error as error:
            reason = str(error).strip().split("\n")[0].rstrip(".")
            raise DataError(f"{source}: DuckDB failed in {work.parent} ({reason}).") from None


@contextmanager
def _workplace(folder: Path | None) -> Iterator[Path]:
    """Yield a new folder within another one; it is gone afterwards."""
    if folder is not None:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
    with writing(folder or Path(tempfile.gettempdir())):
        work = Path(tempfile.mkdtemp(prefix="npugraph-", dir=folder))
    try:
        yield work
    finally:
        # Mapped files stay readable without a name.
        shutil.rmtree(work, ignore_errors=True)


def _numbered(
    database: Any,
    numbers: _Numbers,
    files: Sequence[Path],
    options: ReadOptions,
    work: Path,
) -> _Mapped:
    """Do the work in a database."""
    database.execute("create table facts (n bigint, head text, relation text, tail text)")
    beside: list[Annotations | None] = []
    columns: dict[str, list[pa.ChunkedArray]] = {}
    blank = 0
    for path in files:
        size, about = 0, None
        for table, says in stream_table(path, options):
            about = says or about
            numbers.add(table, size)
            _insert(database, table, numbers.count)
            for name in table.column_names:
                if name.startswith(MORE):
                    columns.setdefault(name.removeprefix(MORE), []).append(table[name])
            size += len(table)
            blank += says is not None and has_blank_nodes([table["head"], table["tail"]])
        beside.append(about)
    note_blank_nodes(blank)
    for words, sides in (("entities", "head tail"), ("relations", "relation")):
        every = " union all ".join(f"select {side} as name from facts" for side in sides.split())
        database.execute(
            f"create table {words} as select name, row_number() over (order by name) - 1 as id "
            f"from (select distinct name from ({every}))"
        )
    return _Mapped(
        _vocabulary(database, "entities", "entity", work),
        _vocabulary(database, "relations", "relation", work),
        _ids(database, numbers.count, work),
        numbers.mapped(),
        beside,
        {name: pa.chunked_array(_flat(parts)).combine_chunks() for name, parts in columns.items()},
    )


def _insert(database: Any, table: pa.Table, count: int) -> None:
    """Add the facts of a table, so that there are ``count`` in all; each has its place."""
    place = pa.array(np.arange(count - len(table), count))
    names = table.select(["head", "relation", "tail"])
    database.register("batch", names.add_column(0, "n", place))
    database.execute("insert into facts select * from batch")
    database.unregister("batch")


def _flat(parts: Sequence[pa.ChunkedArray]) -> list[pa.Array]:
    return [chunk for part in parts for chunk in part.chunks]


class _Numbers:
    """Writes what stands beside the names of a fact to files: its row, confidence and label."""

    def __init__(self, work: Path) -> None:
        """Write into a folder."""
        self.work = work
        self.count = 0
        self.open: dict[str, BinaryIO] = {}

    def add(self, table: pa.Table, before: int) -> None:
        """Add the records of a table; so many of the same file come before."""
        rows = np.arange(before + 1, before + len(table) + 1)
        values = {"row": table["row"].to_numpy() if "row" in table.column_names else rows}
        for name in ("confidence", "label"):
            if name in table.column_names or name in self.open:
                values[name] = _filled(table, name)
        for name, column in values.items():
            if name not in self.open:
                self.open[name] = (self.work / name).open("wb")
                # Files before this one have no such column.
                self.open[name].write(_missing(name, self.count).tobytes())
            self.open[name].write(column.astype(NUMBERS[name]).tobytes())
        self.count += len(table)

    def close(self) -> None:
        """Close the files."""
        for file in self.open.values():
            file.close()

    def mapped(self) -> dict[str, Tensor]:
        """Return the columns; nothing is added any more."""
        self.close()
        return {name: _mapped(self.work / name, NUMBERS[name], (self.count,)) for name in self.open}


def _missing(name: str, count: int) -> NDArray[Any]:
    return np.full(count, np.nan if name == "confidence" else -1, NUMBERS[name])


def _filled(table: pa.Table, name: str) -> NDArray[Any]:
    """Return a column of numbers, with what stands for a missing one."""
    if name not in table.column_names:
        return _missing(name, len(table))
    values: NDArray[Any] = pc.fill_null(table[name], _missing(name, 1)[0].item()).to_numpy()
    return values


def _mapped(path: Path, dtype: Any, shape: tuple[int, ...]) -> Tensor:
    # Writable, for PyTorch has no tensors that are not; pages are copied when they are written to.
    return torch.from_numpy(np.memmap(path, dtype, "c", shape=shape))


def _ids(database: Any, count: int, work: Path) -> Tensor:
    """Write the ids of all facts; return them [n, 3]."""
    with (work / "ids").open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            # A disk that is full is told now, and not when a page is written.
            os.posix_fallocate(file.fileno(), 0, 24 * count)
        else:
            file.truncate(24 * count)
    ids = np.memmap(work / "ids", np.int64, "r+", shape=(count, 3))
    query = (
        "select n, h.id, r.id, t.id from facts "
        "join entities h on h.name = head join relations r on r.name = relation "
        "join entities t on t.name = tail"
    )
    for batch in _batches(database, query):
        place, *columns = (column.to_numpy() for column in batch.columns)
        ids[place] = np.stack(columns, 1)
    ids.flush()
    del ids
    return _mapped(work / "ids", np.int64, (count, 3))


def _vocabulary(database: Any, table: str, kind: str, work: Path) -> Vocabulary:
    """Write the names of a table in their order; return them as they lie in the files."""
    count, size = 0, 0
    offsets, text = work / f"{table}.offsets", work / f"{table}.text"
    with offsets.open("wb") as starts, text.open("wb") as letters:
        starts.write(np.zeros(1, np.int64).tobytes())
        for batch in _batches(database, f"select name from {table} order by id"):
            names = batch.column(0).cast(pa.large_string())
            ends = np.cumsum(pc.binary_length(names).to_numpy()) + size
            starts.write(ends.tobytes())
            letters.write(_text(names))
            count, size = count + len(names), int(ends[-1])
    kind_of_text = pa.large_string()
    if size < 2**31:
        # Text of this size has short offsets, as everywhere else.
        np.memmap(offsets, np.int64, "r").astype(np.int32).tofile(work / f"{table}.short")
        offsets, kind_of_text = work / f"{table}.short", pa.string()
    buffers = [None, *(pa.memory_map(str(path)).read_buffer() for path in (offsets, text))]
    return Vocabulary(pa.Array.from_buffers(kind_of_text, count, buffers), kind)


def _text(names: pa.Array) -> pa.Buffer:
    """Return the text of some names (large strings), one after the other."""
    _, offsets, text = names.buffers()
    ends = np.frombuffer(offsets, np.int64)[names.offset : names.offset + len(names) + 1]
    return text.slice(int(ends[0]), int(ends[-1] - ends[0]))


def _batches(database: Any, query: str) -> Iterator[pa.RecordBatch]:
    """Yield what a query finds, some rows at a time."""
    for batch in database.sql(query).to_arrow_reader(ROWS):
        if len(batch):
            yield batch
