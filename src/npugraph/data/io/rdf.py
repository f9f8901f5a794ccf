"""Read N-Triples and Turtle: facts between entities, and beside them literals and prefixes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from npugraph.data.io.formats import RDF, ROLES
from npugraph.errors import DataError
from npugraph.graph import LITERAL, Annotations

BLANK_NODE = re.compile(rb"_:[^\s<>\"(){}\[\],;]+")


def read_rdf(
    path: Path, suffix: str, compression: str | None, literals: bool
) -> tuple[pa.Table, Annotations]:
    """Read a file into a table of facts (head, relation, tail, row) and what else it says.

    Args:
        path: the file.
        suffix: its format.
        compression: gzip, zstd or None.
        literals: keep literals as entities; otherwise they are annotations.
    """
    try:
        import pyoxigraph
    except ImportError:
        raise DataError(
            f"{path}: reading RDF needs pyoxigraph; install it with: pip install 'npugraph[rdf]'."
        ) from None
    try:
        with pa.input_stream(str(path), compression=compression) as stream:
            data = stream.read()
    except OSError as error:
        raise DataError(f"{path}: the file breaks off or is damaged ({error}).") from None
    kind = getattr(pyoxigraph.RdfFormat, RDF[suffix])
    facts: tuple[list[str], list[str], list[str]] = ([], [], [])
    rows: list[int] = []
    values: list[tuple[str, str, str, str, str | None]] = []
    named = {name.rstrip(b".") for name in BLANK_NODE.findall(data)}
    unnamed: dict[str, str] = {}

    def name(term: Any) -> str:
        if isinstance(term, pyoxigraph.NamedNode):
            return str(term.value)
        label = str(term)
        if isinstance(term, pyoxigraph.BlankNode) and label.encode() not in named:
            # The parser gives such a node another random name each time; we number them.
            return unnamed.setdefault(label, f"_:unnamed{len(unnamed)}")
        return label

    parser = pyoxigraph.parse(data, format=kind, base_iri=path.resolve().as_uri())
    try:
        for number, quad in enumerate(parser, 1):
            tail = quad.object
            if isinstance(tail, pyoxigraph.Literal) and not literals:
                about = (tail.value, tail.datatype.value, tail.language)
                values.append((name(quad.subject), quad.predicate.value, *about))
                continue
            rows.append(number)
            for column, term in zip(facts, (quad.subject, quad.predicate, tail), strict=True):
                column.append(name(term))
    except SyntaxError as error:
        raise DataError(f"{path}, line {error.lineno}: {error.msg}.") from None
    arrays = [pa.chunked_array([pa.array(column, pa.string())]) for column in facts]
    table = pa.table([*arrays, pa.array(rows, pa.int64())], names=[*ROLES[:3], "row"])
    columns = zip(*values, strict=True) if values else [()] * len(LITERAL)
    texts = [pa.array(list(column), pa.string()) for column in columns]
    return table, Annotations(pa.table(texts, names=list(LITERAL)), dict(parser.prefixes))
