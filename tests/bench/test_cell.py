"""One cell: what is measured, that training never sees the truth, and that it can go on."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.tiny import calm, one_cell, tiny_graph
from npugraph.bench import cell as cells
from npugraph.bench.cell import FIGURES, run_cell
from npugraph.bench.graphs import graph_of, perturbed, remove_unused, without_test
from npugraph.bench.plan import Cell
from npugraph.data.datasets import content_hash
from npugraph.data.perturb import PerturbSettings, perturb, read_truth
from npugraph.data.sources import load_splits
from npugraph.errors import DataError, RunError
from npugraph.fitting import Fitted, fit
from npugraph.graph import Splits, TripleIndex
from npugraph.metrics import auroc, average_precision, ece
from npugraph.ranking.evaluate import evaluate, noise_metrics
from npugraph.recipes import get_recipe
from npugraph.recipes.npugraph.model import SpeculativeSystem
from npugraph.settings import make_settings

NOISE = tuple(name for name in FIGURES if name.startswith(("noise", "ece")))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_graph(tmp_path_factory.mktemp("graphs") / "groups")


def trained(cell: Cell, splits: Splits) -> Fitted:
    """Train a cell's system by hand."""
    kind = get_recipe(cell.recipe).settings
    return fit(splits, cell.recipe, make_settings(kind, {**cell.settings, "device": "cpu"}))


# --- the figures


@pytest.mark.parametrize("recipe", ["distmult", "npugraph"])
def test_the_figures_are_those_of_a_run_by_hand(graph: str, recipe: str, tmp_path: Path) -> None:
    cell = one_cell(graph, recipe, d=8)
    result, cost = run_cell(cell, calm(tmp_path))
    splits = perturbed(graph, PerturbSettings(0.3, seed=0), tmp_path / "by hand")
    fitted = trained(cell, splits)
    found = evaluate(fitted, ["clean", "perturbed"])["filters"]
    for name, metrics in result["metrics"].items():
        assert list(metrics) == ["mrr", "hits@1", "hits@3", "hits@10", "mean_rank"]
        assert metrics == {key: round(found[name][key], 6) for key in metrics}
    assert result["valid_mrr"] == round(fitted.progress.best_mrr, 6)
    assert (result["best_epoch"], result["epochs"]) == (fitted.progress.best_epoch, 4)
    assert [line["epoch"] for line in result["curve"]] == [1, 2, 3, 4]
    assert [line["loss"] for line in result["curve"]] == [
        round(line["loss"], 6) for line in fitted.metrics
    ]
    assert result["settings"] == cell.settings
    assert (result["status"], result["error"], result["key"]) == ("done", None, cell.key)
    assert cost["key"] == cell.key
    assert cost["seconds"]["total"] >= cost["seconds"]["train"] + cost["seconds"]["rank"]
    assert cost["memory_mb"] > 50
    assert cost["command"] == f"npugraph bench run PLAN --only {cell.key}"
    assert not (tmp_path / "cells" / cell.key).exists()
    json.dumps(result, allow_nan=False)


def test_other_hits_and_filters(graph: str, tmp_path: Path) -> None:
    cell = dataclasses.replace(one_cell(graph, "random"), hits=(30, 50), filters=("raw",))
    metrics = run_cell(cell, calm(tmp_path))[0]["metrics"]
    assert list(metrics) == ["raw"]
    assert list(metrics["raw"]) == ["mrr", "hits@30", "hits@50", "mean_rank"]
    assert metrics["raw"]["hits@50"] == 1.0  # There are forty entities.


@pytest.mark.parametrize(
    ("recipe", "has_probability"),
    [("distmult", False), ("ukge", True), ("npugraph", True), ("inverse-rule", False)],
)
def test_noise_is_judged_for_every_recipe(
    graph: str, recipe: str, has_probability: bool, tmp_path: Path
) -> None:
    cell = one_cell(graph, recipe)
    splits = graph_of(cell, tmp_path)
    fitted = trained(cell, splits)
    found = noise_metrics(fitted)
    assert set(found) == set(NOISE)
    truth = read_truth(splits)
    assert truth is not None
    planted = TripleIndex(truth.planted, splits.num_entities, splits.num_relations)
    for part, end in (("train", ""), ("valid", "_held_out")):
        facts = splits.parts()[part].facts
        true = ~planted.contains(facts).numpy()
        system = fitted.system
        ones = torch.ones(len(facts), dtype=torch.bool)
        value = system.probability(facts, ones) if has_probability else system.score(facts)
        if part == "train" and isinstance(system, SpeculativeSystem):
            value = system.collected_probability(facts)
        assert value is not None
        value = value.double().numpy()
        assert found[f"noise_auroc{end}"] == auroc(true, value)
        assert found[f"noise_ap{end}"] == average_precision(~true, -value)
        expected = ece(value, true) if has_probability else None
        assert found[f"ece{end}"] == expected


def test_a_graph_as_published_has_no_noise_to_judge(graph: str, tmp_path: Path) -> None:
    cell = one_cell(graph, "ukge", rate=0.0, d=8)
    result = run_cell(cell, calm(tmp_path))[0]
    assert {result[name] for name in NOISE} == {None}
    assert result["metrics"]["clean"] == result["metrics"]["perturbed"]
    assert not (tmp_path / "graphs").exists()
    kind = get_recipe("ukge").settings
    settings = make_settings(kind, {**cell.settings, "device": "cpu"})
    by_hand = evaluate(fit(load_splits(graph), "ukge", settings))["filters"]["clean"]["mrr"]
    assert result["metrics"]["clean"]["mrr"] == round(by_hand, 6)


def test_no_planted_fact_no_figure(graph: str, tmp_path: Path) -> None:
    # So small a rate that nothing is flipped.
    cell = one_cell(graph, "distmult", rate=0.001, d=8)
    result = run_cell(cell, calm(tmp_path))[0]
    assert {result[name] for name in NOISE} == {None}


# --- the hidden truth


def test_training_gets_neither_truth_nor_test_facts(
    graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Splits] = []

    def spy(splits: Splits, *words: Any, **options: Any) -> Fitted:
        given.append(splits)
        truth.write_text("nobody may read this")
        found = fit(splits, *words, **options)
        truth.write_bytes(kept)
        return found

    cell = one_cell(graph, "npugraph", d=8)
    splits = graph_of(cell, tmp_path)
    assert splits.truth is not None
    truth, kept = splits.truth, splits.truth.read_bytes()
    monkeypatch.setattr(cells, "fit", spy)
    result = run_cell(cell, calm(tmp_path))[0]
    assert given[0].truth is None
    assert len(given[0].test) == 0
    assert result["noise_auroc"] is not None


def test_the_perturbed_graph_is_the_protocols_and_is_made_once(graph: str, tmp_path: Path) -> None:
    cell = one_cell(graph, "distmult")
    first = graph_of(cell, tmp_path)
    drawn, truth = perturb(load_splits(graph), PerturbSettings(0.3, seed=0))
    for part, other in zip(first.parts().values(), drawn.parts().values(), strict=True):
        assert part.to_table().to_pylist() == other.to_table().to_pylist()
    hidden = read_truth(first)
    assert hidden is not None
    assert len(hidden.planted) == len(truth.planted) > 0
    assert first.name == drawn.name
    (folder,) = (tmp_path / "graphs").iterdir()
    before = (folder / "train.tsv").stat().st_mtime_ns
    graph_of(cell, tmp_path)
    assert [(f, (f / "train.tsv").stat().st_mtime_ns) for f in (tmp_path / "graphs").iterdir()] == [
        (folder, before)
    ]
    graph_of(dataclasses.replace(cell, seed=1), tmp_path)
    assert len(list((tmp_path / "graphs").iterdir())) == 2


def test_two_that_perturb_at_once_share_what_the_first_made(
    graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from npugraph.bench import graphs

    def slow(*words: Any) -> Any:
        found = perturb(*words)
        monkeypatch.setattr(graphs, "perturb", perturb)
        perturbed(graph, PerturbSettings(), tmp_path / "it")  # Another one comes in between.
        (tmp_path / "it" / "mark").touch()
        return found

    monkeypatch.setattr(graphs, "perturb", slow)
    perturbed(graph, PerturbSettings(), tmp_path / "it")
    assert (tmp_path / "it" / "mark").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_a_graph_that_changed_since_the_plan_was_read(tmp_path: Path) -> None:
    graph = tiny_graph(tmp_path / "g")
    cell = one_cell(graph, "random")
    with (tmp_path / "g" / "test.tsv").open("a") as file:
        file.write("e00\ta\te01\n")
    assert content_hash(graph) != cell.data
    with pytest.raises(DataError, match="is not the graph it was"):
        run_cell(cell, calm(tmp_path))


# --- going on


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


def killed_after(epoch: int) -> Any:
    def report(record: dict[str, Any]) -> None:
        if record["epoch"] == epoch:
            raise Killed

    return report


@pytest.mark.parametrize("recipe", ["npugraph", "nscaching"])
@pytest.mark.parametrize("epoch", [1, 3, 4])
def test_a_killed_cell_goes_on_and_ends_the_same(
    graph: str, recipe: str, epoch: int, tmp_path: Path
) -> None:
    values = {"warmup": 2} if recipe == "npugraph" else {}
    cell = one_cell(graph, recipe, d=8, **values)
    whole = run_cell(cell, calm(tmp_path / "whole"))[0]
    with pytest.raises(Killed):
        run_cell(cell, calm(tmp_path), killed_after(epoch))
    seen: list[int] = []
    result, cost = run_cell(cell, calm(tmp_path), lambda r: seen.append(r["epoch"]))
    assert seen == list(range(epoch + 1, 5))
    assert json.dumps(result) == json.dumps(whole)
    assert cost["seconds"]["total"] > cost["seconds"]["train"]


def test_checkpoints_may_be_rare(graph: str, tmp_path: Path) -> None:
    cell = one_cell(graph, "distmult", d=8)
    whole = run_cell(cell, calm(tmp_path / "whole"))[0]
    rare = dataclasses.replace(calm(tmp_path), checkpoint_seconds=1e6)
    with pytest.raises(Killed):
        run_cell(cell, rare, killed_after(3))
    assert not (tmp_path / "cells" / cell.key / "last.safetensors").exists()
    seen: list[int] = []
    result, _ = run_cell(cell, rare, lambda r: seen.append(r["epoch"]))
    assert seen == [1, 2, 3, 4]
    assert result == whole


def test_what_cannot_go_on_starts_anew(graph: str, tmp_path: Path) -> None:
    cell = one_cell(graph, "distmult", d=8)
    whole = run_cell(cell, calm(tmp_path / "whole"))[0]
    with pytest.raises(Killed):
        run_cell(cell, calm(tmp_path), killed_after(2))
    path = tmp_path / "cells" / cell.key / "settings.json"
    # As if a GPU had begun it.
    path.write_text(path.read_text().replace('"device": "cpu"', '"device": "cuda"'))
    seen: list[int] = []
    assert run_cell(cell, calm(tmp_path), lambda r: seen.append(r["epoch"]))[0] == whole
    assert seen[0] == 1


def test_what_other_sources_began_starts_anew(
    graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = one_cell(graph, "distmult", d=8)
    with pytest.raises(Killed):
        run_cell(cell, calm(tmp_path), killed_after(2))
    monkeypatch.setattr(cells, "provenance", lambda: {"source": "other", "commit": None})
    seen: list[int] = []
    result, _ = run_cell(cell, calm(tmp_path), lambda r: seen.append(r["epoch"]))
    assert seen == [1, 2, 3, 4]
    assert result["source"] == "other"
    assert list((tmp_path / "cells").iterdir()) == []


def test_a_cell_that_diverges_says_so(graph: str, tmp_path: Path) -> None:
    cell = one_cell(graph, "complex-n3", d=8, learning_rate=1e38)
    with pytest.raises(RunError, match="not a number"):
        run_cell(cell, calm(tmp_path))


# --- small parts


def test_the_work_folder_goes_when_nothing_is_left_in_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "cells" / "abc").mkdir(parents=True)
    (work / "graphs" / "g").mkdir(parents=True)
    remove_unused(work)
    assert (work / "graphs" / "g").exists()
    (work / "cells" / "abc").rmdir()
    (work / "mine.txt").touch()
    remove_unused(work)
    assert [path.name for path in work.iterdir()] == ["mine.txt"]
    remove_unused(work)
    (work / "mine.txt").unlink()
    (work / "cells").mkdir()
    remove_unused(work)
    assert not work.exists()


def test_numbers_are_short_and_finite() -> None:
    assert [cells._short(value) for value in (1 / 3, math.nan, math.inf, 7, None)] == [
        0.333333,
        None,
        None,
        7,
        None,
    ]


def test_without_test_keeps_the_names(graph: str) -> None:
    splits = load_splits(graph)
    blind = without_test(splits)
    assert blind.num_entities == splits.num_entities
    assert torch.equal(blind.train.facts, splits.train.facts)
