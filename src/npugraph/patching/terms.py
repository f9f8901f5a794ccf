"""Names of a graph as terms of RDF, and back."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from npugraph.data.io.iris import NAMES, to_iri
from npugraph.data.io.rdf import term_name
from npugraph.errors import DataError
from npugraph.patching.patch import Fact


def oxigraph(what: str) -> ModuleType:
    """Return pyoxigraph, or say how to get it; ``what`` needs it."""
    try:
        import pyoxigraph
    except ImportError:
        raise DataError(
            f"{what} needs pyoxigraph; install it with: pip install 'npugraph[rdf]'."
        ) from None
    module: ModuleType = pyoxigraph
    return module


def term(name: str, where: str, own: bool = False) -> Any:
    """Return a name that was read from RDF as the term it was: an IRI, a blank node, a literal.

    Args:
        name: as the reader gives it.
        where: how errors call the file.
        own: whether a name that is no IRI becomes one of ours.
    """
    ox = oxigraph(where)
    try:
        if name.startswith("_:"):
            return ox.BlankNode(name[2:])
        if name.startswith('"'):
            line = f"_:s <urn:p> {name} ."
            return next(iter(ox.parse(line, format=ox.RdfFormat.N_TRIPLES))).object
        return ox.NamedNode(to_iri(name) if own else name)
    except (ValueError, SyntaxError, StopIteration):
        raise DataError(
            f"{where}: {name!r} is no IRI, and RDF has no other names; correct the answer."
        ) from None


def fact_of_line(line: str) -> Fact:
    """Return the fact of a line of N-Triples."""
    ox = oxigraph("N-Triples")
    found = next(iter(ox.parse(line, format=ox.RdfFormat.N_TRIPLES)))
    return Fact(*map(term_name, (found.subject, found.predicate, found.object)))


def term_text(name: str, where: str, own: bool = False) -> str:
    """Return a name as N-Triples writes it."""
    return str(term(name, where, own))


def has_own(data: bytes) -> bool:
    """Tell whether an RDF file has IRIs of ours, which were made of other names."""
    return NAMES.encode() in data
