"""The table of recipes: complete, searchable, shown on the command line and in the docs."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from doc_files import stale
from npugraph.cli import main
from npugraph.errors import SettingsError
from npugraph.graph import KnowledgeGraph, Vocabulary
from npugraph.recipes import RECIPES
from npugraph.recipes.base import (
    Choices,
    Dimension,
    LogRange,
    Range,
    Recipe,
    Whole,
    describe_space,
)
from npugraph.seeds import generator, number
from npugraph.settings import describe, make_settings
from script_files import load_script

ROOT = Path(__file__).resolve().parents[2]
PAPER = ["transe", "transr", "distmult", "complex", "rotate", "rgcn", "compgcn", "ukge"]
PAPER += ["nscaching", "sans", "puda", "npugraph"]
PARTS = ["encoder", "scorer", "sampler", "objective", "posterior"]


@pytest.fixture(scope="module")
def ring() -> KnowledgeGraph:
    """Twenty entities in a ring, each with a successor and a predecessor."""
    facts = [[i, 0, (i + 1) % 20] for i in range(20)] + [[(i + 1) % 20, 1, i] for i in range(20)]
    entities = Vocabulary.of([f"e{i:02}" for i in range(20)], "entity")
    return KnowledgeGraph(entities, Vocabulary.of(["next", "last"]), torch.tensor(facts))


def draw(dimension: Dimension, rng: np.random.Generator) -> Any:
    """Draw a value of a searched setting, without Optuna."""
    if isinstance(dimension, Choices):
        return dimension.values[rng.integers(len(dimension.values))]
    if isinstance(dimension, Whole):
        return int(rng.integers(dimension.low, dimension.high + 1))
    if isinstance(dimension, LogRange):
        return float(np.exp(rng.uniform(np.log(dimension.low), np.log(dimension.high))))
    return float(rng.uniform(dimension.low, dimension.high))


def ends(dimension: Dimension) -> tuple[Any, ...]:
    if isinstance(dimension, Choices):
        return dimension.values
    return (dimension.low, dimension.high)


def command(capsys: Any, monkeypatch: Any, *words: str) -> tuple[int, str, str]:
    """Run a command in this process; returns (exit code, stdout, stderr)."""
    monkeypatch.setattr(sys, "argv", ["npugraph", *words])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    return int(stop.value.code or 0), shown.out, shown.err


# --- the table


def test_the_order_is_that_of_the_papers_table() -> None:
    names = list(RECIPES)
    assert names[: len(PAPER)] == PAPER
    assert {"complex-n3", "inverse-rule", "random", "npugraph/printed"} <= set(names)
    assert all(name == recipe.name for name, recipe in RECIPES.items())


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_a_recipe_says_what_it_is_made_of(recipe: Recipe) -> None:
    assert recipe.summary.strip().endswith(".")
    assert recipe.source
    assert "scorer" in recipe.parts
    assert list(recipe.parts) == [part for part in PARTS if part in recipe.parts]
    assert all(phrase and len(phrase) < 90 for phrase in recipe.parts.values())


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_every_value_of_the_search_space_is_allowed(recipe: Recipe) -> None:
    for name, dimension in recipe.space.items():
        for value in ends(dimension):
            made = getattr(make_settings(recipe.settings, {name: value}), name)
            assert made == value
            assert type(made) is type(getattr(recipe.settings(), name))


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_the_default_is_in_the_search_space(recipe: Recipe) -> None:
    for name, dimension in recipe.space.items():
        default = getattr(recipe.settings(), name)
        if name == "beta":
            # The paper's grid has no value near the share of true facts at rate 0.3, .96.
            assert default not in ends(dimension)
        elif isinstance(dimension, Choices):
            assert default in dimension.values
        else:
            assert dimension.low <= default <= dimension.high


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_settings_drawn_from_the_space_fit_together(recipe: Recipe, ring: KnowledgeGraph) -> None:
    rng = np.random.default_rng(number(0, "draw", recipe.name))
    for _ in range(2):
        values = {name: draw(dimension, rng) for name, dimension in recipe.space.items()}
        training = recipe.build(make_settings(recipe.settings, values), ring)
        loss = training.loss(torch.arange(8), generator(0, "loss"))
        assert math.isfinite(loss.item()), values


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_a_posterior_is_named_where_there_is_one(recipe: Recipe, ring: KnowledgeGraph) -> None:
    system = recipe.build(recipe.settings(), ring).system.eval()
    found = system.probability(ring.facts, torch.ones(len(ring), dtype=torch.bool))
    assert ("posterior" in recipe.parts) == (found is not None)
    if found is not None and system.hides_stored:
        # Forty facts are too few to compare with corruptions: not a number.
        assert found.isnan().all()
    elif found is not None:
        assert 0 <= found.min() <= found.max() <= 1


def test_npugraph_has_the_papers_grids() -> None:
    space = RECIPES["npugraph"].space
    grids = {name: sorted(ends(dimension)) for name, dimension in space.items()}
    assert grids.pop("learning_rate") == [0.0005, 0.001, 0.005, 0.01, 0.02]
    assert grids.pop("negatives") == [10, 20, 30, 40, 50]
    assert grids.pop("alpha") == [5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1]
    noise = sorted(1 - beta for beta in grids.pop("beta"))
    assert noise == pytest.approx([0.001, 0.005, 0.1, 0.2, 0.3])
    assert grids == {}
    assert "alpha" not in RECIPES["npugraph/no-npu"].space


def test_a_recipe_without_parts_and_space_is_still_one() -> None:
    made = RECIPES["random"]
    plain = Recipe("plain", made.summary, made.source, made.settings, made.build)
    assert (dict(plain.parts), dict(plain.space)) == ({}, {})
    assert hash(plain) == hash(dataclasses.replace(plain, parts={"scorer": "x"}))


# --- dimensions


@given(st.floats(allow_nan=True), st.floats(allow_nan=True), st.sampled_from([Range, LogRange]))
def test_ranges_refuse_what_is_none(low: float, high: float, kind: Any) -> None:
    good = math.isfinite(low) and math.isfinite(high) and low <= high
    if good and (kind is Range or low > 0):
        assert str(kind(low, high))
    else:
        with pytest.raises(SettingsError):
            kind(low, high)


def test_whole_numbers_and_choices_refuse_nothing_to_choose() -> None:
    assert Whole(3, 3).high == 3
    with pytest.raises(SettingsError, match="from 4 to 3"):
        Whole(4, 3)
    with pytest.raises(SettingsError, match="at least one"):
        Choices(())


def test_a_space_is_described_for_tables_and_json() -> None:
    rows = describe_space(
        {"a": Choices((True, 0.5, "x")), "b": LogRange(1e-5, 1), "c": Whole(1, 4)}
    )
    assert [row["text"] for row in rows] == [
        "one of true, 0.5, x",
        "1e-05 to 1, in powers",
        "1 to 4, whole",
    ]
    assert json.loads(json.dumps(rows))[1] == {
        "name": "b",
        "kind": "LogRange",
        "low": 1e-5,
        "high": 1,
        "text": "1e-05 to 1, in powers",
    }


# --- the command line


def test_recipes_list(capsys: Any, monkeypatch: Any) -> None:
    code, out, _ = command(capsys, monkeypatch, "recipes", "list", "--json")
    rows = json.loads(out)["recipes"]
    assert code == 0
    assert [row["name"] for row in rows] == list(RECIPES)
    code, out, _ = command(capsys, monkeypatch, "recipes", "list")
    assert code == 0
    assert RECIPES["rotate"].summary in out


def test_recipes_show(capsys: Any, monkeypatch: Any) -> None:
    code, out, _ = command(capsys, monkeypatch, "recipes", "show", "npugraph", "--json")
    shown = json.loads(out)
    assert code == 0
    assert shown["source"] == RECIPES["npugraph"].source
    assert shown["parts"] == dict(RECIPES["npugraph"].parts)
    settings = {row["name"]: row for row in shown["settings"]}
    assert settings["beta"]["default"] == 0.96
    assert settings["beta"]["help"]
    assert {row["name"] for row in shown["space"]} == set(RECIPES["npugraph"].space)
    code, out, _ = command(capsys, monkeypatch, "recipes", "show", "compgcn")
    assert code == 0
    for text in (RECIPES["compgcn"].parts["encoder"], "label smoothing", "one of sub, mult, corr"):
        assert text in out
    code, out, _ = command(capsys, monkeypatch, "recipes", "show", "random")
    assert code == 0
    assert "Searched" not in out


def test_an_unknown_recipe_is_one_sentence(capsys: Any, monkeypatch: Any) -> None:
    code, _, err = command(capsys, monkeypatch, "recipes", "show", "rotat")
    assert code == 2
    assert err == "error: There is no recipe 'rotat'. Did you mean 'rotate'?\n"


@pytest.mark.parametrize("words", [["recipes", "list"], ["recipes", "show"], ["tune"]])
def test_help_has_an_example_and_json(words: list[str], capsys: Any, monkeypatch: Any) -> None:
    code, out, _ = command(capsys, monkeypatch, *words, "--help")
    assert code == 0
    assert f"Example: npugraph {' '.join(words)}" in out
    assert "--json" in out


# --- the page


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    return load_script("build_recipe_docs")


def test_the_page_and_all_beside_it_are_up_to_date(builder: ModuleType) -> None:
    assert stale(builder.build()) == [], "run: python scripts/build_recipe_docs.py"


def test_the_page_can_be_read(builder: ModuleType) -> None:
    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert max(map(len, text.splitlines())) <= 100
    for name in RECIPES:
        assert f"\n\n**{name}**. " in text


def test_every_setting_is_in_the_csv_file(builder: ModuleType) -> None:
    lines = list(csv.DictReader(builder.build()[builder.FOLDER / "settings.csv"].splitlines()))
    for name, recipe in RECIPES.items():
        mine = {line["setting"]: line for line in lines if line["recipe"] == name}
        assert list(mine) == [row["name"] for row in describe(recipe.settings)]
        assert all(mine[setting]["tune searches"] for setting in recipe.space)
    printed = [line for line in lines if line["recipe"] == "npugraph/printed"]
    assert {line["setting"]: line["default"] for line in printed}["reading"] == "printed"


def test_the_csv_file_has_what_was_measured(builder: ModuleType, tmp_path: Path) -> None:
    figures = {"mrr": 0.12345, "hits@1": 0.1, "hits@10": 0.9}
    clean = {
        "key": "a",
        "status": "done",
        "recipe": "rotate",
        "graph": "umls",
        "rate": 0,
        "seed": 2,
    }
    clean |= {"metrics": {"clean": figures}, "best_epoch": 3}
    clean["settings"] = {"d": 7, "device": "cpu", "gamma": 9.0, "gone": 1}
    failed = {"key": "b", "status": "failed", "recipe": "sans", "metrics": None}
    noisy = {"recipe": "ukge", "graph": "wn18", "rate": 0.3, "noise": "typed", "seed": 4}
    noisy |= {"clean": {"mrr": 0.5, "hits@10": 0.6}, "perturbed": {"mrr": 0.25, "hits@10": 0.3}}
    noisy |= {"noise_auroc": None, "note": "a, b"}
    (tmp_path / "bench").mkdir()
    lines = "".join(json.dumps(line) + "\n" for line in (clean, failed))
    (tmp_path / "bench" / "results.jsonl").write_text(lines)
    (tmp_path / "bench" / "costs.jsonl").write_text('{"key": "a", "machine": "a GPU"}\n')
    (tmp_path / "speculative.jsonl").write_text(json.dumps(noisy) + "\n")
    files = builder.build(tmp_path)
    first, second = csv.DictReader(files[builder.FOLDER / "measured.csv"].splitlines())
    assert (first["recipe"], first["graph"], first["seed"]) == ("rotate", "umls", "2")
    assert (first["mrr clean"], first["hits@3 clean"]) == ("0.12345", "")
    assert (first["changed settings"], first["machine"]) == ("d=7", "a GPU")
    assert (second["recipe"], second["rate"], second["noise"]) == ("ukge", "0.3", "typed")
    assert (second["mrr perturbed"], second["note"], second["noise_auroc"]) == ("0.25", "a, b", "")
    page = [" ".join(part.split()) for part in files[builder.PAGE].split("\n\n")]
    assert all(part.endswith("Not measured yet.") for part in page if part.startswith("**"))


def test_a_variant_says_what_it_changes(builder: ModuleType) -> None:
    text = builder.build()[builder.PAGE]
    (whole,) = [part for part in text.split("\n\n") if part.startswith("**npugraph**.")]
    (variant,) = [part for part in text.split("\n\n") if part.startswith("**npugraph/printed**.")]
    assert "attention over the most credible" in whole
    assert "attention over the most credible" not in variant
    assert "as printed: class 1 is the true" in " ".join(variant.split())
