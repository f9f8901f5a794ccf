"""Lines of plain IRIs are cut up without a parser: the result is the parser's."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import times
from graph_files import write
from npugraph.data.io import ReadOptions, rdf, read_table
from npugraph.data.io.ntriples import divide
from npugraph.errors import DataError
from npugraph.graph import Annotations

pytest.importorskip("pyoxigraph")
IRIS = st.sampled_from(
    [
        "<http://x.org/a>",
        "<http://x.org/a/b#c>",
        "<http://x.org:80/?q=1&r=/x?>",
        "<urn:isbn:1>",
        "<a:b>",
        "<http://x.org/%C3%A9>",
        "<http://x.org/Zürich>",
        "<http://x.org/東京>",
        "<urn:npugraph:name:New%20York>",
        "<urn:npugraph:name:a%2>",
        "<http://x.org/a//b>",
        "<mailto:a@b>",
        "<http://x.org>",
        r"<http://x.org/\u00e9>",
        "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>",
        "<http://www.w3.org/1999/02/22-rdf-syntax-ns#Statement>",
        "<http://www.w3.org/1999/02/22-rdf-syntax-ns#subject>",
        "<http://[::1]/a>",
        "<//x/y>",
        "<a b>",
        "<a:%zz>",
        "<1a:b>",
        "<http://x.org/\U0001f600>",
        "<http://x.org/a|b>",
        "<>",
        "<a:>",
    ]
)
LETTERS = st.characters(codec="utf-8", exclude_characters="\n\r\x00")
TERMS = st.one_of(
    IRIS,
    st.text(LETTERS, max_size=6).map(lambda text: f"<a:{text}>"),
    st.text(LETTERS, max_size=6).map(lambda text: f"<http://x/{text}>"),
    st.sampled_from(
        ["_:b0", '"a b"', '"x"@en', '"1"^^<a:t>', r'"\""', "", "<<( <a:a> <a:b> <a:c> )>>"]
    ),
)
SPACES = st.sampled_from([" ", " ", " ", " ", "  ", "\t", ""])
ENDS = st.sampled_from([" .", " .", " .", ".", " . ", " . # why", "", " . <a:a> <a:b> <a:c> ."])
LINES = st.one_of(
    st.tuples(TERMS, SPACES, TERMS, SPACES, TERMS, ENDS).map("".join),
    st.sampled_from(["", "# a comment", "  ", "\t# more", "<a:a> <a:b>", "<a:c> .", "x", "\x01"]),
)
FILES = st.tuples(st.lists(LINES, max_size=8), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())

Found = tuple[list[dict[str, object]], list[dict[str, object]], int]


def found(result: tuple[pa.Table, Annotations | None]) -> Found:
    table, beside = result
    assert beside is not None
    return table.to_pylist(), beside.literals.to_pylist(), beside.statements


def outcome(path: Path, options: ReadOptions) -> Found | str:
    try:
        return found(read_table(path, options))
    except DataError as error:
        return str(error)


@settings(max_examples=times(150, 3000), deadline=None)
@given(file=FILES, literals=st.booleans())
@example(file=(["<a:a> <a:b>", "<a:x> <a:y> <a:z> .", "<a:c> ."], "\n", True), literals=False)
@example(
    file=(["<a:a> <a:b> <a:c> . <a:d> <a:e> <a:f> .", "_:b <a:b> <a:c> ."], "\n", True),
    literals=False,
)
def test_the_fast_way_and_the_parser_agree(
    tmp_path_factory: pytest.TempPathFactory,
    file: tuple[list[str], str, bool],
    literals: bool,
) -> None:
    lines, end, closed = file
    path = tmp_path_factory.mktemp("nt") / "g.nt"
    path.write_bytes((end.join(lines) + (end if closed else "")).encode())
    options = ReadOptions(literals=literals)
    fast = outcome(path, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rdf, "divide", lambda path: None)
        assert fast == outcome(path, options)


def test_plain_lines_need_no_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"<http://x/{i}> <http://x/r> <http://x/{i + 1}> .\n" for i in range(5))
    path = write(tmp_path / "g.nt.gz", "# facts\n\n" + text)
    monkeypatch.setattr(rdf, "parse_triples", lambda *_: pytest.fail("parsed"))
    table, beside = read_table(path, ReadOptions())
    assert table["head"].to_pylist() == [f"http://x/{i}" for i in range(5)]
    assert table["row"].to_pylist() == [1, 2, 3, 4, 5]
    assert beside is not None
    assert beside.records == 0


def test_rows_of_both_kinds_of_lines_are_those_of_the_file(tmp_path: Path) -> None:
    text = '<a:1> <a:r> <a:2> .\n_:x <a:r> <a:3> .\n<a:3> <a:r> "v" .\n<a:4> <a:r> <a:5> .\n'
    path = write(tmp_path / "g.nt", text)
    lines = divide(path)
    assert lines is not None
    assert (len(lines.facts), lines.rows.tolist(), lines.count) == (2, [2, 3], 4)
    table, beside = read_table(path, ReadOptions())
    assert table["head"].to_pylist() == ["a:1", "_:x", "a:4"]
    assert table["row"].to_pylist() == [1, 2, 4]
    assert beside is not None
    assert beside.literals["value"].to_pylist() == ["v"]


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"\xff"])
def test_what_is_no_plain_text_is_left_to_the_parser(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "g.nt"
    path.write_bytes(start + b"<a:1> <a:r> <a:2> .\n")
    assert divide(path) is None
