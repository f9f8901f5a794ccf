"""Every embedding baseline learns, repeats itself, resumes bit for bit, and sees train alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from npugraph.checkpoint import Run
from npugraph.errors import SettingsError
from npugraph.evaluation import evaluate
from npugraph.graph import SIDES, KnowledgeGraph, Splits, Vocabulary, split_facts
from npugraph.recipes import RECIPES
from npugraph.recipes.adversarial import COMPLEX, DISTMULT, ROTATE, subsampling_weight
from npugraph.recipes.inverse_rule import INVERSE_RULE
from npugraph.recipes.nscaching import NSCACHING
from npugraph.recipes.puda import PUDA
from npugraph.recipes.random import RANDOM
from npugraph.recipes.sans import SANS_RECIPE
from npugraph.recipes.transe import TRANSE
from npugraph.recipes.transr import TRANSR
from npugraph.recipes.ukge import UKGE
from npugraph.settings import TrainSettings, make_settings
from npugraph.train import fit
from npugraph.train import load as load_run

FAST = {"learning_rate": 0.03, "epochs": 12, "d": 16}
LEARNED: dict[str, tuple[Any, dict[str, Any]]] = {
    "transe": (TRANSE, {"d": 16, "epochs": 25, "batch_size": 32}),
    "transr": (TRANSR, {"d": 8, "epochs": 25, "batch_size": 32}),
    "distmult": (DISTMULT, {**FAST, "negatives": 16}),
    "complex": (COMPLEX, {**FAST, "negatives": 16, "share": 8}),
    "rotate": (ROTATE, {**FAST, "negatives": 16}),
    "sans": (SANS_RECIPE, {**FAST, "negatives": 16, "hops": 3, "cap": 30}),
    "sans, walks": (
        SANS_RECIPE,
        {**FAST, "negatives": 16, "kind": "walks", "walks": 50},
    ),
    "ukge": (UKGE, {**FAST}),
    "ukge, rect": (UKGE, {**FAST, "link": "rect"}),
    "nscaching": (NSCACHING, {**FAST, "cache": 6, "extra": 6}),
    "nscaching, transe": (
        NSCACHING,
        {"d": 16, "epochs": 40, "scorer": "transe", "learning_rate": 0.02, "batch_size": 32},
    ),
    "puda": (PUDA, {**FAST}),
}
ALL = {**LEARNED, "random": (RANDOM, {}), "inverse-rule": (INVERSE_RULE, {})}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for recipe, _ in ALL.values():
        monkeypatch.setitem(RECIPES, recipe.name, recipe)


def settings_of(name: str, **changes: Any) -> TrainSettings:
    recipe, values = ALL[name]
    common = {"device": "cpu", "batch_size": 64, "validate_every": 4}
    return make_settings(recipe.settings, {**common, **values, **changes})


@pytest.fixture(scope="module")
def groups() -> Splits:
    """Eight groups of five: a and c lead from the first four to the others, b and d back.

    Symmetric scores can tell it, and so can translations.
    """
    facts = []
    for i in range(20):
        for j in range(20, 40):
            step = (j // 5 - i // 5) % 4
            if step < 2:
                facts += [[i, 2 * step, j], [j, 2 * step + 1, i]]
    entities = Vocabulary.of([f"e{i:02}" for i in range(40)], "entity")
    graph = KnowledgeGraph(entities, Vocabulary.of(list("abcd")), torch.tensor(facts))
    return split_facts(graph, valid_share=0.1, test_share=0.1, name="groups")


def without_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if "seconds" not in k} for record in records]


class StopError(Exception):
    pass


def stop(record: dict[str, Any]) -> None:
    if record["epoch"] == 5:
        raise StopError


@pytest.mark.parametrize("name", LEARNED)
def test_it_beats_chance(name: str, groups: Splits) -> None:
    metrics = evaluate(fit(groups, ALL[name][0].name, settings_of(name)))["filters"]["clean"]
    chance = evaluate(fit(groups, "random", settings_of("random")))["filters"]["clean"]
    assert chance["mrr"] < 0.2
    # Two steps never leave an entity's own part of this graph: what is outside is not learned.
    assert metrics["mrr"] > (0.45 if name == "sans, walks" else 0.6)
    assert metrics["amri"] > 0.6


@pytest.mark.parametrize("name", LEARNED)
def test_a_stopped_and_resumed_run_equals_an_unbroken_one(
    name: str, groups: Splits, tmp_path: Path
) -> None:
    settings = settings_of(name, epochs=7, validate_every=2)
    recipe = ALL[name][0].name
    whole = fit(groups, recipe, settings, tmp_path / "whole")
    with pytest.raises(StopError):
        fit(groups, recipe, settings, tmp_path / "cut", report=stop)
    resumed = fit(groups, recipe, settings, tmp_path / "cut", resume=True)
    assert resumed.progress == whole.progress
    logs = [Run.open(tmp_path / run).metrics() for run in ("whole", "cut")]
    assert without_times(logs[0]) == without_times(logs[1])
    for file in ("last.safetensors", "model.safetensors"):
        first, second = ((tmp_path / run / file).read_bytes() for run in ("whole", "cut"))
        assert first == second
    loaded = load_run(tmp_path / "cut", "cpu")
    facts = groups.test.facts
    assert torch.equal(loaded.system.score(facts), whole.system.score(facts))


@pytest.mark.parametrize("name", LEARNED)
def test_training_sees_the_training_facts_alone(name: str, groups: Splits) -> None:
    other = dataclasses.replace(groups, valid=groups.test, test=groups.valid)
    settings = settings_of(name, epochs=2, validate_every=1)
    runs = [fit(splits, ALL[name][0].name, settings) for splits in (groups, other)]
    losses = [[record["loss"] for record in run.metrics] for run in runs]
    assert losses[0] == losses[1]
    changed = settings_of(name, epochs=2, seed=1)
    assert fit(groups, ALL[name][0].name, changed).metrics[0]["loss"] != losses[0][0]


@pytest.mark.parametrize("name", ["random", "inverse-rule"])
def test_what_learns_nothing_goes_through_the_same_loop(
    name: str, groups: Splits, tmp_path: Path
) -> None:
    settings = settings_of(name, epochs=2, clip=1.0)
    fitted = fit(groups, name, settings, tmp_path / "run")
    assert [record["loss"] for record in fitted.metrics] == [0.0, 0.0]
    assert sum(p.numel() for p in fitted.system.parameters()) == 0
    loaded = load_run(tmp_path / "run", "cpu")
    facts = groups.test.facts
    assert torch.equal(loaded.system.score(facts), fitted.system.score(facts))
    for side, (known, asked) in zip(SIDES, ((0, 2), (2, 0)), strict=True):
        scores = fitted.system.score_all(facts[:, known], facts[:, 1], side)
        assert scores.shape == (len(facts), 40)
        own = scores.gather(1, facts[:, asked : asked + 1]).squeeze(1)
        torch.testing.assert_close(own, fitted.system.score_as(facts, side), rtol=0, atol=1e-15)


def test_random_scores_are_even_and_follow_the_seed(groups: Splits) -> None:
    systems = [
        RANDOM.build(settings_of("random", seed=seed), groups.train).system for seed in (0, 1)
    ]
    facts = torch.cartesian_prod(torch.arange(40), torch.arange(4), torch.arange(40))
    one, other = (system.score(facts).numpy() for system in systems)
    assert one.min() >= 0
    assert one.max() < 1
    counts = np.histogram(one, 20, (0, 1))[0]
    assert abs(counts - 320).max() < 5 * 320**0.5
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.05
    # Neighbouring facts have unlike scores.
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.05


def test_the_inverse_rule_ranks_by_rule_and_then_by_frequency(groups: Splits) -> None:
    fitted = fit(groups, "inverse-rule", settings_of("inverse-rule"))
    metrics = evaluate(fitted)["filters"]["clean"]
    assert metrics["mrr"] > 0.6
    train = {tuple(row) for row in groups.train.facts.tolist()}
    back = {0: 1, 1: 0, 2: 3, 3: 2}
    for head, relation, tail in groups.test.facts.tolist():
        scores = fitted.system.score_all(
            torch.tensor([head]), torch.tensor([relation]), "tail"
        ).squeeze(0)
        backed = [e for e in range(40) if (e, back[relation], head) in train]
        assert (scores[tail] > 1e-3) == (tail in backed)
        rest = [e for e in range(40) if e not in backed]
        uses = [sum(f[1] == relation and f[2] == e for f in train) for e in rest]
        order = np.argsort(scores[rest].numpy(), kind="stable")
        assert np.all(np.diff(np.array(uses)[order]) >= 0)
        assert scores[rest].max() < 1e-8


def test_subsampling_weights_are_the_published_counts() -> None:
    facts = [(0, 0, 1), (0, 0, 2), (0, 1, 1), (3, 0, 1), (0, 0, 1)]
    found = subsampling_weight(torch.tensor(facts), 2).tolist()
    for (head, relation, tail), weight in zip(facts, found, strict=True):
        # As published: a dictionary whose entries start at 4 and grow by 1.
        count: dict[tuple[object, ...], int] = {}
        for h, r, t in facts:
            for key in ((h, r), (r, t, "tail")):
                count[key] = count[key] + 1 if key in count else 4
        expected = (count[head, relation] + count[relation, tail, "tail"]) ** -0.5
        assert weight == pytest.approx(expected)


def test_the_generator_is_moved_against_the_loss(groups: Splits) -> None:
    training = PUDA.build(settings_of("puda", generator_rate=0.5), groups.train)
    groups = training.parameter_groups()
    assert sum(len(group["params"]) for group in groups) == len(list(training.parameters()))
    assert [group.get("maximize", False) for group in groups] == [False, True]
    assert groups[1]["lr"] == 0.5
    names = {name for name, _ in training.sampler.named_parameters()}
    assert names == {"first.weight", "first.bias", "second.weight", "second.bias"}
    rows = torch.arange(64)

    def loss(seed: int = 0) -> torch.Tensor:
        return training.loss(rows, torch.Generator().manual_seed(seed))

    before = loss().item()
    optimizer = torch.optim.Adam(groups[1:], lr=0.01)
    for step in range(30):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
    assert loss().item() > before + 0.01


@pytest.mark.parametrize("link", ["logi", "rect"])
def test_ukge_fits_the_confidences_of_the_graph(link: str, groups: Splits) -> None:
    sure = 1 - 0.7 * (groups.train.facts[:, 1] == 1).double()
    train = dataclasses.replace(groups.train, confidence=sure)
    splits = dataclasses.replace(groups, train=train)
    settings = settings_of("ukge", link=link, epochs=40, learning_rate=0.01)
    system = fit(splits, "ukge", settings).system
    asked = torch.zeros(len(groups.test), dtype=torch.bool)
    found = system.probability(groups.test.facts, asked)
    assert found is not None
    assert 0 <= found.min() <= found.max() <= 1
    low = groups.test.facts[:, 1] == 1
    assert found[low].median() < 0.45 < 0.55 < found[~low].median()


def test_recipes_without_probabilities_say_so(groups: Splits) -> None:
    for name in ("rotate", "random"):
        system = ALL[name][0].build(settings_of(name), groups.train).system
        assert system.probability(groups.test.facts, torch.zeros(len(groups.test))) is None


def test_transr_starts_from_one_epoch_of_transe(groups: Splits) -> None:
    training = TRANSR.build(settings_of("transr"), groups.train)
    start = [table.detach().clone() for table in training.system.encoder()]
    assert training.begin_epoch(2, torch.Generator().manual_seed(0)) is False
    assert torch.equal(training.system.encoder()[0], start[0])
    training.begin_epoch(1, torch.Generator().manual_seed(0))
    entities, relations = training.system.encoder()
    assert not torch.equal(entities, start[0])
    assert not torch.equal(relations[:, :8], start[1][:, :8])
    assert torch.equal(relations[:, 8:].view(-1, 8, 8), torch.eye(8).expand(4, 8, 8))
    cold = TRANSR.build(settings_of("transr", warm_start=False), groups.train)
    cold.begin_epoch(1, torch.Generator().manual_seed(0))
    assert torch.equal(cold.system.encoder()[0], start[0])


@pytest.mark.parametrize("name", ["transe", "nscaching"])
def test_steps_of_changing_shape_are_not_recorded(name: str, groups: Splits) -> None:
    with pytest.raises(SettingsError, match="sides=halves"):
        ALL[name][0].build(settings_of(name, cuda_graph=True), groups.train)
    ALL[name][0].build(settings_of(name, cuda_graph=True, sides="halves"), groups.train)


@pytest.mark.parametrize("name", ALL)
def test_recipes_describe_themselves(name: str) -> None:
    recipe = ALL[name][0]
    assert recipe.summary.endswith(".")
    assert recipe.source
    assert recipe.settings.__doc__
    assert recipe.settings().seed == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ALL)
def test_it_learns_on_a_gpu(name: str, groups: Splits) -> None:
    changes: dict[str, Any] = {"device": "cuda"}
    if hasattr(settings_of(name), "sides"):
        changes["sides"] = "halves"
    for graphs in (False, True):
        # transr groups queries by relation, which looks at the numbers: it cannot be recorded.
        changes["cuda_graph"] = graphs and name != "transr"
        fitted = fit(groups, ALL[name][0].name, settings_of(name, **changes))
        metrics = evaluate(fitted)["filters"]["clean"]
        assert metrics["mrr"] > (0.4 if name != "random" else 0.0)
