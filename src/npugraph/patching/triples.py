"""Change the triples of a Turtle file: it is written anew, with its prefixes and literals.

What no triple says, comments and the way it was written, is lost; so a copy of the file is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npugraph.data.io.rdf import parse_triples
from npugraph.patching.lines import Edited
from npugraph.patching.patch import Entry, Fact
from npugraph.patching.resolve import Edits
from npugraph.patching.terms import has_own, oxigraph, term

Triple = tuple[Any, Any, Any]


@dataclass(frozen=True)
class TurtleFile:
    """The triples of a file in its order, and its prefixes."""

    triples: tuple[Triple, ...]
    prefixes: dict[str, str]

    @classmethod
    def of(cls, data: bytes, path: Path) -> TurtleFile:
        """Parse a file; ``path`` is what relative IRIs refer to."""
        found = parse_triples(data, path, ".ttl")
        triples = tuple(found.each)
        return cls(triples, found.prefixes())

    def written(self, path: Path) -> bytes:
        """Return the file as Turtle; an IRI below ``path`` stays relative to it."""
        ox = oxigraph(str(path))
        base = path.resolve().as_uri()
        near = base.rsplit("/", 1)[0]
        relative = any(f"<{near}" in line(triple) for triple in self.triples)
        data: bytes = ox.serialize(
            (ox.Triple(*triple) for triple in self.triples),
            format=ox.RdfFormat.TURTLE,
            prefixes=self.prefixes,
            base_iri=base if relative else None,
        )
        # Where the file lies is nobody's business.
        return data.split(b"\n", 1)[1] if data.startswith(b"@base") else data

    def digest(self) -> str:
        """Return the SHA-256 of what the file says, in whatever order and form."""
        text = "".join(sorted({line(triple) for triple in self.triples}))
        return hashlib.sha256(text.encode()).hexdigest()

    def changed(self, out: Iterable[str], into: Iterable[Triple]) -> TurtleFile:
        """Return the file without the triples of some lines, and with new ones at its end."""
        gone = set(out)
        kept = tuple(triple for triple in self.triples if line(triple) not in gone)
        return TurtleFile((*kept, *into), self.prefixes)


def line(triple: Triple) -> str:
    """Return a triple as a line of N-Triples."""
    return " ".join([*map(str, triple), ".\n"])


def edit_turtle(path: Path, data: bytes, edits: Edits) -> tuple[Edited, str, str]:
    """Change the facts of a Turtle file; return it, and the digests of its triples.

    Args:
        path: what relative IRIs refer to.
        data: its bytes.
        edits: the changes; rows count all triples.
    """
    old = TurtleFile.of(data, path)
    gone = [line(old.triples[row]) for row in (*edits.removed, *edits.replaced)]
    fresh = [_terms(fact, path, has_own(data)) for fact in (*edits.replaced.values(), *edits.added)]
    distinct = list({line(triple): triple for triple in fresh}.values())
    new = old.changed(gone, distinct)
    removed = tuple(Entry(0, text) for text in sorted(set(gone)))
    inserted = tuple(Entry(0, line(triple)) for triple in distinct)
    return Edited(new.written(path), removed, inserted), old.digest(), new.digest()


def exchange_triples(path: Path, data: bytes, out: Iterable[str], into: Iterable[str]) -> bytes:
    """Take triples out of a Turtle file and put others in, all given as lines of N-Triples."""
    ox = oxigraph(str(path))
    text = "".join(into).encode()
    fresh = [
        (found.subject, found.predicate, found.object)
        for found in ox.parse(text, format=ox.RdfFormat.N_TRIPLES)
    ]
    return TurtleFile.of(data, path).changed(out, fresh).written(path)


def _terms(fact: Fact, path: Path, own: bool) -> Triple:
    head, relation, tail = (term(name, str(path), own) for name in fact)
    return head, relation, tail
