"""Files out, and back in again without loss."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from graph_files import Row, rows_of, table_of, write
from npugraph.data.io import read_graph, write_table
from npugraph.errors import DataError

PLAIN = [("a", "r", "b"), ("b", "s", "c"), ("a", "r", "b")]
TEXT_SUFFIXES = [".tsv", ".tsv.gz", ".tsv.zst", ".txt", ".csv", ".csv.gz", ".csv.zst"]


@pytest.mark.parametrize("suffix", [*TEXT_SUFFIXES, ".parquet"])
@pytest.mark.parametrize("header", [False, True])
def test_facts_survive_a_round_trip(tmp_path: Path, suffix: str, header: bool) -> None:
    path = tmp_path / f"graph{suffix}"
    write_table(table_of(PLAIN), path, header=header)
    graph = read_graph(path)
    assert rows_of(graph) == PLAIN
    assert graph.rows.tolist() == [1, 2, 3]
    assert graph.source == str(path)
    assert graph.entities.labels.to_pylist() == ["a", "b", "c"]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".tsv.gz", ".parquet"])
def test_confidence_survives_a_round_trip_exactly(tmp_path: Path, suffix: str) -> None:
    rows = [
        ("a", "r", "b", 1 / 3),
        ("a", "r", "c", 0.0),
        ("b", "r", "c", 1.0),
        ("c", "r", "a", 0.1),
    ]
    write_table(table_of(rows), tmp_path / f"graph{suffix}")
    graph = read_graph(tmp_path / f"graph{suffix}")
    assert rows_of(graph) == rows
    assert graph.confidence is not None
    assert graph.confidence.dtype == torch.float64
    assert graph.label is None


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".parquet"])
def test_all_columns_survive_a_round_trip_with_a_header(tmp_path: Path, suffix: str) -> None:
    rows = [("a", "r", "b", 0.5, 1), ("b", "r", "c", 0.25, 0)]
    write_table(table_of(rows), tmp_path / f"graph{suffix}", header=True)
    graph = read_graph(tmp_path / f"graph{suffix}")
    assert rows_of(graph) == rows
    assert graph.label is not None
    assert graph.label.dtype == torch.int8


# A byte order mark at the very start cannot be told from the file's own.
ANY_LABEL = st.text(st.characters(codec="utf-8", exclude_characters="\ufeff"), min_size=1)
TSV_LABEL = st.text(st.characters(codec="utf-8", exclude_characters="\ufeff\t\r\n"), min_size=1)


def assert_round_trip(folder: Path, name: str, rows: list[Row]) -> None:
    write_table(table_of(rows), folder / name)
    assert rows_of(read_graph(folder / name)) == rows


@given(st.lists(st.tuples(TSV_LABEL, TSV_LABEL, TSV_LABEL), min_size=1, max_size=5))
@example([('"a"', 'r"', '"')])
@example([(" ", "\x0b", " "), ("a", "r", "b")])
@example([("a\u2028b", "\x1c", "\x85"), ("\x00", "'", ",")])
def test_any_label_survives_tsv(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    assert_round_trip(tmp_path_factory.mktemp("any"), "graph.tsv", rows)


@given(st.lists(st.tuples(ANY_LABEL, ANY_LABEL, ANY_LABEL), min_size=1, max_size=5))
@example([("a,b", "r", "c")])
@example([("a\nb", "r\r\n", "c\r")])
@example([('"', '""', '",'), (" a ", "\t", "\n")])
def test_any_label_survives_csv(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    assert_round_trip(tmp_path_factory.mktemp("any"), "graph.csv", rows)


@given(st.lists(st.tuples(ANY_LABEL, ANY_LABEL, ANY_LABEL), min_size=1, max_size=5))
def test_any_label_survives_parquet(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row]
) -> None:
    assert_round_trip(tmp_path_factory.mktemp("any"), "graph.parquet", rows)


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_a_first_fact_that_reads_like_a_header_survives(tmp_path: Path, suffix: str) -> None:
    # Text has no header by default, so the reader would take this fact for one.
    assert_round_trip(tmp_path, f"graph{suffix}", [("h", "r", "t"), ("a", "r", "b")])


@pytest.mark.parametrize("label", ["a\tb", "a\nb", "a\rb"])
def test_tsv_refuses_what_it_cannot_hold_and_leaves_the_old_file(
    tmp_path: Path, label: str
) -> None:
    path = write(tmp_path / "g.tsv", "old\tr\tb\n")
    with pytest.raises(DataError) as caught:
        write_table(table_of([("a", "r", label)]), path)
    assert repr(label) in str(caught.value)
    assert rows_of(read_graph(path)) == [("old", "r", "b")]
    assert [p.name for p in tmp_path.iterdir()] == ["g.tsv"]


@pytest.mark.parametrize("name", ["g.nt", "g.xml", "g"])
def test_only_known_formats_are_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"cannot write .*; use \.tsv, \.csv or \.parquet"):
        write_table(table_of(PLAIN), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_text_has_no_header_unless_asked(tmp_path: Path) -> None:
    write_table(table_of(PLAIN), tmp_path / "g.tsv")
    assert (tmp_path / "g.tsv").read_bytes() == b"a\tr\tb\nb\ts\tc\na\tr\tb\n"
    write_table(table_of(PLAIN), tmp_path / "g.csv", header=True)
    lines = (tmp_path / "g.csv").read_text().replace('"', "").splitlines()
    assert lines == ["head,relation,tail", "a,r,b", "b,s,c", "a,r,b"]
