"""Make a patch: decisions about facts become changes of the files that hold them."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from npugraph.data.io import RDF, TEXT, ReadOptions, read_content, read_table, split_suffixes
from npugraph.data.io import text_layout as layout_of
from npugraph.errors import DataError
from npugraph.graph import Annotations
from npugraph.patching.lines import Edited
from npugraph.patching.patch import Decision, Fact, FilePatch, Patch, options_record
from npugraph.patching.records import edit_ntriples, edit_text
from npugraph.patching.resolve import Edits, changed_table, resolve
from npugraph.patching.rows import edit_rows
from npugraph.patching.triples import edit_turtle


@dataclass(frozen=True)
class Source:
    """A file of a graph.

    Attributes:
        path: where it is.
        options: how it is read.
        sha256: of its uncompressed bytes when it was audited.
    """

    path: Path
    options: ReadOptions
    sha256: str


@dataclass(frozen=True)
class Made:
    """A patch, and each file once it is applied.

    Attributes:
        patch: the patch.
        contents: the uncompressed bytes of each file.
        tables: the facts of each file: head, relation, tail.
    """

    patch: Patch
    contents: tuple[bytes, ...]
    tables: tuple[pa.Table, ...]


def make_patch(sources: Sequence[Source], decisions: Sequence[Decision], graph: str) -> Made:
    """Turn decisions into changes of files; nothing is written.

    Args:
        sources: the files of the graph; facts that are added go into the first.
        decisions: at most one per fact.
        graph: what the graph is called.

    Raises:
        DataError: a file has changed since it was audited, does not hold a fact, or cannot hold a
            new name.
    """
    files = [_open(source) for source in sources]
    whole = pa.concat_tables([file.table.select(Fact._fields) for file in files])
    edits, done = resolve(whole, decisions)
    patches, contents, tables, start = [], [], [], 0
    for file in files:
        mine = edits.of_file(start, len(file.table), first=start == 0)
        start += len(file.table)
        changed = _change(file, mine)
        patches.append(changed[0])
        contents.append(changed[1])
        tables.append(changed_table(file.table, mine))
    return Made(Patch(graph, done, tuple(patches)), tuple(contents), tuple(tables))


@dataclass(frozen=True)
class _Opened:
    source: Source
    data: bytes
    table: pa.Table
    beside: Annotations | None
    options: ReadOptions
    """As the source's, with the header that was found."""


def _open(source: Source) -> _Opened:
    path = source.path
    data = read_content(path)
    if hashlib.sha256(data).hexdigest() != source.sha256:
        raise DataError(
            f"{path} has changed since it was audited; audit it again, or give the file as it was "
            "with --facts."
        )
    options = replace(source.options, beside=())
    if split_suffixes(path)[0] in TEXT:
        options = replace(options, header=layout_of(path, options, warn=False).header)
    table, beside = read_table(path, options)
    return _Opened(source, data, table, beside, options)


def _change(file: _Opened, edits: Edits) -> tuple[FilePatch, bytes]:
    """Change one file; return its part of the patch, and its new bytes."""
    path, data = file.source.path, file.data
    suffix = split_suffixes(path)[0]
    patch = FilePatch(
        path.name, options_record(file.source.options), file.source.sha256, file.source.sha256
    )
    if not edits:
        return patch, data
    if suffix in RDF:
        numbers = file.table["row"].to_numpy() - 1
        by_triple = Edits(
            frozenset(int(numbers[row]) for row in edits.removed),
            {int(numbers[row]): new for row, new in edits.replaced.items()},
            edits.added,
        )
    edited: Edited
    if suffix == ".ttl":
        edited, before, after = edit_turtle(path, data, by_triple)
        patch = replace(patch, facts_before=before, facts_after=after)
    elif suffix == ".nt":
        beside = 0 if file.beside is None else file.beside.records
        edited = edit_ntriples(path, data, len(file.table) + beside, by_triple)
    elif suffix == ".parquet":
        rows = edit_rows(path, data, file.options, edits)
        edited = rows.file
        patch = replace(
            patch,
            facts_before=rows.facts_before,
            facts_after=rows.facts_after,
            removed_rows=rows.removed_rows,
            inserted_rows=rows.inserted_rows,
        )
    else:
        edited = edit_text(path, data, file.options, edits)
    if suffix != ".ttl":
        _check(file, edited.data, changed_table(file.table, edits))
    after_bytes = hashlib.sha256(edited.data).hexdigest()
    patch = replace(patch, after=after_bytes, removed=edited.removed, inserted=edited.inserted)
    return patch, edited.data


def _check(file: _Opened, data: bytes, expected: pa.Table) -> None:
    """Read the changed file again: it must hold what was decided, and nothing else."""
    path = file.source.path
    suffix = split_suffixes(path)[0]
    if len(expected) == 0:
        # A file without facts is refused by the reader, though it may well be what is wanted.
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / f"changed{suffix}"
        place.write_bytes(data)
        if suffix in TEXT:
            header = layout_of(place, file.source.options, warn=False).header
            if header != file.options.header:
                word = "--header" if file.options.header else "--no-header"
                raise DataError(
                    f"{path}: without these facts its first line would be misread; audit it with "
                    f"{word}."
                )
        try:
            found = read_table(place, file.options)[0].select(Fact._fields)
        except DataError as error:
            reason = str(error).removeprefix(str(place)).lstrip(":, ")
            raise DataError(f"{path}: it would not be readable once changed ({reason})") from None
    for name in Fact._fields:
        old, new = (table[name].combine_chunks() for table in (expected, found))
        if not old.equals(new):
            raise DataError(f"{path}: its {name} column cannot be changed safely: {_odd(old, new)}")


def _odd(old: pa.Array, new: pa.Array) -> str:
    """Say where two columns differ first."""
    if len(old) != len(new):
        return f"{len(new):,} facts are read where {len(old):,} should be."
    row = int(np.flatnonzero(old.to_numpy(False) != new.to_numpy(False))[0])
    return f"{new[row].as_py()!r} is read where {old[row].as_py()!r} should be."
