"""Patches of Turtle, Parquet and compressed files: written anew, and back from a kept copy."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pyoxigraph as ox
import pytest

from graph_files import write
from npugraph.data.io import ReadOptions, read_table
from npugraph.errors import DataError, OutputError
from npugraph.patching import (
    Decision,
    Fact,
    Patch,
    apply_patch,
    make_patch,
    read_patch,
    revert_patch,
    write_outcomes,
)
from npugraph.patching.rows import digest_of
from patch_samples import expected, facts_in, source

X = "http://x.org/"
TURTLE = """# A comment that no triple says.
@prefix x: <http://x.org/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
x:Rome x:capital x:Italy ; x:name "Roma"@it, "Rome" ; x:founded "-753"^^xsd:gYear .
x:Paris x:capital x:Spain , x:Spain .
x:Bern x:borders [ x:in x:Europe ] .
_:b x:in x:Europe .
"""
COLUMNS = {
    "id": pa.array([1, 2, 3, 4], pa.int32()),
    "source": pa.array(["Rome", "Paris", "Bern", "Paris"]).dictionary_encode(),
    "type": pa.array(["capital"] * 4, pa.large_string()),
    "target": pa.array(["Italy", "Spain", "Alps", "Spain"]),
    "confidence": pa.array([0.5, 0.25, 1.0, 0.75], pa.float32()),
    "label": pa.array([None, 0, 1, None], pa.int8()),
    "seen": pa.array([[1], [], None, [2, 3]], pa.list_(pa.int16())),
}


def turtle(path: Path) -> list[Decision]:
    write(path, TURTLE)
    paris = Fact(X + "Paris", X + "capital", X + "Spain")
    return [
        Decision("replace", paris, paris._replace(tail=X + "France")),
        Decision("remove", Fact("_:unnamed0", X + "in", X + "Europe")),
        Decision("remove", Fact("_:b", X + "in", X + "Europe")),
        Decision("add", Fact(X + "Oslo", X + "capital", X + "Norway")),
    ]


def parquet(path: Path) -> list[Decision]:
    table = pa.table(COLUMNS).replace_schema_metadata({"made by": "hand"})
    kind = "none" if path.name == "plain.parquet" else "zstd"
    pyarrow.parquet.write_table(table, path, compression=kind)
    paris = Fact("Paris", "capital", "Spain")
    return [
        Decision("replace", paris, paris._replace(tail="France")),
        Decision("remove", Fact("Bern", "capital", "Alps")),
        Decision("add", Fact("Oslo", "capital", "Norway")),
    ]


def text(path: Path) -> list[Decision]:
    write(path, "a\tr\tb\r\n\r\nc\tr\td\r\na\tr\tb")
    return [Decision("remove", Fact("c", "r", "d")), Decision("add", Fact("é", "r", "b"))]


MAKERS = {
    "facts.ttl": turtle,
    "facts.ttl.zst": turtle,
    "facts.parquet": parquet,
    "plain.parquet": parquet,
    "facts.tsv.gz": text,
    "facts.tsv.zst": text,
}


def made(path: Path) -> tuple[Patch, list[Fact], list[Decision]]:
    decisions = MAKERS[path.name](path)
    facts = facts_in(path)
    return make_patch([source(path)], decisions, "odd").patch, facts, decisions


@pytest.mark.parametrize("name", MAKERS)
def test_in_place_and_back_to_every_byte(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    patch, facts, decisions = made(path)
    before = path.read_bytes()
    path.chmod(0o640)
    write_outcomes(apply_patch(patch, path), path, None)
    changed = facts_in(path)
    wanted = expected(facts, decisions)
    # Turtle has neither order nor repeats.
    assert (set(changed) == set(wanted)) if ".ttl" in name else (changed == wanted)
    assert path.stat().st_mode & 0o777 == 0o640
    assert len(list(tmp_path.iterdir())) == 2, "A copy should be kept."
    with pytest.raises(DataError, match="applied already"):
        apply_patch(patch, path)
    undone = revert_patch(patch, path)
    assert undone[0].exact
    write_outcomes(undone, path, None)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [name]
    with pytest.raises(DataError, match="is not applied"):
        revert_patch(patch, path)


@pytest.mark.parametrize("name", MAKERS)
def test_without_the_copy_the_facts_come_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    patch, facts, _ = made(path)
    write_outcomes(apply_patch(patch, path), path, None)
    for copy in tmp_path.glob("*.original"):
        copy.unlink()
    undone = revert_patch(patch, path)
    assert not undone[0].exact
    write_outcomes(undone, path, None)
    back = facts_in(path)
    assert (set(back) == set(facts)) if ".ttl" in name else (back == facts)
    # And it can be applied once more.
    write_outcomes(apply_patch(patch, path), path, None)


def test_turtle_keeps_literals_and_prefixes(tmp_path: Path) -> None:
    path = tmp_path / "facts.ttl"
    patch, _, _ = made(path)
    new = tmp_path / "new.ttl"
    write_outcomes(apply_patch(patch, path), path, new)
    text = new.read_text(encoding="utf-8")
    assert "@prefix x: <http://x.org/>" in text
    assert '"Roma"@it' in text
    assert "gYear" in text
    old = read_table(path, ReadOptions())[1]
    assert old is not None
    now = read_table(new, ReadOptions())[1]
    assert now is not None
    assert sorted(old.literals.to_pylist(), key=str) == sorted(now.literals.to_pylist(), key=str)
    assert path.read_text(encoding="utf-8") == TURTLE


def test_relative_names_of_turtle_stay_relative(tmp_path: Path) -> None:
    path, new = tmp_path / "facts.ttl", tmp_path / "new" / "facts.ttl"
    path.write_text("<#a> <#r> <#b> . <#c> <#r> <#d> .", encoding="utf-8")
    new.parent.mkdir()
    base = path.resolve().as_uri()
    fact = Fact(f"{base}#a", f"{base}#r", f"{base}#b")
    patch = make_patch([source(path)], [Decision("remove", fact)], "x").patch
    write_outcomes(apply_patch(patch, path), path, new)
    assert str(tmp_path) not in new.read_text(encoding="utf-8")
    base = new.resolve().as_uri()
    assert facts_in(new) == [Fact(f"{base}#c", f"{base}#r", f"{base}#d")]


@pytest.mark.parametrize("change", ["remove", "add"])
def test_a_patch_of_relative_names_does_not_fit_elsewhere(tmp_path: Path, change: str) -> None:
    path, other = tmp_path / "a" / "facts.ttl", tmp_path / "b" / "facts.ttl"
    for place in (path, other):
        place.parent.mkdir()
        place.write_text("<#a> <#r> <#b> . <#c> <#r> <#d> .", encoding="utf-8")
    base = path.resolve().as_uri()
    tail = "b" if change == "remove" else "d"
    fact = Fact(f"{base}#a", f"{base}#r", f"{base}#{tail}")
    decision = Decision("remove", fact) if change == "remove" else Decision("add", fact)
    patch = make_patch([source(path)], [decision], "x").patch
    with pytest.raises(DataError, match="relative IRIs, which depend on its place"):
        apply_patch(patch, other)
    write_outcomes(apply_patch(patch, path), path, other)
    (other.parent / f"facts.ttl.{patch.files[0].before[:8]}.original").unlink()
    with pytest.raises(DataError, match="relative IRIs, which depend on its place"):
        revert_patch(patch, other)


def test_parquet_keeps_columns_types_and_order(tmp_path: Path) -> None:
    path, new = tmp_path / "facts.parquet", tmp_path / "new.parquet"
    patch, _, _ = made(path)
    write_outcomes(apply_patch(patch, path), path, new)
    old, now = pyarrow.parquet.read_table(path), pyarrow.parquet.read_table(new)
    assert now.schema.equals(old.schema, check_metadata=True)
    assert now.to_pylist() == [
        old.to_pylist()[0],
        # It was known to be wrong, and is now said to be right.
        {**old.to_pylist()[1], "target": "France", "label": 1},
        {**old.to_pylist()[3], "target": "France"},
        {"id": None, "source": "Oslo", "type": "capital", "target": "Norway", "confidence": 1.0,
         "label": 1, "seen": None},
    ]  # fmt: skip
    kind = pyarrow.parquet.ParquetFile(new).metadata.row_group(0).column(0).compression
    assert kind == "ZSTD"
    (undone,) = revert_patch(patch, write(tmp_path / "copy.parquet", new.read_bytes()))
    back = pyarrow.parquet.read_table(pa.BufferReader(undone.content))
    assert back.schema.equals(old.schema, check_metadata=True)
    assert back.to_pylist() == old.to_pylist()


@pytest.mark.parametrize(
    "change",
    [
        {"confidence": pa.array([0.5, 0.25, 0.75, 0.125], pa.float32())},
        {"id": pa.array([1, 2, 4, None], pa.int64())},
        {"by": pa.array(["Ada"] * 4)},
        {"seen at": pa.array([1, 2, 3, 4], pa.timestamp("ns"))},
    ],
)
def test_work_in_other_columns_of_parquet_is_not_taken_back(
    tmp_path: Path, change: dict[str, pa.Array]
) -> None:
    path = tmp_path / "facts.parquet"
    patch, _, _ = made(path)
    write_outcomes(apply_patch(patch, path), path, None)
    table = pyarrow.parquet.read_table(path)
    # Another writer alone does not matter.
    pyarrow.parquet.write_table(table, path, compression="gzip", row_group_size=2)
    assert revert_patch(patch, path)[0].exact
    columns = dict(zip(table.column_names, table.columns, strict=True))
    pyarrow.parquet.write_table(pa.table(columns | change), path)
    for _ in range(2):
        with pytest.raises(DataError, match="is not the file that the patch makes"):
            revert_patch(patch, path)
        # With the kept copy and without it.
        for copy in tmp_path.glob("*.original"):
            copy.unlink()


def test_times_of_parquet_count_to_the_nanosecond() -> None:
    digests = set()
    for number, kind in ((1, "ns"), (2, "ns"), (1, "us")):
        sink = pa.BufferOutputStream()
        times = pa.array([number, None], pa.time64(kind))
        pyarrow.parquet.write_table(pa.table({"at": times}), sink)
        digests.add(digest_of(bytes(sink.getvalue())))
    assert len(digests) == 3


def test_a_parquet_column_that_cannot_hold_a_name_is_named(tmp_path: Path) -> None:
    path = tmp_path / "facts.parquet"
    table = pa.table({"head": [1, 2], "relation": [1, 1], "tail": [3, 4]})
    pyarrow.parquet.write_table(table, path)
    fact = Fact("1", "1", "3")
    with pytest.raises(DataError, match="the column 'tail' of type int64 cannot hold a new name"):
        make_patch([source(path)], [Decision("replace", fact, fact._replace(tail="Rome"))], "x")
    made = make_patch([source(path)], [Decision("replace", fact, fact._replace(tail="7"))], "x")
    assert pyarrow.parquet.read_table(pa.BufferReader(made.contents[0]))["tail"].to_pylist() == [
        7,
        4,
    ]
    fields = [pa.field(name, pa.string()) for name in Fact._fields]
    schema = pa.schema([*fields, pa.field("x", pa.int64(), nullable=False)])
    strict = pa.table([["a"], ["r"], ["b"], [1]], schema=schema)
    pyarrow.parquet.write_table(strict, path)
    with pytest.raises(DataError, match="'x' must not be empty"):
        make_patch([source(path)], [Decision("add", Fact("c", "r", "d"))], "x")


def test_a_compressed_patch_fits_the_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv.gz"
    patch, _, _ = made(path)
    plain = write(tmp_path / "facts.tsv", gzip.decompress(path.read_bytes()))
    assert apply_patch(patch, plain)[0].content == apply_patch(patch, path)[0].content
    write_outcomes(apply_patch(patch, path), path, tmp_path / "new.tsv")
    assert (tmp_path / "new.tsv").read_bytes() == apply_patch(patch, plain)[0].content


def test_the_input_is_no_output_and_a_link_stays_one(tmp_path: Path) -> None:
    path, link = tmp_path / "facts.tsv.gz", tmp_path / "link.tsv.gz"
    patch, _, _ = made(path)
    link.symlink_to(path)
    before = path.read_bytes()
    with pytest.raises(OutputError, match="is the input; to change it, say --in-place"):
        write_outcomes(apply_patch(patch, path), path, link)
    assert path.read_bytes() == before
    write_outcomes(apply_patch(patch, link), link, None)
    assert link.is_symlink()
    assert path.read_bytes() != before
    write_outcomes(revert_patch(patch, link), link, None)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "text", "decision", "sentence"),
    [
        ("f.tsv", "a\tr\tb\n", Decision("remove", Fact("x", "r", "b")), "does not hold it"),
        ("f.tsv", "a\tr\tb\n", Decision("add", Fact("x\ty", "r", "b")), "which TSV cannot"),
        ("f.nt", "<a:b> <a:c> <a:d> .\n", Decision("add", Fact("x y", "a:c", "a:d")), "is no IRI"),
        ("f.tsv", "a\tr\tb\nh\tr\tt\n", Decision("remove", Fact("a", "r", "b")), "--no-header"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    tmp_path: Path, name: str, text: str, decision: Decision, sentence: str
) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(DataError, match=sentence):
        make_patch([source(path)], [decision], "x")


def test_a_damaged_patch_writes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "f.tsv", "a\tr\tb\nc\tr\td\n")
    patch = make_patch([source(path)], [Decision("remove", Fact("a", "r", "b"))], "x").patch
    entry = patch.files[0].removed[0]
    for bad in (replace(entry, byte=3), replace(entry, text="x\n"), replace(entry, byte=99)):
        worse = Patch("x", (), (replace(patch.files[0], removed=(bad,)),))
        with pytest.raises(DataError, match="f.tsv"):
            apply_patch(worse, path)


@pytest.mark.parametrize(
    "change", [{"name": "../f.tsv"}, {"before": "../../etc"}, {"removed": [{"number": "x"}]}]
)
def test_a_hostile_patch_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = write(tmp_path / "f.tsv", "a\tr\tb\nc\tr\td\n")
    patch = make_patch([source(path)], [Decision("remove", Fact("a", "r", "b"))], "x").patch
    record = json.loads(patch.to_json())
    record["files"][0] |= change
    bad = write(tmp_path / "bad.json", json.dumps(record))
    with pytest.raises(DataError, match=r"bad\.json: the patch is damaged"):
        read_patch(bad)


def test_oxigraph_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "facts.ttl"
    patch, _, _ = made(path)
    store = ox.Store()
    store.load(apply_patch(patch, path)[0].content, format=ox.RdfFormat.TURTLE)
    paris = ox.NamedNode(X + "Paris")
    assert [quad.object.value for quad in store.quads_for_pattern(paris, None, None)] == [
        X + "France"
    ]
