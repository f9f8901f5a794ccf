"""Folders of splits, in and out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from graph_files import rows_of, table_of, write
from npugraph.data.io import find_part, read_graph, read_splits, write_splits, write_table
from npugraph.errors import DataError
from npugraph.graph import KnowledgeGraph, Splits

pytestmark = pytest.mark.usefixtures("reader")


def write_parts(folder: Path, **texts: str) -> Path:
    parts = {"train": "a\tr\tb\nb\tr\tc\n", "valid": "a\tr\tc\n", "test": "c\ts\ta\n", **texts}
    for name, text in parts.items():
        write(folder / (name if "." in name else f"{name}.tsv"), text)
    return folder


def test_a_folder_is_read_over_common_vocabularies(tmp_path: Path) -> None:
    splits = read_splits(write_parts(tmp_path))
    assert splits.name == tmp_path.name
    assert splits.train.entities is splits.test.entities
    assert splits.train.relations.labels.to_pylist() == ["r", "s"]
    assert splits.train.facts.tolist() == [[0, 0, 1], [1, 0, 2]]
    assert splits.test.facts.tolist() == [[2, 1, 0]]
    assert splits.truth is None
    assert read_splits(tmp_path, name="mine").name == "mine"


def test_the_parts_may_have_different_formats(tmp_path: Path) -> None:
    write(tmp_path / "train.csv.gz", "a,r,b\n")
    write_table(table_of([("b", "r", "c")]), tmp_path / "valid.parquet")
    write(tmp_path / "test.nt", "<a:x> <r:y> <b:z> .\n")
    splits = read_splits(tmp_path)
    assert [rows_of(part) for part in splits.parts().values()] == [
        [("a", "r", "b")],
        [("b", "r", "c")],
        [("a:x", "r:y", "b:z")],
    ]


@pytest.mark.parametrize("missing", ["train", "valid", "test"])
def test_a_missing_part_is_named(tmp_path: Path, missing: str) -> None:
    write_parts(tmp_path)
    (tmp_path / f"{missing}.tsv").unlink()
    with pytest.raises(DataError) as caught:
        read_splits(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: no file {missing}.tsv")
    with pytest.raises(DataError, match=f"no file {missing}"):
        find_part(tmp_path, missing)


def test_a_bad_part_is_named(tmp_path: Path) -> None:
    write_parts(tmp_path, valid="a\tr\tc\na\tr\n")
    with pytest.raises(DataError) as caught:
        read_splits(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'valid.tsv'}, line 2: ")


@pytest.mark.parametrize(
    "text",
    [
        "a\nzoe\n",
        "zoe",
        "zoe\r\na\r\n",
        "a\n\nzoe\n\n",
        "\ufeffzoe\n",
    ],
)
def test_names_that_no_fact_mentions_are_read(tmp_path: Path, text: str) -> None:
    folder = write_parts(tmp_path)
    (tmp_path / "entities.txt").write_bytes(text.encode())
    splits = read_splits(folder)
    assert splits.train.entities.labels.to_pylist() == ["a", "b", "c", "zoe"]
    assert splits.train.facts.tolist() == [[0, 0, 1], [1, 0, 2]]


def test_a_bad_file_of_names_is_named(tmp_path: Path) -> None:
    write_parts(tmp_path)
    (tmp_path / "relations.txt").write_bytes(b"r\ns\xff\n")
    with pytest.raises(DataError) as caught:
        read_splits(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'relations.txt'}")


def assert_same_splits(one: Splits, other: Splits) -> None:
    assert one.train.entities == other.train.entities
    assert one.train.relations == other.train.relations
    for name, part in one.parts().items():
        assert other.parts()[name].to_table().column_names == part.to_table().column_names
        assert rows_of(other.parts()[name]) == rows_of(part)
        assert torch.equal(other.parts()[name].facts, part.facts)


def cut(graph: KnowledgeGraph) -> Splits:
    return Splits("toy", *(graph.select(torch.tensor(rows)) for rows in ([0, 1, 2], [3], [4, 5])))


def test_splits_survive_a_round_trip_with_confidence(
    tmp_path: Path, toy_graph: KnowledgeGraph
) -> None:
    splits = cut(replace(toy_graph, label=None))
    write_splits(splits, tmp_path / "new" / "folder")
    assert_same_splits(splits, read_splits(tmp_path / "new" / "folder"))


@pytest.mark.parametrize(
    "drop",
    [
        pytest.param((), id="confidence and label"),
        pytest.param(("confidence",), id="label"),
    ],
)
def test_splits_survive_a_round_trip_with_labels(
    tmp_path: Path, toy_graph: KnowledgeGraph, drop: tuple[str, ...]
) -> None:
    splits = cut(replace(toy_graph, **dict.fromkeys(drop)))
    write_splits(splits, tmp_path)
    assert_same_splits(splits, read_splits(tmp_path))


def test_names_with_rare_line_separators_survive(tmp_path: Path) -> None:
    rows = [("a\u2028b", "r\x0bs", "c\x1cd"), ("a\x85", "r\x0bs", "c\x0cd"), ("x", "r\x0bs", "x")]
    graph = read_graph(write(tmp_path / "g.tsv", "".join("\t".join(row) + "\n" for row in rows)))
    parts = [graph.select(torch.tensor([i])) for i in range(3)]
    write_splits(Splits("odd", *parts), tmp_path / "out")
    assert_same_splits(Splits("odd", *parts), read_splits(tmp_path / "out"))


def test_a_public_graph_survives_a_round_trip(tmp_path: Path, data_root: Path) -> None:
    splits = read_splits(data_root / "umls")
    assert splits.summary() == {
        "name": "umls",
        "entities": 135,
        "relations": 46,
        "train": 5216,
        "valid": 652,
        "test": 661,
        "duplicates": 0,
        "self_loops": 0,
        "skipped": 0,
        "left_out": 0,
    }
    write_splits(splits, tmp_path)
    assert_same_splits(splits, read_splits(tmp_path))
    one_file = tmp_path / "whole.tsv"
    write_table(pa.concat_tables([part.to_table() for part in splits.parts().values()]), one_file)
    again = read_graph(one_file).split()
    assert sum(len(part) for part in again.parts().values()) == 5216 + 652 + 661
