"""``npugraph review`` from the command line: it opens an audit, or makes one first."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner, Result

from npugraph.cli import app
from npugraph.cli import review as command
from npugraph.errors import NpugraphError
from npugraph.review import DeskSettings
from review_samples import sample_audit


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would be served; the command would go on for ever."""
    seen: list[Any] = []
    monkeypatch.setattr(
        "npugraph.review.web.run.serve", lambda app, listener: seen.append((app, listener))
    )
    return seen


def call(*words: object) -> Result:
    return CliRunner().invoke(app, ["review", *map(str, words), "--port", "0", "--no-browser"])


def refusal(*words: object) -> str:
    done = call(*words)
    assert isinstance(done.exception, NpugraphError), (done.output, done.exception)
    return str(done.exception)


def test_one_line_has_the_address_with_the_token(tmp_path: Path, served: list[Any]) -> None:
    folder = sample_audit(tmp_path / "audit").folder
    done = call(folder, "--reviewer", "Ann & Bob")
    assert done.exit_code == 0, done.output
    (line,) = done.stdout.splitlines()
    address = urlsplit(line.removeprefix("Open "))
    assert (address.scheme, address.hostname) == ("http", "127.0.0.1")
    asked = parse_qs(address.query)
    assert asked["reviewer"] == ["Ann & Bob"]
    assert re.fullmatch(r"[\w-]{32}", asked["token"][0])
    assert "answers.sqlite" in done.stderr
    assert len(served) == 1
    assert (folder / "answers.sqlite").is_file()


def test_json_says_the_same(tmp_path: Path) -> None:
    folder = sample_audit(tmp_path / "audit").folder
    told = json.loads(call(folder, "--token", "a-token-of-my-own", "--json").stdout)
    assert told["address"] == f"{told['url']}?token=a-token-of-my-own"
    assert told["reviewer"]


def test_a_graph_is_audited_first_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, Path]] = []

    def audit_first(graph: str, out: Path) -> None:
        made.append((graph, out))
        sample_audit(out)

    monkeypatch.setattr(command, "audit_first", audit_first)
    facts = tmp_path / "facts.v2.tsv"
    facts.write_text("a\tr\tb\n", encoding="utf-8")
    assert call(facts).exit_code == 0
    again = call(facts)
    assert "has an audit already" in again.stderr
    assert call(facts, "--out", tmp_path / "other").exit_code == 0
    assert made == [(str(facts), tmp_path / "facts-audit"), (str(facts), tmp_path / "other")]


def test_an_audit_of_a_file_is_a_whole_one(tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    rows = [(f"a{i}", f"r{i % 2}", f"b{(i * 3) % 7}") for i in range(60)]
    facts.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    done = call(facts)
    assert done.exit_code == 0, (done.output, done.exception)
    assert (tmp_path / "facts-audit" / "report.html").is_file()
    assert len(done.stdout.splitlines()) == 1


def test_what_is_wrong_is_said_before_anything_is_read(tmp_path: Path) -> None:
    assert "is not the folder of an audit" in refusal(tmp_path)
    assert "order" in refusal("nothing.tsv", "--order", "best")
    assert "estimate" in refusal("nothing.tsv", "--estimate", "2")
    assert "--out is for a graph" in refusal(tmp_path, "--out", tmp_path / "x")
    assert "nothing.tsv" in refusal(tmp_path / "nothing.tsv")


def test_the_options_are_the_settings_of_the_desk() -> None:
    shown = CliRunner().invoke(app, ["review", "--help"], env={"COLUMNS": "200"}).output
    for name in ("random_share", "agreement_share"):
        default = getattr(DeskSettings(), name)
        assert re.search(rf"--{name.replace('_', '-')}.*Default: {default}\.", shown)


@pytest.mark.parametrize(
    ("platform", "display", "opens"),
    [("linux", "", False), ("linux", ":0", True), ("darwin", "", True)],
)
def test_a_browser_opens_where_there_is_a_screen(
    platform: str, display: str, opens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command.sys, "platform", platform)
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert command._has_screen() is opens
