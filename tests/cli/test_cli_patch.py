"""The commands export, apply and revert, as a user gives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_calls import call, npugraph, refusal
from npugraph.data.io import ReadOptions
from npugraph.data.sources import load_graph
from npugraph.patching.inputs import input_record
from npugraph.review.store import FILE, NewAnswer, Store
from patch_samples import facts_in, write_as

ROWS = [
    ("Rome", "capital_of", "Italy"),
    ("Paris", "capital_of", "Spain"),
    ("Bern", "borders", "Switzerland"),
    ("Oslo", "capital_of", "Norway"),
    ("Lima", "capital_of", "Peru"),
    ("Paris", "capital_of", "Spain"),
    ("Cairo", "capital_of", "Sudan"),
]
TEXT = "﻿id,from,type,to,source\r\n" + "".join(
    f'{i},{h},{r},"{t}",web\r\n' + ("\r\n" if i == 2 else "") for i, (h, r, t) in enumerate(ROWS)
).removesuffix("\r\n")


def fake_audit(path: Path, out: Path) -> Path:
    """Write as much of an audit's folder as an export looks at."""
    out.mkdir()
    options = ReadOptions(columns=("from", "type", "to")) if path.suffix == ".csv" else None
    graph = load_graph(path, options)
    record = {"graph": graph.name, "input": input_record(graph.inputs, out)}
    (out / "audit.json").write_text(json.dumps(record), encoding="utf-8")
    return out


def answer(out: Path, *answers: tuple[object, ...]) -> None:
    """Give answers at the desk: who, place in ROWS or a fact, word, and what is right instead."""
    with Store.open(out / FILE) as store:
        for number, (who, about, word, *new) in enumerate(answers):
            fact = ROWS[about] if isinstance(about, int) else about
            right = dict(zip(("new_head", "new_relation", "new_tail"), new, strict=False))
            store.add(
                NewAnswer(
                    f"{who}/{number}", *fact, isinstance(about, int), str(word), str(who), **right
                )
            )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an odd CSV file, its audit, and answers of three reviewers."""
    monkeypatch.chdir(tmp_path)
    Path("facts.csv").write_bytes(TEXT.encode())
    out = fake_audit(Path("facts.csv"), Path("audit"))
    answer(
        out,
        ("Ada", 0, "true"),
        ("Ada", 1, "correct", "Madrid", "capital_of", "Spain"),
        ("Ada", 2, "wrong-relation", None, "capital_of", None),
        ("Ada", 3, "unsure"),
        ("Ada", 4, "false"),
        ("Ben", 4, "true"),
        ("Ben", 6, "false"),
        ("Ada", ("Vienna", "capital_of", "Austria"), "true"),
        ("Ada", ("Bonn", "capital_of", "Austria"), "false"),
    )
    return tmp_path


CLEANED = (
    TEXT.replace("1,Paris", "1,Madrid")
    .replace("5,Paris", "5,Madrid")
    .replace("borders", "capital_of")
    .replace('6,Cairo,capital_of,"Sudan",web', ",Vienna,capital_of,Austria,")
)


def test_the_graph_comes_home_in_its_own_format(folder: Path) -> None:
    before = Path("facts.csv").read_bytes()
    done = npugraph("export", "audit", "--format", "graph", "--out", "new.csv")
    assert "1 removed, 2 replaced, 1 added; written: new.csv" in done.stderr
    assert Path("new.csv").read_bytes().decode() == CLEANED
    assert Path("facts.csv").read_bytes() == before
    assert npugraph("export", "audit", "--format", "graph").stdout_bytes.decode() == CLEANED


def test_apply_and_revert_undo_each_other(folder: Path) -> None:
    npugraph("export", "audit", "--format", "patch", "--out", "p.json")
    done = npugraph("apply", "p.json", "facts.csv", "--out", "new.csv", "--json")
    assert json.loads(done.stdout)["out"] == ["new.csv"]
    assert Path("new.csv").read_bytes().decode() == CLEANED
    npugraph("revert", "p.json", "new.csv", "--out", "old.csv")
    assert Path("old.csv").read_bytes() == Path("facts.csv").read_bytes() == TEXT.encode()
    npugraph("apply", "p.json", "facts.csv", "--in-place")
    assert Path("facts.csv").read_bytes().decode() == CLEANED
    npugraph("revert", "p.json", "facts.csv", "--in-place")
    assert Path("facts.csv").read_bytes() == TEXT.encode()
    assert sorted(path.name for path in folder.iterdir()) == [
        "audit", "facts.csv", "new.csv", "old.csv", "p.json",
    ]  # fmt: skip


def test_what_must_not_be_done_is_one_sentence_and_writes_nothing(folder: Path) -> None:
    npugraph("export", "audit", "--format", "patch", "--out", "p.json")
    Path("other.csv").write_text("a,r,b\n", encoding="utf-8")
    npugraph("apply", "p.json", "facts.csv", "--out", "new.csv")
    listed = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for words, sentence in (
        (("apply", "p.json", "other.csv"), "other.csv is not the file that the patch was made for"),
        (("apply", "p.json", "new.csv"), "new.csv: the patch is applied already"),
        (("revert", "p.json", "facts.csv"), "facts.csv: the patch is not applied"),
        (("revert", "p.json", "other.csv"), "other.csv is not the file that the patch makes"),
        (("apply", "p.json", "gone.csv"), "gone.csv: no such file."),
        (("apply", "gone.json", "facts.csv"), "gone.json: no such file."),
        (("apply", "other.csv", "facts.csv"), "other.csv: not a readable patch"),
        (("apply", "audit/audit.json", "facts.csv"), "not a patch of this version"),
    ):
        for more in (("--out", "x.csv"), ("--in-place",)):
            assert sentence in refusal(*words, *more)
    assert "--out or --in-place" in refusal(
        "apply", "p.json", "facts.csv", "--out", "x.csv", "--in-place"
    )
    assert "is the input" in refusal(
        "apply", "p.json", "facts.csv", "--out", "./facts.csv", "--overwrite"
    )
    assert "say where to write" in refusal("apply", "p.json", "facts.csv", "--json")
    assert "there already" in refusal("apply", "p.json", "facts.csv", "--out", "new.csv")
    now = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert now == listed


def test_export_finds_the_input_or_asks_for_it(folder: Path) -> None:
    to = ("--format", "graph", "--out", "new.csv", "--overwrite")
    moved = folder / "elsewhere.csv"
    Path("facts.csv").rename(moved)
    assert "facts.csv, which was audited, is not found" in refusal("export", "audit", *to)
    npugraph("export", "audit", *to, "--facts", moved)
    assert Path("new.csv").read_bytes().decode() == CLEANED
    moved.write_bytes(moved.read_bytes() + b"\n")
    assert "has changed since" in refusal("export", "audit", *to, "--facts", moved)
    assert "has no audit.json" in refusal("export", ".", *to)
    assert "There is no format 'grph'. Did you mean 'graph'?" in refusal(
        "export", "audit", "--format", "grph"
    )
    record = Path("audit/audit.json")
    record.write_text('{"graph": "x"}', encoding="utf-8")
    assert "an older npugraph wrote it" in refusal("export", "audit", *to)


def test_no_path_of_the_machine_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("data", "work", "far"):
        (tmp_path / name).mkdir()
    write_as(tmp_path / "data" / "facts.tsv", ROWS)
    monkeypatch.chdir(tmp_path / "work")
    out = fake_audit(tmp_path / "data" / "facts.tsv", tmp_path / "far" / "audit")
    record = (out / "audit.json").read_text(encoding="utf-8")
    assert str(tmp_path) not in record
    assert json.loads(record)["input"]["files"][0]["path"] is None
    monkeypatch.chdir(tmp_path / "data")
    # A file of that name and with these bytes is the one, wherever it is.
    done = npugraph("export", out, "--format", "graph")
    assert done.stdout_bytes == (tmp_path / "data" / "facts.tsv").read_bytes()
    assert "nothing is decided" in done.stderr


def test_a_folder_of_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("graph").mkdir()
    for part, some in (("train", ROWS[:4]), ("valid", ROWS[4:5]), ("test", ROWS[5:])):
        write_as(Path("graph") / f"{part}.tsv", some)
    out = fake_audit(Path("graph"), Path("audit"))
    answer(out, ("Ada", 1, "false"), ("Ada", ("Vienna", "capital_of", "Austria"), "true"))
    assert "give a folder" in refusal("export", "audit", "--format", "graph")
    npugraph("export", "audit", "--format", "graph", "--out", "new")
    assert facts_in(Path("new/train.tsv")) == [
        ROWS[0],
        *ROWS[2:4],
        ("Vienna", "capital_of", "Austria"),
    ]
    assert facts_in(Path("new/test.tsv")) == ROWS[6:]
    npugraph("export", "audit", "--format", "patch", "--out", "p.json")
    assert "give the folder that holds them" in refusal("apply", "p.json", "graph/train.tsv")
    npugraph("apply", "p.json", "graph", "--out", "applied")
    npugraph("revert", "p.json", "applied", "--in-place")
    for part in ("train", "valid", "test"):
        name = f"{part}.tsv"
        assert (Path("applied") / name).read_bytes() == (Path("graph") / name).read_bytes()


def test_help() -> None:
    for command in ("export", "apply", "revert"):
        assert f"Example: npugraph {command}" in npugraph(command, "--help").output
    assert call("apply").exit_code == 2
