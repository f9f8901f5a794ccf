"""Rules and shapes of the user: what breaks them is listed, mistakes in them are sentences."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from auditing.issues.odd_graphs import Fact, about, people
from npugraph.auditing.issues import Issues, find_issues
from npugraph.auditing.issues.told import KEYS, read_rules
from npugraph.data.io import read_graph
from npugraph.errors import DataError

ROWS: list[Fact] = [
    ("Rome", "capital of", "Italy"),
    ("Milan", "capital of", "Italy"),
    ("Paris", "capital of", "France"),
    ("France", "capital of", "Paris"),
    ("Paris", "twin of", "Paris"),
    ("Ann", "lives in", "Rome"),
    ("Ann", "lives in", "Milan"),
    ("Ann", "birth", "1990-05-01"),
    ("Ann", "death", "1980-05-01"),
    ("Bob", "birth", "1990-05-01"),
    ("Bob", "birth", "1991-05-01"),
    ("Bob", "death", "1990"),
]
TYPES = pa.table(
    {
        "entity": ["Rome", "Milan", "Paris", "Italy", "France"],
        "type": ["city", "city", "city", "country", "country"],
    }
)


def checked(folder: Path, rules: str, graph: Any = ROWS) -> Issues:
    path = folder / "rules.toml"
    path.write_text(rules, encoding="utf-8")
    return find_issues(graph, rules=path, types=TYPES)


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ('["capital of"]\ndomain = "city"', [("France", "capital of", "Paris", "country")]),
        ('["capital of"]\nrange = ["country", "city"]', []),
        (
            '["capital of"]\none_head = true',
            [("Milan", "capital of", "Italy", "Rome, capital of, Italy")],
        ),
        (
            '["lives in"]\none_tail = true',
            [("Ann", "lives in", "Milan", "Ann, lives in, Rome")],
        ),
        ('["twin of"]\nirreflexive = true', [("Paris", "twin of", "Paris", None)]),
        (
            '["capital of"]\nasymmetric = true',
            [("France", "capital of", "Paris", "Paris, capital of, France")],
        ),
        ("[birth]\none_tail = true", [("Bob", "birth", "1991-05-01", "1990-05-01")]),
        (
            '[birth]\nnot_after = "death"',
            [
                ("Ann", "birth", "1990-05-01", "1980-05-01"),
                ("Bob", "birth", "1991-05-01", "1990"),
            ],
        ),
    ],
)
def test_what_breaks_a_rule(tmp_path: Path, rule: str, broken: list[Any]) -> None:
    issues = checked(tmp_path, rule.replace("[", "[relation.", 1))
    assert about(issues, "rule") == broken
    assert set(issues.of("rule")["score"].to_pylist()) <= {1.0}
    assert all(s.startswith("A rule: ") for s in issues.of("rule")["sentence"].to_pylist())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[relation.birth]\n\none_tial = true",
            r"line 3: there is no rule 'one_tial'\. Did you mean",
        ),
        ("[relation.birth]\nxyz = 1", "line 2: there is no rule 'xyz'. Known: " + ", ".join(KEYS)),
        ("[relation.birth]\none_tail = 1", "line 2: one_tail is true or false, not 1"),
        ("[relation.birth]\ndomain = []", r"line 2: domain is a type or a list of types, not \[\]"),
        ("[relation.birth]\nnot_after = 3", "line 2: not_after is the name of a relation, not 3"),
        (
            "[relation.birth]\none_tail = ture",
            r"line 2: this is no TOML \(.+\); write a line \[relation\.NAME\] for each relation",
        ),
        ("a = 1\n", "line 1: 'a' is no table of rules"),
        ("[relations.birth]\n", r"line 1: 'relations' is no table of rules; write \[relation.NAME"),
        ("relation = 3\n", r"write \[relation.NAME\] for each relation"),
        (
            "# x\n[relation.birht]\none_tail = true",
            "line 2: no relation is called 'birht'.+'birth'",
        ),
        ('[relation.birth]\nnot_after = "deaht"', "line 1: no relation is called 'deaht'.+'death'"),
        ('[relation.birth]\nnot_after = "twin of"', "line 1: .*'twin of' must both have values"),
        ('[relation."twin of"]\ndomain = "citty"', "line 1: no entity is of type 'citty'.+'city'"),
    ],
)
def test_a_mistake_is_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=f"rules.toml(, )?.*{said}") as caught:
        checked(tmp_path, text)
    assert str(caught.value).endswith((".", "?"))


def test_types_are_needed_for_domain_and_range(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[relation."twin of"]\ndomain = "city"\n')
    with pytest.raises(DataError, match="give them with --types"):
        find_issues(ROWS, rules=path)
    with pytest.raises(DataError, match="cannot be read"):
        read_rules(tmp_path / "none.toml")


SHAPES = """@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix : <urn:npugraph:> .
:Person sh:targetSubjectsOf <urn:npugraph:lives%20in> ; a sh:NodeShape ;
  sh:property [ sh:path <urn:npugraph:lives%20in> ; sh:class :nothing ; sh:severity sh:Warning ;
                sh:message "a home is a house." ] ;
  sh:property [ sh:path [ sh:inversePath :knows ] ; sh:minCount 1 ; sh:message "known" ] .
:Dated a sh:NodeShape ; sh:targetSubjectsOf :birth ;
  sh:property :OneBirth .
:OneBirth sh:path :birth ; sh:maxCount 1 ; sh:message "one birth" .
"""


def test_what_breaks_a_shape(tmp_path: Path) -> None:
    pytest.importorskip("pyshacl")
    path = tmp_path / "shapes.ttl"
    path.write_text(SHAPES)
    issues = find_issues([*people(), *ROWS], shapes=path)
    assert sorted(about(issues, "shape"), key=str) == [
        ("Ann", "lives in", "Milan", None),
        ("Ann", "lives in", "Rome", None),
        ("Bob", "birth", None, "OneBirth"),
        (None, "knows", "Ann", None),
    ]
    columns = (issues.of("shape")[name].to_pylist() for name in ("sentence", "score"))
    assert dict(zip(*columns, strict=True)) == {
        "A shape: a home is a house.": 0.5,
        "A shape: one birth.": 1.0,
        "A shape: known.": 1.0,
    }


def test_shapes_see_the_literals_of_rdf(tmp_path: Path) -> None:
    pytest.importorskip("pyshacl")
    data, path = tmp_path / "g.ttl", tmp_path / "shapes.ttl"
    data.write_text('@prefix : <http://x/> .\n:a :r :b ; :age "old" .\n:b :r :a ; :age 7 .\n')
    path.write_text(
        "@prefix sh: <http://www.w3.org/ns/shacl#> .\n@prefix : <http://x/> .\n"
        "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
        ":S a sh:NodeShape ; sh:targetSubjectsOf :r ;\n"
        "  sh:property [ sh:path :age ; sh:datatype xsd:integer ] .\n"
    )
    issues = find_issues(read_graph(data), shapes=path)
    assert about(issues, "shape") == [("http://x/a", "http://x/age", "old", None)]


def test_a_value_that_is_no_date_is_a_text_and_names_are_short(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("pyshacl")
    path, ann = tmp_path / "shapes.ttl", "http://x.org/people/Ann"
    path.write_text(
        "@prefix sh: <http://www.w3.org/ns/shacl#> .\n"
        "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n@prefix : <urn:npugraph:> .\n"
        ":S a sh:NodeShape ; sh:targetSubjectsOf :born ;\n"
        "  sh:property [ sh:path :born ; sh:maxCount 1 ] ;\n"
        "  sh:property [ sh:path :born ; sh:or ( [ sh:datatype xsd:integer ]\n"
        "    [ sh:datatype xsd:date ] [ sh:datatype xsd:dateTime ] [ sh:datatype xsd:gYearMonth ] )"
        " ] .\n"
    )
    rows = [(f"p{i}", "born", str(1900 + i)) for i in range(80)]
    fine = ("2001-02-03", "2001-02-03Z", "2001-02-03T10:00:00", "2001-02", "007")
    odd = ("soon", "2001-02-30", "2001-13-01")
    rows += [(f"q{i}", "born", value) for i, value in enumerate((*fine, *odd))]
    rows += [(ann, "born", "1950"), (ann, "born", "1951")]
    found = find_issues(rows, shapes=path)
    assert not caplog.records, "rdflib has nothing to complain of."
    heads = [f"q{i}" for i in range(len(fine), len(fine) + len(odd))]
    assert sorted(row[2] for row in about(found, "shape") if row[0] in heads) == sorted(odd)
    assert {row[0] for row in about(found, "shape")} == {*heads, ann}
    said = found.of("shape")["sentence"].to_pylist()
    # A prefix of the shapes is left as it is.
    assert "A shape: More than 1 values on Ann->:born." in said
    assert not [text for text in said if "<http" in text]


def test_the_values_of_shapes_are_written_as_in_the_input(tmp_path: Path) -> None:
    pytest.importorskip("pyshacl")
    path = tmp_path / "shapes.ttl"
    path.write_text(
        "@prefix sh: <http://www.w3.org/ns/shacl#> .\n@prefix : <urn:npugraph:> .\n"
        ":S a sh:NodeShape ; sh:targetSubjectsOf :age ;\n"
        "  sh:property [ sh:path :age ; sh:minInclusive 8 ] .\n"
    )
    rows = [(f"p{i}", "age", str(10 + i)) for i in range(20)]
    found = find_issues([*rows, ("Bond", "age", "007")], shapes=path)
    assert about(found, "shape") == [("Bond", "age", "007", None)]


def test_shapes_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shapes.ttl"
    with pytest.raises(DataError, match="shapes.ttl: no such file"):
        find_issues(ROWS, shapes=path)
    path.write_text("@prefix : <http://x/> .\n:a :b\n")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyshacl", None)
        with pytest.raises(DataError, match=r"needs pySHACL; install it with: pip install"):
            find_issues(ROWS, shapes=path)
    pytest.importorskip("pyshacl")
    with pytest.raises(DataError, match=r"shapes.ttl, line \d+: this is no Turtle \(.+\)\."):
        find_issues(ROWS, shapes=path)
