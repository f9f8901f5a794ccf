"""Write graphs as TSV, CSV and Parquet: a file is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from npugraph.data.io.formats import TEXT, looks_like_header, split_suffixes
from npugraph.errors import DataError, writing
from npugraph.graph import Splits


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a place beside ``path`` to write to; it becomes ``path`` in one step at the end.

    Where the writing fails or is interrupted, what stood at ``path`` stays and nothing is left
    beside it.
    """
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with writing(path):
            yield temporary
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_table(table: pa.Table, path: str | os.PathLike[str], header: bool = False) -> None:
    """Write a table as TSV, CSV or Parquet, by the file's suffix, through a temporary file.

    Text has no header by default: that is what the field's other tools read.
    """
    path = Path(path)
    suffix, compression = split_suffixes(path)
    check_format(path)
    with written_whole(path) as temporary:
        if suffix == ".parquet":
            pyarrow.parquet.write_table(table, temporary)
            return
        # A first fact such as (h, r, t) would be taken for a header, and lost.
        first = table.slice(0, 1).to_pylist()
        header = header or any(looks_like_header(list(map(str, row.values()))) for row in first)
        _write_text(table, path, temporary, compression, header)


def check_format(path: Path) -> None:
    """Refuse a file that ``write_table`` could not write, by its suffix."""
    suffix = split_suffixes(path)[0]
    if suffix not in (*TEXT, ".parquet"):
        raise DataError(f"{path}: cannot write {suffix!r}; use .tsv, .csv or .parquet.")


def _write_text(
    table: pa.Table, path: Path, temporary: Path, compression: str | None, header: bool
) -> None:
    quoted = split_suffixes(path)[0] == ".csv"
    if not quoted:
        _refuse_tabs(table, path)
    with pa.output_stream(str(temporary), compression=compression) as stream:
        if quoted:
            options = pyarrow.csv.WriteOptions(include_header=header, quoting_style="needed")
            pyarrow.csv.write_csv(table, stream, options)
            return
        # Not Arrow's writer: without quoting it refuses labels that hold a quote.
        if header:
            stream.write(("\t".join(table.column_names) + "\n").encode())
        for batch in table.to_batches(max_chunksize=1 << 16):
            # A missing value is an empty field.
            fields = [pc.fill_null(column.cast(pa.string()), "") for column in batch.columns]
            lines = pc.binary_join_element_wise(*fields, "\t")
            rows = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
            stream.write((pc.binary_join(rows, "\n")[0].as_py() + "\n").encode())


def _refuse_tabs(table: pa.Table, path: Path) -> None:
    for name in table.column_names:
        column = table[name]
        if pa.types.is_string(column.type):
            bad = column.filter(pc.match_substring_regex(column, "[\t\r\n]"))
            if len(bad):
                raise DataError(
                    f"{path}: {bad[0].as_py()!r} holds a tab or a line end, which TSV cannot; "
                    "write .parquet or .csv."
                )


def write_text(path: Path, text: str) -> None:
    """Write a small file so that it is there whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_splits(splits: Splits, folder: Path) -> None:
    """Write train, valid, test as TSV, and the names that no fact mentions, into a folder."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, part in splits.parts().items():
        # A column of labels is found by its name only.
        write_table(part.to_table(), folder / f"{name}.tsv", header=part.label is not None)
    for kind, words in (("entities", splits.train.entities), ("relations", splits.train.relations)):
        write_text(folder / f"{kind}.txt", "\n".join(words.labels.to_pylist()) + "\n")
