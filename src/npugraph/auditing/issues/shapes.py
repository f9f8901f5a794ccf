"""Violations of SHACL shapes, found by pySHACL and told in names of the graph."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from npugraph.auditing.issues.facts import Facts, listed
from npugraph.auditing.issues.literals import NUMBER
from npugraph.errors import DataError

# Names that are no IRIs get one: this, and the name with all but letters and digits escaped.
PLAIN = "urn:npugraph:"
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")
# How values of text files look, by their type.
_DAY = r"[+-]?[0-9]{4,}-[0-9]{2}-[0-9]{2}"
_ZONE = r"(Z|[+-][0-9]{2}:[0-9]{2})?"
FORMS = (
    (r"[+-]?[0-9]+", "integer"),
    (NUMBER, "decimal"),
    (_DAY + _ZONE, "date"),
    (_DAY + r"[T ].*", "dateTime"),
    (r"[+-]?[0-9]{4,}-(0[1-9]|1[0-2])" + _ZONE, "gYearMonth"),
)
# What a violation weighs, by its severity.
SEVERITY = {"Violation": 1.0, "Warning": 0.5, "Info": 0.1}


def shape_violations(facts: Facts) -> pa.Table:
    """Return what breaks the shapes that the user gave; the score is that of the severity."""
    path = facts.told.shapes
    if path is None:
        return listed("shape", [], [])
    try:
        import pyshacl
        import rdflib
    except ImportError:
        raise DataError(
            f"{path}: checking shapes needs pySHACL; install it with: "
            "pip install 'npugraph[shapes]'."
        ) from None
    shapes = _parsed(path, rdflib)
    terms = _Terms(rdflib)
    try:
        with _quiet():
            _, report, _ = pyshacl.validate(_data(facts, terms), shacl_graph=shapes)
    except Exception as error:  # pySHACL and rdflib have no base of their errors in common
        raise DataError(f"{path}: the shapes cannot be checked ({_first_line(error)}).") from None
    if not isinstance(report, rdflib.Graph):
        raise DataError(f"{path}: the shapes cannot be checked ({_first_line(report)}).")
    rows = sorted(_results(report, terms, facts), key=lambda row: [str(value) for value in row])
    score, sentence, *columns = zip(*rows, strict=True) if rows else [()] * 6
    names = dict(zip(("head", "relation", "tail", "other"), map(list, columns), strict=True))
    return listed("shape", list(score), list(sentence), **names)


def _parsed(path: Path, rdflib: Any) -> Any:
    try:
        return rdflib.Graph().parse(path, format="turtle")
    except Exception as error:  # its errors have no base in common
        line = getattr(error, "lines", None)
        where = f", line {line + 1}" if isinstance(line, int) else ""
        raise DataError(f"{path}{where}: this is no Turtle ({_first_line(error)}).") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep rdflib from logging a traceback for each value that is not of its type."""
    log = logging.getLogger("rdflib.term")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _first_line(error: object) -> str:
    """Return what an error says, without the text it points to."""
    if syntax := re.search(r"Bad syntax \((.+?)\) at", str(error)):
        return syntax[1]
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".:")


class _Terms:
    """RDF terms of names, and the names of terms."""

    def __init__(self, rdflib: Any) -> None:
        self.rdflib = rdflib
        self._names: dict[Any, str] = {}

    def of(self, name: str) -> Any:
        if name.startswith("_:"):
            term = self.rdflib.BNode(name[2:])
        else:
            iri = name if _IRI.fullmatch(name) else PLAIN + quote(name, safe="")
            term = self.rdflib.URIRef(iri)
        self._names[term] = name
        return term

    def literal(self, value: str, **kind: Any) -> Any:
        """Return a value, and remember how it is written in the input."""
        term = self.rdflib.Literal(value, **kind)
        # rdflib writes numbers in a form of its own.
        self._names[term] = value
        return term

    def name(self, term: Any) -> str:
        iri = str(term)
        plain = unquote(iri.removeprefix(PLAIN)) if iri.startswith(PLAIN) else iri
        return self._names.get(term, plain)


def _data(facts: Facts, terms: _Terms) -> Any:
    """Return the facts and the literals as an RDF graph."""
    graph, labels = terms.rdflib.Graph(), facts.graph.entities.labels.to_pylist()
    relations = [terms.of(name) for name in facts.graph.relations.labels.to_pylist()]
    valued = facts.valued.tolist()
    for head, relation, tail in zip(
        facts.head.tolist(), facts.relation.tolist(), facts.tail.tolist(), strict=True
    ):
        end = _literal(labels[tail], terms) if valued[relation] else terms.of(labels[tail])
        graph.add((terms.of(labels[head]), relations[relation], end))
    if facts.graph.annotations is not None:
        for row in facts.graph.annotations.literals.to_pylist():
            kind = None if row["language"] else terms.rdflib.URIRef(row["datatype"])
            value = terms.literal(row["value"], lang=row["language"], datatype=kind)
            graph.add((terms.of(row["head"]), terms.of(row["relation"]), value))
    return graph


def _literal(value: str, terms: _Terms) -> Any:
    """Return a value of a text file: a number or a date where it can be read as one, or a text."""
    for form, name in FORMS:
        if re.fullmatch(form, value):
            term = terms.literal(value, datatype=terms.rdflib.XSD[name])
            return terms.literal(value) if term.ill_typed else term
    return terms.literal(value)


def _shortened(message: str, terms: _Terms, facts: Facts) -> str:
    """Write the IRIs of a message as names are written in other sentences."""

    def short(found: re.Match[str]) -> str:
        return facts.short(terms.name(terms.rdflib.URIRef(found[1])))

    return re.sub(r"<([A-Za-z][A-Za-z0-9+.-]*:[^\s<>]+)>", short, message)


def _results(report: Any, terms: _Terms, facts: Facts) -> Iterator[tuple[Any, ...]]:
    """Yield score, sentence, head, relation, tail and shape of each result of a validation."""
    sh, rdf = terms.rdflib.SH, terms.rdflib.RDF
    for result in report.subjects(rdf.type, sh.ValidationResult):
        severity = str(report.value(result, sh.resultSeverity)).rsplit("#", 1)[-1]
        focus, path = report.value(result, sh.focusNode), report.value(result, sh.resultPath)
        value, shape = report.value(result, sh.value), report.value(result, sh.sourceShape)
        told = report.value(result, sh.resultMessage) or "a shape is broken"
        message = _shortened(" ".join(str(told).split()).rstrip("."), terms, facts)
        ends = [None if term is None else terms.name(term) for term in (focus, value)]
        inverse = None if path is None else report.value(path, sh.inversePath)
        relation = inverse if inverse is not None else path
        if inverse is not None:
            ends.reverse()
        plain = isinstance(relation, terms.rdflib.URIRef)
        named = isinstance(shape, terms.rdflib.URIRef)
        yield (
            SEVERITY.get(severity, 1.0),
            f"A shape: {message}.",
            ends[0],
            terms.name(relation) if plain else None,
            ends[1] if plain else None,
            terms.name(shape) if named else None,
        )
