"""The benchmark of promises: its plans, a cell from end to end, and its tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.quality import promises
from benchmarks.quality.promises_tables import kept, promised, read
from benchmarks.quality.promises_tables import promises as promise_table
from npugraph.data.corrupt import FAMILIES, NOISES


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["promises", *words])
    promises.main()


def line(found: int, interval: tuple[int, int] | None, **more: object) -> dict[str, object]:
    low, high = interval or (None, None)
    made = {
        "graph": "toy",
        "noise": "typed",
        "seed": 0,
        "left_out": False,
        "found": found,
        "facts": 1000,
        "wrong": 50,
        "expected_wrong": None if low is None else found,
        "expected_wrong_low": low,
        "expected_wrong_high": high,
        "wrong_share_low": 0.03,
        "wrong_share_high": 0.08,
    }
    return {**made, **more}


def test_a_plan_has_every_kind_with_and_without_its_family() -> None:
    words = promises.cells("small")
    assert len(words) == 3 * 3 * (2 * len(NOISES) + 1)
    assert len({" ".join(cell) for cell in words}) == len(words)
    assert len(promises.cells("large")) == 2 * (2 * 3 + 1)


def test_the_list_leaves_out_what_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "promises.jsonl"
    ask = ("--plan", "small", "--graphs", "umls", "--seeds", "4", "--list", "--out", str(out))
    run(monkeypatch, *ask)
    every = capsys.readouterr().out.splitlines()
    assert len(every) == 2 * len(NOISES) + 1
    assert "umls --noise typed --seed 4 --left-out" in every
    out.write_text(json.dumps(line(3, None, graph="umls", seed=4)) + "\n", encoding="utf-8")
    run(monkeypatch, *ask)
    left = capsys.readouterr().out.splitlines()
    assert set(every) - set(left) == {"umls --noise typed --seed 4"}


def test_a_cell_that_takes_too_long_is_given_up_and_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "promises.jsonl"
    monkeypatch.setattr(promises, "LARGE_KINDS", ())
    ask = ("--plan", "large", "--graphs", "wn18rr", "--timeout", "0.01", "--out", str(out))
    with pytest.raises(SystemExit):
        run(monkeypatch, *ask)
    assert "wn18rr --noise none --seed 4: given up after 0.01 s" in capsys.readouterr().err
    assert not out.exists()


def test_a_promise_is_kept_within_its_interval() -> None:
    lines = [
        line(60, (50, 70)),
        line(40, (50, 70), seed=1),
        line(9, None, seed=2),
        line(60, (50, 70), seed=3, wrong=100),
    ]
    assert [promised(one) for one in lines] == [True, True, False, True]
    assert [kept(one) for one in lines if promised(one)] == [True, False, True]
    rows = list(promise_table(lines))
    assert rows[2] == "| toy | kind in the pools | 4 | 3 | 2 of 3 | 2 of 3 |"
    assert rows[-1] == "| all | all | 4 | 3 | 2 of 3 | 2 of 3 |"


def test_a_cell_leaves_out_the_family_and_looks_at_the_truth_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "promises.jsonl"
    seen = {}
    real = promises.audit

    def quick(graph, asked):
        seen["asked"] = asked
        changes = {"d": 4, "epochs": 1}
        return real(graph, {**asked.asked(), "folds": 2, "search": False}, changes)

    monkeypatch.setattr(promises, "audit", quick)
    run(monkeypatch, "world", "--noise", "hard", "--left-out", "--seed", "10", "--out", str(out))
    asked = seen["asked"]
    assert not set(FAMILIES["plausible"]) & {*asked.kinds, *asked.tested}
    assert {"one-source", "swapped"} <= set(asked.tested)
    (told,) = read(out)
    assert (told["graph"], told["noise"], told["left_out"]) == ("world", "hard", True)
    assert told["wrong"] > 0
    assert 0 <= told["found"] <= told["suspects"] <= 100
