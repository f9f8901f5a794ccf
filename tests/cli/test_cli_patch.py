"""The commands export, apply and revert, as a user gives them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyoxigraph as ox
import pytest

from cli_calls import call, npugraph, refusal
from npugraph.data.answers import read_answers
from npugraph.data.io import ReadOptions, read_graph, write_table
from npugraph.data.sources import load_graph
from npugraph.errors import DataError
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
PROPOSED = [("Vienna", "capital_of", "Austria"), ("Bonn", "capital_of", "Austria")]
TEXT = "﻿id,from,type,to,source\r\n" + "".join(
    f'{i},{h},{r},"{t}",web\r\n' + ("\r\n" if i == 2 else "") for i, (h, r, t) in enumerate(ROWS)
).removesuffix("\r\n")


def fake_audit(path: Path, out: Path) -> Path:
    """Write as much of an audit's folder as an export looks at."""
    out.mkdir()
    options = ReadOptions(columns=("from", "type", "to")) if path.suffix == ".csv" else None
    graph = load_graph(path, options)
    record = {"graph": graph.name, "input": input_record(graph.inputs, out)}
    stored = [tuple(row.values()) for row in graph.to_table().to_pylist()]
    rows = list(dict.fromkeys(stored)) + PROPOSED
    posterior = [
        {"head": h, "relation": r, "tail": t, "probability": p, "low": p, "high": p, "score": 0.0,
         "collected": (h, r, t) in stored}
        for (h, r, t), p in zip(rows, [0.25, *[None] * len(rows)], strict=False)
    ]  # fmt: skip
    write_table(pa.Table.from_pylist(posterior), out / "posterior.parquet")
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
        (("apply", "p.json", "gone.csv"), "gone.csv: no such file; check its name."),
        (("apply", "gone.json", "facts.csv"), "gone.json: no such file; check its name."),
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
    held = {path: path.read_bytes() for path in Path("applied").iterdir()}
    for words in (("apply", "p.json", "graph"), ("revert", "p.json", "applied")):
        out = Path("applied" if words[0] == "apply" else "graph")
        assert f"{out / 'train.tsv'} is there already" in refusal(*words, "--out", out)
    assert {path: path.read_bytes() for path in Path("applied").iterdir()} == held
    npugraph("apply", "p.json", "graph", "--out", "applied", "--overwrite")
    # Broken off between two files: the same command does the rest.
    before = (Path("graph") / "test.tsv").read_bytes()
    after = (Path("applied") / "test.tsv").read_bytes()
    (Path("applied") / "test.tsv").write_bytes(before)
    npugraph("apply", "p.json", "applied", "--in-place")
    assert (Path("applied") / "test.tsv").read_bytes() == after
    assert "applied already" in refusal("apply", "p.json", "applied", "--in-place")
    npugraph("revert", "p.json", "applied", "--in-place")
    for part in ("train", "valid", "test"):
        name = f"{part}.tsv"
        assert (Path("applied") / name).read_bytes() == (Path("graph") / name).read_bytes()


AFTER = [
    ("Rome", "capital_of", "Italy"),
    ("Madrid", "capital_of", "Spain"),
    ("Bern", "capital_of", "Switzerland"),
    ("Oslo", "capital_of", "Norway"),
    ("Lima", "capital_of", "Peru"),
    ("Madrid", "capital_of", "Spain"),
    ("Vienna", "capital_of", "Austria"),
]


@pytest.mark.parametrize("format", ["graph", "rdf12", "rdf-reified", "kgx"])
def test_every_graph_comes_back_with_the_same_facts(folder: Path, format: str) -> None:
    out = Path({"graph": "new.csv", "kgx": "new"}.get(format, "new.ttl"))
    npugraph("export", "audit", "--format", format, "--out", out)
    options = ReadOptions(columns=("from", "type", "to")) if format == "graph" else None
    found = facts_in(out / "edges.tsv" if format == "kgx" else out, options)
    assert (found == AFTER) if format == "graph" else (set(found) == set(AFTER))
    if format.startswith("rdf"):
        graph = read_graph(out)
        assert graph.annotations is not None
        # What is said of facts is neither a fact nor a literal of an entity.
        assert graph.annotations.statements > 0
        assert len(graph.annotations.literals) == 0
        assert set(graph.relations.labels.to_pylist()) == {"capital_of"}


def test_the_update_does_in_a_store_what_the_patch_says(folder: Path) -> None:
    base = ("--base", "http://x.org/kg/")
    store = ox.Store()
    for row in ROWS:
        store.add(ox.Quad(*(ox.NamedNode(f"http://x.org/kg/{name}") for name in row)))
    npugraph("export", "audit", "--format", "sparql", *base, "--out", "changes.ru")
    store.update(Path("changes.ru").read_text(encoding="utf-8"))
    terms = [(quad.subject, quad.predicate, quad.object) for quad in store]
    left = {tuple(term.value.rsplit("/", 1)[1] for term in row) for row in terms}
    assert left == set(AFTER)
    npugraph("export", "audit", "--format", "rdf12", *base, "--out", "new.ttl")
    fresh = ox.Store()
    fresh.load(path="new.ttl")
    said = {quad.subject for quad in fresh if quad.predicate.value.endswith("#reifies")}
    stated = {
        (quad.subject, quad.predicate, quad.object) for quad in fresh if quad.subject not in said
    }
    assert stated == set(terms)


def test_changes_for_other_tools(folder: Path) -> None:
    done = npugraph("export", "audit", "--format", "sql", "--table", "kg", "--columns", "s,p,o")
    assert """UPDATE "kg" SET "s" = 'Madrid', "p" = 'capital_of'""" in done.stdout
    assert "mysql" in refusal("export", "audit", "--format", "sql", "--dialect", "oracle")
    assert "no beginning of an IRI" in refusal(
        "export", "audit", "--format", "rdf12", "--base", "x"
    )
    assert "No decided fact is about Wikidata" in refusal(
        "export", "audit", "--format", "quickstatements"
    )


def test_answers_go_to_a_spreadsheet_and_come_back(folder: Path) -> None:
    done = npugraph("export", "audit", "--format", "answers", "--out", "answers.csv", "--json")
    assert "removed" not in json.loads(done.stdout)
    # The audit takes them: wrong ones are wrong, whatever the desk's word for it.
    assert read_answers(Path("answers.csv")).said == (1, 0, 0, -1, 0, 1, 0, 1, 0)
    again = npugraph("answers", "audit", "answers.csv", "--json")
    assert json.loads(again.stdout)["known"] == 9
    text = Path("answers.csv").read_text(encoding="utf-8-sig")
    changed = text.replace(
        "Oslo,capital_of,Norway,unsure,unsure", "Oslo,capital_of,Norway,false,unsure"
    )
    more = "Lima,capital_of,Peru,false,,,,,,,chosen,,Cy,,,,,\r\n"
    Path("answers.csv").write_text(changed + more, encoding="utf-8", newline="")
    assert "2 answers added, 8 known already" in npugraph("answers", "audit", "answers.csv").stdout
    assert "0 answers added, 10 known" in npugraph("answers", "audit", "answers.csv").stdout
    # Two of three call Lima wrong now, and Ada thinks again about Oslo.
    npugraph("export", "audit", "--format", "graph", "--out", "new.csv")
    left = facts_in(Path("new.csv"), ReadOptions(columns=("from", "type", "to")))
    assert left == [row for row in AFTER if row[0] not in ("Oslo", "Lima")]


def test_a_spreadsheet_that_is_wrong_is_one_sentence(folder: Path) -> None:
    head = "head,relation,tail,answer,new_tail\n"
    for rows, words, sentence in (
        ("Rome,capital_of,Italy,false,\n", (), "line 2: nobody is named in the column reviewer"),
        (
            "Rome,capital_of,Mars,false,\n",
            ("Ada",),
            "does not know the fact (Rome, capital_of, Mars)",
        ),
        ("Rome,capital_of,Italy,perhaps,\n", ("Ada",), "must be true, false or unsure"),
        ("Rome,capital_of,Italy,true,Mars\n", ("Ada",), "has no other fact beside it"),
    ):
        Path("a.csv").write_text(head + rows, encoding="utf-8")
        who = ("--reviewer", *words) if words else ()
        assert sentence in refusal("answers", "audit", "a.csv", *who)
    Path("a.csv").write_text(head + "Rome,capital_of,Italy,correct,Malta\n", encoding="utf-8")
    assert read_answers(Path("a.csv")).said == (0,)
    npugraph("answers", "audit", "a.csv", "--reviewer", "Eve")
    with Store.open(Path("audit") / FILE) as store:
        last = store.current()[-1]
    assert (last.answer, last.new_tail, last.reviewer) == ("correct", "Malta", "Eve")
    Path("a.csv").write_text(head + "Rome,capital_of,Italy,yes,Malta\n", encoding="utf-8")
    with pytest.raises(DataError, match="another fact stands beside it"):
        read_answers(Path("a.csv"))


def test_help() -> None:
    for command in ("export", "apply", "revert", "answers"):
        assert f"Example: npugraph {command}" in npugraph(command, "--help").output
    assert call("apply").exit_code == 2
