"""How names are shown: labels, short IRIs, or as they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npugraph.data.io import read_graph
from npugraph.graph import KnowledgeGraph
from npugraph.names import SHOWN, ReadableNames

TURTLE = """@prefix ex: <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
ex:Q1 rdfs:label "Vienna"@en, "Wien"@de ; ex:capitalOf ex:Q2 .
ex:Q2 skos:prefLabel "Austria" ; rdfs:label "Oesterreich"@de .
ex:Q3 rdfs:label "Berlin"@de ; ex:capitalOf ex:Q4 .
ex:Q4 <http://schema.org/name> "  The   Federal\\nRepublic " .
ex:Q5 rdfs:label "Vienna" ; ex:locatedIn <http://other.net/geo/Virginia%20State> .
ex:Q6 ex:locatedIn <http://dbpedia.org/resource/Ohio> .
ex:capitalOf rdfs:label "capital of"@en .
"""


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    path = tmp_path / "graph.ttl"
    path.write_text(TURTLE, encoding="utf-8")
    return read_graph(path)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("http://example.org/Q1", "Vienna (ex:Q1)"),
        ("http://example.org/Q5", "Vienna (ex:Q5)"),
        ("http://example.org/Q2", "Austria"),
        ("http://example.org/Q3", "Berlin"),
        ("http://example.org/Q4", "The Federal Republic"),
        ("http://example.org/Q6", "ex:Q6"),
        ("http://other.net/geo/Virginia%20State", "Virginia State"),
        ("http://dbpedia.org/resource/Ohio", "dbr:Ohio"),
        ("http://example.org/capitalOf", "capital of"),
        ("http://example.org/locatedIn", "ex:locatedIn"),
    ],
)
def test_labels_and_prefixes_of_a_file(graph: KnowledgeGraph, name: str, shown: str) -> None:
    assert graph.readable(name) == shown


def test_names_as_given_stay_in_the_graph(graph: KnowledgeGraph) -> None:
    assert all(name.startswith("http://") for name in graph.entities.labels.to_pylist())
    assert graph.readable.differing(["http://example.org/Q3", "Rome"]) == {
        "http://example.org/Q3": "Berlin"
    }


@pytest.mark.parametrize(
    "name", ["Vienna", "/people/person", "concept:city:rome", "a:b", "http://x.org/", "x" * 200]
)
def test_what_is_no_iri_is_cut_at_most(name: str) -> None:
    shown = ReadableNames([pa.array([name])])(name)
    assert shown == name or (len(name) > SHOWN == len(shown))


def test_a_last_part_that_is_a_name_is_not_used_for_another() -> None:
    names = pa.array(["http://x.org/Rome", "Rome"])
    assert ReadableNames([names])("http://x.org/Rome") == "http://x.org/Rome"


def test_a_label_that_is_a_name_is_told_apart() -> None:
    literals = pa.table(
        {
            "head": ["http://x.org/1"],
            "relation": ["http://www.w3.org/2000/01/rdf-schema#label"],
            "value": ["Rome"],
            "language": pa.array([None], pa.string()),
        }
    )
    names = pa.array(["http://x.org/1", "Rome"])
    assert ReadableNames([names], literals)("http://x.org/1") == "Rome (1)"


@given(st.lists(st.sampled_from("abc/#:1").map(lambda s: s), max_size=6).map("".join), st.text())
def test_two_names_are_never_shown_the_same(path: str, other: str) -> None:
    names = sorted({f"http://x.org/{path}", f"http://y.org/{path}", f"urn:{path}", other[:40]})
    readable = ReadableNames([pa.array(names, pa.string())])
    assert len({readable(name) for name in names}) == len(names)
