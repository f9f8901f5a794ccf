"""The scripts of benchmarks/: what they share, and that the commands in the docs are theirs."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from benchmarks import common

PAGES = [
    "README.md",
    "benchmarks/README.md",
    *(f"docs/{n}.md" for n in ("audit_figures", "method")),
]


@pytest.mark.parametrize("page", PAGES)
def test_the_modules_that_a_page_names_can_be_run(page: str) -> None:
    text = (common.ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"-m (benchmarks\.\w+\.\w+)", text))
    assert named
    for name in named:
        module = importlib.import_module(name)
        assert callable(module.main)
        assert name == module.MODULE
    paths = re.findall(r"benchmarks/\w+/\w+\.py", text)
    assert [path for path in paths if not (common.ROOT / path).is_file()] == []


def test_a_command_leaves_out_where_it_was_written() -> None:
    words = ["umls", "--out", "elsewhere.jsonl", "--set", "a=b c"]
    expected = "python -m benchmarks.quality.audit umls --set 'a=b c'"
    assert common.command("benchmarks.quality.audit", words) == expected


def test_results_are_appended(tmp_path: Path) -> None:
    for number in (1, 2):
        common.append(tmp_path / "lines.jsonl", {"number": number})
    lines = (tmp_path / "lines.jsonl").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 2]


def test_a_measurement_that_fails_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    task = {"allocator": False, "threads": 1, "unknown": 1}
    assert common.launch("benchmarks.speed.ranking", task, "made up", "facts") is None
    assert "made up, allocator setting off: failed (1)" in capsys.readouterr().err
