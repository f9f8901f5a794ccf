"""Files in: every format and every oddity."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from graph_files import NAMED, PREFIX, UNNAMED, Row, rows_of, write
from npugraph.data.io import ReadOptions, read_graph, write_table
from npugraph.errors import DataError

pytestmark = pytest.mark.usefixtures("reader")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("g.tsv", "a\tr\tb\nc\tr\td", [("a", "r", "b"), ("c", "r", "d")]),
        ("g.tsv", "a\tr\tb\r\nc\tr\td\r\n", [("a", "r", "b"), ("c", "r", "d")]),
        ("g.tsv", "\ufeffa\tr\tb\nc\tr\td\n", [("a", "r", "b"), ("c", "r", "d")]),
        ("g.tsv", "\ufeffhead\trelation\ttail\r\na\tr\tb\r\n", [("a", "r", "b")]),
        ("g.csv", '\ufeff"head","relation","tail"\r\na,r,b\r\n', [("a", "r", "b")]),
        ("g.tsv", "a\tr\tb\n\n\nc\tr\td\n\n\n", [("a", "r", "b"), ("c", "r", "d")]),
        ("g.tsv", "a\tr\tb\r\n\r\nc\tr\td\r\n\r\n", [("a", "r", "b"), ("c", "r", "d")]),
        ("g.tsv", "\n\na\tr\tb\n", [("a", "r", "b")]),
        ("g.tsv", '"a"\tr\t"b\nc\t"\td\n', [('"a"', "r", '"b'), ("c", '"', "d")]),
        ("g.csv", 'a,r,b\n"x, y","s ""1""","z\nw"\n', [("a", "r", "b"), ("x, y", 's "1"', "z\nw")]),
        ("g.csv", 'head,relation,tail\n"x, y",r,"z\r\nw"\n', [("x, y", "r", "z\r\nw")]),
        ("g.tsv", "a\u2028b\tr\tc\x0bd\x1ce\x85\n", [("a\u2028b", "r", "c\x0bd\x1ce\x85")]),
        ("g.tsv", " \tr\t b \n", [(" ", "r", " b ")]),
        ("g.tsv", "1\t2\t3\n007\t1e3\t-0\n", [("1", "2", "3"), ("007", "1e3", "-0")]),
        (
            "g.tsv",
            "NA\tnull\tNaN\n#N/A\ttrue\tNone\n",
            [("NA", "null", "NaN"), ("#N/A", "true", "None")],
        ),
        ("g.csv", "NA,null,NaN\nn/a,r,b\n", [("NA", "null", "NaN"), ("n/a", "r", "b")]),
        ("g.tsv", "e\u0301\tr\t\u00e9\n", [("e\u0301", "r", "\u00e9")]),
        ("g.tsv", "\n\nhead\trelation\ttail\na\tr\tb\n", [("a", "r", "b")]),
        ("g.csv", '"a, b",r,c\nd,r,e\n', [("a, b", "r", "c"), ("d", "r", "e")]),
        ("g.csv", '"a\nb",r,c\nd,r,e\n', [("a\nb", "r", "c"), ("d", "r", "e")]),
        ("g.csv", '"a note, long",head,relation,tail\nx,a,r,b\n', [("a", "r", "b")]),
    ],
)
def test_odd_text_is_read_as_it_stands(
    tmp_path: Path, name: str, content: str, expected: list[Row]
) -> None:
    graph = read_graph(write(tmp_path / name, content))
    assert rows_of(graph) == expected
    assert graph.rows.tolist() == list(range(1, len(expected) + 1))


def test_two_gzip_files_one_after_the_other_are_one(tmp_path: Path) -> None:
    path = tmp_path / "g.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tr\tb\n") + gzip.compress(b"b\tr\tc\n"))
    assert rows_of(read_graph(path)) == [("a", "r", "b"), ("b", "r", "c")]


@pytest.mark.parametrize("name", ["g.tsv", "g.csv", "g.tsv.gz"])
def test_very_long_fields_are_read(tmp_path: Path, name: str) -> None:
    long = "x" * 1_000_000
    text = f"a\tr\tb\na\tr\t{long}\n{long}\tr\tb\n"
    text = text.replace("\t", ",") if ".csv" in name else text
    graph = read_graph(write(tmp_path / name, text))
    assert rows_of(graph) == [("a", "r", "b"), ("a", "r", long), (long, "r", "b")]


def test_a_very_long_first_line_is_read(tmp_path: Path) -> None:
    # Reading it byte by byte into a growing string takes seconds here, minutes at 3 MB.
    long = "x" * 500_000
    graph = read_graph(write(tmp_path / "g.tsv", f"{long}\tr\tb\na\tr\tb\n"))
    assert rows_of(graph) == [(long, "r", "b"), ("a", "r", "b")]


def test_entities_keep_their_ids_across_blocks(tmp_path: Path) -> None:
    padding = "x" * 230
    rows = [
        (f"{padding}{i % 1000}", f"r{i % 7}", f"{padding}{(i * i) % 1009}") for i in range(40_000)
    ]
    path = write(tmp_path / "g.tsv.zst", "".join("\t".join(row) + "\n" for row in rows))
    graph = read_graph(path)
    assert rows_of(graph) == rows
    assert graph.entities.labels.to_pylist() == sorted({e for h, _, t in rows for e in (h, t)})


# --- columns


@pytest.mark.parametrize(
    "names",
    [
        ("head", "relation", "tail"),
        ("Subject", "Predicate", "OBJECT"),
        ("source", "edge", "target"),
        ("from", " rel ", "to"),
        ("h", "r", "t"),
        ("From", "type", "TO"),
        ("start", "relationship", "end"),
        (":START_ID", ":TYPE", ":END_ID"),
        ("node1", "label", "node2"),
        ("Subject ID", "predicate-id", "object_id"),
        ("s", "p", "o"),
    ],
)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_well_known_headers_are_found(
    tmp_path: Path, names: tuple[str, ...], order: tuple[int, ...]
) -> None:
    fields = ("a", "b", "c")
    lines = ["\t".join(line[i] for i in order) + "\tx" for line in (names, fields)]
    graph = read_graph(write(tmp_path / "g.tsv", "\n".join(lines)))
    assert rows_of(graph) == [fields]


def test_optional_columns_are_found_by_name(tmp_path: Path) -> None:
    text = "label\ttail\tnote\tweight\trelation\thead\n1\tb\tx\t0.5\tr\ta\n0\tc\ty\t1\tr\ta\n"
    graph = read_graph(write(tmp_path / "g.tsv", text))
    assert rows_of(graph) == [("a", "r", "b", 0.5, 1), ("a", "r", "c", 1.0, 0)]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (NAMED, ReadOptions(header=True, columns=("who", "what", "whom")), ("a", "r", "b")),
        (NAMED, ReadOptions(header=True, columns=("whom", "what", "who")), ("b", "r", "a")),
        (NAMED, ReadOptions(header=True, columns=(1, 2, 3)), ("a", "r", "b")),
        (NAMED, ReadOptions(header=True, columns=("1", "2", "3")), ("a", "r", "b")),
        (
            NAMED,
            ReadOptions(header=True, columns=("who", "what", "whom", "how sure", "right")),
            ("a", "r", "b", 0.5, 1),
        ),
        (UNNAMED, ReadOptions(columns=(1, 2, 3)), ("a", "r", "b")),
        (UNNAMED, ReadOptions(columns=(3, 2, 1, 4)), ("b", "r", "a", 0.5)),
        (UNNAMED, ReadOptions(columns=(1, 2, 3, 4, 5)), ("a", "r", "b", 0.5, 1)),
        (UNNAMED, ReadOptions(columns=("1", "2", "3")), ("a", "r", "b")),
        ("head\trelation\ttail\n", ReadOptions(header=False), ("head", "relation", "tail")),
        ("x\ty\tz\na\tr\tb\n", ReadOptions(header=True), ("a", "r", "b")),
        ("a;r;b\n", ReadOptions(delimiter=";"), ("a", "r", "b")),
        ("a r b\n", ReadOptions(delimiter=" "), ("a", "r", "b")),
        ("a|'x'|b\n", ReadOptions(delimiter="|"), ("a", "'x'", "b")),
    ],
)
def test_columns_are_chosen(tmp_path: Path, text: str, options: ReadOptions, expected: Row) -> None:
    assert rows_of(read_graph(write(tmp_path / "g.tsv", text), options)) == [expected]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [(("who", "what", "whom"), ("a", "r", "b")), ((2, 1, 0, 3), ("b", "r", "a", 0.5))],
)
def test_columns_of_parquet_are_chosen(
    tmp_path: Path, columns: tuple[str | int, ...], expected: Row
) -> None:
    table = pa.table({"who": ["a"], "what": ["r"], "whom": ["b"], "sure": [0.5]})
    pyarrow.parquet.write_table(table, tmp_path / "g.parquet")
    graph = read_graph(tmp_path / "g.parquet", ReadOptions(columns=columns))
    assert rows_of(graph) == [expected]


@pytest.mark.parametrize(
    "head",
    [
        pa.array([1, 20, 1]),
        pa.array(["1", "20", "1"]).dictionary_encode(),
        pa.array(["1", "20", "1"], pa.large_string()),
        pa.array([b"1", b"20", b"1"]),
    ],
    ids=["int", "dictionary", "large", "binary"],
)
def test_parquet_of_other_types_is_read(tmp_path: Path, head: pa.Array) -> None:
    table = pa.table({"head": head, "relation": ["r"] * 3, "tail": ["1", "2", "3"]})
    pyarrow.parquet.write_table(table, tmp_path / "g.parquet", row_group_size=2)
    expected = [("1", "r", "1"), ("20", "r", "2"), ("1", "r", "3")]
    assert rows_of(read_graph(tmp_path / "g.parquet")) == expected


@pytest.mark.parametrize("columns", [(), ("a", "b"), tuple("abcdef")])
def test_too_few_or_too_many_columns_are_refused_at_once(columns: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match=f"Name 3 to 5 columns .*, not {len(columns)}"):
        ReadOptions(columns=columns)


@pytest.mark.parametrize("delimiter", [";;", '"'])
def test_a_delimiter_is_one_character(tmp_path: Path, delimiter: str) -> None:
    path = write(tmp_path / "g.csv", f"a{delimiter}r{delimiter}b\n")
    with pytest.raises(DataError, match="delimiter"):
        read_graph(path, ReadOptions(delimiter=delimiter))


# --- RDF

TRIPLES = (
    "<http://x/a> <http://x/r> <http://x/b> .\n"
    '<http://x/a> <http://x/name> "caf\\u00E9"@fr .\n'
    "_:someone <http://x/r> <http://x/a> .\n"
)


@pytest.mark.parametrize("suffix", [".nt", ".nt.gz", ".nt.zst", ".ttl", ".ttl.gz"])
def test_rdf_is_read_and_literals_are_counted(tmp_path: Path, suffix: str) -> None:
    graph = read_graph(write(tmp_path / f"g{suffix}", TRIPLES))
    heads = [row[0] for row in rows_of(graph)]
    assert rows_of(graph)[0] == ("http://x/a", "http://x/r", "http://x/b")
    assert len(graph) == 2
    assert heads[1].startswith("_:")
    assert graph.skipped == 1


def test_literals_are_kept_as_entities_on_request(tmp_path: Path) -> None:
    graph = read_graph(write(tmp_path / "g.nt", TRIPLES), ReadOptions(literals=True))
    assert rows_of(graph)[1] == ("http://x/a", "http://x/name", '"café"@fr')
    assert graph.skipped == 0


def test_turtle_is_more_than_triples(tmp_path: Path) -> None:
    text = PREFIX + ":a :r :b , :c ; a :Thing ; :age 7 .\n"
    graph = read_graph(write(tmp_path / "g.ttl", text))
    kind = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
    assert rows_of(graph) == [
        ("http://x/a", "http://x/r", "http://x/b"),
        ("http://x/a", "http://x/r", "http://x/c"),
        ("http://x/a", kind, "http://x/Thing"),
    ]
    assert graph.skipped == 1


def test_literals_and_prefixes_are_kept_beside_the_facts(tmp_path: Path) -> None:
    text = PREFIX + ':a :r :b ; :age 7 ; :name "caf\u00e9"@fr .\n'
    beside = read_graph(write(tmp_path / "g.ttl", text)).annotations
    assert beside is not None
    assert beside.prefixes == {"": "http://x/"}
    whole, lang = "http://www.w3.org/2001/XMLSchema#integer", "fr"
    text_kind = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
    assert [tuple(row.values()) for row in beside.literals.to_pylist()] == [
        ("http://x/a", "http://x/age", "7", whole, None),
        ("http://x/a", "http://x/name", "caf\u00e9", text_kind, lang),
    ]


def test_rows_count_skipped_literals(tmp_path: Path) -> None:
    assert read_graph(write(tmp_path / "g.nt", TRIPLES)).rows.tolist() == [1, 3]


def test_nodes_without_a_name_are_called_the_same_every_time(tmp_path: Path) -> None:
    path = write(tmp_path / "g.ttl", PREFIX + ":a :r [ :r :b ] .\n[] :r [] .\n")
    assert rows_of(read_graph(path)) == rows_of(read_graph(path))


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".parquet"])
def test_a_fact_without_a_label_stays_without_one(tmp_path, suffix):
    given = tmp_path / "facts.tsv"
    given.write_text("head\trelation\ttail\tlabel\na\tr\tb\t1\nb\tr\tc\t\nc\tr\ta\t0\n")
    graph = read_graph(given)
    assert graph.label.tolist() == [1, -1, 0]
    assert graph.to_table()["label"].to_pylist() == [1, None, 0]
    written = tmp_path / f"again{suffix}"
    write_table(graph.to_table(), written, header=True)
    assert read_graph(written).label.tolist() == [1, -1, 0]
