"""Large Parquet files are read by several threads, group by group, as Arrow reads them whole."""

from __future__ import annotations

import random
from concurrent.futures import Future
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from graph_files import refusal
from npugraph.data.io import ReadOptions, numbering, parquet, read, read_graph
from npugraph.data.io.encode import Numbered
from npugraph.errors import DataError
from npugraph.graph import KnowledgeGraph

pytestmark = pytest.mark.usefixtures("by_loops")

ROWS, GROUP, BATCH = 1000, 150, 40


@pytest.fixture(params=[2, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(pa, "cpu_count", lambda: request.param)
    monkeypatch.setattr(parquet, "ROWS", BATCH)
    return int(request.param)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each file was read by groups."""
    results: list[bool] = []

    def recorded(*given: Any) -> Numbered | None:
        found = parquet.number_parquet(*given)
        results.append(found is not None)
        return found

    monkeypatch.setattr(read, "number_parquet", recorded)
    return results


def columns(rows: int = ROWS) -> dict[str, pa.Array]:
    rng = random.Random(0)
    return {
        "note": pa.array([f"n{i}" for i in range(rows)]),
        "head": pa.array([f"e{rng.randrange(300)}" for _ in range(rows)]),
        "relation": pa.array([f"r{i % 7}" for i in range(rows)]),
        "tail": pa.array([f"é{rng.randrange(300)}" for _ in range(rows)]),
        "confidence": pa.array([rng.random() for _ in range(rows)]),
        "label": pa.array([rng.choice([0, 1, None]) for _ in range(rows)], pa.int8()),
    }


def saved(folder: Path, table: dict[str, Any], group: int = GROUP) -> Path:
    path = folder / "g.parquet"
    pyarrow.parquet.write_table(pa.table(table), path, row_group_size=group)
    return path


def as_arrow_reads(path: Path, options: ReadOptions | None = None) -> KnowledgeGraph:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbering, "LEAST", 2**62)
        return read_graph(path, options)


def assert_same(found: KnowledgeGraph, expected: KnowledgeGraph) -> None:
    assert found.entities.labels.equals(expected.entities.labels)
    assert found.relations.labels.equals(expected.relations.labels)
    assert found.facts.tolist() == expected.facts.tolist()
    assert found.rows.tolist() == expected.rows.tolist()
    assert found.to_table().equals(expected.to_table())
    assert {k: v.to_pylist() for k, v in found.columns.items()} == {
        k: v.to_pylist() for k, v in expected.columns.items()
    }


@pytest.mark.parametrize(
    ("left_out", "options"),
    [
        (("note", "confidence", "label"), ReadOptions()),
        (("note",), ReadOptions()),
        ((), ReadOptions(beside=("note", "tail"))),
        (("label",), ReadOptions(columns=("tail", "relation", "note", "confidence"))),
    ],
)
def test_groups_are_read_as_the_whole_is(
    tmp_path: Path,
    threads: int,
    tried: list[bool],
    left_out: tuple[str, ...],
    options: ReadOptions,
) -> None:
    table = {name: column for name, column in columns().items() if name not in left_out}
    path = saved(tmp_path, table)
    found = read_graph(path, options)
    assert tried == [True]
    assert len(found) == ROWS
    assert_same(found, as_arrow_reads(path, options))


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_names_of_other_types_are_read_as_text(
    tmp_path: Path, threads: int, tried: list[bool], kind: pa.DataType
) -> None:
    table = columns()
    table |= {"head": table["head"].cast(kind), "relation": pa.array(range(ROWS))}
    path = saved(tmp_path, table)
    found = read_graph(path)
    assert tried == [True]
    assert_same(found, as_arrow_reads(path))


@pytest.mark.parametrize(
    ("role", "value"), [("head", ""), ("tail", None), ("confidence", 1.5), ("label", 2)]
)
def test_the_first_bad_row_is_named(
    tmp_path: Path, threads: int, tried: list[bool], role: str, value: object
) -> None:
    table = {name: column.to_pylist() for name, column in columns().items()}
    # The last group is read, and found bad, before the other perhaps.
    for row in (517, ROWS - 1):
        table[role][row] = value
    path = saved(tmp_path, table)
    message = refusal(path)
    assert message.startswith(": row 518 has a")
    assert role in message
    assert tried == [False]
    with pytest.raises(DataError) as caught:
        as_arrow_reads(path)
    assert str(caught.value) == f"{path}{message}"


@pytest.mark.parametrize("group", [0, 5])
def test_damage_within_a_group_is_named(
    tmp_path: Path, threads: int, tried: list[bool], group: int
) -> None:
    path = saved(tmp_path, columns())
    tails = pyarrow.parquet.read_metadata(path).row_group(group).column(3)
    start = tails.dictionary_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + tails.total_compressed_size] = bytes(tails.total_compressed_size)
    path.write_bytes(data)
    assert "not a readable Parquet file" in refusal(path)
    assert tried == [False]


@pytest.mark.parametrize(("rows", "group"), [(100, 100), (0, 10)])
def test_a_file_of_one_group_is_read_whole(
    tmp_path: Path, threads: int, tried: list[bool], rows: int, group: int
) -> None:
    path = saved(tmp_path, columns(rows), group)
    if rows:
        assert len(read_graph(path)) == rows
    else:
        assert refusal(path) == ": the file holds no facts."
    assert tried == [False]


def test_one_core_reads_the_whole(
    tmp_path: Path, tried: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pa, "cpu_count", lambda: 1)
    assert len(read_graph(saved(tmp_path, columns()))) == ROWS
    assert tried == [False]


def test_small_files_are_read_whole(
    tmp_path: Path, threads: int, tried: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, columns())
    monkeypatch.setattr(numbering, "LEAST", 2**40)
    assert len(read_graph(path)) == ROWS
    assert tried == [False]


def test_names_that_do_not_fit_an_array_are_refused(
    tmp_path: Path, threads: int, tried: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, columns())
    monkeypatch.setattr(numbering, "MOST_BYTES", 50)
    with pytest.raises(DataError, match=r"take more than 2 GiB; read the file with --spill"):
        read_graph(path)
    assert tried == [False]


@pytest.mark.usefixtures("threads")
def test_a_name_of_two_columns_is_refused_in_a_sentence(tmp_path: Path) -> None:
    table = columns()
    names = ["head", "relation", "tail", "head"]
    path = tmp_path / "g.parquet"
    twice = pa.Table.from_arrays([table[name] for name in names], names)
    pyarrow.parquet.write_table(twice, path, row_group_size=GROUP)
    assert refusal(path) == ": 2 columns are called 'head'; rename some."


@pytest.mark.parametrize("least", [0, 2**62], ids=["loops", "arrow"])
def test_names_that_are_no_utf8_are_refused(
    tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(numbering, "LEAST", least)
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
    )
    table = columns(200)
    head = pa.chunked_array([bad, table["head"][2:]])
    path = saved(tmp_path, table | {"head": head}, 50)
    assert refusal(path) == ": a name is not valid UTF-8."


def test_an_error_in_this_thread_stops_the_others(
    tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ctrl-C, which Python raises in the thread that waits."""
    taken: list[int] = []
    begun, released = Event(), Event()
    tables = parquet._Opened.tables

    def slow(file: Any, groups: list[int], *given: Any, **more: Any) -> Any:
        taken.extend(groups)
        begun.set()
        released.wait(20)
        return tables(file, groups, *given, **more)

    class Interrupted(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            assert begun.wait(20)
            Timer(0.2, released.set).start()
            raise KeyboardInterrupt

    monkeypatch.setattr(parquet._Opened, "tables", slow)
    monkeypatch.setattr("concurrent.futures.thread._base.Future", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_graph(saved(tmp_path, columns(), 20))
    assert len(taken) <= threads
