"""A training that starts from another run: rows by name, steps of the optimiser, resuming."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from audit_samples import people
from npugraph.errors import RunError, SettingsError
from npugraph.fitting import Fitted, fit
from npugraph.training.run_folder import Run
from npugraph.training.warm import Start

OLD = people(24)
# New names before, between and after the old ones; a relation goes and one comes.
NEW = [
    (" first", "knows", "person 001"),
    ("person 001x", "admires", "zuletzt"),
    *(row for row in OLD if row[1] != "home of"),
]
FEW = {"d": 4, "epochs": 2, "validate_every": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    return fit(OLD, "complex-n3", FEW, tmp_path_factory.mktemp("old") / "run")


def start(fitted: Fitted, trains: bool = True) -> Start:
    assert fitted.run is not None
    return Start(fitted.run, trains)


def test_rows_are_taken_by_name(old: Fitted, tmp_path: Path) -> None:
    new = fit(NEW, "complex-n3", FEW, tmp_path / "new", start=start(old, trains=False))
    fresh = fit(NEW, "complex-n3", FEW)
    was, now = old.splits.train, new.splits.train
    assert now.entities.id("person 001") != was.entities.id("person 001")
    before, after = old.system.state_dict(), new.system.state_dict()
    for name in was.entities.labels.to_pylist():
        rows = (
            before["encoder.entities"][was.entities.id(name)],
            after["encoder.entities"][now.entities.id(name)],
        )
        assert torch.equal(*rows), name
    for name in ("knows", "lives in"):
        for twin in (0, 1):
            rows = (
                before["encoder.relations"][was.relations.id(name) + twin * was.num_relations],
                after["encoder.relations"][now.relations.id(name) + twin * now.num_relations],
            )
            assert torch.equal(*rows), (name, twin)
    assert (new.progress.epoch, new.progress.best_epoch, new.progress.finished) == (0, 0, True)
    assert after["encoder.entities"][now.entities.id(" first")].abs().max() > 0
    assert fresh.progress.epoch == 2


@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_the_steps_of_the_optimiser_come_along(optimizer: str, tmp_path: Path) -> None:
    settings = {**FEW, "optimizer": optimizer}
    old = fit(OLD, "complex-n3", settings, tmp_path / "old")
    new = fit(NEW, "complex-n3", settings, tmp_path / "new", start=start(old, trains=False))
    kept = []
    for fitted in (old, new):
        assert fitted.run is not None
        tensors = load_file(fitted.run.folder / "last.safetensors")
        (name,) = [n for n in tensors if n in ("optimizer/0/sum", "optimizer/0/exp_avg_sq")]
        kept.append((tensors[name], fitted.splits.train.entities))
    (was, old_names), (now, new_names) = kept
    same = was[old_names.id("person 003")], now[new_names.id("person 003")]
    assert torch.equal(*same)
    assert same[0].abs().max() > 0
    assert now[new_names.id(" first")].abs().max() == 0


def test_a_training_that_was_stopped_goes_on_as_if_it_was_not(old: Fitted, tmp_path: Path) -> None:
    whole = fit(NEW, "complex-n3", FEW, tmp_path / "whole", start=start(old))

    def stop(line: dict[str, object]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(NEW, "complex-n3", FEW, tmp_path / "cut", start=start(old), report=stop)
    again = fit(NEW, "complex-n3", FEW, tmp_path / "cut", start=start(old), resume=True)
    assert again.progress == whole.progress
    for name, tensor in whole.system.state_dict().items():
        assert torch.equal(again.system.state_dict()[name], tensor)


def test_refusals(old: Fitted, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="made by recipe 'complex-n3', not 'distmult'"):
        fit(NEW, "distmult", FEW, start=start(old))
    with pytest.raises(RunError, match="do not fit"):
        fit(NEW, "complex-n3", {**FEW, "d": 6}, start=start(old))
    small = {"d": 4, "epochs": 1, "device": "cpu"}
    graphs = fit(OLD, "rgcn", small, tmp_path / "rgcn")
    with pytest.raises(SettingsError, match="rgcn cannot start from"):
        fit(NEW, "rgcn", small, start=start(graphs))
    (tmp_path / "rgcn" / "model.safetensors").unlink()
    with pytest.raises(RunError, match="has no model yet"):
        Run.open(tmp_path / "rgcn").best_weights(graphs.system.share)
