"""Plans: what a TOML file stands for, which keys its cells get, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.tiny import tiny_graph, tiny_plan, tiny_values
from npugraph.bench.plan import BenchPlan, Cell, distinct, packaged
from npugraph.errors import SettingsError
from npugraph.recipes import RECIPES

TOML = """
name = "two"
title = "Two systems."
filters = ["clean"]
hits = [30, 50]
graphs = ["umls", "wn18"]
rates = [0, 0.3]
noise = "typed"
seeds = [3, 4]
[settings]
epochs = 7
[[systems]]
label = "RotatE"
recipe = "rotate"
note = "short"
[systems.settings]
d = 20
gamma = 5
[systems.graph.wn18]
gamma = 12.5
[[systems]]
label = "Chance"
recipe = "random"
[[sweeps]]
label = "RotatE"
setting = "d"
values = [10, 20]
"""


def test_a_file_becomes_cells_in_order(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TOML)
    cells = BenchPlan.read(path).cells()
    by = [(c.graph, c.rate, c.label, c.seed, c.sweep) for c in cells]
    systems = [("RotatE", 3), ("RotatE", 4), ("Chance", 3), ("Chance", 4)]
    base = [(g, r, *s, None) for g in ("umls", "wn18") for r in (0.0, 0.3) for s in systems]
    swept = [
        (g, r, "RotatE", s, ("d", v))
        for g in ("umls", "wn18")
        for r in (0.0, 0.3)
        for v in (10, 20)
        for s in (3, 4)
    ]
    assert by == base + swept
    assert [c.settings["gamma"] for c in cells if c.graph == "wn18" and c.label == "RotatE"] == [
        12.5
    ] * 12
    first = cells[0]
    assert (first.noise, first.filters, first.hits, first.note) == (
        "typed",
        ("clean",),
        (30, 50),
        "short",
    )
    assert first.changes == {"epochs": 7, "d": 20, "gamma": 5}
    assert first.settings["gamma"] == 5.0
    assert first.settings["seed"] == 3
    assert "device" not in first.settings
    names = {f.name for f in dataclasses.fields(RECIPES["rotate"].settings)}
    assert set(first.settings) == names - {"device"}


def test_a_sweep_through_the_systems_own_settings_is_one_cell(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TOML)
    cells = BenchPlan.read(path).cells()
    assert len(cells) == 16 + 16
    # d = 20 is what the system has anyway.
    once = distinct(cells)
    assert len(once) == 16 + 8
    assert once[:16] == cells[:16]
    assert all(cell.sweep == ("d", 10) for cell in once[16:])


def test_a_key_depends_on_all_that_matters_and_on_nothing_else(tmp_path: Path) -> None:
    base = tiny_plan().cells()[0]
    shown = {"label": "x", "note": "x", "changes": {}, "device": "cuda", "sweep": ("d", 8)}
    for name, value in shown.items():
        assert dataclasses.replace(base, **{name: value}).key == base.key
    matters: dict[str, Any] = {
        "recipe": "complex",
        "data": "0" * 64,
        "rate": 0.1,
        "noise": "typed",
        "seed": 1,
        "filters": ("clean",),
        "hits": (1, 3),
        "settings": {**base.settings, "d": 9},
    }
    keys = {dataclasses.replace(base, **{name: value}).key for name, value in matters.items()}
    assert len(keys | {base.key}) == len(matters) + 1
    assert {f.name for f in dataclasses.fields(Cell)} == {*shown, *matters, "graph"}


def test_the_kind_of_noise_does_not_matter_where_there_is_none() -> None:
    keys = [
        {c.key for c in tiny_plan(rates=[0, 0.3], noise=noise).cells()}
        for noise in ("random", "typed")
    ]
    assert len(keys[0] & keys[1]) == 2
    assert len(keys[0] | keys[1]) == 6


def test_a_new_version_keeps_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {cell.key for cell in tiny_plan().cells()}
    monkeypatch.setattr("npugraph.version.__version__", "99")
    assert before == {cell.key for cell in tiny_plan().cells()}


def test_the_graphs_content_matters_and_not_its_place(tmp_path: Path) -> None:
    here, there = tiny_graph(tmp_path / "here"), tiny_graph(tmp_path / "there")
    assert [c.key for c in tiny_plan(here).cells()] == [c.key for c in tiny_plan(there).cells()]
    lines = (tmp_path / "there" / "train.tsv").read_text().splitlines()
    (tmp_path / "there" / "train.tsv").write_text("\n".join(lines[1:]) + "\n")
    assert [c.key for c in tiny_plan(here).cells()] != [c.key for c in tiny_plan(there).cells()]


def test_keys_are_the_same_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TOML)
    code = (
        "from npugraph.bench.plan import BenchPlan;"
        f"print(*[cell.key for cell in BenchPlan.read({str(tmp_path / 'two.toml')!r}).cells()])"
    )
    # Another order of sets and dicts of strings, and no data at hand.
    environment = {**os.environ, "PYTHONHASHSEED": "1", "NPUGRAPH_DATA": str(tmp_path)}
    words = [sys.executable, "-c", code]
    shown = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
    assert shown.stdout.split() == [c.key for c in BenchPlan.read(tmp_path / "two.toml").cells()]


@given(
    seeds=st.lists(st.integers(0, 50), min_size=1, max_size=4, unique=True),
    rates=st.lists(st.sampled_from([0, 0.1, 0.3, 0.5]), min_size=1, unique=True),
    widths=st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True),
    data=st.data(),
)
def test_cells_are_the_product_and_survive_json(
    seeds: list[int], rates: list[float], widths: list[int], data: st.DataObject
) -> None:
    sweep = {"label": "DistMult", "setting": "d", "values": widths}
    values = tiny_values(seeds=seeds, rates=rates, sweeps=[sweep])
    cells = BenchPlan.from_values(values).cells()
    assert len(cells) == len(seeds) * len(rates) * (2 + len(widths))
    # A key stands for one cell: what has the same key has the same settings.
    by_key = {cell.key: cell for cell in cells}
    assert all(by_key[cell.key].settings == cell.settings for cell in cells)
    assert len(by_key) == len(seeds) * len(rates) * (2 + len(set(widths) - {8}))
    # The order of the names of a table says nothing.
    order = data.draw(st.permutations(list(values)))
    again = BenchPlan.from_values({name: values[name] for name in order}).cells()
    assert [cell.key for cell in again] == [cell.key for cell in cells]
    for cell in cells:
        back = Cell.from_json(json.loads(json.dumps(cell.to_json())))
        assert (back, back.key) == (cell, cell.key)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": [0.1]}, "the plan has no 'rate'. Did you mean 'rates'"),
        ({"graphs": ["uml"]}, "Did you mean 'umls'"),
        ({"graphs": []}, "at least one"),
        ({"graphs": ["umls", "umls"]}, "twice"),
        ({"graphs": [3]}, "text in quotes"),
        ({"rates": [1.0]}, "rate=1.0 must lie between"),
        ({"rates": ["a"]}, "not a number"),
        ({"rates": 0.3}, "must be a list"),
        ({"noise": "randm"}, "Did you mean 'random'"),
        ({"filters": ["cleen"]}, "Did you mean 'clean'"),
        ({"seeds": [-1]}, "whole number from 0"),
        ({"seeds": [True]}, "whole number from 0"),
        ({"hits": [0]}, "whole number from 1"),
        ({"settings": {"d": 3, "epoch": 1}}, "DistMult: There is no setting 'epoch'. Did you mean"),
        ({"settings": {"seed": 3}}, "give seeds ="),
        ({"systems": []}, "need labels"),
        ({"systems": "x"}, r"\[\[systems\]\]"),
        ({"systems": [{"label": "a"}]}, "the system 'a' lacks 'recipe'"),
        ({"systems": [{"label": "a", "recipe": "rotat"}]}, "a: .* Did you mean 'rotate'"),
        (
            {"systems": [{"label": "a", "recipe": "rotate", "seting": {}}]},
            "Did you mean 'settings'",
        ),
        ({"systems": [{"label": "a", "recipe": "rotate", "settings": 3}]}, "settings should"),
        (
            {"systems": [{"label": "a", "recipe": "rotate", "settings": {"gama": 1}}]},
            "a: .* Did you mean 'gamma'",
        ),
        (
            {"systems": [{"label": "a", "recipe": "rotate", "graph": {"umsl": {}}}]},
            "Did you mean 'umls'",
        ),
        (
            {"systems": [{"label": "a", "recipe": "rotate", "graph": {"umls": {"d": 0}}}]},
            "a: d=0 is too small",
        ),
        ({"systems": [{"label": "a", "recipe": "rotate"}] * 2}, "labels that differ"),
        ({"sweeps": [{"label": "Distmul", "setting": "d", "values": [1]}]}, "mean 'DistMult'"),
        ({"sweeps": [{"label": "DistMult", "setting": "dd", "values": [1]}]}, "setting 'dd'"),
        ({"sweeps": [{"label": "DistMult", "setting": "d", "values": [0]}]}, "too small"),
        ({"sweeps": [{"label": "DistMult", "setting": "seed", "values": [0]}]}, "cannot be swept"),
        ({"sweeps": [{"label": "DistMult", "setting": "d"}]}, "lacks 'values'"),
    ],
)
def test_mistakes_are_found_before_anything_runs(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        tiny_plan(**changes)
    assert str(caught.value).startswith("tiny.toml: ")


def test_a_plan_that_is_not_there_or_not_toml(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Did you mean 'smoke'"):
        BenchPlan.read("smok")
    (tmp_path / "p.toml").write_text("name = ")
    with pytest.raises(SettingsError, match=r"p\.toml: not a TOML file"):
        BenchPlan.read(tmp_path / "p.toml")


@pytest.mark.parametrize("name", packaged())
def test_packaged_plans_are_sound(name: str) -> None:
    plan = BenchPlan.read(name)
    assert plan.name == name
    assert plan.title.endswith(".")
    assert distinct(plan.cells())


def test_the_smoke_plan_runs_every_recipe_on_the_cpu() -> None:
    cells = BenchPlan.read("smoke").cells()
    assert {cell.recipe for cell in cells} == set(RECIPES)
    assert {cell.device for cell in cells} == {"cpu"}
