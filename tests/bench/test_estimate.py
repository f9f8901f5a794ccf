"""What cells will take: from cells that were run, and from steps timed now."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.tiny import made_up, made_up_cost, one_cell, tiny_graph, tiny_plan
from npugraph.bench import estimate as module
from npugraph.bench.cell import machine
from npugraph.bench.estimate import CostEstimate, estimate, measure, time_cell, total_seconds
from npugraph.bench.plan import Cell
from npugraph.data.perturb import PerturbSettings, perturb
from npugraph.data.sources import load_splits
from npugraph.training.loop import choose_device

PLAN = tiny_plan(seeds=[0, 1], rates=[0.1, 0.5], graphs=["umls", "fb15k-237"])


def guess(cells: list[Cell], past: list[tuple[Cell, dict[str, Any]]], on: str = "") -> list[Any]:
    """Estimate cells by others and their costs: (seconds, share, basis) of each."""
    results = {cell.key: made_up(cell) for cell, _ in past}
    costs = {cell.key: made_up_cost(cell, **cost) for cell, cost in past}
    found = estimate(cells, results, costs, on)
    return [(item.seconds, item.share, item.basis) for item in found]


def test_a_cell_that_was_run_is_known() -> None:
    cell = PLAN.cells()[0]
    assert guess([cell], [(cell, {"seconds": 12.0})]) == [(12.0, 12.0, "known")]
    # With four at once, a cell had a quarter of the machine.
    past = [(cell, {"seconds": 12.0, "workers": 4})]
    assert guess([cell], past) == [(12.0, 3.0, "known")]


def test_another_machine_says_nothing() -> None:
    cell = PLAN.cells()[0]
    past = [(cell, {"seconds": 12.0, "machine": "NVIDIA H200"})]
    assert guess([cell], past, "made-up") == [(None, None, "unknown")]
    assert guess([cell], past, "H200") == [(12.0, 12.0, "known")]


def test_what_ran_beside_other_work_counts_only_where_nothing_else_is_known() -> None:
    seed0, seed1, later = tiny_plan(seeds=[0, 1, 2]).cells()[:3]
    busy = (seed0, {"seconds": 90.0, "shared": True})
    assert guess([later], [busy]) == [(90.0, 90.0, "same settings")]
    assert guess([later], [busy, (seed1, {"seconds": 10.0})]) == [(10.0, 10.0, "same settings")]


def test_a_failed_cell_says_nothing() -> None:
    cell, other = PLAN.cells()[:2]
    results = {other.key: {**made_up(other), "status": "failed"}}
    costs = {other.key: made_up_cost(other)}
    assert estimate([cell], results, costs, "")[0].basis == "unknown"


def test_other_seeds_and_rates_of_the_same_settings() -> None:
    seed0, seed1 = (one_cell_of(seed=seed, rate=0.1) for seed in (0, 1))
    later = one_cell_of(seed=0, rate=0.5)
    past = [(seed0, {"seconds": 10.0})]
    assert guess([seed1], past) == [(10.0, 10.0, "same settings")]
    seconds, _, basis = guess([later], past)[0]
    # A tenth of the flips adds a fact: 0.92 and 0.6 of the facts are left.
    assert basis == "same settings"
    assert seconds == pytest.approx(10 * 0.6 / 0.92)


def one_cell_of(**wanted: Any) -> Cell:
    """Return the first cell of the plan that has some properties."""
    for cell in PLAN.cells():
        if all(getattr(cell, name) == value for name, value in wanted.items()):
            return cell
    raise AssertionError(wanted)


def test_other_settings_of_the_same_recipe() -> None:
    small = one_cell("umls", "distmult", d=10, epochs=4, negatives=9)
    large = one_cell("umls", "distmult", d=20, epochs=12, negatives=19)
    past = [(small, {"seconds": 5.0})]
    assert guess([large], past) == [
        (pytest.approx(5 * 2 * 3 * 2), pytest.approx(60), "same recipe")
    ]
    assert guess([one_cell("umls", "rotate")], past)[0][2] == "unknown"


def test_the_start_of_a_process_is_not_scaled_and_the_ranking_by_the_test_facts() -> None:
    small, large = (one_cell("umls", "distmult", d=10, epochs=n, negatives=9) for n in (4, 12))
    past = [(small, {"seconds": {"train": 5.0, "rank": 2.0, "total": 10.0}})]
    assert guess([large], past)[0][0] == pytest.approx(3 + 5 * 3 + 2)
    wider = one_cell("umls", "distmult", d=20, epochs=4, negatives=9)
    assert guess([wider], past)[0][0] == pytest.approx(3 + 5 * 2 + 2 * 2)


def test_only_the_cells_nearest_in_size_count() -> None:
    tiny, small, mine = (one_cell("umls", "distmult", d=d) for d in (4, 20, 40))
    past = [(tiny, {"seconds": 9.0}), (small, {"seconds": 10.0})]
    assert guess([mine], past)[0] == (pytest.approx(20.0), pytest.approx(20.0), "same recipe")


def test_a_quiet_cell_from_far_away_does_not_hide_a_busy_one_nearby() -> None:
    far, near, mine = (one_cell("umls", "distmult", d=d) for d in (1, 32, 40))
    past = [(far, {"seconds": 1.0}), (near, {"seconds": 8.0, "shared": True})]
    assert guess([mine], past)[0] == (pytest.approx(10.0), pytest.approx(10.0), "same recipe")


def test_a_cell_whose_graph_is_gone_says_nothing(tmp_path: Path) -> None:
    there, gone = tiny_graph(tmp_path / "there"), tiny_graph(tmp_path / "gone")
    mine, lost = one_cell(there, "distmult", d=8), one_cell(gone, "distmult", d=9)
    past = [(lost, {"seconds": 5.0})]
    assert guess([mine], past)[0][2] == "same recipe"
    module._size.cache_clear()
    shutil.rmtree(tmp_path / "gone")
    assert guess([mine], past)[0][2] == "unknown"


def test_nothing_is_said_from_far_away() -> None:
    tiny, mine = one_cell("umls", "distmult", d=1), one_cell("umls", "distmult", d=31)
    assert module.FARTHEST == 30
    assert guess([mine], [(tiny, {})]) == [(None, None, "unknown")]
    assert guess([tiny], [(mine, {})]) == [(None, None, "unknown")]


def test_what_stopped_early_is_scaled_to_all_epochs() -> None:
    cell, other = one_cell_of(seed=0, rate=0.1), one_cell_of(seed=1, rate=0.1)
    results = {other.key: {**made_up(other), "epochs": 2}}
    found = estimate([cell], results, {other.key: made_up_cost(other, 10.0)}, "")
    assert found[0].seconds == pytest.approx(20.0)


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.7])
def test_the_number_of_training_facts_is_about_right(data_root: Path, rate: float) -> None:
    splits = load_splits("umls")
    if rate:
        splits = perturb(splits, PerturbSettings(rate))[0]
    assert module._train_facts("umls", rate) == pytest.approx(len(splits.train), rel=0.01)


def test_facts_and_entities_of_a_users_graph(tmp_path: Path) -> None:
    graph = tiny_graph(tmp_path)
    assert module._train_facts(graph, 0.0) == len(load_splits(graph).train)
    assert module._size(graph).entities == 40


def test_the_total_says_what_is_not_in_it() -> None:
    cell = PLAN.cells()[0]
    known = CostEstimate(cell, 10.0, 2.5, "known")
    assert total_seconds([known, known, CostEstimate(cell, None, None, "unknown")]) == (5.0, 1)
    assert total_seconds([]) == (0.0, 0)


# --- steps timed now


def test_a_measured_cell_is_the_sum_of_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = tiny_graph(tmp_path / "g")
    cell = one_cell(graph, "npugraph", d=8, epochs=20, warmup=5, validate_every=3, valid_facts=7)
    monkeypatch.setattr(module, "_time_steps", lambda *_: 100.0)
    monkeypatch.setattr(module, "_time_ranking", lambda *_: (10.0, 1.0))
    splits = module.graph_of(cell, tmp_path)
    # 20 epochs; 7 validations of 7 facts and the test, each with the entities represented anew.
    expected = 20 * 100 + 8 * 10 + 7 * 7 + len(splits.test)
    # The rest, setup, health and self-training, takes no time where the clock stands still.
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    assert time_cell(cell, tmp_path, "cpu") == expected


@pytest.mark.parametrize("recipe", ["distmult", "npugraph", "compgcn", "nscaching", "random"])
def test_every_kind_of_training_can_be_timed(recipe: str, tmp_path: Path) -> None:
    graph = tiny_graph(tmp_path / "g")
    cell = one_cell(graph, recipe)
    assert 0 < time_cell(cell, tmp_path) < float("inf")


def test_only_what_is_not_known_is_measured_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[Cell] = []

    def pretend(cell: Cell, work: Path, device: str | None) -> float:
        timed.append(cell)
        if cell.label == "nPUGraph":
            raise RuntimeError("out of memory")
        return 5.0

    monkeypatch.setattr(module, "time_cell", pretend)
    monkeypatch.setattr(module, "_time_start", lambda: 2.0)
    cells = tiny_plan(seeds=[0, 1, 2]).cells()
    first = [CostEstimate(cells[0], 1.0, 1.0, "known")]
    rest = [CostEstimate(cell, None, None, "unknown") for cell in cells[1:]]
    said: list[str] = []
    found = measure(first + rest, tmp_path, None, said.append)
    assert [cell.label for cell in timed] == ["DistMult", "nPUGraph"]
    assert [(item.seconds, item.basis) for item in found] == [
        (1.0, "known"),
        (7.0, "measured"),
        (7.0, "measured"),
        *[(None, "unknown")] * 3,
    ]
    assert "nPUGraph, umls 0.3, seed 0 cannot be timed: out of memory" in said


def test_the_start_of_a_process_is_timed() -> None:
    assert module._time_start() > 0


def test_this_machine_is_named() -> None:
    assert "CPU" in machine(choose_device("cpu"))
