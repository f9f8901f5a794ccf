"""Graphs in and out of files: TSV, CSV, Parquet, N-Triples and Turtle.

Text is parsed and turned into ids by Arrow, column by column; no Python code runs per row. Only
when a file turns out to be bad is it read again, line by line, to name the first bad line.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import torch
from torch import Tensor

from npugraph.diagnose import first_problem
from npugraph.errors import DataError, nearest
from npugraph.graph import KnowledgeGraph, Splits, Vocabulary

ROLES = ("head", "relation", "tail", "confidence", "label")
HEADER_NAMES = {
    "head": ("head", "subject", "source", "from", "h", "s", "head_entity"),
    "relation": ("relation", "predicate", "property", "rel", "r", "p", "edge"),
    "tail": ("tail", "object", "target", "to", "t", "o", "tail_entity"),
    "confidence": ("confidence", "probability", "weight", "score"),
    "label": ("label", "truth"),
}
TEXT = {".tsv": "\t", ".txt": "\t", ".csv": ","}
RDF = {".nt": "N_TRIPLES", ".ttl": "TURTLE"}
COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class ReadOptions:
    """How to read a graph file; None means: find out from the file.

    Attributes:
        header: whether a text file's first line names its columns.
        columns: names or positions (from 0) of head, relation, tail and, if wanted, confidence
            and label.
        delimiter: the character between the fields of a text file.
        literals: keep RDF literals as entities instead of counting and skipping them.
    """

    header: bool | None = None
    columns: tuple[str | int, ...] | None = None
    delimiter: str | None = None
    literals: bool = False

    def __post_init__(self) -> None:
        """Refuse a column list that cannot be right before any file is opened."""
        if self.columns is not None and not 3 <= len(self.columns) <= len(ROLES):
            raise DataError(
                f"Name 3 to 5 columns (head, relation, tail, confidence, label), "
                f"not {len(self.columns)}."
            )


def split_suffixes(path: Path) -> tuple[str, str | None]:
    """Return a file's format suffix and its compression.

    >>> split_suffixes(Path("train.tsv.gz"))
    ('.tsv', 'gzip')
    """
    suffix = path.suffix.lower()
    if suffix in COMPRESSION:
        return Path(path.stem).suffix.lower(), COMPRESSION[suffix]
    return suffix, None


def read_graph(path: str | os.PathLike[str], options: ReadOptions | None = None) -> KnowledgeGraph:
    """Read one file into a graph; every record is kept, in order.

    Raises:
        DataError: one sentence that names the file, the line and what is wrong with it.
    """
    table, skipped = read_table(Path(path), options or ReadOptions())
    return _encode([table], [str(path)], [skipped])[0]


def read_splits(
    folder: str | os.PathLike[str], options: ReadOptions | None = None, name: str | None = None
) -> Splits:
    """Read a folder that holds train, valid and test in any known format.

    Optional files: ``entities.txt`` and ``relations.txt`` (one label a line) add names that no
    fact mentions; ``truth.tsv`` marks a graph that was perturbed on purpose and is not read here.
    """
    folder = Path(folder)
    options = options or ReadOptions()
    paths = [find_part(folder, part) for part in SPLITS]
    tables, skipped = zip(*(read_table(path, options) for path in paths), strict=True)
    extra = [_read_names(folder / f"{kind}.txt") for kind in ("entities", "relations")]
    sources = [str(path) for path in paths]
    train, valid, test = _encode(list(tables), sources, list(skipped), *extra)
    truth = folder / "truth.tsv"
    name = name or folder.resolve().name
    return Splits(name, train, valid, test, folder, truth if truth.exists() else None)


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


def read_table(path: Path, options: ReadOptions) -> tuple[pa.Table, int]:
    """Read one file into a table with columns head, relation, tail[, confidence][, label].

    Returns:
        The table and the number of records that were skipped (RDF literals only).
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    suffix, compression = split_suffixes(path)
    skipped = 0
    if suffix in TEXT:
        table = _read_text(path, compression, options.delimiter or TEXT[suffix], options)
    elif suffix == ".parquet":
        table = _read_parquet(path, options)
    elif suffix in RDF:
        table, skipped = _read_rdf(path, suffix, compression, options)
    else:
        raise DataError(
            f"{path}: unknown format {suffix or '(no suffix)'!r}; "
            "use .tsv, .csv, .txt, .parquet, .nt or .ttl, also with .gz or .zst."
        )
    if len(table) == 0:
        raise DataError(f"{path}: the file holds no facts.")
    return table, skipped


def _read_text(
    path: Path, compression: str | None, delimiter: str, options: ReadOptions
) -> pa.Table:
    quoted = delimiter != "\t"
    first = _first_fields(path, compression, delimiter)
    header = _looks_like_header(first) if options.header is None else options.header
    names = first if header else [str(i) for i in range(len(first))]
    roles = _assign_roles(path, names, header, options.columns)
    columns = [f"c{i}" for i in range(len(names))]
    try:
        with pa.OSFile(str(path)) as raw:
            stream = pa.CompressedInputStream(raw, compression) if compression else raw
            table = pyarrow.csv.read_csv(
                stream,
                read_options=pyarrow.csv.ReadOptions(
                    column_names=columns, skip_rows=int(header), block_size=1 << 23
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=delimiter,
                    quote_char='"' if quoted else False,
                    newlines_in_values=quoted,
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=[columns[i] for i in roles.values()],
                    column_types=dict.fromkeys(columns, pa.string()),
                    strings_can_be_null=False,
                ),
            )
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(_explain(path, compression, delimiter, header, roles, error)) from None
    table = table.rename_columns(list(roles))
    return _check(table, lambda error: _explain(path, compression, delimiter, header, roles, error))


def _explain(
    path: Path,
    compression: str | None,
    delimiter: str,
    header: bool,
    roles: dict[str, int],
    error: object,
) -> str:
    """Find the first bad line; fall back on Arrow's own words for damage that is not in a line."""
    problem = first_problem(path, compression, delimiter, header, roles)
    return f"{path}, {problem}" if problem else f"{path}: cannot be read ({error})."


def _first_fields(path: Path, compression: str | None, delimiter: str) -> list[str]:
    try:
        with pa.input_stream(str(path), compression=compression) as stream:
            line = b""
            while not line.strip() and (line := _read_line(stream)):
                pass
    except OSError as error:
        raise DataError(f"{path}: cannot be opened as {compression or 'text'} ({error}).") from None
    if not line.strip():
        raise DataError(f"{path}: the file is empty.")
    text = line.decode("utf-8", errors="replace").removeprefix("\ufeff")
    fields = text.rstrip("\r\n").split(delimiter)
    return [f.strip('"') for f in fields] if delimiter != "\t" else fields


def _read_line(stream: pa.NativeFile) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (char := stream.read(1)):
        line += char
    return line


def _looks_like_header(fields: Sequence[str]) -> bool:
    low = [name.strip().lower() for name in fields]
    return all(any(name in HEADER_NAMES[role] for name in low) for role in ROLES[:3])


def _assign_roles(
    path: Path, names: Sequence[str], named: bool, columns: tuple[str | int, ...] | None
) -> dict[str, int]:
    """Say which column holds what: role -> position."""
    if columns is not None:
        return {
            role: _position(path, names, named, column)
            for role, column in zip(ROLES, columns, strict=False)
        }
    if named:
        low = [name.strip().lower() for name in names]
        found = {
            role: next(low.index(alias) for alias in aliases if alias in low)
            for role, aliases in HEADER_NAMES.items()
            if any(alias in low for alias in aliases)
        }
        if all(role in found for role in ROLES[:3]):
            return found
    if len(names) in (3, 4):
        return dict(zip(ROLES, range(len(names)), strict=False))
    hint = "" if len(names) > 1 else " Is the delimiter right?"
    raise DataError(
        f"{path}, line 1: {len(names)} columns, and it is not clear which are head, relation and "
        f"tail; name them (columns head,relation,tail by name, or by position from 0).{hint}"
    )


def _position(path: Path, names: Sequence[str], named: bool, column: str | int) -> int:
    if isinstance(column, int) or column.isdigit() and column not in names:
        if int(column) < len(names):
            return int(column)
        raise DataError(f"{path}: there is no column {column}; it has {len(names)}, from 0.")
    if not named:
        raise DataError(f"{path}: column {column!r} is named, but the file has no header line.")
    if column not in names:
        raise DataError(f"{path}: no column is called {column!r}.{nearest(column, list(names))}")
    return names.index(column)


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
        try:
            numbers = column.cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise DataError(explain(error)) from None
        inside = pc.and_(pc.greater_equal(numbers, 0), pc.less_equal(numbers, 1))
        if numbers.null_count or not pc.all(inside, min_count=0).as_py():
            raise DataError(explain(f"a {role} that is not a number in [0, 1]"))
        columns[role] = numbers
    return pa.table(columns)


def _read_parquet(path: Path, options: ReadOptions) -> pa.Table:
    try:
        schema = pyarrow.parquet.read_schema(path)
        roles = _assign_roles(path, schema.names, True, options.columns)
        table = pyarrow.parquet.read_table(path, columns=[schema.names[i] for i in roles.values()])
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}).") from None
    table = table.select([schema.names[i] for i in roles.values()]).rename_columns(list(roles))
    strings = {
        role: table[role].cast(pa.string()) if role in ROLES[:3] else table[role] for role in roles
    }
    return _check(pa.table(strings), lambda error: f"{path}: {_first_bad_row(table, error)}")


def _first_bad_row(table: pa.Table, error: object) -> str:
    for number, row in enumerate(table.to_pylist(), 1):
        for role in ROLES[:3]:
            if row[role] is None or row[role] == "":
                return f"row {number} has an empty {role}."
        for role in ROLES[3:]:
            value = row.get(role, 0)
            if value is None or not 0 <= value <= 1:
                return f"row {number} has a {role} that is not in [0, 1]: {value!r}."
    return f"{error}."


def _read_rdf(
    path: Path, suffix: str, compression: str | None, options: ReadOptions
) -> tuple[pa.Table, int]:
    try:
        import pyoxigraph
    except ImportError:
        raise DataError(
            f"{path}: reading RDF needs pyoxigraph; install it with: pip install 'npugraph[rdf]'."
        ) from None
    with pa.input_stream(str(path), compression=compression) as stream:
        data = stream.read()
    kind = getattr(pyoxigraph.RdfFormat, RDF[suffix])
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    skipped = 0
    try:
        for quad in pyoxigraph.parse(data, format=kind, base_iri=path.resolve().as_uri()):
            tail = quad.object
            if isinstance(tail, pyoxigraph.Literal) and not options.literals:
                skipped += 1
                continue
            for column, term in zip(columns, (quad.subject, quad.predicate, tail), strict=True):
                column.append(term.value if isinstance(term, pyoxigraph.NamedNode) else str(term))
    except SyntaxError as error:
        raise DataError(f"{path}, line {error.lineno}: {error.msg}.") from None
    arrays = [pa.chunked_array([pa.array(column, pa.string())]) for column in columns]
    return pa.table(arrays, names=list(ROLES[:3])), skipped


def _read_names(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _encode(
    tables: list[pa.Table],
    sources: list[str],
    skipped: list[int],
    extra_entities: Sequence[str] = (),
    extra_relations: Sequence[str] = (),
) -> list[KnowledgeGraph]:
    """Turn the labels of several tables into ids of common vocabularies."""
    sides = [table[role] for table in tables for role in ("head", "tail")]
    entities, entity_ids = _dictionary(sides, extra_entities, "entity")
    relations, relation_ids = _dictionary(
        [table["relation"] for table in tables], extra_relations, "relation"
    )
    graphs = []
    for i, table in enumerate(tables):
        columns = [entity_ids[2 * i], relation_ids[i], entity_ids[2 * i + 1]]
        graphs.append(
            KnowledgeGraph(
                entities,
                relations,
                torch.from_numpy(np.stack(columns, axis=1)),
                confidence=_numbers(table, "confidence", torch.float64),
                label=_numbers(table, "label", torch.int8),
                source=sources[i],
                skipped=skipped[i],
            )
        )
    return graphs


def _numbers(table: pa.Table, role: str, dtype: torch.dtype) -> Tensor | None:
    if role not in table.column_names:
        return None
    return torch.from_numpy(table[role].to_numpy().copy()).to(dtype)


def _dictionary(
    columns: list[pa.ChunkedArray], extra: Sequence[str], kind: str
) -> tuple[Vocabulary, list[np.ndarray]]:
    """Encode several string columns with one sorted dictionary."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    encoded = pa.chunked_array([*chunks, pa.array(extra, pa.string())]).dictionary_encode()
    encoded = encoded.unify_dictionaries()
    found = encoded.chunk(0).dictionary
    order = pc.sort_indices(found).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    flat = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    ids = rank[flat]
    ends = np.cumsum([len(column) for column in columns])
    vocabulary = Vocabulary(found.take(pa.array(order)), kind)
    return vocabulary, [ids[e - len(c) : e] for e, c in zip(ends, columns, strict=True)]


def write_table(table: pa.Table, path: str | os.PathLike[str], header: bool = False) -> None:
    """Write a table as TSV, CSV or Parquet, by the file's suffix, through a temporary file.

    Text has no header by default: that is what the field's other tools read.
    """
    path = Path(path)
    suffix, compression = split_suffixes(path)
    temporary = path.with_name(f".{path.name}.partial")
    if suffix == ".parquet":
        pyarrow.parquet.write_table(table, temporary)
    elif suffix in TEXT:
        if suffix != ".csv":
            _refuse_tabs(table, path)
        options = pyarrow.csv.WriteOptions(
            include_header=header,
            delimiter=TEXT[suffix],
            quoting_style="needed" if suffix == ".csv" else "none",
            quoting_header="needed" if suffix == ".csv" else "none",
        )
        with pa.output_stream(str(temporary), compression=compression) as stream:
            pyarrow.csv.write_csv(table, stream, options)
    else:
        raise DataError(f"{path}: cannot write {suffix!r}; use .tsv, .csv or .parquet.")
    temporary.replace(path)


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
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def write_splits(splits: Splits, folder: Path) -> None:
    """Write train, valid, test as TSV, and the names that no fact mentions, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in splits.parts().items():
        write_table(part.to_table(), folder / f"{name}.tsv")
    for kind, words in (("entities", splits.train.entities), ("relations", splits.train.relations)):
        write_text(folder / f"{kind}.txt", "\n".join(words.labels.to_pylist()) + "\n")
