"""The memory plan: told from what was built, once, and near what was measured."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from npugraph.cli import app
from npugraph.errors import SettingsError
from npugraph.fitting import fit
from npugraph.peers import Peers
from npugraph.recipes import RECIPES, complex_n3
from npugraph.training import memory
from npugraph.training.batch_loss import Training
from npugraph.training.memory import COMPILER, LIBRARIES, MemoryPlan, plan_memory
from npugraph.training.split import split
from recipe_cases import CASES, groups

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "memory.jsonl"


def plan(name: str, **changes: object) -> MemoryPlan:
    case = CASES[name]
    settings = case.settings(**changes)
    training = RECIPES[case.recipe].build(settings, groups().train)
    return plan_memory(training, settings, len(groups().valid), torch.device("cpu"))


@pytest.mark.parametrize("name", CASES)
def test_every_recipe_has_a_plan(name: str) -> None:
    found = plan(name)
    assert found.kept >= found.weights
    assert found.most >= 0
    assert found.libraries in (LIBRARIES, LIBRARIES + COMPILER)
    assert found.total == found.kept + found.most + found.libraries


def test_more_takes_more() -> None:
    least = plan("complex-n3")
    assert plan("complex-n3", d=32).weights == 2 * least.weights
    assert plan("complex-n3", batch_size=2**16).most > least.most
    assert plan("complex-n3", optimizer="adam").kept > least.kept
    assert plan("complex-n3", optimizer="sgd").kept < least.kept


def test_the_command_builds_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Training] = []

    def build(settings: complex_n3.ComplexN3Settings, train: object) -> Training:
        built.append(complex_n3.build(settings, train))  # type: ignore[arg-type]
        return built[-1]

    counted = dataclasses.replace(RECIPES["complex-n3"], build=build)
    monkeypatch.setitem(RECIPES, "complex-n3", counted)
    words = ["fit", "world", "--out", str(tmp_path / "run"), "--set", "epochs=1", "--set", "d=4"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "plan: complex-n3 on cpu" in done.output or torch.cuda.is_available()
    assert len(built) == 1


def test_measured_peaks_are_near_the_plan() -> None:
    lines = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    assert {(line["graph"], line["recipe"]) for line in lines} >= {
        (graph, recipe)
        for graph in ("umls", "codex-s", "fb15k-237")
        for recipe in ("complex-n3", "distmult", "npugraph")
    }
    assert all(0.75 <= line["planned"] / line["measured"] <= 1.25 for line in lines)


def test_what_takes_memory_is_counted() -> None:
    plain = plan("path").most
    for change in ({"batch_size": 128}, {"d": 16}, {"layers": 6}):
        assert 1.5 * plain < plan("path", **change).most < 5 * plain
    assert plan("complex-n3").weights == 4 * (40 + 8) * 2 * 16


def test_a_graph_that_is_too_large_is_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 10_000)
    wanted = r"about .* GiB and cpu has 0.0 GiB free; lower batch_size=64 or d=8 or layers=3"
    with pytest.raises(SettingsError, match=f"{wanted}, or set nodes=1000: only the best nodes"):
        fit(groups(), "path", CASES["path"].settings(), tmp_path / "run")
    with pytest.raises(SettingsError, match=f"{wanted} or nodes=5."):
        fit(groups(), "path", CASES["path"].settings(nodes=5), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_ranks_share_the_weights_and_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["complex-n3"]
    settings = case.settings()
    training = RECIPES[case.recipe].build(settings, groups().train)
    one = plan_memory(training, settings, 10, torch.device("cpu"))
    split(training, settings, Peers(3, 4, 1, 2))
    each = plan_memory(training, settings, 10, torch.device("cpu"))
    assert each.weights == one.weights / 4
    assert each.total == 2 * (each.kept + each.most + each.libraries)
    # Every rank has a GPU of its own.
    assert plan_memory(training, settings, 10, torch.device("cuda")).ranks == 1
    monkeypatch.setattr(memory, "free_bytes", lambda device: one.total)
    sentence = "Training on 2 ranks needs about .* free; lower batch_size=64 or --ranks 2."
    with pytest.raises(SettingsError, match=sentence):
        memory.check_memory(training, settings, 10, torch.device("cpu"))


def test_where_nobody_knows_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: None)
    fitted = fit(groups(), "path", CASES["path"].settings(epochs=1))
    assert fitted.progress.epoch == 1


def test_the_free_memory_is_a_number() -> None:
    free = memory.free_bytes(torch.device("cpu"))
    assert free is None or free > 2**20


def test_a_step_is_planned_for_the_device_that_it_will_be_taken_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan is made before anything is moved there."""
    seen: list[tuple[int, torch.device]] = []
    settings = CASES["path"].settings()
    training = RECIPES["path"].build(settings, groups().train)

    def step_bytes(self: Training, batch_size: int, device: torch.device) -> int:
        seen.append((batch_size, device))
        return 1000

    monkeypatch.setattr(type(training), "step_bytes", step_bytes)
    plan_memory(training, settings, 10, torch.device("cuda"))
    assert seen == [(settings.batch_size, torch.device("cuda"))]
