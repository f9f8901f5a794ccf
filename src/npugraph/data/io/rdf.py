"""Read N-Triples and Turtle: facts between entities, and beside them literals and prefixes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from npugraph.data.io.content import read_content
from npugraph.data.io.formats import RDF, ROLES
from npugraph.data.io.iris import from_iri
from npugraph.data.io.ntriples import divide, merged
from npugraph.errors import DataError
from npugraph.graph import LITERAL, Annotations

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
# What is said with these is about another statement: RDF 1.2's reifiers, and plain reification.
ABOUT = {_RDF + name for name in ("reifies", "subject", "predicate", "object")}
TYPED = (_RDF + "type", _RDF + "Statement")
BLANK_NODE = re.compile(rb"_:[^\s<>\"(){}\[\],;]+")


@dataclass(frozen=True)
class Triples:
    """The triples of a file, to be gone through once; then its prefixes are known.

    Attributes:
        each: subject, predicate and object as terms of pyoxigraph. A blank node without a name
            in the file is numbered: the parser gives it another random name each time.
        prefixes: returns what the file declares.
    """

    each: Iterator[tuple[Any, Any, Any]]
    prefixes: Callable[[], dict[str, str]]


def parse_triples(data: bytes, path: Path, suffix: str) -> Triples:
    """Parse the bytes of an RDF file; ``path`` is what relative IRIs and errors refer to."""
    try:
        import pyoxigraph
    except ImportError:
        raise DataError(
            f"{path}: reading RDF needs pyoxigraph; install it with: pip install 'npugraph[rdf]'."
        ) from None
    named = {name.rstrip(b".").decode() for name in BLANK_NODE.findall(data)}
    fresh = (label for i in count() if (label := f"unnamed{i}") and f"_:{label}" not in named)
    unnamed: dict[str, Any] = {}

    def numbered(term: Any) -> Any:
        if not isinstance(term, pyoxigraph.BlankNode) or str(term) in named:
            return term
        if str(term) not in unnamed:
            unnamed[str(term)] = pyoxigraph.BlankNode(next(fresh))
        return unnamed[str(term)]

    kind = getattr(pyoxigraph.RdfFormat, RDF[suffix])
    parser = pyoxigraph.parse(data, format=kind, base_iri=path.resolve().as_uri())

    def each() -> Iterator[tuple[Any, Any, Any]]:
        try:
            for quad in parser:
                yield numbered(quad.subject), quad.predicate, numbered(quad.object)
        except SyntaxError as error:
            raise DataError(f"{path}, line {error.lineno}: {error.msg}.") from None

    return Triples(each(), lambda: dict(parser.prefixes))


def read_rdf(path: Path, suffix: str, literals: bool) -> tuple[pa.Table, Annotations]:
    """Read a file into a table of facts (head, relation, tail, row) and what else it says.

    Args:
        path: the file.
        suffix: its format.
        literals: keep literals as entities; otherwise they are annotations.
    """
    lines = divide(path) if suffix == ".nt" else None
    if lines is not None:
        # Where the other lines are bad, the parser is given all of them and names the first.
        with suppress(DataError):
            text = lines.text()
            read = _gather(parse_triples(text, path, suffix), literals) if text else _Gathered()
            if read.count == len(lines.rows):
                facts = merged(lines.facts, read.table(lines.rows))
                return facts, read.beside(lines.count - len(facts))
    read = _gather(parse_triples(read_content(path), path, suffix), literals)
    facts = read.table(np.arange(1, read.count + 1))
    return facts, read.beside(read.count - len(facts))


@dataclass
class _Gathered:
    """What some triples say.

    Attributes:
        facts: heads, relations and tails.
        places: where each fact stands among the triples, from 0.
        values: the literals, as LITERAL has them.
        prefixes: what the file declares.
        count: how many triples there are.
    """

    facts: tuple[list[str], list[str], list[str]] = field(default_factory=lambda: ([], [], []))
    places: list[int] = field(default_factory=list)
    values: list[tuple[str, str, str, str, str | None]] = field(default_factory=list)
    prefixes: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def table(self, rows: NDArray[np.int64]) -> pa.Table:
        """Return the facts, given the number of each triple [count] in its file."""
        arrays = [pa.chunked_array([pa.array(column, pa.string())]) for column in self.facts]
        numbers = rows[np.array(self.places, dtype=np.int64)]
        return pa.table([*arrays, pa.array(numbers)], names=[*ROLES[:3], "row"])

    def beside(self, others: int) -> Annotations:
        """Return what the file says beside its facts in so many triples."""
        columns = zip(*self.values, strict=True) if self.values else [()] * len(LITERAL)
        texts = [pa.array(list(column), pa.string()) for column in columns]
        literals = pa.table(texts, names=list(LITERAL))
        return Annotations(literals, self.prefixes, others - len(literals))


def _gather(found: Triples, literals: bool) -> _Gathered:
    """Go through triples once."""
    read, statements = _Gathered(), set()
    for place, (subject, predicate, tail) in enumerate(found.each):
        read.count += 1
        if predicate.value in ABOUT or (predicate.value, term_name(tail)) == TYPED:
            statements.add(term_name(subject))
            continue
        # Only a literal has a datatype.
        if not literals and hasattr(tail, "datatype"):
            about = (tail.value, tail.datatype.value, tail.language)
            read.values.append((term_name(subject), term_name(predicate), *about))
            continue
        read.places.append(place)
        for column, term in zip(read.facts, (subject, predicate, tail), strict=True):
            column.append(term_name(term))
    read.values = [value for value in read.values if value[0] not in statements]
    read.prefixes = found.prefixes()
    return read


def term_name(term: Any) -> str:
    """Return a term of pyoxigraph as entities are called: an IRI bare, others as written.

    An IRI that was made of a name that is none becomes that name again.
    """
    text = str(term)
    return from_iri(text[1:-1]) if text[0] == "<" and text[1] != "<" else text
