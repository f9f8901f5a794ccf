"""Ranks train as one process does: the same losses, the same ranks of facts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from npugraph.errors import RankError, RunError, SettingsError
from npugraph.fitting import load
from npugraph.peers import ALONE, Peers
from npugraph.ranking.evaluate import evaluate
from npugraph.recipes import RECIPES
from npugraph.training.split import split
from rank_jobs import (
    all_losses,
    all_losses_apart,
    run_ranks,
    train,
    train_killed,
    train_killed_writing,
    train_short_of_memory,
)
from recipe_cases import CASES, groups

# Settings, steps and type; quick by an odd number of dimensions and small batches.
DRAWN = {"d": 7, "negatives": 4, "batch_size": 32}
SMALL = {
    "complex-n3": ({"d": 7, "batch_size": 32, "n3": 0.05}, 200, "float64"),
    "rotate": (DRAWN, 200, "float64"),
    "transe": (DRAWN, 40, "float64"),
    "distmult": (DRAWN, 40, "float64"),
    "complex": (DRAWN | {"penalty": 0.05}, 40, "float64"),
}
FEW = 20
BY_QUESTIONS = ("path", "npugraph-path")
CAN_BE_SPLIT = ("transe", "distmult", "complex", "rotate", "sans", "complex-n3")
TRAINED = {"d": 9, "batch_size": 128, "epochs": 6, "validate_every": 2, "patience": 9}


def farthest(one: list[float], other: list[float]) -> float:
    assert len(one) == len(other)
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def alone(data_root: Path) -> dict[str, list[float]]:
    return all_losses(ALONE, SMALL)


@pytest.fixture(scope="module")
def together(data_root: Path) -> list[dict[str, list[float]]]:
    return run_ranks(2, all_losses, SMALL)


@pytest.fixture(scope="module")
def apart(data_root: Path) -> list[dict[str, list[float]]]:
    """Of ranks that exchange nothing, for a few steps."""
    few = {recipe: (values, FEW, dtype) for recipe, (values, _, dtype) in SMALL.items()}
    return run_ranks(2, all_losses_apart, few)


@pytest.mark.parametrize("recipe", SMALL)
def test_two_ranks_have_the_losses_of_one_process(
    recipe: str, alone: dict[str, list[float]], together: list[dict[str, list[float]]]
) -> None:
    assert len(alone[recipe]) == SMALL[recipe][1]
    assert alone[recipe][-1] < alone[recipe][0]
    for rank in together:
        assert farthest(rank[recipe], alone[recipe]) < 1e-9


@pytest.mark.parametrize("recipe", SMALL)
def test_without_the_exchange_they_do_not(
    recipe: str, alone: dict[str, list[float]], apart: list[dict[str, list[float]]]
) -> None:
    for rank in apart:
        assert farthest(rank[recipe], alone[recipe][:FEW]) > 1e-3


@pytest.mark.parametrize("recipe", ["complex-n3", "rotate"])
def test_two_ranks_rank_facts_as_one_process(recipe: str, tmp_path: Path, data_root: Path) -> None:
    values = TRAINED | {"epochs": 2, "batch_size": 256, "learning_rate": 0.05}
    one = train(ALONE, "umls", recipe, values, tmp_path / "one")
    for found in run_ranks(2, train, "umls", recipe, values, tmp_path / "two"):
        assert farthest(found["losses"], one["losses"]) < 1e-4
        assert found["progress"]["best_mrr"] == pytest.approx(one["progress"]["best_mrr"], abs=2e-3)
    mrr = [
        evaluate(load(tmp_path / run, "cpu"))["filters"]["clean"]["mrr"] for run in ("one", "two")
    ]
    assert mrr[0] == pytest.approx(mrr[1], abs=2e-3)
    assert mrr[0] > 0.05


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_split_is_refused(name: str) -> None:
    case = CASES[name]
    settings = case.settings()
    training = RECIPES[case.recipe].build(settings, groups().train)
    whole = sum(p.numel() for p in training.parameters())
    if case.recipe in BY_QUESTIONS and getattr(settings, "members", 1) == 1:
        split(training, settings, Peers(0, 2))
        assert training.system.share.by_questions
        assert sum(p.numel() for p in training.parameters()) == whole
    elif case.recipe in CAN_BE_SPLIT:
        split(training, settings, Peers(0, 2))
        assert sum(p.numel() for p in training.parameters()) == whole / 2
    else:
        with pytest.raises(SettingsError, match="cannot be split over ranks: .* one process;"):
            split(training, settings, Peers(0, 2))


@pytest.mark.parametrize(
    ("recipe", "change", "ranks", "sentence"),
    [
        ("complex-n3", {"d": 2}, 3, "3 ranks cannot share 2 dimensions: each needs at least one"),
        ("complex-n3", {"clip": 1.0}, 2, "clip=1.0 looks at the whole gradient"),
        ("transe", {"p": 2}, 2, "its score is no sum over dimensions"),
    ],
)
def test_settings_that_cannot_be_split_are_refused(
    recipe: str, change: dict[str, Any], ranks: int, sentence: str
) -> None:
    settings = CASES[recipe].settings(**change)
    training = RECIPES[recipe].build(settings, groups().train)
    with pytest.raises(SettingsError, match=sentence):
        split(training, settings, Peers(0, ranks))


@pytest.fixture(scope="module")
def unbroken() -> dict[str, Any]:
    return train(ALONE, "groups", "complex-n3", TRAINED, None)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of two ranks of which the second was killed in epoch 4, at its second step."""
    out = tmp_path_factory.mktemp("killed") / "run"
    steps = -(-len(groups().train) // TRAINED["batch_size"])
    lost, gone = run_ranks(2, train_killed, 3 * steps + 2, "groups", "complex-n3", TRAINED, out)
    assert gone is None
    assert isinstance(lost, RankError)
    assert str(lost).startswith("Another rank was lost, so this one ends (")
    assert str(lost).endswith("; go on with the same command and --resume.")
    return out


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_any_number_of_ranks_goes_on_where_one_was_killed(
    ranks: int, killed: Path, unbroken: dict[str, Any], tmp_path: Path
) -> None:
    out = shutil.copytree(killed, tmp_path / "run")
    given = ("groups", "complex-n3", TRAINED, out, True)
    found = [train(ALONE, *given)] if ranks == 1 else run_ranks(ranks, train, *given)
    for rank in found:
        # Two epochs were kept.
        assert farthest(rank["losses"], unbroken["losses"][2:]) < 1e-4
        assert rank["progress"]["epoch"] == TRAINED["epochs"]
        assert rank["progress"]["best_mrr"] == pytest.approx(
            unbroken["progress"]["best_mrr"], abs=2e-3
        )
    assert [rank["widths"]["encoder.entities"] for rank in found] == {
        1: [18], 2: [8, 10], 3: [6, 6, 6]
    }[ranks]  # fmt: skip
    assert len(list(out.glob("last-*.safetensors"))) == (ranks if ranks > 1 else 0)
    assert load(out, "cpu").progress.epoch == TRAINED["epochs"]


@pytest.mark.parametrize("step", [1, 5, 11])
def test_a_rank_may_be_killed_at_any_step(
    step: int, unbroken: dict[str, Any], tmp_path: Path
) -> None:
    given = ("groups", "complex-n3", TRAINED, tmp_path / "run")
    lost, gone = run_ranks(2, train_killed, step, *given)
    assert gone is None
    assert isinstance(lost, RankError)
    # Before the first checkpoint it starts anew.
    found = train(ALONE, *given, True)
    assert found["progress"]["epoch"] == TRAINED["epochs"]
    kept = TRAINED["epochs"] - len(found["losses"])
    assert farthest(found["losses"], unbroken["losses"][kept:]) < 1e-4


@pytest.mark.parametrize("recipe", ["complex-n3", "path"])
def test_ranks_without_the_memory_are_refused_in_one_sentence(recipe: str, tmp_path: Path) -> None:
    given = ("groups", recipe, {"epochs": 1}, tmp_path / "run")
    for error in run_ranks(2, train_short_of_memory, *given):
        assert isinstance(error, SettingsError)
        assert str(error).startswith("Training on 2 ranks needs about ")
        assert "and cpu has 0.0 GiB free; lower batch_size=" in str(error)
        assert "--ranks 2" in str(error)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("file", ["model.safetensors", "last.safetensors"])
def test_a_kill_while_a_state_is_written_leaves_the_old_one(
    file: str, unbroken: dict[str, Any], tmp_path: Path
) -> None:
    given = ("groups", "complex-n3", TRAINED, tmp_path / "run")
    gone, lost = run_ranks(2, train_killed_writing, file, 2, *given)
    assert gone is None
    assert isinstance(lost, RankError)
    assert load(tmp_path / "run", "cpu").progress.epoch == 2
    stem = file.partition(".")[0]
    assert len(list((tmp_path / "run").glob(f"{stem}-*"))) == 4
    found = train(ALONE, *given, True)
    assert farthest(found["losses"], unbroken["losses"][2:]) < 1e-4
    assert list((tmp_path / "run").glob(f"{stem}-*")) == []


def test_a_shard_that_is_missing_or_cut_is_said(killed: Path, tmp_path: Path) -> None:
    out = shutil.copytree(killed, tmp_path / "run")
    shard = next(out.glob("model-*-2-of-2.safetensors"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-10])
    with pytest.raises(RunError, match=rf"{shard.name} is damaged \(.*\); train again"):
        load(out)
    shard.unlink()
    with pytest.raises(
        RunError, match=rf"{shard.name} is missing: the state of .* is in 2 files. Put it back, or"
    ):
        load(out)
    shard.write_bytes(whole)
    assert load(out, "cpu").system.score(groups().test.facts).isfinite().all()
