"""Exports for other tools: each is read by the tool, or by the reader, and holds the same."""

from __future__ import annotations

import csv
import io
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npugraph.data.answers import answer_fields, escape, unescape
from npugraph.data.io.iris import from_iri, is_iri, to_iri
from npugraph.errors import DataError
from npugraph.patching import Decision, Fact
from npugraph.patching.formats.common import Statement
from npugraph.patching.formats.kgx import JUDGED, kgx_files
from npugraph.patching.formats.quickstatements import quickstatements
from npugraph.patching.formats.rdf import VOCABULARY, RdfGraph, annotated_turtle
from npugraph.patching.formats.sparql import sparql_update
from npugraph.patching.formats.spreadsheet import spreadsheet
from npugraph.patching.formats.sql import quoted_text, sql_changes
from patch_samples import decisions_on, expected, facts_in

anything = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
HOSTILE = [
    "'; DROP TABLE facts; --", "a\\'b", '"', "line\nend", "=cmd()", "<script>", "\u202eabc", "{}",
    "x" * 10_000, " two  spaces ", "`", "%", "_:b", "http://x.org/<a>", "Ω~", "\x7f",
]  # fmt: skip
FACTS = [Fact(a, "r", b) for a, b in zip(HOSTILE, HOSTILE[1:], strict=False)]


@given(anything)
@settings(max_examples=400, deadline=None)
def test_every_name_is_an_iri_and_comes_back(name: str) -> None:
    iri = to_iri(name)
    assert ox.NamedNode(iri).value == iri
    assert from_iri(iri) == name
    if is_iri(name):
        assert ox.NamedNode(name).value == name


@pytest.mark.parametrize("name", ["urn:npugraph:name:", "urn:npugraph:name:a%2", "a:b", *HOSTILE])
def test_odd_names_come_back(name: str) -> None:
    assert from_iri(to_iri(name)) == name


def turtle_facts(data: bytes) -> list[Fact]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "facts.ttl"
        path.write_bytes(data)
        return facts_in(path)


@pytest.mark.parametrize("plain", [False, True])
def test_rdf_holds_the_facts_and_what_is_said_of_them(plain: bool) -> None:
    wrong = Fact("Paris", "capital of", "Spain")
    said = [
        Statement(FACTS[0], 0.25),
        Statement(wrong, 0.125, "false", 'Ada "A"', "2026-11-16T18:00:00.123Z", 0.5, "no\n\\"),
    ]
    data = annotated_turtle(RdfGraph.of_facts(FACTS), said, plain=plain)
    assert set(turtle_facts(data)) == set(FACTS)
    store = ox.Store()
    store.load(data, format=ox.RdfFormat.TURTLE)
    about = (
        "?x rdf:subject ?s ; rdf:predicate ?p ; rdf:object ?o"
        if plain
        else "?x rdf:reifies <<( ?s ?p ?o )>>"
    )
    rows = store.query(
        "PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> "
        f"PREFIX n: <{VOCABULARY}> SELECT * {{ {about} . ?x n:probability ?probability . "
        "OPTIONAL { ?x n:reviewer ?who ; n:time ?time ; n:answer ?answer ; n:note ?note } }"
    )
    found = {
        Fact(*(from_iri(row[v].value) for v in "spo")): (
            float(row["probability"].value),
            *(None if row[v] is None else row[v].value for v in ("who", "time", "answer", "note")),
        )
        for row in rows
    }
    assert found == {
        FACTS[0]: (0.25, None, None, None, None),
        wrong: (0.125, 'Ada "A"', "2026-11-16T18:00:00.123Z", "false", "no\n\\"),
    }
    # A fact that is called wrong is described, and not stated.
    assert wrong not in turtle_facts(data)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_sparql_does_what_the_decisions_say(data: st.DataObject) -> None:
    few = data.draw(st.lists(anything, min_size=2, max_size=4, unique=True))
    one = st.builds(Fact, *[st.sampled_from(few)] * 3)
    facts = data.draw(st.lists(one, min_size=1, max_size=6, unique=True))
    chosen = [d for d in data.draw(decisions_on(facts, anything)) if _carried_out(d, facts)]
    store = ox.Store()
    store.extend(ox.Quad(*triple) for triple in RdfGraph.of_facts(facts).triples)
    made = sparql_update(chosen, rdf=False)
    assert made.notes == ()
    store.update(made.text)
    left = {Fact(*(from_iri(t.value) for t in (q.subject, q.predicate, q.object))) for q in store}
    assert left == set(expected(facts, chosen))


def _carried_out(decision: Decision, facts: list[Fact]) -> bool:
    """Tell whether a decision is one that a patch carries out as it is."""
    return decision.new is None or decision.new not in facts


def test_sparql_leaves_out_blank_nodes_and_says_so() -> None:
    kept, blank = Fact("a:b", "a:c", "a:d"), Fact("_:x", "a:c", "a:d")
    made = sparql_update([Decision("remove", kept), Decision("remove", blank)])
    assert made.text == "DELETE DATA {\n  <a:b> <a:c> <a:d> .\n} ;\n"
    assert made.notes == (
        "1 fact is left out, (_:x, a:c, a:d) first: a blank node has no name outside of its file.",
    )
    assert sparql_update([]).text == ""


def test_sql_changes_a_table_whatever_the_names() -> None:
    place = sqlite3.connect(":memory:")
    place.execute('CREATE TABLE "my facts" ("s""ubject" TEXT, p TEXT, o TEXT, more TEXT)')
    place.executemany('INSERT INTO "my facts" VALUES (?, ?, ?, 1)', FACTS)
    chosen = [
        *(Decision("remove", fact) for fact in FACTS[:5]),
        *(Decision("replace", fact, fact._replace(relation="'new'")) for fact in FACTS[5:9]),
        Decision("add", Fact("O'Hara", "\\", "--")),
    ]
    made = sql_changes(chosen, "my facts", ['s"ubject', "p", "o"])
    place.executescript(made.text)
    found = [Fact(*row[:3]) for row in place.execute('SELECT * FROM "my facts"')]
    assert sorted(found) == sorted(expected(FACTS, chosen))
    with pytest.raises(DataError, match="null character"):
        sql_changes([Decision("remove", Fact("a\0", "r", "b"))])
    with pytest.raises(DataError, match="three columns"):
        sql_changes([], columns=["a", "b"])


@given(anything.filter(lambda text: "\0" not in text))
def test_no_name_ends_a_text_of_mysql(name: str) -> None:
    text = quoted_text(name, "mysql")
    assert text[0] == text[-1] == "'"
    body, plain, place = text[1:-1], "", 0
    while place < len(body):
        # As MySQL reads it: a backslash takes the next letter with it, two quotes are one.
        assert body[place] != "'" or body[place + 1] == "'"
        place += 1 if body[place] in "\\'" else 0
        plain += body[place]
        place += 1
    assert plain == name


def test_mysql_has_marks_of_its_own() -> None:
    made = sql_changes([Decision("add", Fact("a\\", "r", "b"))], "db.fa`cts", dialect="mysql")
    assert "INSERT INTO `db`.`fa``cts` (`head`, `relation`, `tail`) VALUES ('a\\\\'," in made.text
    assert made.text.startswith("START TRANSACTION;\n")


def test_quickstatements_are_for_wikidata_alone() -> None:
    entity = "http://www.wikidata.org/entity/"
    berlin = Fact(f"{entity}Q64", "http://www.wikidata.org/prop/direct/P17", f"{entity}Q38")
    chosen = [
        Decision("replace", berlin, berlin._replace(tail="Q183")),
        Decision("remove", Fact("Rome", "P17", "Q38")),
        Decision("remove", Fact("Q64", "P17", '"1"')),
    ]
    made = quickstatements(chosen)
    assert made.text == "-Q64\tP17\tQ38\nQ64\tP17\tQ183\n"
    assert made.notes[0].startswith("2 facts are left out, (Rome, P17, Q38) first: its names are")
    with pytest.raises(DataError, match=r"No decided fact is about Wikidata: \(Rome, P17, Q38\)"):
        quickstatements(chosen[1:2])


def test_kgx_is_read_back(tmp_path: Path) -> None:
    plain = [fact for fact in FACTS if not any("\n" in name for name in fact)]
    nodes, edges = kgx_files(
        [*plain, plain[0]], {plain[0]: 0.5}, {plain[1]: JUDGED}, lambda name: name.upper()
    )
    (tmp_path / "edges.tsv").write_text(edges, encoding="utf-8", newline="")
    assert facts_in(tmp_path / "edges.tsv") == plain
    rows = list(csv.DictReader(io.StringIO(edges), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert [row["has_confidence_score"] for row in rows[:2]] == ["0.5", ""]
    assert [row["agent_type"] for row in rows[:2]] == ["not_provided", "manual_agent"]
    assert rows[1]["knowledge_level"] == "knowledge_assertion"
    assert len({row["id"] for row in rows}) == len(rows)
    named = list(csv.DictReader(io.StringIO(nodes), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert {row["id"] for row in named} == {name for f in plain for name in (f.head, f.tail)}
    assert all(row["category"] == "biolink:NamedThing" for row in named)
    with pytest.raises(DataError, match="which KGX's TSV cannot"):
        kgx_files(FACTS, {}, {}, str)


@given(st.text("=+-@'\"ab,\t\r\n", max_size=6))
def test_no_cell_is_a_formula_and_all_come_back(cell: str) -> None:
    assert not escape(cell).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert unescape(escape(cell)) == cell


def test_a_spreadsheet_comes_back(tmp_path: Path) -> None:
    rows = [
        {"head": head, "relation": "'r", "tail": "\t=t", "answer": "false", "note": head}
        for head in [*HOSTILE, "-1", "+1", "@x", "''"]
    ]
    path = tmp_path / "answers.csv"
    path.write_bytes(spreadsheet(rows, ["head", "relation", "tail", "answer", "note"]))
    back = [row for _, row in answer_fields(path)]
    assert [{name: row[name] for name in rows[0]} for row in back] == rows
    cells = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in cells for cell in row)
    # A file that says nothing of escaping is taken as it is.
    path.write_text("head,relation,tail,answer\n'=a,r,b,true\n", encoding="utf-8")
    assert next(answer_fields(path))[1]["head"] == "'=a"
