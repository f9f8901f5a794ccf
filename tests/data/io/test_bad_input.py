"""Bad files: one sentence for each, that names the file and the line."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from graph_files import NAMED, PREFIX, UNNAMED, refusal, write
from npugraph.data.io import ReadOptions, read_graph, split_suffixes
from npugraph.errors import DataError

pytestmark = pytest.mark.usefixtures("reader")

THREE = "a\tr\tb\n"
FOUR = "a\tr\tb\t0.5\n"
EMPTY = ": the file is empty; a fact per line is needed: head, relation and tail."


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("g.tsv", THREE + "a\tr\n", ", line 2: 2 columns where the first line has 3."),
        ("g.tsv", THREE + "a\tr\tb\tc\n", ", line 2: 4 columns where the first line has 3."),
        ("g.tsv", THREE + "a\tr", r", line 2: 2 columns .* 3\. Does the file break off there\?"),
        ("g.tsv", THREE + "a\tr\t", r", line 2: the tail is empty\. Does the file break off .*\?"),
        ("g.csv", "a,r,b\nc,r", r", line 2: 2 columns .* 3\. Does the file break off there\?"),
        ("g.nt", "<a:a> <a:r> <a:b> .\n<a:a> <a:", ", line 2: .*"),
        ("g.tsv", THREE + "\n\n" + "a\tr\n", ", line 4: 2 columns where the first line has 3."),
        ("g.tsv", THREE + "   \n", ", line 2: 1 columns where the first line has 3."),
        ("g.csv", "a,r,b\nc,r\n", ", line 2: 2 columns where the first line has 3."),
        ("g.tsv", "a\tr\n", r", line 1: 2 columns, and it is not clear which are .*"),
        ("g.tsv", "a r b\n", r", line 1: 1 columns, .* Is the delimiter right\?"),
        ("g.tsv", "a\tr\tb\tc\td\te\n", ", line 1: 6 columns, and it is not clear .*"),
        ("g.tsv", "\n\na\tr\n", ", line 3: 2 columns, and it is not clear .*"),
        ("g.tsv", THREE + "\tr\tb\n", ", line 2: the head is empty."),
        ("g.tsv", THREE + "a\t\tb\n", ", line 2: the relation is empty."),
        ("g.tsv", THREE + "a\tr\t\n", ", line 2: the tail is empty."),
        ("g.tsv", "\tr\tb\n", ", line 1: the head is empty."),
        ("g.csv", 'a,r,b\nc,"",d\n', ", line 2: the relation is empty."),
        ("g.tsv", "\ufeff\tr\tb\n", ", line 1: the head is empty."),
        ("g.csv", 'a,r,b\nc,"r\n1",d\nc,,d\n', ", line 4: the relation is empty."),
        ("g.csv", 'a,r,b\nc,"r\n1",d\nc,d\n', ", line 4: 2 columns where the first line has 3."),
        ("g.csv", '"a,b",r,c,0.5\n"a,b",r,c,2\n', ", line 2: the confidence 2 is outside .*"),
        ("g.csv", 'a,r,b\na,r,"b\nc,r,d\ne,r,f\n', ", line 2: .*quote.*"),
        (
            "g.csv",
            f'a,r,"{"x" * 200_000}"\nc,r\n',
            ", line 2: 2 columns where the first line has 3.",
        ),
        ("g.csv", "a,r,b\nc,r\rx,d\n", ", line [23]: 2 columns .*"),
        ("g.tsv", "a\tr\tb\nc\tr\td\re\n", ", line [23]: 1 columns .*"),
        ("g.tsv", b"a\tr\tb\nc\tr\t\xff\n", r", line 2: byte 5 is not valid UTF-8 .*"),
        ("g.tsv", b"a\xe9\tr\tb\n", r", line 1: byte 2 is not valid UTF-8 .*"),
        ("g.csv", b"a,r,b\nc,r,\xc3\n", r", line 2: byte 5 is not valid UTF-8 .*"),
        ("g.tsv", THREE.encode("utf-16"), ", line 1: byte 1 is not valid UTF-8 .*"),
        ("g.csv", THREE.encode("utf-16"), ", line 1: byte 1 is not valid UTF-8 .*"),
        ("g.tsv", FOUR + "a\tr\tb\t1.5\n", r", line 2: the confidence 1.5 is outside \[0, 1\]."),
        ("g.tsv", FOUR + "a\tr\tb\t-0.1\n", r", line 2: the confidence -0.1 is outside \[0, 1\]."),
        ("g.tsv", FOUR + "a\tr\tb\tinf\n", r", line 2: the confidence inf is outside \[0, 1\]."),
        ("g.tsv", FOUR + "a\tr\tb\tnan\n", r", line 2: the confidence nan is .*"),
        ("g.tsv", FOUR + "a\tr\tb\thigh\n", ", line 2: the confidence 'high' is not a number."),
        ("g.tsv", FOUR + "a\tr\tb\t0,5\n", ", line 2: the confidence '0,5' is not a number."),
        ("g.tsv", FOUR + "a\tr\tb\t\n", ", line 2: the confidence is empty."),
        # Numbers for Python, none for Arrow.
        ("g.tsv", FOUR + "a\tr\tb\t0_1\n", ", line 2: the confidence '0_1' is not a number."),
        ("g.tsv", FOUR + "a\tr\tb\t٠\n", ", line 2: the confidence '٠' is not a number."),
        (
            "g.tsv",
            "head\trelation\ttail\tlabel\na\tr\tb\t1\na\tr\tb\t2\n",
            r", line 3: the label 2 is outside \[0, 1\].",
        ),
        (
            "g.tsv",
            "head\trelation\ttail\tlabel\na\tr\tb\t1\na\tr\tb\t0.5\n",
            ", line 3: the label 0.5 is .*",
        ),
        (
            "g.tsv",
            "\nhead\trelation\ttail\tconfidence\na\tr\tb\t2\n",
            r", line 3: the confidence 2 is outside \[0, 1\].",
        ),
        ("g.tsv", "", EMPTY),
        ("g.tsv", "\n\r\n\n", EMPTY),
        ("g.tsv", "\ufeff\n", EMPTY),
        ("g.tsv.gz", "", EMPTY),
        ("g.tsv", "head\trelation\ttail\n", ": the file holds no facts."),
        ("g.csv", "head,relation,tail", ": the file holds no facts."),
        ("g.ttl", PREFIX, ": the file holds no facts."),
        ("g.nt", '<a:a> <a:r> "only a literal" .\n', ": the file holds no facts."),
        ("g.xml", "<graph/>", ": unknown format '.xml'; use .tsv, .*"),
        ("g.gz", "a\tr\tb\n", r": unknown format '\(no suffix\)'; use .tsv, .*"),
        ("g.ttl", PREFIX + ":a :r :b .\n:a :r ???\n", ", line 3: .*"),
        ("g.ttl.gz", PREFIX + ":a :r :b .\n:a :r ???\n", ", line 3: .*"),
        ("g.ttl", PREFIX + ":a :r other:b .\n", ", line 2: .*prefix.*"),
        ("g.nt", "<a:a> <a:r> <a:b> .\n<a:a> <a:r> .\n", ", line 2: .*"),
        ("g.nt", b'<a:a> <a:r> "\xff" .\n', ", line 1: .*UTF-8.*"),
        (
            "g.parquet",
            b"PAR1 this is none",
            r": not a readable Parquet file, or one that .* \(.*\)\.",
        ),
    ],
)
def test_bad_input_is_named_in_one_sentence(
    tmp_path: Path, name: str, content: str | bytes, expected: str
) -> None:
    assert re.fullmatch(expected, refusal(write(tmp_path / name, content)))


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["g.tsv", "g.tsv.gz", "g.csv", "g.csv.zst"])
@pytest.mark.parametrize("header", [False, True])
def test_lines_beyond_the_first_block_are_numbered_right(
    tmp_path: Path, name: str, header: bool, line_end: str
) -> None:
    good, number = 40_000, 39_000
    padding = "x" * 230  # 9 MB in all; Arrow reads 8 MiB at a time
    lines = [f"{padding}{i}\tr\te{i % 97}" for i in range(good)]
    lines[number - 1] = f"{padding}\t\tb"
    if header:
        lines.insert(0, "head\trelation\ttail")
    text = line_end.join(lines)
    text = text.replace("\t", ",") if ".csv" in name else text
    message = refusal(write(tmp_path / name, text))
    assert message == f", line {number + header}: the relation is empty."


@pytest.mark.parametrize(
    ("keep", "name"),
    [
        (20, "g.tsv.gz"),
        (-9, "g.tsv.gz"),
        (-9, "g.tsv.zst"),
        (0.5, "g.csv.gz"),
        (0.5, "g.nt.gz"),
        (0.5, "g.ttl.zst"),
    ],
)
def test_damaged_compression_is_named(tmp_path: Path, keep: float, name: str) -> None:
    line = "<a:{0}> <a:r> <a:b> .\n" if split_suffixes(Path(name))[0] in (".nt", ".ttl") else ""
    line = line or ("{0},r,b\n" if "csv" in name else "{0}\tr\tb\n")
    path = write(tmp_path / name, "".join(line.format(i * 7919 % 100_003) for i in range(100_000)))
    data = path.read_bytes()
    end = int(keep * len(data)) if isinstance(keep, float) else keep
    path.write_bytes(data[:end])
    with pytest.raises(DataError) as caught:
        read_graph(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_parquet_file_that_breaks_off_is_named(tmp_path: Path, share: float) -> None:
    path = tmp_path / "g.parquet"
    names = [f"e{i * 7919 % 10_007}" for i in range(10_000)]
    table = pa.table({"head": names, "relation": ["r"] * len(names), "tail": names[::-1]})
    pa.parquet.write_table(table, path)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    assert refusal(path).startswith(": not a readable Parquet file, or one that breaks off (")
    # The end is whole, but not what stands before it.
    path.write_bytes(data[: len(data) // 2] + bytes(200) + data[len(data) // 2 + 200 :])
    with pytest.raises(DataError) as caught:
        read_graph(path)
    assert str(caught.value).startswith(str(path))


def test_a_file_that_breaks_off_is_named_like_any_other(tmp_path: Path) -> None:
    path = write(
        tmp_path / "g.tsv.gz", "".join(f"{i * 7919 % 100_003}\tr\tb\n" for i in range(99_999))
    )
    path.write_bytes(path.read_bytes()[:-9])
    assert refusal(path).startswith(": the file breaks off")


def test_text_that_was_never_compressed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "g.tsv.gz"
    path.write_bytes(b"a\tr\tb\n")
    assert refusal(path).startswith(": cannot be opened as gzip (")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.tsv") == ": no such file; check its name."
    assert refusal(tmp_path) == ": no such file; it is a folder, so name a file in it."
    gone = tmp_path / "gone" / "none.tsv"
    assert refusal(gone) == f": no such file, for there is no folder {gone.parent}."
    (tmp_path / "facts.tsv").write_text("a\tr\tb\n")
    assert refusal(tmp_path / "fcats.tsv") == ": no such file. Did you mean 'facts.tsv'?"


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        (NAMED, ("who", "waht", "whom"), ": no column is called 'waht'. Did you mean 'what'?"),
        (NAMED, ("who", "what", "zzzzz"), ": no column is called 'zzzzz'."),
        (NAMED, (0, 1, 6), ": there is no column 6; it has 6, from 0."),
        (NAMED, (0, 1, -1), ": there is no column -1; it has 6, from 0."),
        (NAMED, (0, 1, -9), ": there is no column -9; it has 6, from 0."),
    ],
)
def test_an_unknown_column_is_named(
    tmp_path: Path, text: str, columns: tuple[str | int, ...], expected: str
) -> None:
    path = write(tmp_path / "g.tsv", text)
    assert refusal(path, ReadOptions(header=True, columns=columns)) == expected


def test_a_column_name_needs_a_header(tmp_path: Path) -> None:
    message = refusal(write(tmp_path / "g.tsv", UNNAMED), ReadOptions(columns=("who", "b", "c")))
    assert message == (
        ": column 'who' is named, but the file has no header line; give the position, from 0, or "
        "say --header if the first line names the columns."
    )


GOOD = {"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", "c"]}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"head": pa.array(["a", None])}, ": row 2 has an empty head."),
        ({"tail": ["", "c"]}, ": row 1 has an empty tail."),
        ({"confidence": [0.5, 2.0]}, ": row 2 has a confidence that is not in [0, 1]: 2.0."),
        (
            {"confidence": pa.array([0.5, None])},
            ": row 2 has a confidence that is not in [0, 1]: None.",
        ),
        (
            {"confidence": [float("nan")] * 2},
            ": row 1 has a confidence that is not in [0, 1]: nan.",
        ),
        ({"label": [1, 7]}, ": row 2 has a label that is not in [0, 1]: 7."),
        (
            {"confidence": ["0.5", "high"]},
            ": row 2 has a confidence that is not in [0, 1]: 'high'.",
        ),
    ],
)
def test_bad_rows_of_parquet_are_named(
    tmp_path: Path, columns: dict[str, object], expected: str
) -> None:
    pyarrow.parquet.write_table(pa.table({**GOOD, **columns}), tmp_path / "g.parquet")
    assert refusal(tmp_path / "g.parquet") == expected


@pytest.mark.parametrize(
    "columns",
    [
        {"head": pa.array([{"x": 1}, {"x": 2}])},
        {"head": pa.array([b"\xff", b"a"])},
        {"confidence": pa.array([1, 2], pa.timestamp("s"))},
    ],
    ids=["struct", "binary", "time"],
)
def test_parquet_of_unusable_types_is_named(tmp_path: Path, columns: dict[str, object]) -> None:
    pyarrow.parquet.write_table(pa.table({**GOOD, **columns}), tmp_path / "g.parquet")
    assert next(iter(columns)) in refusal(tmp_path / "g.parquet")


def test_parquet_without_facts_is_named(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table(GOOD).slice(0, 0), tmp_path / "g.parquet")
    assert refusal(tmp_path / "g.parquet") == ": the file holds no facts."
