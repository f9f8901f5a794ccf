"""The command check, from a small file to issues.tsv."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from npugraph.auditing.issues import CHECKS
from npugraph.cli import app
from npugraph.errors import DataError

COUNTRIES = [f"Country {chr(65 + i // 26)}{chr(97 + i % 26)}" for i in range(80)]
HEADER = "kind\tscore\thead\trelation\ttail\tother\tsentence\n"
GOLDEN = HEADER + (
    "spelling\t1\t The Gambia\t\t\tThe Gambia\t' The Gambia' (1 fact) and 'The Gambia' (3 facts) "
    "differ only in white space, Unicode form or invisible characters.\n"
    "self-loop\t0.9552\tThe Gambia\tin\tThe Gambia\t\t82 of the 82 other facts of in join two "
    "different entities.\n"
    "second-tail\t0.9547\tThe Gambia\tin\tThe Gambia\tContinent 0\t81 of the 81 other heads of in "
    "have one tail; The Gambia also has Continent 0.\n"
    "repeat\t0.9665\tCountry Aa\tin\tContinent 0\trecord 1\tRecord 165 of the input repeats "
    "record 1.\n"
    "single\t0.9591\t The Gambia\tin\tContinent 2\t The Gambia\t The Gambia is in no other fact; "
    "90 of the 91 entities are in more than one.\n"
)


def write_facts(folder: Path) -> Path:
    lines = [f"{name},in,Continent {i % 5}" for i, name in enumerate(COUNTRIES)]
    lines += [f"{name},speaks,Language {i % 4}" for i, name in enumerate(COUNTRIES)]
    lines += ["The Gambia,in,Continent 0", " The Gambia,in,Continent 2"]
    lines += ["The Gambia,in,The Gambia", "The Gambia,speaks,Language 0", lines[0]]
    path = folder / "facts.csv"
    path.write_text("from,type,to\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_from_a_file_to_issues(tmp_path: Path) -> None:
    facts, out = write_facts(tmp_path), tmp_path / "issues.tsv"
    done = CliRunner().invoke(app, ["check", str(facts), "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["facts"] == 164, "The header is no fact."
    assert out.read_text(encoding="utf-8") == GOLDEN
    assert set(result["issues"]) == {check.kind for check in CHECKS}
    assert {k: n for k, n in result["issues"].items() if n} == {
        "spelling": 1,
        "self-loop": 1,
        "second-tail": 1,
        "repeat": 1,
        "single": 1,
    }
    assert [row["head"] for row in result["examples"][:2]] == [" The Gambia", "The Gambia"]


def test_what_a_person_sees(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(write_facts(tmp_path)), "--examples", "1"])
    assert done.exit_code == 0, done.output
    assert "Names that differ in form only: 1  [spelling]" in done.stdout
    assert "Facts from an entity to itself: 1  [self-loop]" in done.stdout
    again = CliRunner().invoke(app, ["check", "countries.tsv"])
    assert again.exit_code != 0


def test_nothing_odd_is_said(tmp_path: Path) -> None:
    path = tmp_path / "plain.tsv"
    path.write_text("Rome\tcapital_of\tItaly\nParis\tcapital_of\tFrance\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(path)])
    assert done.stdout == "No issue was found.\n"


def test_a_file_is_not_replaced_without_being_told(tmp_path: Path) -> None:
    facts, out = write_facts(tmp_path), tmp_path / "issues.tsv"
    out.write_text("mine")
    done = CliRunner().invoke(app, ["check", str(facts), "--out", str(out)])
    assert "--overwrite" in str(done.exception)
    assert out.read_text() == "mine"
    done = CliRunner().invoke(app, ["check", str(facts), "--out", str(out), "--overwrite"])
    assert done.exit_code == 0
    assert out.read_text(encoding="utf-8") == GOLDEN


def test_rules_and_types_from_files(tmp_path: Path) -> None:
    facts, rules, types = write_facts(tmp_path), tmp_path / "rules.toml", tmp_path / "types.tsv"
    rules.write_text('[relation.in]\nrange = "continent"\none_tail = true\n')
    names = [*(f"Continent {i}" for i in range(5)), "The Gambia"]
    kinds = [*["continent"] * 5, "country"]
    types.write_text("".join(f"{n}\t{k}\n" for n, k in zip(names, kinds, strict=True)))
    words = ["check", str(facts), "--rules", str(rules), "--types", str(types), "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["issues"]["rule"] == 2
    assert [row["sentence"] for row in found["examples"][:2]] == [
        "A rule: a tail of in is continent; The Gambia is country.",
        "A rule: in has one tail per head; also stored: The Gambia, in, Continent 0.",
    ]


def test_types_that_cannot_be_read(tmp_path: Path) -> None:
    types = tmp_path / "types.tsv"
    types.write_text("Rome\tcity\nItaly\n")
    done = CliRunner().invoke(app, ["check", str(write_facts(tmp_path)), "--types", str(types)])
    assert isinstance(done.exception, DataError)
    assert str(done.exception) == f"{types}, line 2: an entity and a type are needed."
    with pytest.raises(DataError, match="no such file"):
        raise CliRunner().invoke(app, ["check", "--types", str(tmp_path / "no.tsv")]).exception


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ": the file holds no types; give a row with an entity and its type for each."),
        ("entity\ttype\n", ": the file holds no types; give a row with an entity and its type "),
        (
            "entitiy\ttype\nCountry Aa\tstate\n",
            ", line 1: the columns are called entity and type, in this order, not 'entitiy' and "
            "'type'; if this line is no header, put one above it.",
        ),
        ("Type\tEntity\nstate\tCountry Aa\n", ", line 1: the columns are called entity and type"),
        (
            "Cuontry Aa\tstate\n",
            ": none of the entities is in this graph, the first being 'Cuontry Aa'; write names as "
            "the graph does. Did you mean 'Country Aa'?",
        ),
    ],
)
def test_types_that_say_nothing_are_refused(tmp_path: Path, text: str, said: str) -> None:
    types = tmp_path / "types.tsv"
    types.write_text(text)
    done = CliRunner().invoke(app, ["check", str(write_facts(tmp_path)), "--types", str(types)])
    assert isinstance(done.exception, DataError)
    assert str(done.exception).startswith(f"{types}{said}")


def test_a_type_that_is_called_entity_is_no_header(tmp_path: Path) -> None:
    types = tmp_path / "types.tsv"
    types.write_text("Country Aa\tentity\n")
    done = CliRunner().invoke(app, ["check", str(write_facts(tmp_path)), "--types", str(types)])
    assert done.exit_code == 0, done.output
