"""fit --ranks: processes that train together, one of which may die."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from npugraph import asking
from npugraph.cli import app
from npugraph.cli.ranks import LOST, _failure
from npugraph.errors import RankError, SettingsError
from npugraph.fitting import fit, load
from rank_jobs import command, run_ranks

# As complex-n3, but the second rank is killed once, at step 9.
RECIPE = """
import os
import signal
from dataclasses import replace
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_pre_hook

from npugraph.recipes import RECIPES

RECIPE = replace(RECIPES["complex-n3"], name="mortal")
steps = 0


def step(*_):
    global steps
    steps += 1
    if os.environ.get("RANK") == "1" and steps == 9 and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)


register_optimizer_step_pre_hook(step)
"""
VALUES = {"d": 6, "epochs": 4, "validate_every": 2, "batch_size": 256, "device": "cpu"}
WORDS = [word for name, value in VALUES.items() for word in ("--set", f"{name}={value}")]
KILLED = (
    "error: Rank 1 was ended by SIGKILL; perhaps the memory did not suffice, so all ranks were "
    "ended; go on with the same command and --resume.\n"
)


def fit_by_two(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "npugraph", "fit", "world", "--recipe", "mortal.py", "--out"]
    line += ["run", "--ranks", "2", *WORDS, *words]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


def test_a_rank_that_is_killed_ends_all_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "mortal.py").write_text(RECIPE)
    died = fit_by_two(tmp_path)
    assert died.returncode == 1
    assert died.stdout == ""
    assert died.stderr.endswith(KILLED)
    assert died.stderr.count("error:") == 1
    assert "Traceback" not in died.stderr
    plan = "plan: mortal.py on cpu in 2 ranks, 3 of 6 dimensions each, at most 4 epochs of"
    assert plan in died.stderr
    assert "MiB per rank, about" in died.stderr
    assert "MiB for the 2 ranks here." in died.stderr

    done = fit_by_two(tmp_path, "--resume", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["ranks"], result["epochs"]) == (2, 4)
    run, one = tmp_path / "run", fit("world", "complex-n3", VALUES)
    assert len(list(run.glob("model-*-of-2.safetensors"))) == 2
    assert result["valid_mrr"] == pytest.approx(one.progress.best_mrr, abs=2e-3)
    losses = [json.loads(line)["loss"] for line in (run / "metrics.jsonl").open()]
    assert losses == pytest.approx([line["loss"] for line in one.metrics], abs=1e-4)

    # What asks a run does not see how many have written it.
    two = load(run, "cpu", recipe=tmp_path / "mortal.py")
    facts = one.splits.test.facts
    assert two.system.score(facts).tolist() == pytest.approx(
        one.system.score(facts).tolist(), abs=1e-3
    )
    ranked = [asking.evaluate(fitted)["filters"]["clean"]["mrr"] for fitted in (one, two)]
    assert ranked[0] == pytest.approx(ranked[1], abs=2e-3)
    assert len(asking.predict(two, head="France", relation="borders")) == 10
    assert asking.score(two, [("France", "borders", "Spain")])["score"].null_count == 0


def test_ranks_that_torchrun_has_started_find_each_other(tmp_path: Path) -> None:
    words = ("fit", "world", "--out", str(tmp_path / "run"), *WORDS, "--json")
    first, second = run_ranks(2, command, *words)
    assert first[0] == second[0] == 0
    assert json.loads(first[1])["ranks"] == 2
    assert second[1:] == ("", "")
    assert load(tmp_path / "run", "cpu").progress.epoch == 4
    # A second time: the first rank looks at the folder for all.
    first, second = run_ranks(2, command, *words)
    assert str(first).startswith(f"{tmp_path / 'run'} already holds a run; continue it with")
    assert isinstance(second, RankError)


def test_as_many_as_were_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    done = CliRunner().invoke(app, ["fit", "world", "--out", str(tmp_path / "run"), "--ranks", "2"])
    assert isinstance(done.exception, SettingsError)
    assert str(done.exception).startswith("--ranks 2, but this process was started as one of 3")


@pytest.mark.parametrize(
    ("rank", "code", "log", "expected"),
    [
        (1, 2, "error: It is so.", SystemExit(2)),
        (0, 2, "", SystemExit(2)),
        (1, 1, "Traceback\nValueError: x", "Rank 1 ended with code 1 (ValueError: x), so all"),
        (0, -9, "", "Rank 0 was ended by SIGKILL; perhaps the memory did not suffice, so all"),
        (1, LOST, "", "Rank 1 lost the others, so all ranks were ended; go on with the same"),
    ],
)
def test_what_is_said_of_a_rank_that_failed(
    rank: int,
    code: int,
    log: str,
    expected: SystemExit | str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "log").write_text(log)
    found = _failure(rank, code, tmp_path / "log")
    if isinstance(expected, SystemExit):
        assert isinstance(found, SystemExit)
        assert found.code == expected.code
        assert capsys.readouterr().err == (f"{log}\n" if log else "")
    else:
        assert isinstance(found, RankError)
        assert str(found).startswith(expected)


def test_the_plan_says_that_ranks_share_the_questions(tmp_path: Path) -> None:
    words = ["fit", "world", "--recipe", "path", "--out", str(tmp_path / "run")]
    for value in ("epochs=1", "d=2", "layers=2", "epoch_share=0.02", "valid_facts=5", "device=cpu"):
        words += ["--set", value]
    first, second = run_ranks(2, command, *words)
    assert first[0] == second[0] == 0
    assert (
        "plan: path on cpu in 2 ranks, each asks 1/2 of the questions, at most 1 epochs"
        in (first[2])
    )
    assert "for the 2 ranks here." in first[2]
    assert not list((tmp_path / "run").glob("*-of-2.safetensors"))
    assert load(tmp_path / "run", "cpu").progress.epoch == 1
