"""A cleaned graph as RDF, with what is said about its facts on reifiers.

RDF 1.2 has terms for triples: a reifier stands for one occasion on which a triple was judged, and
carries probability, answer, reviewer and time. Facts that were called wrong are described so, and
not stated. Plain reification (``rdf:Statement``) says the same to tools that know RDF 1.1 only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from npugraph.data.io.iris import NAMES, to_iri
from npugraph.patching.formats.common import Statement
from npugraph.patching.patch import Fact
from npugraph.patching.terms import oxigraph, term

VOCABULARY = "urn:npugraph:vocabulary:"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"


@dataclass(frozen=True)
class RdfGraph:
    """A graph to be written.

    Attributes:
        triples: subject, predicate and object as terms of pyoxigraph, literals included.
        prefixes: of the input.
        rdf: whether the input was RDF, so that its names are terms; otherwise they are made IRIs.
        base: before names that are no IRIs.
    """

    triples: Sequence[tuple[Any, Any, Any]]
    prefixes: Mapping[str, str] = field(default_factory=dict)
    rdf: bool = True
    base: str = NAMES

    @classmethod
    def of_facts(cls, facts: Iterable[Fact], base: str = NAMES) -> RdfGraph:
        """Make triples of facts whose names are no terms of RDF."""
        ox = oxigraph("RDF")
        terms: dict[str, Any] = {}

        def made(name: str) -> Any:
            if name not in terms:
                terms[name] = ox.NamedNode(to_iri(name, base))
            return terms[name]

        distinct = dict.fromkeys(facts)
        return cls([(made(h), made(r), made(t)) for h, r, t in distinct], {}, False, base)

    def terms(self, fact: Fact) -> tuple[Any, Any, Any]:
        """Return the terms of a fact, in the graph or not."""
        ox = oxigraph("RDF")
        if self.rdf:
            head, relation, tail = (term(name, "RDF", own=True) for name in fact)
        else:
            head, relation, tail = (ox.NamedNode(to_iri(name, self.base)) for name in fact)
        return head, relation, tail


def annotated_turtle(
    graph: RdfGraph, statements: Iterable[Statement], *, plain: bool = False
) -> bytes:
    """Return a graph as Turtle with what is said about its facts.

    Args:
        graph: the cleaned graph.
        statements: what the audit and the reviewers say, also of facts that are not in it.
        plain: write ``rdf:Statement`` with subject, predicate and object in place of RDF 1.2's
            ``rdf:reifies``.
    """
    ox = oxigraph("RDF")
    used = {str(node) for triple in graph.triples for node in (triple[0], triple[2])}
    fresh = (ox.BlankNode(f"said{i}") for i in count() if f"_:said{i}" not in used)

    def triples() -> Iterator[Any]:
        for triple in graph.triples:
            yield ox.Triple(*triple)
        for one, node in zip(statements, fresh, strict=False):
            subject, predicate, tail = graph.terms(one.fact)
            if plain:
                yield ox.Triple(node, ox.NamedNode(RDF + "type"), ox.NamedNode(RDF + "Statement"))
                yield ox.Triple(node, ox.NamedNode(RDF + "subject"), subject)
                yield ox.Triple(node, ox.NamedNode(RDF + "predicate"), predicate)
                yield ox.Triple(node, ox.NamedNode(RDF + "object"), tail)
            else:
                meant = ox.Triple(subject, predicate, tail)
                yield ox.Triple(node, ox.NamedNode(RDF + "reifies"), meant)
            for name, value in _said(one):
                yield ox.Triple(node, ox.NamedNode(VOCABULARY + name), value)

    own = {"npugraph": VOCABULARY, "rdf": RDF, "xsd": XSD}
    taken = set(graph.prefixes.values())
    prefixes = {
        **{
            name: iri
            for name, iri in own.items()
            if name not in graph.prefixes and iri not in taken
        },
        **graph.prefixes,
    }
    data: bytes = ox.serialize(triples(), format=ox.RdfFormat.TURTLE, prefixes=prefixes)
    return data


def _said(one: Statement) -> Iterator[tuple[str, Any]]:
    """Yield what is said, as names of the vocabulary and literals."""
    ox = oxigraph("RDF")
    number, moment = ox.NamedNode(XSD + "double"), ox.NamedNode(XSD + "dateTime")
    for name, value in (("probability", one.probability), ("confidence", one.confidence)):
        if value is not None:
            yield name, ox.Literal(repr(float(value)), datatype=number)
    for name, text in (("answer", one.answer), ("reviewer", one.reviewer), ("note", one.note)):
        if text:
            yield name, ox.Literal(text)
    if one.time:
        yield "time", ox.Literal(one.time, datatype=moment)
