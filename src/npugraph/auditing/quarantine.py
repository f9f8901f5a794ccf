"""The rows that cleaning takes out, with all columns that the input has for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from npugraph.auditing.result import Findings
from npugraph.auditing.tables import FACT
from npugraph.data.io import TEXT, ReadOptions, split_suffixes, text_layout
from npugraph.data.io.encode import MORE
from npugraph.data.io.layout import assign_roles
from npugraph.data.io.read import stream_table
from npugraph.errors import DataError

log = logging.getLogger(__name__)

Bools = NDArray[np.bool_]


def quarantine_table(found: Findings) -> pa.Table:
    """Return what quarantine.tsv holds: the quarantine, and the further columns of the input.

    These are read again, for the rows that are taken out alone.
    """
    table = found.quarantine
    if not len(table):
        return table
    try:
        further = _further(found)
    except (DataError, OSError, pa.ArrowException) as error:
        log.warning("quarantine.tsv lacks the further columns of the input. %s", error)
        return table
    for name in further.column_names:
        # A column may be called head that is not read as the head.
        free = f"{name} of the input" if name in table.column_names else name
        table = table.append_column(free, further[name])
    return table


def _further(found: Findings) -> pa.Table:
    """Return the further columns of the rows that are taken out; RDF has none."""
    files = [(file.path, ReadOptions(**file.options)) for file in found.graph.inputs]
    if not all(split_suffixes(path)[0] in (*TEXT, ".parquet") for path, _ in files):
        return pa.table({})
    files = [(path, _with_further(path, options)) for path, options in files]
    if not any(options.beside for _, options in files):
        return pa.table({})
    rows = pa.concat_tables(_taken(files, found.taken_out), promote_options="default")
    facts = list(FACT)
    if rows.select(facts).to_pylist() != found.quarantine.select(facts).to_pylist():
        raise DataError(f"{files[0][0]} has changed since it was read.")
    further = rows.drop_columns(facts)
    return further.rename_columns([name.removeprefix(MORE) for name in further.column_names])


def _with_further(path: Path, options: ReadOptions) -> ReadOptions:
    """Return how to read a file with all its columns, and with no word about its header again."""
    if split_suffixes(path)[0] in TEXT:
        layout = text_layout(path, options, warn=False)
        names, roles, header = layout.names, layout.roles, layout.header
    else:
        names, header = tuple(pyarrow.parquet.read_schema(path).names), True
        roles = assign_roles(str(path), path, names, True, options.columns)
    used = {names[place] for place in roles.values()}
    beside = tuple(dict.fromkeys(name for name in names if name not in used))
    return replace(options, header=header, beside=beside)


def _taken(files: Sequence[tuple[Path, ReadOptions]], taken: Bools) -> Iterator[pa.Table]:
    """Yield the rows of files that are taken out, block by block: facts and further columns."""
    before = 0
    for path, options in files:
        for table, _ in stream_table(path, options):
            mask = taken[before : before + len(table)]
            before += len(table)
            if len(mask) == len(table):
                names = [*FACT, *(MORE + name for name in options.beside)]
                rows = table.select(names).filter(pa.array(mask))
                columns = [_one_line(column) for column in rows.columns]
                yield pa.table(columns, names=names)
    if before != len(taken):
        raise DataError(f"{files[0][0]} has changed since it was read.")


def _one_line(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as text without tabs and line ends, which TSV cannot hold."""
    return pc.replace_substring_regex(column.cast(pa.string()), "[\t\r\n]+", " ")
