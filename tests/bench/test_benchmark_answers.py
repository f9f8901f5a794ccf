"""The script that simulates a reviewer, on the bundled graph with tiny settings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.quality import answers
from npugraph.auditing.statistics.answers import CHOSEN, RANDOM

TINY = ("d=4", "epochs=1", "folds=2", "search=false", "self_test=0")


def test_a_run_is_a_line_with_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "DRAWS", 10)
    monkeypatch.setattr(answers, "LEARNED_DRAWS", 2)
    out = tmp_path / "answers.jsonl"
    words = ["world", "--noise", "typed", "--seed", "3", "--device", "cpu", "--out", str(out)]
    answers.main([*words, *(word for value in TINY for word in ("--set", value))])
    (line,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert 0.03 < line["wrong_share"] < 0.06
    for size in ("50", "100", "200"):
        assert line["learned"][size]["by_order"]["ece"] < 0.2
        widths = line["share"][size]
        assert widths["random"]["width"] < widths["half_random"]["width"]
        assert 0 <= widths["drawn"]["covered"] <= 1
    capsys.readouterr()
    answers.main(["--table", "--out", str(out)])
    shown = capsys.readouterr().out
    assert "| world | typed | 1 | 50 |" in shown


def test_half_of_the_answers_are_random_and_half_the_most_suspicious() -> None:
    rng = np.random.default_rng(0)
    score = rng.normal(size=1000)
    cell = answers.Cell(score, np.full(1000, 0.9), np.zeros(1000, dtype=np.int64), score > -1)
    given = cell.answers(100, rng)
    assert len(np.unique(given.rows)) == 100
    assert (given.drawn == RANDOM).sum() == (given.drawn == CHOSEN).sum() == 50
    left = np.setdiff1d(np.arange(1000), given.rows[given.drawn == RANDOM])
    assert set(given.rows[given.drawn == CHOSEN]) == set(left[np.argsort(score[left])[:50]])
    assert (given.true == (score[given.rows] > -1)).all()
