"""Whatever a user has becomes a graph."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from npugraph.data.io import ReadOptions
from npugraph.data.sources import load_graph, load_splits
from npugraph.errors import DataError

OPTIONS = ReadOptions(header=True, columns=("what", "how", "where"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [f"e{i},r,e{j}" for i in range(12) for j in range(12) if i != j]
    path = tmp_path / "facts.csv.old.csv"
    path.write_text("\n".join(["what,how,where", *rows]) + "\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "parts"
    path.mkdir()
    for part, text in {
        "train": "a\tr\tb\nb\tr\tc\n",
        "valid": "a\tr\tc\n",
        "test": "c\tr\ta\n",
    }.items():
        (path / f"{part}.tsv").write_text(text)
    (path / "truth.tsv").write_text("not opened by anybody")
    return path


def test_names_are_found() -> None:
    assert load_graph().name == load_graph("world").name == "world"
    with pytest.raises(DataError, match=r"neither a file.*Did you mean 'umls'\?"):
        load_graph("ulms")


def test_a_path_is_never_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="'world' is neither a file"):
        load_graph(Path("world"))


def test_a_file_has_no_parts_and_is_cut_by_the_seed(file: Path) -> None:
    graph = load_graph(str(file), OPTIONS)
    assert (graph.name, graph.part, graph.path, len(graph)) == ("facts", None, file, 132)
    splits, again, other = (load_splits(file, seed, OPTIONS) for seed in (1, 1, 2))
    assert (splits.name, splits.source) == ("facts", file)
    assert splits.test.facts.equal(again.test.facts)
    assert not splits.test.facts.equal(other.test.facts)
    assert splits.test.facts.equal(load_graph(splits).split(7).test.facts)


def test_a_folder_keeps_its_parts(folder: Path) -> None:
    graph = load_graph(folder)
    assert graph.part is not None
    assert graph.part.tolist() == [0, 0, 1, 2]
    assert graph.truth == folder / "truth.tsv"
    splits = load_splits(str(folder), seed=5)
    assert [len(part) for part in splits.parts().values()] == [2, 1, 1]
    assert splits.source == folder
    assert splits.truth == graph.truth


def test_a_graph_is_taken_as_it_is(folder: Path) -> None:
    graph = load_graph(folder)
    assert load_graph(graph) is graph
    splits = graph.split()
    assert load_splits(splits) is splits
    assert torch.equal(load_graph(splits).facts, graph.facts)
