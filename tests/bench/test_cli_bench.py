"""The bench on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.tiny import made_up, made_up_cost, tiny_graph
from npugraph import __version__
from npugraph.bench.plan import BenchPlan, packaged
from npugraph.bench.store import Store
from npugraph.cli import main

PLAN = """
name = "small"
title = "Three cells."
graphs = ["GRAPH"]
[settings]
device = "cpu"
epochs = 2
[[systems]]
label = "Chance"
recipe = "random"
[[systems]]
label = "Rule"
recipe = "inverse-rule"
[[systems]]
label = "bad"
recipe = "complex-n3"
[systems.settings]
learning_rate = 1e38
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(PLAN.replace("GRAPH", tiny_graph(tmp_path / "graph")))
    return path


@pytest.fixture
def command(capsys: Any, monkeypatch: Any) -> Any:
    """Run a command: (exit code, stdout, stderr)."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["npugraph", "bench", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsys.readouterr()
        return int(stop.value.code or 0), shown.out, shown.err

    return run


def test_a_plan_from_start_to_end(command: Any, plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("run", plan, "--out", out, "--workers", 3, "--threads", 1, "--json")
    code, shown, err = command(*words)
    assert code == 1, err  # One has failed.
    assert json.loads(shown) == {
        "schema": "npugraph.bench.run/1",
        "version": __version__,
        "plan": "small",
        "out": str(out),
        "done": 2,
        "failed": 1,
        "waiting": 0,
    }
    assert "small: 3 cells to run, 3 of unknown length" in err
    assert "bad, " in err
    assert "FAILED: The loss is not a number" in err
    before = (out / "results.jsonl").read_bytes()
    results = Store(out).results()
    assert [line["label"] for line in results.values()] == ["Chance", "Rule", "bad"]
    # Nothing is left to do, unless what failed is tried again.
    code, shown, err = command(*words)
    assert (code, "small: all cells are finished." in err) == (1, True)
    assert (out / "results.jsonl").read_bytes() == before
    code, shown, _ = command("plan", plan, "--out", out, "--json")
    assert code == 0
    listed = json.loads(shown)
    assert [row["status"] for row in listed["cells"]] == ["done", "done", "failed"]
    assert [row["basis"] for row in listed["cells"]] == ["known", "known", "unknown"]
    assert "not a number" in listed["cells"][2]["error"]
    assert listed["all"]["cells"] == 3
    assert listed["left"] == {"cells": 1, "seconds": 0, "unknown": 1}


def test_the_command_in_the_costs_runs_the_cell_again(
    command: Any, plan: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    chance = BenchPlan.read(plan).cells()[0]
    Store(out).add(made_up(chance, 0.123), made_up_cost(chance))
    words = ("run", plan, "--out", out, "--only", chance.key[:6], "--threads", 1, "--shared")
    code, shown, err = command(*words)
    assert code == 0, err
    line, cost = Store(out).results()[chance.key], Store(out).costs()[chance.key]
    assert line["metrics"]["clean"]["mrr"] != 0.123
    assert cost["command"] == f"npugraph bench run {plan} --only {chance.key}"
    assert cost["shared"]
    assert "waiting  2" in shown
    assert not (out / "work").exists()


def test_plans_are_listed(command: Any) -> None:
    code, shown, _ = command("list", "--json")
    assert code == 0
    rows = {row["name"]: row for row in json.loads(shown)["plans"]}
    assert sorted(rows) == packaged()
    assert rows["k-sweep"]["cells"] == 5
    assert "smoke" in command("list")[1]


def test_a_plan_is_estimated_by_machines_that_ran_it(
    command: Any, plan: Path, tmp_path: Path
) -> None:
    out, cells = tmp_path / "out", BenchPlan.read(plan).cells()
    gpu = {"machine": "NVIDIA H200", "workers": 2}
    Store(out).add(made_up(cells[0]), made_up_cost(cells[0], 100.0, **gpu))
    code, shown, err = command("plan", plan, "--out", out, "--on", "H200")
    assert code == 0
    assert "known" in shown
    assert "3 cells in all: about 50 s on one H200, and 2 of which nothing is known." in err
    assert "--measure times a few steps of each." in err
    code, shown, err = command("plan", plan, "--out", out, "--measure", "--json")
    rows = json.loads(shown)["cells"]
    assert [row["basis"] for row in rows] == ["measured", "measured", "unknown"]
    assert all(row["seconds"] > 0 for row in rows[:2])
    assert "timing Rule" in err
    assert "cannot be timed: A score is not a number" in err


def test_folders_are_merged(command: Any, plan: Path, tmp_path: Path) -> None:
    cells = BenchPlan.read(plan).cells()
    for number, cell in enumerate(cells[:2]):
        Store(tmp_path / str(number)).add(made_up(cell), made_up_cost(cell))
    words = ("merge", tmp_path / "0", tmp_path / "1", "--out", tmp_path / "all", "--json")
    code, shown, _ = command(*words)
    assert code == 0
    assert list(json.loads(shown)["added"].values()) == [1, 1]
    assert len(Store(tmp_path / "all").results()) == 2
    code, _, err = command("merge", tmp_path / "none", "--out", tmp_path / "all")
    assert (code, "holds no results.jsonl" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "smok"], "Did you mean 'smoke'"),
        (["run", "smoke", "--only", "zz"], "no cell whose key begins with 'zz'"),
        (["run", "smoke", "--device", "gpu"], "is not a device"),
        (["plan", "smoke", "--measure", "--on", "H200"], "leave out --on"),
    ],
)
def test_mistakes_are_one_sentence(
    command: Any, words: list[str], message: str, tmp_path: Path
) -> None:
    code, _, err = command(*words, "--out", tmp_path)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "results.jsonl").exists()


def test_without_ray_nothing_is_begun(
    command: Any, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = command("run", plan, "--out", tmp_path / "out", "--cluster", "local")
    assert code == 2
    assert "error: A cluster needs Ray: pip install 'npugraph[cluster]'." in err


def test_help_has_examples(command: Any) -> None:
    for name in ("list", "plan", "run", "merge"):
        code, shown, _ = command(name, "--help")
        assert code == 0
        assert f"Example: npugraph bench {name}" in shown
