"""DuckDB numbers the names of what does not fit memory: the graph is the same."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import times
from graph_files import rows_of, write
from npugraph.data.io import ReadOptions, parquet, spill, text
from npugraph.data.sources import load_graph
from npugraph.errors import DataError
from npugraph.graph import KnowledgeGraph

pytest.importorskip("duckdb")
NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="\t\r\n"), min_size=1, max_size=5
).filter(lambda name: name.strip("\ufeff\x00") == name)
FACTS = st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=12)


def assert_same(found: KnowledgeGraph, wanted: KnowledgeGraph) -> None:
    assert found.facts.equal(wanted.facts)
    assert found.facts.dtype == wanted.facts.dtype
    assert found.entities == wanted.entities
    assert found.relations == wanted.relations
    assert found.rows.equal(wanted.rows)
    for name in ("confidence", "label"):
        ours, theirs = getattr(found, name), getattr(wanted, name)
        assert (ours is None) == (theirs is None)
        assert ours is None or (
            ours.dtype == theirs.dtype
            and np.array_equal(ours, theirs, equal_nan=ours.is_floating_point())
        )
    assert found.columns == wanted.columns
    assert (found.name, found.source, found.inputs) == (wanted.name, wanted.source, wanted.inputs)
    assert found.skipped == wanted.skipped
    assert found.summary() == wanted.summary()


@settings(max_examples=times(10, 300), deadline=None)
@given(facts=FACTS)
def test_ids_are_those_of_the_ordinary_reader(
    tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("spill")
    path = folder / "facts.parquet"
    columns = [list(column) for column in zip(*facts, strict=True)]
    pa.parquet.write_table(pa.table(columns, names=["head", "relation", "tail"]), path)
    assert_same(load_graph(path, spill=folder), load_graph(path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "facts"
    folder.mkdir()
    write(folder / "1.tsv.gz", "b\tr\ta\nB\tr\té\nb\tr\ta\n")
    write(folder / "2.csv", 'head,relation,tail,confidence,label,by\nc,r,"a\nb",0.5,1,me\n')
    write(folder / "3.csv", "head,relation,tail,label,by\nc,s,東,,you\na,s,😀,0,me\n")
    write(folder / "4.nt", '<a:x> <a:r> "v" .\n<a:x> <a:r> <a:y> .\n')
    table = pa.table({"head": ["a"], "relation": ["s"], "tail": ["b"], "confidence": [0.25]})
    pa.parquet.write_table(table, folder / "5.parquet")
    return folder


def test_several_files_of_all_formats(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    assert_same(load_graph(folder, spill=place), load_graph(folder))
    assert list(place.iterdir()) == []


def test_further_columns_are_kept(folder: Path, tmp_path: Path) -> None:
    pattern, options = str(folder / "[23].csv"), ReadOptions(beside=("by",))
    found = load_graph(pattern, options, spill=tmp_path)
    assert_same(found, load_graph(pattern, options))
    assert found.columns["by"].to_pylist() == ["me", "you", "me"]


def test_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 1 << 12)
    monkeypatch.setattr(parquet, "ROWS", 100)
    monkeypatch.setattr(spill, "ROWS", 1 << 11)
    names = [f"entity {i * 7919 % 3001}" for i in range(4000)]
    table = pa.table({"head": names, "relation": ["r", "s"] * 2000, "tail": names[::-1]})
    pa.parquet.write_table(table, tmp_path / "1.parquet")
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    write(tmp_path / "2.tsv", "".join("\t".join(row) + "\n" for row in rows))
    found = load_graph(tmp_path, spill=tmp_path / "place")
    assert_same(
        found, load_graph(str(tmp_path / "[12].*")) if found.name == "" else load_graph(tmp_path)
    )
    assert found.duplicates() == load_graph(tmp_path).duplicates() > 0
    assert rows_of(found)[:2] == [("entity 0", "r", names[-1]), (names[1], "s", names[-2])]
    assert found.entities.id(names[5]) == int(found.facts[5, 0])


def test_bad_lines_are_named_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 1 << 10)
    monkeypatch.setattr(parquet, "ROWS", 10)
    path = write(tmp_path / "g.tsv", "a\tr\tb\n" * 900 + "a\t\tb\n" + "a\tr\tb\n" * 90)
    with pytest.raises(DataError, match=r"g\.tsv, line 901: the relation is empty\.$"):
        load_graph(path, spill=tmp_path / "place")
    path = write(tmp_path / "h.tsv", "a\tr\tb\n" * 900 + "a\tb\n")
    with pytest.raises(DataError, match=r"h\.tsv, line 901: 2 columns where .*\.$"):
        load_graph(path, spill=tmp_path / "place")
    column = [*"abcdefghijklmnopqrstuvwxyz"]
    table = pa.table({"head": [*column[:-1], ""], "relation": column, "tail": column})
    pa.parquet.write_table(table, tmp_path / "g.parquet")
    with pytest.raises(DataError, match=r"g\.parquet: row 26 has an empty head\.$"):
        load_graph(tmp_path / "g.parquet", spill=tmp_path / "place")
    assert list((tmp_path / "place").iterdir()) == []


def test_the_rule(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted, files = load_graph(folder), sorted(folder.iterdir())
    needed = spill.expected_bytes(files)
    sizes = [path.stat().st_size for path in files]
    assert needed == 18 * sizes[0] + 3 * (sizes[1] + sizes[2]) + 6 * sizes[3] + 250
    monkeypatch.setattr(spill, "free_memory", lambda: 2 * needed)
    assert not spill.needs_spill(files, "facts")
    monkeypatch.setattr(spill, "free_memory", lambda: 2 * needed - 1)
    assert_same(load_graph(folder), wanted)
    assert [message for message in caplog.messages if "DuckDB numbers the names" in message]


def test_without_duckdb(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(DataError, match=r"--spill needs DuckDB; install it with: pip install .*"):
        load_graph(folder, spill=folder)
    needed = spill.expected_bytes(sorted(folder.iterdir()))
    monkeypatch.setattr(spill, "free_memory", lambda: needed)
    assert len(load_graph(folder)) == 8
    monkeypatch.setattr(spill, "free_memory", lambda: needed - 1)
    with pytest.raises(DataError, match=r"reading needs about .*; install DuckDB, .*"):
        load_graph(folder)
