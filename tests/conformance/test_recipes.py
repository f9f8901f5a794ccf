"""What every recipe promises, from its scores to a run that was killed and resumed."""

from __future__ import annotations

import dataclasses
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from npugraph import triples
from npugraph.fitting import Fitted, fit
from npugraph.fitting import load as load_run
from npugraph.graph import SIDES, Side
from npugraph.model import Model
from npugraph.ranking.evaluate import evaluate
from npugraph.ranking.predict import score_table
from npugraph.recipes import RECIPES, get_recipe
from npugraph.recipes.npugraph.model import SpeculativeTraining
from npugraph.settings import TrainSettings
from npugraph.training.batch_loss import NoTraining, Training
from npugraph.training.optimizers import make_optimizer
from npugraph.training.run_folder import Run
from recipe_cases import CASES, LEARN_NOTHING, ODD_GRAPHS, RecipeCase, groups

EPOCHS = 4
# Epochs of a short run that a kill may follow, one before the step size falls and one after.
KILLS = (1, 2, 3)
# They compare with every entity and draw none.
AGAINST_ALL = ("compgcn", "path", "npugraph-path", "npugraph-plus")
# What is chosen by the validation facts, by definition.
CHOSEN_BY_VALIDATION = {"npugraph-plus": ("weight",)}
every_case = pytest.mark.parametrize("name", CASES)


def short(case: RecipeCase, **changes: Any) -> TrainSettings:
    """Return settings for four epochs: self-training from the second on, smaller steps at last."""
    wanted = {"epochs": EPOCHS, "validate_every": 1, "decay_at": 0.5, "warmup": 1, "dropout": 0.2}
    known = {field.name for field in dataclasses.fields(RECIPES[case.recipe].settings)}
    return case.settings(**{**{k: v for k, v in wanted.items() if k in known}, **changes})


def without_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if "seconds" not in k} for record in records]


def assert_same(left: dict[str, Tensor], right: dict[str, Tensor]) -> None:
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


@dataclass(frozen=True)
class Whole:
    """A short run that nothing stopped, and its folder as it was after each of its epochs."""

    name: str
    case: RecipeCase
    settings: TrainSettings
    fitted: Fitted
    folder: Path

    def after(self, epoch: int) -> Path:
        return self.folder.with_name(f"after {epoch}")


@pytest.fixture(scope="module", params=CASES)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    case = CASES[request.param]
    folder = tmp_path_factory.mktemp("run") / "whole"
    settings = short(case)

    def copy(record: dict[str, Any]) -> None:
        shutil.copytree(folder, folder.with_name(f"after {record['epoch']}"))

    fitted = fit(groups(), case.recipe, settings, folder, report=copy)
    return Whole(request.param, case, settings, fitted, folder)


@pytest.fixture(scope="module")
def chance() -> float:
    """The MRR of scores that know nothing."""
    fitted = fit(groups(), "random", CASES["random"].settings())
    return float(evaluate(fitted)["filters"]["clean"]["mrr"])


def test_every_recipe_is_under_test() -> None:
    assert {case.recipe for case in CASES.values()} == set(RECIPES)


@every_case
def test_it_beats_chance(name: str, chance: float) -> None:
    """All but random, which is chance by definition and must be no better."""
    case = CASES[name]
    fitted = fit(groups(), case.recipe, case.settings())
    metrics = evaluate(fitted)["filters"]["clean"]
    assert 0.08 < chance < 0.15
    if case.recipe == "random":
        assert metrics["mrr"] == chance
        assert abs(metrics["amri"]) < 0.15
    else:
        assert metrics["mrr"] > case.mrr > chance
        assert metrics["amri"] > 0.5


# --- a run


def test_a_killed_and_resumed_run_equals_an_unbroken_one(whole: Whole) -> None:
    for epoch in KILLS:
        folder = whole.after(epoch)
        resumed = fit(groups(), whole.case.recipe, whole.settings, folder, resume=True)
        assert resumed.progress == whole.fitted.progress
        assert len(resumed.metrics) == EPOCHS - epoch
        for file in ("last.safetensors", "model.safetensors"):
            assert (folder / file).read_bytes() == (whole.folder / file).read_bytes(), epoch
        logs = [without_times(Run.open(run).metrics()) for run in (whole.folder, folder)]
        assert logs[0] == logs[1]


def test_the_same_seed_gives_the_same_numbers(whole: Whole) -> None:
    """Whatever the state of the global generator, and whether a folder is written or not."""
    torch.manual_seed(12345)
    again = fit(groups(), whole.case.recipe, whole.settings)
    assert without_times(again.metrics) == without_times(whole.fitted.metrics)
    assert_same(again.system.state_dict(), whole.fitted.system.state_dict())
    facts = groups().test.facts
    assert torch.equal(again.system.score(facts), whole.fitted.system.score(facts))


@every_case
def test_another_seed_gives_other_numbers(name: str) -> None:
    if name == "inverse-rule":
        pytest.skip("nothing in it is random")
    build, facts = get_recipe(CASES[name].recipe).build, groups().test.facts
    one, other = (
        build(CASES[name].settings(seed=seed), groups().train).system.eval().score(facts)
        for seed in (0, 1)
    )
    assert not torch.equal(one, other)


@every_case
def test_numbering_questions_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs too large for keys of all questions: the same draws, losses and weights."""
    plain = fit(groups(), CASES[name].recipe, short(CASES[name], epochs=2))
    monkeypatch.setattr(triples, "PLAIN_LIMIT", 0)
    numbered = fit(groups(), CASES[name].recipe, short(CASES[name], epochs=2))
    assert without_times(numbered.metrics) == without_times(plain.metrics)
    assert_same(numbered.system.state_dict(), plain.system.state_dict())
    assert evaluate(numbered)["filters"] == evaluate(plain)["filters"]


def test_a_loaded_run_gives_the_same_scores(whole: Whole) -> None:
    loaded, fitted = load_run(whole.folder, "cpu"), whole.fitted
    facts = torch.cat([groups().train.facts, groups().test.facts])
    collected = groups().train.index().contains(facts)
    assert torch.equal(loaded.system.score(facts), fitted.system.score(facts))
    found, expected = (run.system.probability(facts, collected) for run in (loaded, fitted))
    if expected is None:
        assert found is None
    else:
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    for side in SIDES:
        query = (facts[:9, 0], facts[:9, 1], side)
        assert torch.equal(loaded.system.score_all(*query), fitted.system.score_all(*query))


@every_case
def test_training_sees_the_training_facts_alone(name: str) -> None:
    """Other validation and test facts: the same losses, the same last weights."""
    splits = groups()
    other = dataclasses.replace(splits, valid=splits.test, test=splits.valid)
    chosen = CHOSEN_BY_VALIDATION.get(CASES[name].recipe, ())
    seen: list[dict[str, Tensor]] = []

    def remember(system: Model) -> dict[str, Any]:
        state = system.state_dict()
        assert set(chosen) <= state.keys()
        seen.append({key: value.clone() for key, value in state.items() if key not in chosen})
        return {}

    settings = short(CASES[name], validate_every=2)
    runs = [fit(s, CASES[name].recipe, settings, judge=remember) for s in (splits, other)]
    losses = [[record["loss"] for record in run.metrics] for run in runs]
    assert losses[0] == losses[1]
    assert any(losses[0]) == (name not in LEARN_NOTHING)
    assert_same(seen[EPOCHS - 1], seen[2 * EPOCHS - 1])


# --- its training


def steps(training: Training, settings: TrainSettings, count: int, first_epoch: int = 1) -> None:
    """Take so many steps on the first facts, each of them an epoch of its own."""
    optimizer = make_optimizer(training, settings)
    for epoch in range(first_epoch, first_epoch + count):
        training.begin_epoch(epoch, torch.Generator().manual_seed(epoch))
        training.system.train()
        torch.manual_seed(epoch)
        optimizer.zero_grad()
        training.loss(some_rows(training), torch.Generator().manual_seed(epoch)).backward()
        optimizer.step()


def some_rows(training: Training) -> Tensor:
    return torch.arange(0, training.num_items(), 5)


def fresh(name: str, **changes: Any) -> tuple[Training, TrainSettings]:
    settings = short(CASES[name], **changes)
    return get_recipe(CASES[name].recipe).build(settings, groups().train), settings


@every_case
def test_the_state_of_a_training_can_be_restored(name: str) -> None:
    """The weights, and what its sampler, its encoder and its norms remember."""
    training, settings = fresh(name)
    steps(training, settings, 3)
    state = {key: value.clone() for key, value in training.state_dict().items()}
    other, _ = fresh(name)
    other.load_state_dict(state)
    assert_same(other.state_dict(), state)
    facts = groups().test.facts
    scores = [made.system.eval().score(facts) for made in (training, other)]
    assert torch.equal(*scores)
    for made in (training, other):
        steps(made, settings, 1, first_epoch=4)
    assert_same(training.state_dict(), other.state_dict())


def is_idle(name: str, parameter: str) -> bool:
    """Tell what is not trained: a margin loss is about one of the two heads."""
    return name == "npugraph/no-npu" and "psi1" in parameter


@every_case
def test_gradients_reach_every_parameter(name: str) -> None:
    training, _ = fresh(name)
    training.begin_epoch(1, torch.Generator().manual_seed(1))
    training.system.train()
    training.loss(some_rows(training), torch.Generator().manual_seed(0)).backward()
    for key, parameter in training.named_parameters():
        if is_idle(name, key) or parameter.numel() == 0:
            continue
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        assert parameter.grad.any(), key
    known = [id(p) for group in training.parameter_groups() for p in group["params"]]
    assert sorted(known) == sorted(id(p) for p in training.parameters())


@every_case
@pytest.mark.parametrize("scale", [1e-8, 1e4])
def test_gradients_are_finite_at_extreme_scores(name: str, scale: float) -> None:
    """Vectors so long that scores go up to 1e12, and so short that all scores are alike."""
    training, _ = fresh(name)
    models = [part for part in training.system.modules() if isinstance(part, Model)]
    encoders = [model.encoder for model in models if model.encoder is not None]
    assert encoders
    with torch.no_grad():
        for encoder in encoders:
            for table in getattr(encoder, "tables", encoder).parameters():
                table *= scale
    training.system.train()
    loss = training.loss(some_rows(training), torch.Generator().manual_seed(0))
    loss.backward()
    assert loss.isfinite()
    for key, parameter in training.named_parameters():
        assert is_idle(name, key) or parameter.grad is not None, key
        assert parameter.grad is None or parameter.grad.isfinite().all(), key


def facts_drawn(training: Training, monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, ...]]:
    """Return the facts made of every candidate that counts in the loss of all training facts."""
    made: set[tuple[int, ...]] = set()

    def note(facts: Tensor, side: Side, ids: Tensor, counts: Tensor) -> None:
        each = facts.unsqueeze(1).repeat(1, ids.shape[1], 1)
        each[..., 2 if side == "tail" else 0] = ids
        made.update(tuple(fact) for fact in each[counts].tolist())

    def both(entities: Tensor, relations: Tensor, facts: Tensor, *drawn: Tensor) -> Any:
        for side, ids, own in zip(SIDES, drawn, (facts[:, 2:], facts[:, :1]), strict=True):
            note(facts, side, ids, ids != own)
        return kept(entities, relations, facts, *drawn)

    def candidates(facts: Tensor, rows: Tensor, side: Side, rng: torch.Generator) -> Any:
        drawn = kept(facts, rows, side, rng)
        ids = drawn.ids.repeat_interleave(len(facts) // len(drawn.ids), 0)
        every = torch.ones_like(ids, dtype=torch.bool)
        note(facts, side, ids, every if drawn.counts is None else drawn.counts[:, : ids.shape[1]])
        return drawn

    speculative = isinstance(training, SpeculativeTraining)
    owner, spy = (training.system, both) if speculative else (training.sampler, candidates)
    kept = getattr(owner, spy.__name__)
    with monkeypatch.context() as patch:
        patch.setattr(owner, spy.__name__, spy)
        training.loss(torch.arange(len(training.facts)), torch.Generator().manual_seed(3))
    return made


@every_case
def test_no_candidate_is_a_training_fact_and_held_out_facts_are_not_spared(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two steps, as by default, do not lead to where facts of this graph lead.
    training, _ = fresh(name, **({"hops": 3} if name == "sans, walks" else {}))
    if isinstance(training, NoTraining) or name == "complex-n3" or name.startswith(AGAINST_ALL):
        pytest.skip("it draws no candidates")
    splits = groups()
    known = {tuple(fact) for fact in splits.train.facts.tolist()}
    held_out = {tuple(f) for part in (splits.valid, splits.test) for f in part.facts.tolist()}
    made = set()
    # The second epoch chooses by the posterior where there is one.
    for epoch in (1, 2):
        training.begin_epoch(epoch, torch.Generator().manual_seed(epoch))
        training.system.train()
        made |= facts_drawn(training, monkeypatch)
    assert len(made) > 100
    assert not made & known
    # Whoever looked at them would know not to draw them.
    assert made & held_out


# --- its scores


def test_a_score_is_the_entry_of_all_scores(whole: Whole) -> None:
    system = whole.fitted.system
    facts = groups().test.facts
    if not system.hides_stored:
        facts = torch.cat([groups().train.facts[::7], facts])
    columns: dict[Side, tuple[int, int]] = {"tail": (0, 2), "head": (2, 0)}
    each = []
    for side, (known, asked) in columns.items():
        every = system.score_all(facts[:, known], facts[:, 1], side)
        assert every.shape == (len(facts), groups().num_entities)
        assert every.isfinite().all()
        entry = every.gather(1, facts[:, asked : asked + 1]).squeeze(1)
        as_asked = system.score_as(facts, side)
        torch.testing.assert_close(as_asked, entry, rtol=1e-5, atol=1e-5)
        each.append(as_asked)
        among = torch.tensor([3, 39, 3, 0])
        found = system.score_among(facts[:, known], facts[:, 1], side, among)
        torch.testing.assert_close(found, every[:, among], rtol=1e-5, atol=1e-5)
    score = system.score(facts)
    assert score.shape == (len(facts),)
    assert not score.requires_grad
    # A fact has one score: that of either question, or the mean of both where they differ.
    reciprocal = getattr(system, "reciprocal", False)
    expected = (each[0] + each[1]) / 2 if reciprocal else each[0]
    torch.testing.assert_close(score, expected, rtol=1e-5, atol=1e-5)


def test_facts_and_queries_are_scored_one_by_one(whole: Whole) -> None:
    system = whole.fitted.system
    facts = groups().test.facts[:6]
    alone = torch.cat([system.score(fact.unsqueeze(0)) for fact in facts])
    torch.testing.assert_close(system.score(facts), alone, rtol=1e-5, atol=1e-5)
    for side in SIDES:
        known, relation = facts[:, 0], facts[:, 1]
        rows = [system.score_all(known[i : i + 1], relation[i : i + 1], side) for i in range(6)]
        every = system.score_all(known, relation, side)
        torch.testing.assert_close(every, torch.cat(rows), rtol=1e-5, atol=1e-5)
        assert system.score_all(known[:0], relation[:0], side).shape == (0, 40)
        assert system.score_among(known, relation, side, known[:0]).shape == (6, 0)
    assert system.score(facts[:0]).shape == (0,)


def test_a_table_is_scored_by_the_system(whole: Whole) -> None:
    """With probabilities where the system has any, and empty fields where it has none."""
    facts = torch.cat([groups().train.facts[:30], groups().test.facts])
    collected = groups().train.index().contains(facts)
    table = score_table(whole.fitted, groups().train.with_facts(facts).to_table())
    assert table["collected"].to_pylist() == collected.tolist()
    expected = whole.fitted.system.score(facts).double()
    assert torch.equal(torch.tensor(table["score"].to_pylist(), dtype=torch.float64), expected)
    probability = whole.fitted.system.probability(facts, collected)
    if probability is None:
        assert table["probability"].null_count == len(facts)
        return
    assert probability.shape == (len(facts),)
    assert not probability.requires_grad
    told = ~probability.isnan()
    # Whatever can be told of one collected fact can be told of all.
    assert len(told[collected].unique()) == 1
    assert ((probability[told] >= 0) & (probability[told] <= 1)).all()
    expected = [p if there else None for p, there in zip(probability.tolist(), told, strict=True)]
    assert table["probability"].to_pylist() == pytest.approx(expected)


@every_case
def test_a_float64_system_scores_in_float64(name: str) -> None:
    training, _ = fresh(name)
    facts = groups().test.facts
    single = training.system.eval().score(facts)
    double = training.double().system.score(facts)
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-4)
    query = (facts[:, 0], facts[:, 1])
    assert all(training.system.score_all(*query, side).dtype == torch.float64 for side in SIDES)


# --- odd graphs


@every_case
@pytest.mark.parametrize("graph", ODD_GRAPHS)
def test_odd_graphs_are_fine(name: str, graph: str, tmp_path: Path) -> None:
    splits, case = ODD_GRAPHS[graph], CASES[name]
    settings = short(case, epochs=2, batch_size=7)
    fitted = fit(splits, case.recipe, settings, tmp_path / "run")
    assert all(math.isfinite(record["loss"]) for record in fitted.metrics)
    assert_finite(fitted.system, splits.num_entities)
    assert evaluate(fitted)["filters"]["clean"]["count"] == 2
    loaded = load_run(tmp_path / "run", "cpu")
    facts = splits.all_facts()
    assert torch.equal(loaded.system.score(facts), fitted.system.score(facts))


def assert_finite(system: Model, num_entities: int) -> None:
    known = torch.arange(num_entities)
    for side in SIDES:
        scores = system.score_all(known, torch.zeros_like(known), side)
        assert scores.shape == (num_entities, num_entities)
        assert scores.isfinite().all()


# --- on a GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("graphs", [False, True], ids=["plain", "recorded"])
@every_case
def test_it_learns_on_a_gpu(name: str, graphs: bool) -> None:
    case = CASES[name]
    changes: dict[str, Any] = {"device": "cuda", "cuda_graph": graphs}
    if hasattr(case.settings(), "sides"):
        changes["sides"] = "halves"
    not_recorded = ("transr", "rgcn", "compgcn", "path", "npugraph-path", "npugraph-plus")
    if graphs and case.recipe in not_recorded:
        # transr groups queries by relation, compgcn counts answers: both look at the numbers.
        # The recipes of paths change their step size in every step.
        pytest.skip("it is not made to be recorded")
    fitted = fit(groups(), case.recipe, case.settings(**changes))
    metrics = evaluate(fitted)["filters"]["clean"]
    assert metrics["mrr"] > min(case.mrr, 0.4)
    training, _ = fresh(name, **changes)
    assert_moves(training)


def assert_moves(training: Training) -> None:
    """Scores on the GPU are those on the CPU."""
    facts = groups().test.facts
    expected = training.system.eval().score(facts)
    found = training.to("cuda").system.score(facts.cuda()).cpu()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
