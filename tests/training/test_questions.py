"""Ranks that share the questions of a step train as one process does."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from npugraph.errors import RankError
from npugraph.fitting import load
from npugraph.peers import ALONE, Peers
from npugraph.ranking.evaluate import evaluate
from npugraph.recipes import RECIPES
from npugraph.training.memory import plan_memory
from npugraph.training.split import split
from rank_jobs import all_losses, all_losses_apart, all_losses_kept, run_ranks, train, train_killed
from recipe_cases import CASES, groups

SHAPE = {"d": 4, "layers": 2, "batch_size": 7, "answers": 2, "hide_pair_share": 0.3}
CASES_OF_LOSSES = {
    "path": (SHAPE, 12, "float64"),
    # The posterior is found before the second epoch, which begins after a few steps.
    "npugraph-path": (
        SHAPE | {"objective": "npu", "epoch_share": 0.004, "warmup": 1, "posterior_facts": 60},
        12,
        "float64",
    ),
}
TRAINED = {
    "d": 4,
    "layers": 2,
    "batch_size": 33,
    "epoch_share": 0.3,
    "epochs": 4,
    "validate_every": 2,
    "valid_facts": 20,
    "clip": 1.0,
}


def farthest(one: list[float], other: list[float]) -> float:
    assert len(one) == len(other)
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def alone(data_root: Path) -> dict[str, list[float]]:
    return all_losses(ALONE, CASES_OF_LOSSES)


def test_two_ranks_have_the_losses_of_one_process(alone: dict[str, list[float]]) -> None:
    for rank in run_ranks(2, all_losses, CASES_OF_LOSSES):
        for recipe, losses in alone.items():
            assert len(set(losses)) == len(losses) == CASES_OF_LOSSES[recipe][1]
            assert farthest(rank[recipe], losses) < 1e-9


@pytest.mark.parametrize("job", [all_losses_apart, all_losses_kept])
def test_without_the_exchange_they_do_not(job: Any, alone: dict[str, list[float]]) -> None:
    for rank in run_ranks(2, job, CASES_OF_LOSSES):
        for recipe, losses in alone.items():
            assert farthest(rank[recipe], losses) > 1e-3


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    out = tmp_path_factory.mktemp("one") / "run"
    return train(ALONE, "groups", "path", TRAINED, out), out


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of two ranks of which the second was killed in epoch 3, at its first step."""
    out = tmp_path_factory.mktemp("killed") / "run"
    training = RECIPES["path"].build(RECIPES["path"].settings(**TRAINED), groups().train)
    steps = -(-training.num_items() // TRAINED["batch_size"])
    lost, gone = run_ranks(2, train_killed, 2 * steps + 1, "groups", "path", TRAINED, out)
    assert gone is None
    assert isinstance(lost, RankError)
    assert str(lost).startswith("Another rank was lost, so this one ends (")
    return out


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_any_number_of_ranks_goes_on_where_one_was_killed(
    ranks: int, killed: Path, unbroken: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    one, whole = unbroken
    out = shutil.copytree(killed, tmp_path / "run")
    given = ("groups", "path", TRAINED, out, True)
    found = [train(ALONE, *given)] if ranks == 1 else run_ranks(ranks, train, *given)
    # To the last bit, or the ranks would part.
    assert len({rank["weights"] for rank in found}) == 1
    for rank in found:
        assert farthest(rank["losses"], one["losses"][2:]) < 1e-4
        assert rank["progress"]["best_mrr"] == pytest.approx(one["progress"]["best_mrr"], abs=2e-3)
    # The files are those of one process.
    assert {file.name for file in out.iterdir()} == {file.name for file in whole.iterdir()}
    mrr = [evaluate(load(run, "cpu"))["filters"]["clean"]["mrr"] for run in (whole, out)]
    assert mrr[0] == pytest.approx(mrr[1], abs=2e-3)
    assert len((out / "metrics.jsonl").read_text().splitlines()) == TRAINED["epochs"]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_every_rank_has_a_row_to_learn_from(count: int) -> None:
    for rank in range(3):
        first, last = Peers(rank, 3).run(count)
        assert 0 <= first <= last <= count
        assert count == 0 or first < count


@pytest.mark.parametrize("name", ["path", "npugraph-path"])
def test_a_rank_plans_its_own_questions_and_the_scores_of_all(name: str) -> None:
    settings = CASES[name].settings()
    training = RECIPES[name].build(settings, groups().train)
    cpu = torch.device("cpu")
    one = plan_memory(training, settings, 10, cpu)
    split(training, settings, Peers(0, 2, 0, 2))
    each = plan_memory(training, settings, 10, cpu)
    assert each.weights == one.weights
    assert each.most < one.most < 2 * each.most
    assert each.total == 2 * (each.kept + each.most + each.libraries)
