"""The loop: it learns, repeats itself, can be stopped anywhere, and never peeks."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from npugraph.checkpoint import Run, fingerprint
from npugraph.datasets import bundled, load
from npugraph.errors import RunError, SettingsError
from npugraph.evaluation import evaluate
from npugraph.graph import split_facts
from npugraph.recipes import RECIPES
from npugraph.recipes.complex_n3 import ComplexN3Settings
from npugraph.recipes.npugraph import NPUGraphSettings
from npugraph.settings import make_settings
from npugraph.train import choose_device, fit
from npugraph.train import load as load_run

SMALL = ComplexN3Settings(d=8, epochs=7, validate_every=2, batch_size=256, device="cpu")


def weights(system):
    return {name: tensor.clone() for name, tensor in system.state_dict().items()}


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


def without_times(records):
    return [{k: v for k, v in r.items() if "seconds" not in k} for r in records]


class StopError(Exception):
    pass


def stop_at(epoch):
    def report(record):
        if record["epoch"] == epoch:
            raise StopError

    return report


def test_same_seed_same_numbers_and_another_seed_other_ones():
    first, second = (fit(bundled(), "complex-n3", SMALL) for _ in range(2))
    assert_same(weights(first.system), weights(second.system))
    assert without_times(first.metrics) == without_times(second.metrics)
    other = fit(bundled(), "complex-n3", dataclasses.replace(SMALL, seed=1))
    assert other.metrics[0]["loss"] != first.metrics[0]["loss"]


@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "sgd"])
@pytest.mark.parametrize("epoch", [1, 4, 5])
def test_a_stopped_and_resumed_run_equals_an_unbroken_one(tmp_path, epoch, optimizer):
    settings = dataclasses.replace(SMALL, optimizer=optimizer, learning_rate=0.05)
    whole = fit(bundled(), "complex-n3", settings, tmp_path / "whole")
    with pytest.raises(StopError):
        fit(bundled(), "complex-n3", settings, tmp_path / "cut", report=stop_at(epoch))
    resumed = fit(bundled(), "complex-n3", settings, tmp_path / "cut", resume=True)
    assert_same(weights(whole.system), weights(resumed.system))
    assert resumed.progress == whole.progress
    logs = [Run.open(tmp_path / name).metrics() for name in ("whole", "cut")]
    assert without_times(logs[0]) == without_times(logs[1])
    assert [record["epoch"] for record in logs[1]] == list(range(1, 8))
    last = [(tmp_path / name / "last.safetensors").read_bytes() for name in ("whole", "cut")]
    assert last[0] == last[1]


NPU = NPUGraphSettings(
    d=8,
    hidden=8,
    epochs=5,
    warmup=2,
    negatives=6,
    validate_every=2,
    batch_size=512,
    learning_rate=0.01,
    device="cpu",
)


@pytest.mark.parametrize("epoch", [1, 3, 4])
def test_npugraph_resumes_through_its_warm_up(tmp_path, epoch):
    whole = fit(bundled(), "npugraph", NPU, tmp_path / "whole")
    with pytest.raises(StopError):
        fit(bundled(), "npugraph", NPU, tmp_path / "cut", report=stop_at(epoch))
    resumed = fit(bundled(), "npugraph", NPU, tmp_path / "cut", resume=True)
    assert_same(weights(whole.system), weights(resumed.system))
    logs = [Run.open(tmp_path / name).metrics() for name in ("whole", "cut")]
    assert without_times(logs[0]) == without_times(logs[1])


def test_npugraph_repeats_itself_and_a_judge_changes_nothing():
    plain = fit(bundled(), "npugraph", NPU)
    seen = []

    def judge(training):
        seen.append(len(training.latest[0]))
        return {"seen": 1}

    judged = fit(bundled(), "npugraph", NPU, judge=judge)
    assert_same(weights(plain.system), weights(judged.system))
    assert seen == [len(bundled().train)] * 5
    assert all(record["seen"] == 1 for record in judged.metrics)


@pytest.mark.parametrize("recipe", list(RECIPES))
def test_every_recipe_beats_chance(recipe):
    small = {"d": "16", "epochs": "10", "batch_size": "256", "device": "cpu", "seed": "1"}
    if recipe.startswith("npugraph"):
        small |= {"hidden": "32", "negatives": "20", "warmup": "6", "learning_rate": "0.01"}
        small |= {"dropout": "0.1", "hidden_dropout": "0.1"}
    settings = make_settings(RECIPES[recipe].settings, small)
    fitted = fit(bundled(), recipe, settings)
    metrics = evaluate(fitted)["filters"]["clean"]
    assert metrics["amri"] > 0.5
    assert metrics["mrr"] > 0.05


def test_a_finished_run_resumes_to_itself(tmp_path):
    done = fit(bundled(), "complex-n3", SMALL, tmp_path / "run")
    again = fit(bundled(), "complex-n3", SMALL, tmp_path / "run", resume=True)
    assert_same(weights(done.system), weights(again.system))
    assert again.metrics == []


def test_a_line_cut_short_in_the_log_is_forgotten(tmp_path):
    with pytest.raises(StopError):
        fit(bundled(), "complex-n3", SMALL, tmp_path / "run", report=stop_at(3))
    with (tmp_path / "run" / "metrics.jsonl").open("a") as log:
        log.write('{"epoch": 4, "lo')
    fit(bundled(), "complex-n3", SMALL, tmp_path / "run", resume=True)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == list(range(1, 8))


def test_a_run_folder_holds_all_that_is_needed(tmp_path):
    fitted = fit(bundled(), "complex-n3", SMALL, tmp_path / "run")
    loaded = load_run(tmp_path / "run", "cpu")
    assert_same(weights(fitted.system), weights(loaded.system))
    assert fingerprint(loaded.splits) == fingerprint(bundled())
    assert evaluate(loaded)["filters"] == evaluate(fitted)["filters"]
    assert not list((tmp_path / "run").glob(".*partial"))


def test_the_best_epoch_is_kept_and_patience_stops():
    settings = dataclasses.replace(SMALL, epochs=400, d=32, validate_every=1, patience=3, n3=0.0)
    fitted = fit(bundled(), "complex-n3", settings)
    mrrs = [record["valid_mrr"] for record in fitted.metrics]
    assert len(mrrs) < 400
    assert fitted.progress.best_mrr == max(mrrs)
    assert fitted.progress.best_epoch == mrrs.index(max(mrrs)) + 1
    assert fitted.progress.bad_validations == 3


def test_test_facts_and_the_truth_are_never_looked_at():
    world = bundled()
    blind = dataclasses.replace(
        world, test=world.test.select(torch.arange(1)), truth=Path("does not exist")
    )
    seeing, not_seeing = (fit(splits, "complex-n3", SMALL) for splits in (world, blind))
    assert_same(weights(seeing.system), weights(not_seeing.system))
    assert without_times(seeing.metrics) == without_times(not_seeing.metrics)


def test_resuming_with_other_settings_or_another_graph_is_refused(tmp_path, toy_graph):
    fit(bundled(), "complex-n3", SMALL, tmp_path / "run")
    with pytest.raises(RunError, match="already holds a run"):
        fit(bundled(), "complex-n3", SMALL, tmp_path / "run")
    other = dataclasses.replace(SMALL, d=9)
    with pytest.raises(RunError, match="made with d=8, not 9"):
        fit(bundled(), "complex-n3", other, tmp_path / "run", resume=True)
    with pytest.raises(RunError, match="another graph"):
        fit(split_facts(toy_graph), "complex-n3", SMALL, tmp_path / "run", resume=True)
    with pytest.raises(RunError, match="not a run folder"):
        fit(bundled(), "complex-n3", SMALL, tmp_path / "nothing", resume=True)


def test_damaged_weights_are_named(tmp_path):
    fit(bundled(), "complex-n3", SMALL, tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RunError, match=r"model\.safetensors is damaged"):
        load_run(tmp_path / "run")


def test_divergence_is_an_error_not_a_result():
    settings = dataclasses.replace(SMALL, optimizer="sgd", learning_rate=1e30)
    with pytest.raises(RunError, match="not a number"):
        fit(bundled(), "complex-n3", settings)


def test_unknown_recipes_and_devices_are_named():
    with pytest.raises(SettingsError, match="Did you mean 'complex-n3'"):
        fit(bundled(), "complex-n4")
    with pytest.raises(SettingsError, match="is not a device"):
        choose_device("gpu9")


@pytest.mark.parametrize(("name", "level"), [("umls", 0.88), ("kinships", 0.80)])
def test_complex_n3_reaches_the_field_on_clean_data(data_root, name, level):
    settings = ComplexN3Settings(d=128, epochs=25, batch_size=128, device="cpu")
    fitted = fit(load(name, allow_download=False), "complex-n3", settings)
    assert evaluate(fitted)["filters"]["clean"]["mrr"] >= level
