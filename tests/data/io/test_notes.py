"""What reading a file says about headers and names, and that it changes nothing."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

from graph_files import rows_of, write
from npugraph.data.io import ReadOptions, read_graph, read_splits
from npugraph.data.io.names import similar_names, similarity_note


@pytest.fixture(autouse=True)
def listen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="npugraph")


def test_a_header_with_everyday_words_is_no_fact(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "g.csv", "from,type,to\nParis,capital_of,France\n")
    assert rows_of(read_graph(path)) == [("Paris", "capital_of", "France")]
    assert caplog.messages == []
    told = read_graph(path, ReadOptions(header=False))
    assert rows_of(told)[0] == ("from", "type", "to")


@pytest.mark.parametrize(
    "line",
    ["Rome,type,city", "object,part_of,whole", "source,leads_to,end,0.5", "h,r,t,1", "a,b,c"],
)
def test_facts_with_such_words_stay_facts(tmp_path: Path, line: str) -> None:
    numbered = line.count(",") == 3
    path = write(tmp_path / "g.csv", f"{line}\nx,r,y{',1' if numbered else ''}\n")
    assert len(read_graph(path)) == 2


def test_a_line_that_might_be_a_header_is_a_fact_and_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "g.csv", "from,kind,to\nParis,capital_of,France\n")
    assert len(read_graph(path)) == 2
    assert caplog.messages == [
        f"{path}, line 1 (from, kind, to) is read as a fact; if it names the columns, say --header."
    ]
    caplog.clear()
    assert len(read_graph(path, ReadOptions(header=True))) == 1
    assert len(read_graph(path, ReadOptions(header=False))) == 2
    assert caplog.messages == []


def test_a_header_whose_word_is_a_relation_too_is_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "g.tsv", "h\tr\tt\na\tr\tb\nc\tr\td\n")
    assert len(read_graph(path)) == 2
    assert caplog.messages == [
        f"{path}, line 1 (h, r, t) is read as the names of the columns, but 'r' is the relation of "
        "2 facts, too; if the line is a fact, say --no-header."
    ]
    caplog.clear()
    assert len(read_graph(path, ReadOptions(header=False))) == 3
    assert caplog.messages == []


def test_names_in_columns_are_looked_for_in_the_first_line(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", "who,what,whom\nParis,capital_of,France\n")
    graph = read_graph(path, ReadOptions(columns=("whom", "what", "who")))
    assert rows_of(graph) == [("France", "capital_of", "Paris")]


ALIKE = {
    "space before": "\u0020The Gambia",
    "space after": "The Gambia\u0020",
    "two spaces": "The  Gambia",
    "no-break space": "The\u00a0Gambia",
    "zero width": "The\u200b Gambia",
    "byte order mark": "\ufeffThe Gambia",
    "soft hyphen": "The Gam\u00adbia",
}


@pytest.mark.parametrize("kind", ALIKE)
def test_names_that_look_the_same_are_noted_and_kept(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"Banjul,capital_of,The Gambia\nSenegal,borders,{ALIKE[kind]}\n"
    graph = read_graph(write(tmp_path / "g.csv", text))
    assert graph.num_entities == 4
    assert rows_of(graph)[1][2] == ALIKE[kind]
    (said,) = caplog.messages
    assert said.startswith("2 entity names differ from one another only in white space, Unicode")
    assert "'The Gambia'" in said
    assert said.endswith("They are kept apart; mend the input if they mean the same.")


def test_unicode_forms_are_noted_for_relations_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "a\tcaf\u00e9\tb\nb\tcafe\u0301\tc\n"
    assert read_graph(write(tmp_path / "g.tsv", text)).num_relations == 2
    assert caplog.messages[0].startswith("2 relation names differ")


def test_names_are_compared_across_parts_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for part, name in (("train", "x"), ("valid", " x"), ("test", "x ")):
        write(tmp_path / f"{part}.tsv", f"a\tr\t{name}\n")
    read_splits(tmp_path)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("3 entity names")


def test_names_that_differ_otherwise_are_not_noted() -> None:
    names = pa.array(["a b", "ab", "A b", "国", "國", "e\u0301", " only once "])
    assert similar_names(names) == []
    assert similarity_note(names, "entity") is None


def test_a_note_shows_three_groups_and_cuts_long_names() -> None:
    names = [f"{'n' * 200}{i}" for i in range(5)]
    note = similarity_note(pa.array([*names, *(f" {name}" for name in names)]), "entity")
    assert note is not None
    assert note.startswith("10 entity names")
    assert "(5 groups in all)" in note
    assert len(note) < 600
