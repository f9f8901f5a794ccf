"""The loop: it can be stopped anywhere, keeps the best epoch, and never peeks.

That every recipe learns, repeats itself and can be resumed is in conformance/test_recipes.py.
"""

import dataclasses
import json
import sys
import warnings
from pathlib import Path

import pytest
import torch

from npugraph import fitting
from npugraph.cli import main
from npugraph.data.datasets import bundled, load
from npugraph.errors import DataError, RunError, SettingsError
from npugraph.fitting import fit
from npugraph.fitting import load as load_run
from npugraph.graph import KnowledgeGraph, Splits, Vocabulary
from npugraph.model import System
from npugraph.ranking.evaluate import evaluate
from npugraph.recipes.complex_n3 import ComplexN3Settings
from npugraph.recipes.npugraph.recipe import NPUGraphSettings
from npugraph.recipes.puda import PUDA
from npugraph.recipes.ukge import UKGE
from npugraph.scorers import ComplEx
from npugraph.training import checkpoints, loop
from npugraph.training.loop import choose_device
from npugraph.training.optimizers import make_optimizer
from npugraph.training.run_folder import Run, fingerprint
from recipe_cases import groups

PACKAGE = Path(fitting.__file__).parent
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


@pytest.mark.parametrize("optimizer", ["adagrad", "rowwise-adagrad", "adam", "sgd"])
def test_a_stopped_and_resumed_run_equals_an_unbroken_one(tmp_path, optimizer):
    """Stopped before the first checkpoint, between two, and when the step size just fell."""
    settings = dataclasses.replace(SMALL, optimizer=optimizer, learning_rate=0.05, decay_at=0.5)
    whole = fit(groups(), "complex-n3", settings, tmp_path / "whole")
    for epoch in (1, 4, 5):
        folder = tmp_path / f"cut {epoch}"
        with pytest.raises(StopError):
            fit(groups(), "complex-n3", settings, folder, report=stop_at(epoch))
        resumed = fit(groups(), "complex-n3", settings, folder, resume=True)
        assert_same(weights(whole.system), weights(resumed.system))
        assert resumed.progress == whole.progress
        logs = [Run.open(run).metrics() for run in (tmp_path / "whole", folder)]
        assert without_times(logs[0]) == without_times(logs[1])
        assert [record["epoch"] for record in logs[1]] == list(range(1, 8))
        last = [(run / "last.safetensors").read_bytes() for run in (tmp_path / "whole", folder)]
        assert last[0] == last[1]


@pytest.mark.parametrize("optimizer", ["adagrad", "rowwise-adagrad", "adam", "sgd"])
def test_the_step_size_falls_to_a_tenth_with_a_fresh_optimiser(monkeypatch, optimizer):
    """Every group of parameters keeps a step size of its own."""
    made, rates = [], []

    def make(*parts):
        made.append(make_optimizer(*parts))
        return made[-1]

    for module in (fitting, loop):
        monkeypatch.setattr(module, "make_optimizer", make)
    settings = PUDA.settings(
        d=8,
        epochs=5,
        decay_at=0.4,
        batch_size=10**6,
        optimizer=optimizer,
        learning_rate=0.02,
        generator_rate=0.003,
        device="cpu",
    )

    def report(record):
        steps = {int(state["step"]) for state in made[0].state.values()}
        rates.append(([group["lr"] for group in made[0].param_groups], steps))

    fit(groups(), "puda", settings, report=report)
    found = [rate for pair, _ in rates for rate in pair]
    assert found == pytest.approx([0.02, 0.003] * 2 + [0.002, 0.0003] * 3)
    if optimizer != "sgd":
        # One step an epoch, counted anew.
        assert [steps for _, steps in rates] == [{1}, {2}, {1}, {2}, {3}]


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


def test_a_judge_changes_nothing():
    plain = fit(groups(), "npugraph", NPU)
    seen = []

    def judge(system):
        seen.append(len(system.running.mean))
        return {"seen": 1}

    judged = fit(groups(), "npugraph", NPU, judge=judge)
    assert_same(weights(plain.system), weights(judged.system))
    assert seen == [len(groups().train)] * 5
    assert all(record["seen"] == 1 for record in judged.metrics)


def test_a_finished_run_resumes_to_itself(tmp_path):
    done = fit(groups(), "complex-n3", SMALL, tmp_path / "run")
    again = fit(groups(), "complex-n3", SMALL, tmp_path / "run", resume=True)
    assert_same(weights(done.system), weights(again.system))
    assert again.metrics == []


def test_a_setting_that_came_later_was_its_default_before(tmp_path):
    fit(groups(), "complex-n3", SMALL, tmp_path / "run")
    config = tmp_path / "run" / "settings.json"
    made = json.loads(config.read_text())
    assert made["settings"].pop("clip") == 0
    config.write_text(json.dumps(made))
    assert fit(groups(), "complex-n3", SMALL, tmp_path / "run", resume=True).metrics == []
    other = dataclasses.replace(SMALL, clip=1.0)
    with pytest.raises(RunError, match="made with clip=0.0, not 1.0"):
        fit(groups(), "complex-n3", other, tmp_path / "run", resume=True)


def test_a_line_cut_short_in_the_log_is_forgotten(tmp_path):
    with pytest.raises(StopError):
        fit(groups(), "complex-n3", SMALL, tmp_path / "run", report=stop_at(3))
    with (tmp_path / "run" / "metrics.jsonl").open("a") as log:
        log.write('{"epoch": 4, "lo')
    fit(groups(), "complex-n3", SMALL, tmp_path / "run", resume=True)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == list(range(1, 8))


def test_a_run_folder_holds_all_that_is_needed(tmp_path):
    fitted = fit(groups(), "complex-n3", SMALL, tmp_path / "run")
    loaded = load_run(tmp_path / "run", "cpu")
    assert_same(weights(fitted.system), weights(loaded.system))
    assert fingerprint(loaded.splits) == fingerprint(groups())
    assert evaluate(loaded)["filters"] == evaluate(fitted)["filters"]
    assert not list((tmp_path / "run").glob(".*partial"))


def test_a_loaded_run_says_how_far_it_came(tmp_path):
    fitted = fit(groups(), "complex-n3", SMALL, tmp_path / "run")
    loaded = load_run(tmp_path / "run", "cpu")
    assert loaded.progress == fitted.progress
    assert loaded.progress.epoch == SMALL.epochs
    assert loaded.progress.finished
    # A run that was stopped was last written at its latest checkpoint.
    with pytest.raises(StopError):
        fit(groups(), "complex-n3", SMALL, tmp_path / "part", report=stop_at(3))
    stopped = load_run(tmp_path / "part", "cpu").progress
    assert 1 <= stopped.epoch <= 3
    assert stopped.best_epoch >= 1
    assert not stopped.finished


@pytest.mark.parametrize("parts", [("train",), ("train", "valid"), ("valid",)])
def test_confidences_are_part_of_a_run(tmp_path, parts):
    """A part without confidences has none when it is read back, either."""
    rng = torch.Generator().manual_seed(0)
    world = groups()
    graphs = {
        part: dataclasses.replace(
            world.parts()[part],
            confidence=torch.rand(len(world.parts()[part]), generator=rng, dtype=torch.float64),
        )
        for part in parts
    }
    splits = dataclasses.replace(world, **graphs)
    settings = UKGE.settings(d=8, epochs=3, validate_every=1, batch_size=64, device="cpu")
    whole = fit(splits, "ukge", settings, tmp_path / "whole")
    with pytest.raises(StopError):
        fit(splits, "ukge", settings, tmp_path / "cut", report=stop_at(2))
    read = Run.open(tmp_path / "cut").splits()
    for name, part in read.parts().items():
        expected = splits.parts()[name].confidence
        assert (part.confidence is None) == (expected is None)
        assert expected is None or torch.equal(part.confidence, expected)
    assert fingerprint(read) == fingerprint(splits) != fingerprint(world)
    resumed = fit(read, "ukge", settings, tmp_path / "cut", resume=True)
    assert_same(weights(whole.system), weights(resumed.system))
    plain = fit(world, "ukge", settings)
    assert (plain.metrics[0]["loss"] == whole.metrics[0]["loss"]) == ("train" not in parts)


def test_without_validation_facts_the_last_epoch_is_kept():
    world = groups()
    splits = dataclasses.replace(world, valid=world.valid.select(torch.arange(0)))
    settings = dataclasses.replace(SMALL, validate_every=1, patience=1)
    fitted = fit(splits, "complex-n3", settings)
    assert (fitted.progress.epoch, fitted.progress.best_epoch) == (7, 7)
    seen = {}

    def judge(system):
        seen.update(weights(system))
        return {}

    fit(world, "complex-n3", SMALL, judge=judge)
    assert_same(weights(fitted.system), seen)


def test_no_training_facts_are_an_error():
    world = bundled().split()
    empty = dataclasses.replace(world, train=world.train.select(torch.arange(0)))
    with pytest.raises(DataError, match="'world' has no training facts"):
        fit(empty, "complex-n3", SMALL)


def test_the_best_epoch_is_kept_and_patience_stops():
    settings = dataclasses.replace(SMALL, epochs=400, d=32, validate_every=1, patience=3, n3=0.0)
    fitted = fit(bundled(), "complex-n3", settings)
    mrrs = [record["valid_mrr"] for record in fitted.metrics]
    assert len(mrrs) < 400
    assert fitted.progress.best_mrr == max(mrrs)
    assert fitted.progress.best_epoch == mrrs.index(max(mrrs)) + 1
    assert fitted.progress.bad_validations == 3


def test_test_facts_and_the_truth_are_never_looked_at():
    world = bundled().split()
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
        fit(toy_graph.split(), "complex-n3", SMALL, tmp_path / "run", resume=True)
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


class Clock:
    """A clock that shows what it is set to."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def perf_counter(self):
        return self.now


def test_checkpoints_may_be_rarer_than_validations(tmp_path, monkeypatch):
    """The best weights are those of epoch 2, which no checkpoint falls on."""
    clock = Clock()
    scores = [0.1, 0.5, 0.2, 0.3, 0.2, 0.1, 0.4]
    settings = dataclasses.replace(SMALL, validate_every=1)

    def run(out, resume=False, stop=None, first=1):
        given = iter(scores[first - 1 :])
        monkeypatch.setattr(
            loop, "validation_metrics", lambda *_: {"mrr": next(given), "hits@10": 0.0}
        )

        def report(record):
            clock.now += 1
            if record["epoch"] == stop:
                raise StopError

        options = {"resume": resume, "report": report, "checkpoint_seconds": 3}
        return fit(groups(), "complex-n3", settings, out, **options)

    whole = run(None)
    assert whole.progress.best_epoch == 2
    for module in (loop, checkpoints):
        monkeypatch.setattr(module, "time", clock)
    with pytest.raises(StopError):
        run(tmp_path, stop=3)
    assert not (tmp_path / "last.safetensors").exists()
    assert not (tmp_path / "model.safetensors").exists()
    with pytest.raises(StopError):
        run(tmp_path, resume=True, stop=6)
    # Three seconds had passed in epoch 4, and not again in 5 and 6.
    again = run(tmp_path, resume=True, first=5)
    assert [record["epoch"] for record in again.metrics] == [5, 6, 7]
    assert again.progress.best_epoch == 2
    assert_same(weights(again.system), weights(whole.system))
    # The last epoch is always written.
    after = run(tmp_path, resume=True)
    assert after.metrics == []
    assert_same(weights(after.system), weights(whole.system))


def test_sparse_gradients_take_the_same_steps() -> None:
    """Of 600 entities a step looks up few; the others have no gradient and do not move."""
    rng = torch.Generator().manual_seed(0)
    facts = torch.randint(600, (400, 3), generator=rng)
    facts[:, 1] %= 4
    names = Vocabulary.of([f"e{i}" for i in range(600)]), Vocabulary.of(list("abcd"))
    graph = KnowledgeGraph(*names, facts)
    splits = Splits("sparse", graph, graph.select(torch.arange(20)), graph.select(facts[:0, 0]))
    settings = ComplexN3Settings(
        d=4, epochs=3, batch_size=16, negatives=8, share=16, learning_rate=0.5, device="cpu"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit(splits, "complex-n3", settings).system
        # A clip that never bites needs the whole gradient.
        plain = fit(splits, "complex-n3", dataclasses.replace(settings, clip=1e9)).system
    assert isinstance(found, System)
    assert isinstance(plain, System)
    assert (found.sparse, plain.sparse) == ("cpu", "never")
    # Adagrad's first steps are as long for tiny gradients as for large ones, rounding and all.
    for one, two in zip(found.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)


def test_four_calls_lead_from_fit_to_a_score(monkeypatch):
    """fit, train, loss, scored_together, against: a stranger can follow it with a finger."""
    depths = []

    def against(self, known, relation, missing, pool, side):
        names, frame = [], sys._getframe(1)
        while frame is not None and frame.f_code.co_name != "fit":
            if frame.f_code.co_filename.startswith(str(PACKAGE)):
                names.append(frame.f_code.co_name)
            frame = frame.f_back
        depths.append(names)
        return plain(self, known, relation, missing, pool, side)

    plain = ComplEx.against
    monkeypatch.setattr(ComplEx, "against", against)
    settings = dataclasses.replace(SMALL, epochs=1, negatives=4, share=4)
    fit(groups(), "complex-n3", settings)
    assert {tuple(names) for names in depths} == {("scored_together", "loss", "train")}


def labelled(path: Path) -> Path:
    """Write a graph half of whose facts are labelled as wrong."""
    rows = [f"e{i}\tr{(i + j) % 2}\te{j}\t{(i + j) % 2}\n" for i in range(9) for j in range(9)]
    path.write_text("head\trelation\ttail\tlabel\n" + "".join(rows))
    return path


def test_facts_labelled_as_wrong_are_not_trained_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = labelled(tmp_path / "facts.tsv")
    settings = {"d": 4, "epochs": 1, "device": "cpu"}
    with caplog.at_level("WARNING", "npugraph"):
        fitted = fit(file, "complex-n3", settings, tmp_path / "run")
    assert caplog.messages == ["41 facts are labelled as wrong (label 0) and left out."]
    assert set(fitted.splits.all_facts()[:, 1].tolist()) == {1}
    assert fitted.splits.left_out == 41
    assert load_run(tmp_path / "run").splits.left_out == 41
    record = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert record["graph"]["left_out"] == 41
    again = fit(file, "complex-n3", settings, tmp_path / "run", resume=True)
    assert again.progress.epoch == 1


def test_the_command_counts_the_facts_labelled_as_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = labelled(tmp_path / "facts.tsv"), tmp_path / "run"
    words = ["fit", str(file), "--out", str(out), "--json", "--set", "d=4", "--set", "epochs=1"]
    monkeypatch.setattr(sys, "argv", ["npugraph", *words, "--set", "device=cpu"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert not stopped.value.code
    shown = capsys.readouterr()
    assert json.loads(shown.out)["graph"]["left_out"] == 41
    assert shown.err.count("41 facts are labelled as wrong (label 0) and left out.") == 1
