"""Graphs that are in memory: every form gives the same graph, every mistake is a sentence."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from npugraph.data.io import ReadOptions
from npugraph.data.sources import load_graph
from npugraph.errors import DataError

FACTS = [("b", "r", "a"), ("a", "r", "c"), ("c", "s", "b"), ("a", "r", "c")]
NAMES = ["head", "relation", "tail"]
COLUMNS = {name: [fact[i] for fact in FACTS] for i, name in enumerate(NAMES)}
IDS = [[1, 0, 0], [0, 0, 2], [2, 1, 1], [0, 0, 2]]


class Streamed:
    """A frame of a library that is not here: it only offers Arrow's stream."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class ToArrow:
    """A frame that turns into an Arrow table when asked."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def to_arrow(self) -> pa.Table:
        return self.table


class Interchanged:
    """A frame of the interchange protocol."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object:
        return self.table.__dataframe__(nan_as_null, allow_copy)


FORMS: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(FACTS, columns=NAMES),
    "other names": lambda: pd.DataFrame(FACTS, columns=["Subject", "predicate", "object"]),
    "more columns": lambda: pd.DataFrame({"note": range(4), **COLUMNS}, index=[5, 6, 7, 8]),
    "categories": lambda: pd.DataFrame(FACTS, columns=NAMES).astype("category"),
    "arrow": lambda: pa.table(COLUMNS),
    "a batch": lambda: pa.RecordBatch.from_pydict(COLUMNS),
    "a stream": lambda: Streamed(pa.table(COLUMNS)),
    "to_arrow": lambda: ToArrow(pa.table(COLUMNS)),
    "interchange": lambda: Interchanged(pa.table(COLUMNS)),
    "columns": lambda: COLUMNS,
    "columns of arrays": lambda: {name: np.array(values) for name, values in COLUMNS.items()},
    "tuples": lambda: FACTS,
    "lists": lambda: [list(fact) for fact in FACTS],
    "dicts": lambda: [dict(zip(NAMES, fact, strict=True)) for fact in FACTS],
    "an array": lambda: np.array(FACTS),
    "an array of objects": lambda: np.array(FACTS, dtype=object),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_graph(form: str) -> None:
    graph = load_graph(FORMS[form]())
    assert graph.facts.tolist() == IDS
    assert graph.entities.labels.to_pylist() == ["a", "b", "c"]
    assert graph.rows.tolist() == [1, 2, 3, 4]
    assert (graph.name, graph.part, graph.path) == ("graph", None, None)


def test_polars_is_taken() -> None:
    polars = pytest.importorskip("polars")
    assert load_graph(polars.DataFrame(COLUMNS)).facts.tolist() == IDS


@pytest.mark.parametrize(
    "make", [torch.tensor, np.array, list, lambda ids: np.array(ids, dtype=np.int32)]
)
def test_ids_stay_as_they_are(make: Callable[[list[list[int]]], Any]) -> None:
    ids = [[12, 0, 3], [3, 2, 10]]
    graph = load_graph(make(ids))
    assert graph.facts.tolist() == ids
    assert (graph.num_entities, graph.num_relations) == (13, 3)
    assert graph.entities.label(12) == "12"


def test_optional_columns_are_kept() -> None:
    frame = pd.DataFrame(FACTS, columns=NAMES).assign(weight=[0.5, 1, 0, 0.25], label=[1, 0, 1, 1])
    for graph in (load_graph(frame), load_graph([(*row,) for row in frame.to_numpy().tolist()])):
        assert graph.confidence is not None
        assert graph.label is not None
        assert graph.confidence.tolist() == [0.5, 1, 0, 0.25]
        assert graph.label.tolist() == [1, 0, 1, 1]


def test_columns_are_named_by_the_user() -> None:
    frame = pd.DataFrame([fact[::-1] for fact in FACTS], columns=["wohin", "wie", "woher"])
    graph = load_graph(frame, ReadOptions(columns=("woher", "wie", "wohin")))
    assert graph.facts.tolist() == IDS


def test_a_dict_of_parts_keeps_its_parts(tmp_path: Path) -> None:
    file = tmp_path / "facts.tsv"
    file.write_text("a\ts\td\n")
    given = {"train": pd.DataFrame(FACTS, columns=NAMES), "valid": [], "test": file}
    graph = load_graph(given)
    assert graph.part is not None
    assert graph.part.tolist() == [0, 0, 0, 0, 2]
    splits = graph.split(seed=9)
    assert [len(part) for part in splits.parts().values()] == [4, 0, 1]
    assert graph.entities.labels.to_pylist() == ["a", "b", "c", "d"]
    ids = load_graph({"train": torch.tensor(IDS), "test": np.array([[4, 0, 0]])})
    assert ids.num_entities == 5


FRAME = pd.DataFrame(FACTS, columns=NAMES)
MISTAKES: dict[str, tuple[Any, str]] = {
    "nothing": (None, "cannot be made of None"),
    "a number": (3, r"cannot be made of 3 \(int\); give a name"),
    "an object": (object(), "cannot be made of"),
    "bytes": (b"facts.tsv", "cannot be made of"),
    "an empty text": ("", "neither a file"),
    "no path": ("nothing.tsv", "neither a file"),
    "no facts": ([], "The list holds no facts"),
    "no rows": (FRAME[:0], "The DataFrame holds no facts"),
    "no columns": ({}, "needs head, relation and tail"),
    "a wrong column": (FRAME.rename(columns={"tail": "x"}), "has the columns head, relation, x"),
    "a wrong part": ({"train": FACTS, "tests": FACTS}, "not 'tests'. Did you mean 'test'"),
    "empty parts": ({"train": [], "valid": []}, "All parts of the graph are empty"),
    "a flat array": (np.zeros(3), r"shape \(3,\)"),
    "floats": (np.zeros((2, 3)), "holds float64"),
    "a pair": ([*FACTS, ("a", "b")], "row 5"),
    "a number among names": ([("a", 1, "c")], "row 1: the relation 1 is not a text"),
    "no text": ([("a", "r", None)], "the tail None is not a text"),
    "a huge id": ([(0, 0, 10**9)], "go up to 1,000,000,000"),
    "a negative id": (torch.tensor([[-1, 0, 0]]), "holds the id -1"),
    "names and ids": ({"train": FACTS, "test": [(0, 0, 1)]}, "Some parts hold names"),
    "a confidence of two": (FRAME.assign(confidence=2), r"row 1 has a confidence.*: 2"),
    "a label of a half": (FRAME.assign(label=0.5), "row 1 has a label"),
    "an empty name": (FRAME.assign(head=["a", "", "b", "c"]), "row 2 has an empty head"),
    "no name": (FRAME.assign(head=["a", "b", None, "c"]), "row 3 has an empty head"),
    "columns of two lengths": ({**COLUMNS, "tail": ["a"]}, "expected length"),
    "no column at all": ({**COLUMNS, "tail": 3}, "The dict cannot be read"),
    "a series": (pd.Series([1]), "The Series cannot be read"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_a_sentence(mistake: str) -> None:
    given, sentence = MISTAKES[mistake]
    with pytest.raises(DataError, match=sentence) as caught:
        load_graph(given)
    assert "\n" not in str(caught.value)


def test_no_other_library_is_imported_for_frames() -> None:
    module = importlib.import_module("npugraph.data.frames")
    assert not {"pandas", "polars"} & set(vars(module))
