"""What the commands say on stderr, and what the library logs."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from npugraph.cli import app
from npugraph.cli.audit import _lines as found_lines
from npugraph.cli.common import ProgressLines, bar, show_messages

FAST = ("--set", "d=8", "--set", "epochs=4", "--set", "validate_every=2", "--set", "device=cpu")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    package, own = logging.getLogger("npugraph"), logging.getLogger("npugraph.cli")
    before = list(package.handlers), package.level, own.level
    yield
    package.handlers[:] = before[0]
    package.setLevel(before[1])
    own.setLevel(before[2])


def call(*words: object) -> Result:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def test_the_library_prints_nothing_and_logs(tmp_path: Path) -> None:
    code = (
        "import logging, sys, npugraph\n"
        "from npugraph.recipes import get_recipe\n"
        "if len(sys.argv) > 1: logging.basicConfig(level='DEBUG', stream=sys.stdout)\n"
        "settings = get_recipe('complex-n3').settings(d=4, epochs=2, device='cpu')\n"
        "npugraph.fit(npugraph.load_graph(), 'complex-n3', settings)\n"
    )
    silent = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert (silent.stdout, silent.stderr) == ("", "")
    logged = subprocess.run(
        [sys.executable, "-c", code, "x"], capture_output=True, text=True, check=True
    )
    assert "INFO:npugraph.fitting:training complex-n3 on world, cpu" in logged.stdout
    assert "DEBUG:npugraph.training.loop:epoch 1, loss" in logged.stdout
    assert "DEBUG:npugraph.training.loop:epoch 2, loss" in logged.stdout


def test_a_log_file_gets_plain_lines_and_no_bar(tmp_path: Path) -> None:
    done = call("fit", "--out", tmp_path / "run", *FAST)
    assert "training: 4 of 4 in" in done.stderr
    assert "\x1b" not in done.stderr
    assert "\r" not in done.stderr
    assert "━" not in done.stderr


def test_quiet_says_nothing_but_notes(tmp_path: Path) -> None:
    done = call("--quiet", "fit", "--out", tmp_path / "run", *FAST, "--json")
    assert done.stderr == ""
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join(f"a{i % 9}\tr\tb{i % 5}\n" for i in range(60)), encoding="utf-8")
    done = call("--quiet", "fit", facts, "--out", tmp_path / "own", *FAST, "--json")
    assert done.stderr == "note: 15 repeated facts.\n"


def test_one_of_something_is_not_several(tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("a\tr\tb\na\tr\tb\nc\tr\tc\n", encoding="utf-8")
    said = call("check", facts, "--out", tmp_path / "issues.tsv").stderr.splitlines()
    assert said[0] == "facts: 3 entities, 1 relation, 3 facts."
    assert "note: 1 repeated fact." in said
    assert "note: 1 fact from an entity to itself." in said
    assert said[-1] == f"1 issue is in {tmp_path / 'issues.tsv'}."


def test_an_audit_counts_one_of_everything() -> None:
    figures = ("wrong_share", "missing_share", "expected_wrong", "expected_true")
    counts = {"suspects": 1, "missing": 1, "quarantined": 1, "issues": {"repeat": 1}}
    result = {**dict.fromkeys(figures), **counts, "cleaned": "cleaned.tsv", "wrong_end": None}
    result |= {f"{name}_{end}": None for name in figures for end in ("low", "high")}
    result["corrections"] = {"new": 1, "stored": 0}
    assert list(found_lines(result)) == [
        "suspects.tsv: 1 fact to review; how many of them are wrong cannot be told.",
        "1 of them has a correction: 1 another fact to put there, 0 a fact that is stored already.",
        "missing.tsv: 1 fact that is not stored; how many of them are true cannot be told.",
        "issues.tsv: 1 issue, found without a model.",
        "quarantine.tsv: the 1 fact that cleaned.tsv leaves out; npugraph apply and revert take "
        "patch.json.",
    ]


def test_verbose_says_every_epoch_with_the_time(tmp_path: Path) -> None:
    lines = call("--verbose", "fit", "--out", tmp_path / "run", *FAST).stderr.splitlines()
    epochs = [line for line in lines if " DEBUG npugraph.training.loop: epoch " in line]
    assert len(epochs) == 4
    assert all(line[:4].isdigit() and line[4] == "-" for line in lines)


def test_verbose_and_quiet_exclude_each_other() -> None:
    done = CliRunner().invoke(app, ["-v", "-q", "recipes", "list"])
    assert "not both" in str(done.exception)


def test_lines_are_few_and_carry_the_time_left(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    lines = ProgressLines("training", 1000, lambda: now)
    with caplog.at_level(logging.INFO, logger="npugraph.cli"):
        for step in range(1000):
            now = (step + 1) * 0.1
            lines.advance(1, f"loss {step}")
        lines.end()
    said = [record.message for record in caplog.records]
    assert len(said) == 11
    assert said[0] == "training: 100 of 1,000 in 10 s, about 1 min 30 s left: loss 99"
    assert said[-1] == "training: 1,000 of 1,000 in 1 min 40 s, finished."


def test_seconds_hold_lines_back_and_long_silence_is_broken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    fast, slow = ProgressLines("a", 10, lambda: now), ProgressLines("b", 10_000, lambda: now)
    with caplog.at_level(logging.INFO, logger="npugraph.cli"):
        for _ in range(10):
            now += 0.1
            fast.advance(1, "")
        assert caplog.records == []
        now = 700.0
        slow.advance(1, "")
    assert [record.message[:12] for record in caplog.records] == ["b: 1 of 10,0"]


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", shown)
    show_messages()
    with bar("training", 3) as advance:
        advance(3, "loss 0.1")
    assert "training" in shown.getvalue()
    assert "\x1b" in shown.getvalue()
