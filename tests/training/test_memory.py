from __future__ import annotations

from pathlib import Path

import pytest
import torch

from npugraph.errors import SettingsError
from npugraph.fitting import fit
from npugraph.recipes import get_recipe
from npugraph.training import memory
from recipe_cases import CASES, groups

CPU = torch.device("cpu")


def planned(recipe: str, **changes: int) -> int:
    settings = CASES[recipe].settings(**changes)
    training = get_recipe(recipe).build(settings, groups().train)
    return memory.planned_bytes(training, settings, CPU)


def test_what_takes_memory_is_counted() -> None:
    plain = planned("path")
    for change in ({"batch_size": 128}, {"d": 16}, {"layers": 6}):
        assert 1.5 * plain < planned("path", **change) < 5 * plain
    scores = 8 * 64 * groups().num_entities
    weights = 4 * (40 + 8) * 2 * 16
    assert planned("complex-n3") == scores + 4 * weights


def test_a_graph_that_is_too_large_is_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 10_000)
    wanted = r"about .* GiB and cpu has 0.0 GiB free; lower batch_size=64 or d=8 or layers=3"
    with pytest.raises(SettingsError, match=wanted):
        fit(groups(), "path", CASES["path"].settings(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_where_nobody_knows_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: None)
    fitted = fit(groups(), "path", CASES["path"].settings(epochs=1))
    assert fitted.progress.epoch == 1


def test_the_free_memory_is_a_number() -> None:
    free = memory.free_bytes(CPU)
    assert free is None or free > 2**20
