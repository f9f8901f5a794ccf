"""Read graphs from TSV, CSV, Parquet, N-Triples and Turtle.

Text is parsed and turned into ids by Arrow, column by column; no Python code runs per row. Only
when a file turns out to be bad is it read again, line by line, to name the first bad line.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from npugraph.data.io.diagnose import Record, first_problem, records
from npugraph.data.io.encode import MORE, encode_tables
from npugraph.data.io.formats import COMPRESSION, RDF, ROLES, TEXT, split_suffixes
from npugraph.data.io.layout import ReadOptions, assign_roles, position, text_layout
from npugraph.data.io.rdf import read_rdf
from npugraph.errors import DataError
from npugraph.graph import Annotations, KnowledgeGraph, Splits

log = logging.getLogger(__name__)

SPLITS = ("train", "valid", "test")


def read_graph(path: str | os.PathLike[str], options: ReadOptions | None = None) -> KnowledgeGraph:
    """Read one file into a graph; every record is kept, in order.

    Raises:
        DataError: one sentence that names the file, the line and what is wrong with it.
    """
    table, beside = read_table(Path(path), options or ReadOptions())
    return encode_tables([table], [str(path)], [beside])[0]


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
    tables, beside = zip(*(read_table(path, options) for path in paths), strict=True)
    extra = [_read_names(folder / f"{kind}.txt") for kind in ("entities", "relations")]
    sources = [str(path) for path in paths]
    train, valid, test = encode_tables(list(tables), sources, list(beside), *extra)
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


def read_table(path: Path, options: ReadOptions) -> tuple[pa.Table, Annotations | None]:
    """Read one file into a table with columns head, relation, tail[, confidence][, label].

    Returns:
        The table, and what else an RDF file says: its literals, which are no facts between
        entities, and its prefixes.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    suffix = split_suffixes(path)[0]
    beside = None
    if suffix in TEXT:
        table = _read_text(path, options)
    elif suffix == ".parquet":
        table = _read_parquet(path, options)
    elif suffix in RDF:
        table, beside = read_rdf(path, suffix, options.literals)
    else:
        raise DataError(
            f"{path}: unknown format {suffix or '(no suffix)'!r}; "
            "use .tsv, .csv, .txt, .parquet, .nt or .ttl, also with .gz or .zst."
        )
    if len(table) == 0:
        raise DataError(f"{path}: the file holds no facts.")
    return table, beside


def _read_text(path: Path, options: ReadOptions) -> pa.Table:
    found = text_layout(path, options)
    delimiter, compression = found.delimiter, found.compression
    header, names, roles = found.header, found.names, found.roles
    quoted = delimiter != "\t"
    more = {name: position(path, names, header, name) for name in options.beside}
    # Arrow skips lines, blank ones and those within quotes included.
    skip = found.first.last if header else 0
    if header and _is_last(path, compression, delimiter):
        raise DataError(f"{path}: the file holds no facts.")
    if quoted and _odd_quotes(path, compression):
        problem = first_problem(path, compression, delimiter, header, roles)
        if problem:
            raise DataError(f"{path}, {problem}")
    columns = [f"c{i}" for i in range(len(names))]
    try:
        with pa.OSFile(str(path)) as raw:
            stream = pa.CompressedInputStream(raw, compression) if compression else raw
            table = pyarrow.csv.read_csv(
                stream,
                read_options=pyarrow.csv.ReadOptions(
                    column_names=columns, skip_rows=skip, block_size=1 << 23
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=delimiter,
                    quote_char='"' if quoted else False,
                    newlines_in_values=quoted,
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=[columns[i] for i in {*roles.values(), *more.values()}],
                    column_types=dict.fromkeys(columns, pa.string()),
                    strings_can_be_null=False,
                ),
            )
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(_explain(path, compression, delimiter, header, roles, error)) from None
    beside = [(MORE + name, table[columns[i]]) for name, i in more.items()]
    table = table.select([columns[i] for i in roles.values()]).rename_columns(list(roles))
    if header and options.header is None:
        _doubt_header(path, found.first, roles, table)
    checked = _check(
        table, lambda error: _explain(path, compression, delimiter, header, roles, error)
    )
    return _with_more(checked, beside)


def _with_more(table: pa.Table, beside: Sequence[tuple[str, pa.ChunkedArray]]) -> pa.Table:
    """Add the further columns that were asked for."""
    for name, column in beside:
        table = table.append_column(name, column)
    return table


def _doubt_header(path: Path, first: Record, roles: Mapping[str, int], table: pa.Table) -> None:
    """Say so where a word that was taken for a column's name is the relation of facts, too."""
    word = first.fields[roles["relation"]]
    count = pc.sum(pc.equal(table["relation"], word)).as_py() or 0
    if count:
        log.warning(
            "%s, line %d (%s) is read as the names of the columns, but %r is the relation of "
            "%s facts, too; if the line is a fact, say --no-header.",
            *(path, first.first, ", ".join(first.fields), word, f"{count:,}"),
        )


def _explain(
    path: Path,
    compression: str | None,
    delimiter: str,
    header: bool,
    roles: Mapping[str, int],
    error: object,
) -> str:
    """Find the first bad line; fall back on Arrow's own words for damage that is not in a line."""
    try:
        problem = first_problem(path, compression, delimiter, header, roles)
    except OSError as damage:
        return f"{path}: the file breaks off or is damaged ({damage})."
    return f"{path}, {problem}" if problem else f"{path}: cannot be read ({error})."


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


def _check(table: pa.Table, explain: object) -> pa.Table:
    """Check the fields of a table of strings and turn confidence and label into numbers."""
    assert callable(explain)
    columns: dict[str, pa.ChunkedArray] = {}
    for role in table.column_names:
        column = table[role]
        if role in ROLES[:3]:
            if pc.any(pc.equal(column, "")).as_py() or column.null_count:
                raise DataError(explain(f"an empty {role}"))
            columns[role] = column
            continue
        if role == "label" and pa.types.is_string(column.type):
            # An empty label: nobody has judged the fact yet.
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        try:
            numbers = column.cast(pa.float64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(explain(error)) from None
        inside = pc.and_(pc.greater_equal(numbers, 0), pc.less_equal(numbers, 1))
        missing = numbers.null_count and role != "label"
        if missing or not pc.all(inside, min_count=0).as_py():
            raise DataError(explain(f"a {role} that is not a number in [0, 1]"))
        if (
            role == "label"
            and not pc.all(pc.equal(numbers, pc.round(numbers)), min_count=0).as_py()
        ):
            raise DataError(explain("a label that is neither 0 nor 1"))
        columns[role] = numbers
    return pa.table(columns)


def _read_parquet(path: Path, options: ReadOptions) -> pa.Table:
    try:
        schema = pyarrow.parquet.read_schema(path)
        roles = assign_roles(str(path), path, schema.names, True, options.columns)
        more = [position(path, schema.names, True, name) for name in options.beside]
        wanted = [schema.names[i] for i in {*roles.values(), *more}]
        table = pyarrow.parquet.read_table(path, columns=wanted)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}).") from None
    return _roles_and_more(
        table, str(path), {r: schema.names[i] for r, i in roles.items()}, options
    )


def check_table(table: pa.Table, where: str, options: ReadOptions) -> pa.Table:
    """Return the columns head, relation, tail[, confidence][, label] of a table, checked.

    ``where`` is how error messages call the table.
    """
    names = table.column_names
    roles = assign_roles(where, Path(where), names, True, options.columns)
    return _roles_and_more(table, where, {role: names[i] for role, i in roles.items()}, options)


def _roles_and_more(
    table: pa.Table, where: str, roles: dict[str, str], options: ReadOptions
) -> pa.Table:
    """Return the columns of a fact, checked, and those that are kept beside it."""
    chosen = table.select(list(roles.values())).rename_columns(list(roles))
    names = table.column_names
    beside = [
        (MORE + name, table[names[position(Path(where), names, True, name)]])
        for name in options.beside
    ]
    return _with_more(_check_columns(chosen, where), beside)


def _check_columns(table: pa.Table, where: str) -> pa.Table:
    strings = {role: _as_text(where, role, table[role]) for role in ROLES[:3]}
    strings |= {role: table[role] for role in table.column_names if role in ROLES[3:]}
    return _check(pa.table(strings), lambda error: f"{where}: {_first_bad_row(table, error)}")


def _as_text(path: str, role: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowException as error:
        raise DataError(
            f"{path}: the {role} column of type {column.type} cannot be read as text ({error})."
        ) from None


def _first_bad_row(table: pa.Table, error: object) -> str:
    for number, row in enumerate(table.to_pylist(), 1):
        for role in ROLES[:3]:
            if row[role] is None or row[role] == "":
                return f"row {number} has an empty {role}."
        for role in ROLES[3:]:
            value = row.get(role, 0)
            if role == "label" and (value is None or value == ""):
                continue
            try:
                good = 0 <= float(value) <= 1 and (role != "label" or float(value) in (0, 1))
            except (TypeError, ValueError):
                good = False
            if not good:
                return f"row {number} has a {role} that is not in [0, 1]: {value!r}."
    return f"{error}."


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
