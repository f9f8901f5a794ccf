"""The same plan through Ray: a local cluster of two workers."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest

from bench.tiny import calm, made_up, one_cell, tiny_graph, tiny_plan
from npugraph.bench.cell import Circumstances, run_cell
from npugraph.bench.cluster import Cluster
from npugraph.bench.execute import Limits, execute
from npugraph.bench.store import Store
from npugraph.cluster import capacity
from npugraph.errors import SettingsError

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="needs Ray: pip install 'npugraph[cluster]'",
)


@needs_ray
def test_two_workers_give_what_one_process_gives(tmp_path: Path) -> None:
    graph = tiny_graph(tmp_path / "g")
    good = {"label": "DistMult", "recipe": "distmult", "settings": {"d": 8}}
    bad = {"label": "bad", "recipe": "complex-n3", "settings": {"d": 8, "learning_rate": 1e38}}
    plan = tiny_plan(graph, systems=[good, bad])
    store = Store(tmp_path / "out")
    how = Circumstances(tmp_path / "work", "cpu", workers=2, checkpoint_seconds=0.0)
    runner = Cluster(how)
    assert runner.capacity == 2
    # One that would run for ever leaves its place to others when it is stopped.
    endless = one_cell(graph, "distmult", epochs=10**7, patience=10**7, validate_every=10**6)
    for cell in (endless, dataclasses.replace(endless, seed=1)):
        runner.start(cell)
    heard = set()
    while len(heard) < 2:
        heard |= {event.cell.seed for event in runner.wait(0.2) if event.epoch is not None}
    runner.stop(*runner.tasks.values())
    said: list[str] = []
    now = execute(plan, plan.cells(), store, runner, Limits(runner.capacity), said.append)
    first, second = plan.cells()
    assert (now.done, now.failed) == ([first], [second])
    results = store.results()
    assert results[first.key] == run_cell(first, calm(tmp_path / "by hand"))[0]
    assert results[second.key]["error"].startswith("The loss is not a number in epoch")
    assert store.costs()[first.key]["workers"] == 2
    assert any("DistMult" in line and "epoch 4 of 4" in line for line in said)


@needs_ray
def test_a_lost_process_and_a_strange_error_are_recorded(tmp_path: Path) -> None:
    import ray

    def lost(values: dict, how: dict, queue: object) -> dict:
        import os

        if values["recipe"] == "random":
            os._exit(1)
        return {"result": made, "cost": None}

    graph = tiny_graph(tmp_path / "g")
    cells = [one_cell(graph, "random"), one_cell(graph, "distmult")]
    made = made_up(cells[1])
    runner = Cluster(Circumstances(tmp_path / "work", "cpu", workers=2))
    runner.task = ray.remote(max_retries=0)(lost)
    store = Store(tmp_path / "out")
    plan = tiny_plan(
        graph, systems=[{"label": c.label, "recipe": c.recipe, "settings": {}} for c in cells]
    )
    now = execute(plan, cells, store, runner, Limits(2), lambda _: None)
    assert (len(now.done), len(now.failed)) == (1, 1)
    assert store.results()[cells[0].key]["error"].startswith("Its process was lost")
    assert not ray.is_initialized()


@needs_ray
def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    # Not 'auto', which may find the cluster of another test.
    with pytest.raises(SettingsError, match=r"No Ray cluster answers at '127\.0\.0\.1:1'"):
        Cluster(Circumstances(tmp_path), "127.0.0.1:1")


def test_how_many_cells_fit() -> None:
    assert capacity({"CPU": 16}, threads=2, gpu_share=0.0) == 8
    assert capacity({"CPU": 16, "GPU": 1}, threads=1, gpu_share=0.25) == 4
    for count in range(1, 50):
        assert capacity({"CPU": 999, "GPU": 2}, threads=1, gpu_share=1 / count) == 2 * count
    assert capacity({"CPU": 3, "GPU": 1}, threads=1, gpu_share=0.25) == 3
    with pytest.raises(SettingsError, match="2 CPUs and 0 GPUs, and a process needs 4 and 0"):
        capacity({"CPU": 2}, threads=4, gpu_share=0.0)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingsError, match=r"pip install 'npugraph\[cluster\]'"):
        Cluster(Circumstances(tmp_path))
