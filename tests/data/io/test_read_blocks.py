"""Large files are read block by block, by compiled loops, as Arrow reads them."""

from __future__ import annotations

import gzip
import logging
import random
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph_files import refusal, rows_of, write
from npugraph.data.io import ReadOptions, blocks, numbering, read_graph, text
from npugraph.data.io.encode import Numbered
from npugraph.data.sources import load_graph
from npugraph.errors import DataError

pytestmark = pytest.mark.usefixtures("by_loops")

THREE = "a\tr\tb\n"


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(pa, "cpu_count", lambda: request.param)
    return int(request.param)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each file that was tried was read by the loops."""
    tried: list[bool] = []

    def recorded(*given: Any) -> Numbered | None:
        found = blocks.read_blocks(*given)
        tried.append(found is not None)
        return found

    monkeypatch.setattr(text, "read_blocks", recorded)
    return tried


def as_arrow_reads(path: Path, options: ReadOptions | None = None) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbering, "LEAST", 2**62)
        return outcome(path, options)


def outcome(path: Path, options: ReadOptions | None = None) -> object:
    """Return all that reading gives, or the error."""
    try:
        graph = read_graph(path, options)
    except DataError as error:
        return str(error)
    names = graph.entities.labels.to_pylist(), graph.relations.labels.to_pylist()
    return names, graph.facts.tolist(), graph.rows.tolist()


# --- all that may stand in a file

FIELDS = st.sampled_from(
    ["a", "b", "ab", "head", "é", "x" * 7, "x" * 8, "x" * 9, " ", '"', "a\x0b"]
)
ODD = st.sampled_from(["", "\r", "a\rb", "a\tb", "\udcff", "\udcc3", "\ufeff", "\x00"])
LINES = st.lists(FIELDS, min_size=3, max_size=3).map("\t".join)
ENDS = st.sampled_from(["\n", "\r\n", "\n\n", "\r\n\n"])


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Lines that are mostly plain, and now and then not."""
    lines = draw(st.lists(LINES, min_size=1, max_size=30))
    if draw(st.booleans()):
        lines.insert(0, "head\trelation\ttail")
    end = draw(ENDS)
    if draw(st.integers(0, 3)) == 0:
        place = draw(st.integers(0, len(lines)))
        lines.insert(place, "\t".join(draw(st.lists(FIELDS | ODD, max_size=4))))
    whole = end.join(lines) + draw(st.sampled_from(["", end, "\r", "\n \n"]))
    return draw(st.sampled_from(["", "\ufeff"])).encode() + whole.encode(errors="surrogateescape")


@pytest.mark.parametrize("size", [60, 1 << 12])
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=files())
def test_every_file_is_read_as_arrow_reads_it(
    tmp_path: Path, threads: int, size: int, content: bytes
) -> None:
    path = tmp_path / "g.tsv"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SIZE", size)
        assert outcome(path) == as_arrow_reads(path)


@pytest.mark.parametrize("name", ["g.tsv", "g.tsv.gz", "g.tsv.zst"])
def test_many_blocks_keep_the_order_of_their_facts(
    tmp_path: Path, threads: int, read: list[bool], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "SIZE", 5000)
    rng = random.Random(0)
    rows = [(f"e{rng.randrange(3000)}", f"r{i % 7}", f"é{rng.random()}") for i in range(20_000)]
    path = write(tmp_path / name, "".join("\t".join(row) + "\n" for row in rows))
    graph = read_graph(path)
    assert read == [True]
    assert rows_of(graph) == rows
    assert graph.rows.tolist() == list(range(1, len(rows) + 1))
    assert graph.entities.labels.to_pylist() == sorted({e for h, _, t in rows for e in (h, t)})


# --- who reads what


@pytest.mark.parametrize(
    "content",
    [
        THREE,
        "\n\r\n" + THREE.replace("\n", "\r\n"),
        "\ufeff" + THREE,
        "\ufeffhead\trelation\ttail\r\n\r\na\tr\tb",
        "tail\thead\trelation\nb\ta\tr\n",
    ],
)
def test_plain_files_are_for_the_loops(tmp_path: Path, read: list[bool], content: str) -> None:
    assert rows_of(read_graph(write(tmp_path / "g.tsv", content))) == [("a", "r", "b")]
    assert read == [True]


@pytest.mark.parametrize(
    "content",
    [
        "a\tr\tb\rc\tr\td\n",  # Arrow takes a carriage return for the end of a line
        "head\trelation\ttail\ra\tr\tb\n",
        f"a\tr\t{'x' * blocks.SIZE}\n",
        f"head\trelation\ttail\na\tr\t{'x' * 2 * blocks.SIZE}",
        THREE + "a\tr\n",
        THREE + "a\tr\tb\tc\n",
        THREE + "a\tr\t\n",
        THREE + "\tr\tb\n",
        b"a\tr\tb\n\xff\tr\tb\n",
        # Together they would be a character.
        b"a\tr\tb\na\tr\t\xc3\n\xa9\tr\tb\n",
    ],
)
def test_what_is_unusual_is_for_arrow(
    tmp_path: Path, read: list[bool], content: str | bytes
) -> None:
    path = write(tmp_path / "g.tsv", content)
    found = outcome(path)
    assert read == [False]
    assert found == as_arrow_reads(path)


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("g.csv", "a,r,b\n", ReadOptions()),
        ("g.tsv", "a\tr\tb\t0.5\n", ReadOptions()),
        ("g.tsv", "head\trelation\ttail\nx\ty\tz\n", ReadOptions(beside=("head",))),
    ],
)
def test_other_files_are_not_tried(
    tmp_path: Path, read: list[bool], name: str, content: str, options: ReadOptions
) -> None:
    path = write(tmp_path / name, content)
    assert outcome(path, options) == as_arrow_reads(path, options)
    assert read == []


def test_nothing_is_tried_without_numba(
    tmp_path: Path, read: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbering, "available", lambda: False)
    assert len(read_graph(write(tmp_path / "g.tsv", THREE))) == 1
    assert read == []


def test_small_files_are_for_arrow(
    tmp_path: Path, read: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "g.tsv", THREE * 10)
    monkeypatch.setattr(numbering, "LEAST", 64 * path.stat().st_size)
    numbering.prepare()
    read_graph(path)
    monkeypatch.setattr(numbering, "LEAST", 128 * path.stat().st_size)
    read_graph(path)
    assert read == [True]


def test_names_that_do_not_fit_an_array_are_refused(
    tmp_path: Path, read: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbering, "MOST_BYTES", 5)
    path = write(tmp_path / "g.tsv", "abc\tr\tdef\n")
    with pytest.raises(DataError, match=r"take more than 2 GiB; read the file with --spill"):
        read_graph(path)
    assert read == [False]


@pytest.mark.parametrize("kept", [20, -9, 0.5])
@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_damaged_file_is_named(
    tmp_path: Path, threads: int, read: list[bool], kept: float, suffix: str
) -> None:
    rng = random.Random(1)
    path = tmp_path / f"g.tsv.{suffix}"
    write(path, "".join(f"e{rng.random()}\tr\te{i}\n" for i in range(50_000)))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if isinstance(kept, float) else kept])
    message = refusal(path)
    assert "breaks off or is damaged" in message or "cannot be opened" in message
    assert not any(read)


def test_two_gzip_files_one_after_the_other_are_one(tmp_path: Path, read: list[bool]) -> None:
    path = tmp_path / "g.tsv.gz"
    path.write_bytes(gzip.compress(THREE.encode()) + gzip.compress(b"b\tr\tc\n"))
    assert rows_of(read_graph(path)) == [("a", "r", "b"), ("b", "r", "c")]
    assert read == [True]


def test_a_header_that_may_be_a_fact_is_doubted(
    tmp_path: Path, threads: int, read: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "g.tsv", "from\ttype\tto\n" + "a\ttype\tb\n" * 3 + THREE)
    with caplog.at_level(logging.WARNING):
        read_graph(path)
        assert read == [True]
        as_arrow_reads(path)
    assert len(caplog.messages) == 2
    assert "'type' is the relation of 3 facts, too" in caplog.messages[0]
    assert caplog.messages[0] == caplog.messages[1]


def test_a_doubt_is_told_once_where_arrow_reads_in_the_end(
    tmp_path: Path, read: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "g.tsv", "head\trel_x\ttail\na\tr\tb\rc\tr\td\n")
    with caplog.at_level(logging.WARNING):
        read_graph(path)
    assert read == [False]
    assert len(caplog.messages) == len(set(caplog.messages)) == 1


def test_files_of_a_folder_share_their_names(tmp_path: Path, read: list[bool]) -> None:
    folder = tmp_path / "facts"
    folder.mkdir()
    write(folder / "1.tsv", "b\tr\ta\n")
    write(folder / "2.csv", "c,s,a\n")
    write(folder / "3.tsv", "a\tq\td\n")
    graph = load_graph(folder)
    assert [row[:3] for row in rows_of(graph)] == [
        ("b", "r", "a"),
        ("c", "s", "a"),
        ("a", "q", "d"),
    ]
    assert graph.relations.labels.to_pylist() == ["q", "r", "s"]
    assert graph.rows.tolist() == [1, 1, 1]
    assert read == [True, True]


def test_one_thread_that_gives_up_stops_the_others(tmp_path: Path) -> None:
    path = write(tmp_path / "g.tsv", THREE * 1000)
    with pa.input_stream(str(path)) as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SIZE", 60)
        several = blocks._Blocks(stream, 0)
        assert several.next() is not None
        several.stop()
        assert several.next() is None


@pytest.mark.usefixtures("by_loops")
def test_a_doubtful_first_line_is_warned_of_though_the_file_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "g.tsv", "from\trelation\na\tr\n")
    with pytest.raises(DataError):
        read_graph(path)
    by_loops = caplog.messages.copy()
    caplog.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbering, "LEAST", 2**62)
        with pytest.raises(DataError):
            read_graph(path)
    assert by_loops == caplog.messages != []


# --- the loops as they stand: numba is to change nothing but the time


@pytest.fixture
def as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Python run the loops."""
    for module in (numbering, blocks, sys.modules["npugraph.data.io.encode"]):
        monkeypatch.setattr(module, "loop", cache(lambda function: function))


@pytest.mark.usefixtures("as_written")
@pytest.mark.filterwarnings("ignore:overflow encountered")
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=files())
def test_loops_do_the_same_uncompiled(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "g.tsv"
    path.write_bytes(content)
    assert outcome(path) == as_arrow_reads(path)
