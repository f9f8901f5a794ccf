"""A folder of files, or a pattern, is one graph."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from graph_files import rows_of, write
from npugraph.auditing.issues import find_issues
from npugraph.data.io import ReadOptions, digest
from npugraph.data.sources import load_graph, load_splits
from npugraph.errors import DataError
from npugraph.patching import Decision, Fact, Source, make_patch
from npugraph.patching.apply import apply_patch

pytestmark = pytest.mark.usefixtures("reader")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "facts"
    folder.mkdir()
    write(folder / "part-0.tsv.gz", "a\tr\tb\nb\tr\tc\n")
    write(folder / "part-1.csv.zst", "head,relation,tail,confidence\nc,r,a,0.5\n")
    pa.parquet.write_table(
        pa.table({"head": ["a"], "relation": ["s"], "tail": ["b"]}), folder / "part-2.parquet"
    )
    write(folder / "part-3.nt", "<a:x> <a:r> <a:y> .\n")
    (folder / "_SUCCESS").touch()
    return folder


def test_all_formats_are_read_in_the_order_of_their_names(folder: Path) -> None:
    graph = load_graph(folder)
    assert [row[:3] for row in rows_of(graph)] == [
        ("a", "r", "b"),
        ("b", "r", "c"),
        ("c", "r", "a"),
        ("a", "s", "b"),
        ("a:x", "a:r", "a:y"),
    ]
    assert graph.entities.labels.to_pylist() == ["a", "a:x", "a:y", "b", "c"]
    assert graph.rows.tolist() == [1, 2, 1, 1, 1]
    assert graph.confidence is not None
    assert graph.confidence.isnan().tolist() == [True, True, False, True, True]
    assert (graph.name, graph.part) == ("facts", None)
    assert [file.path.name for file in graph.inputs] == [p.name for p in sorted(folder.glob("p*"))]
    assert all(file.sha256 == digest(file.path) for file in graph.inputs)


def test_a_pattern_chooses_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(load_graph(str(folder / "part-[01].*"))) == 3
    monkeypatch.chdir(folder.parent)
    assert len(load_graph("facts/*.tsv.gz")) == 2
    assert len(load_graph("**/*.parquet")) == 1
    assert len(load_splits("facts/*").train) <= 5


def test_a_file_that_is_called_like_a_pattern_is_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "facts[1].tsv", "a\tr\tb\n")
    assert load_graph(str(path)).path == path


def test_files_of_one_name_in_several_folders_have_no_patch(tmp_path: Path) -> None:
    for name in "xy":
        (tmp_path / name).mkdir()
        write(tmp_path / name / "facts.tsv", f"{name}\tr\tb\n")
    graph = load_graph(str(tmp_path / "*" / "facts.tsv"))
    assert (len(graph), graph.inputs) == (2, ())


def test_a_bad_line_is_named_with_its_file(folder: Path) -> None:
    bad = write(folder / "part-4.tsv", "a\tr\tb\na\tr\n")
    with pytest.raises(DataError) as caught:
        load_graph(folder)
    assert str(caught.value) == f"{bad}, line 2: 2 columns where the first line has 3."


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\*\.tsv: no file is called so\.$"):
        load_graph(str(tmp_path / "*.tsv"))
    (tmp_path / "README.md").touch()
    with pytest.raises(DataError, match=r": no file of facts \(\.tsv, .*\)\.$"):
        load_graph(tmp_path)


def test_other_files_are_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "notes.md").touch()
    with caplog.at_level(logging.WARNING):
        load_graph(folder)
    assert caplog.messages == [f"{folder}: no facts are read from notes.md."]


def test_blank_nodes_of_several_files_get_a_note(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "xy":
        write(tmp_path / f"{name}.nt", f"_:b <a:r> <a:{name}> .\n")
    assert load_graph(tmp_path).num_entities == 3
    assert load_graph(tmp_path, spill=tmp_path / "place").num_entities == 3
    assert len(caplog.messages) == 2
    assert caplog.messages[0] == caplog.messages[1]
    assert caplog.messages[0].startswith("Blank nodes that are called the same in several files")


def test_repeats_are_told_with_their_files(folder: Path) -> None:
    write(folder / "part-5.tsv", "x\tr\ty\nb\tr\tc\n")
    issues = find_issues(load_graph(folder)).table.to_pylist()
    found = [row["sentence"] for row in issues if row["kind"] == "repeat"]
    assert found == ["Record 2 of part-5.tsv repeats record 2 of part-0.tsv.gz."]


def test_each_file_is_cleaned_by_itself(folder: Path) -> None:
    graph = load_graph(str(folder / "part-[013].*"))
    wrong = [Decision("remove", Fact("c", "r", "a")), Decision("remove", Fact("a:x", "a:r", "a:y"))]
    sources = [Source(file.path, ReadOptions(**file.options), file.sha256) for file in graph.inputs]
    made = make_patch(sources, wrong, graph.name)
    assert [file.name for file in made.patch.files] == [file.path.name for file in graph.inputs]
    assert [len(table) for table in made.tables] == [2, 0, 0]
    assert made.contents[2] == b""
    done = apply_patch(made.patch, folder)
    assert [one.content for one in done] == list(made.contents)
