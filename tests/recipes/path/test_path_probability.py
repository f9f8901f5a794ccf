"""What a run of paths says of stored facts: a probability, their own edges hidden."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from npugraph.asking import explain, score
from npugraph.fitting import Fitted, fit
from npugraph.graph import Splits
from npugraph.ranking.evaluate import noise_metrics
from npugraph.recipes.path import judging
from npugraph.recipes.path.model import PathModel
from npugraph.recipes.path.plus import PlusModel
from npugraph.recipes.path.posterior import PathPosterior
from recipe_cases import CASES, ODD_GRAPHS, groups

# Against every rule of the graph: both ends are in the same half of it.
WRONG = torch.tensor([[0, 0, 7], [3, 2, 11], [25, 1, 33], [38, 3, 21], [5, 0, 16], [12, 2, 2]])


def with_wrong() -> Splits:
    splits = groups()
    return replace(splits, train=splits.train.with_facts(torch.cat([splits.train.facts, WRONG])))


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    return fit(with_wrong(), "path", CASES["path"].settings())


def path_of(fitted: Fitted) -> PathModel:
    assert isinstance(fitted.system, PathModel)
    return fitted.system


def test_wrong_facts_are_the_least_probable(fitted: Fitted) -> None:
    system, true = path_of(fitted), groups().train.facts
    facts = torch.cat([true, WRONG])
    found = system.probability(facts, torch.ones(len(facts), dtype=torch.bool))
    assert not found.isnan().any()
    assert found[: len(true)].mean() > 0.9
    assert found[len(true) :].mean() < 0.7
    posterior = system.posterior()
    assert posterior is not None
    order = torch.from_numpy(posterior.score(system.judge_thoroughly(facts))).argsort()
    lowest = set(order[: 2 * len(WRONG)].tolist())
    assert set(range(len(true), len(facts))) <= lowest


def test_facts_that_are_not_stored_have_none(fitted: Fitted) -> None:
    facts = torch.cat([groups().train.facts[:5], groups().test.facts[:5]])
    stored = torch.arange(10) < 5
    found = path_of(fitted).probability(facts, stored)
    assert torch.equal(found.isnan(), ~stored)
    table = score(fitted, groups().train.with_facts(facts).to_table())
    assert [value is None for value in table["probability"].to_pylist()] == (~stored).tolist()
    assert table["probability"].to_pylist()[:5] == pytest.approx(found[:5].tolist())
    assert table["score"].null_count == 0
    names = table.select(["head", "relation", "tail"]).to_pylist()
    assert explain(fitted, **names[0]).probability == pytest.approx(float(found[0]))
    assert explain(fitted, **names[9]).probability is None


def test_what_a_fact_gets_does_not_depend_on_the_others(fitted: Fitted) -> None:
    system, facts = path_of(fitted), groups().train.facts[:6]
    every = torch.ones(6, dtype=torch.bool)
    alone = [system.probability(fact.unsqueeze(0), every[:1]) for fact in facts]
    # Products of other shapes are rounded otherwise, and the curve of probabilities may be steep.
    found = system.probability(facts, every)
    torch.testing.assert_close(found, torch.cat(alone), rtol=0, atol=1e-4)


def test_it_is_fitted_once_for_the_same_weights(
    fitted: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = path_of(fitted)
    made = judging.posterior_of
    calls: list[int] = []

    def counted(judge: PathModel, **options: bool) -> PathPosterior | None:
        calls.append(1)
        return made(judge, **options)

    monkeypatch.setattr(judging, "posterior_of", counted)
    system._posterior = None
    first = system.posterior()
    system.eval()
    assert system.posterior() is first
    assert len(calls) == 1
    with torch.no_grad():
        system.answer.mul_(2.0)
    second = system.posterior()
    assert len(calls) == 2
    assert first is not None
    assert second is not None
    assert (second.credibility.weights != first.credibility.weights).any()
    with torch.no_grad():
        system.answer.mul_(0.5)


def test_a_loaded_run_says_the_same(tmp_path: Path) -> None:
    whole = fit(groups(), "path", CASES["path"].settings(epochs=1), tmp_path / "run")
    facts = groups().train.facts[:20]
    every = torch.ones(20, dtype=torch.bool)
    expected = whole.system.probability(facts, every)
    table = score(tmp_path / "run", groups().train.with_facts(facts).to_table(), device="cpu")
    assert expected is not None
    assert table["probability"].to_pylist() == pytest.approx(expected.tolist())


def test_thinned_graphs_are_heard(fitted: Fitted) -> None:
    system, facts = path_of(fitted), groups().train.facts[:20]
    every = torch.ones(len(facts), dtype=torch.bool)
    posterior = system.posterior()
    assert posterior is not None
    assert posterior.credibility.weights.shape[1] == 6
    whole = path_of(fit(with_wrong(), "path", CASES["path"].settings(draws=0)))
    assert torch.equal(whole.answer, system.answer)
    alone = whole.posterior()
    assert alone is not None
    assert alone.credibility.weights.shape[1] == 3
    assert not torch.allclose(whole.probability(facts, every), system.probability(facts, every))


def test_too_few_facts_tell_nothing() -> None:
    splits = ODD_GRAPHS["one relation"]
    small = fit(splits, "path", CASES["path"].settings(epochs=1))
    facts = splits.train.facts
    found = small.system.probability(facts, torch.ones(len(facts), dtype=torch.bool))
    assert found is not None
    assert found.isnan().all()
    table = score(small, splits.train.to_table())
    assert table["probability"].null_count == len(facts)


def test_of_npugraph_plus_the_paths_are_asked() -> None:
    made = fit(with_wrong(), "npugraph-plus", CASES["npugraph-plus"].settings(epochs=2)).system
    assert isinstance(made, PlusModel)
    facts = torch.cat([groups().train.facts[:30], WRONG])
    every = torch.ones(len(facts), dtype=torch.bool)
    found = made.probability(facts, every)
    assert torch.equal(found, made.path.probability(facts, every))
    assert found[:30].mean() > found[30:].mean() + 0.3


def test_noise_is_measured_by_the_probability(
    fitted: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = type("Truth", (), {"planted": WRONG})
    monkeypatch.setattr("npugraph.ranking.evaluate.read_truth", lambda splits: truth)
    found = noise_metrics(fitted)
    assert found["noise_auroc"] is not None
    assert found["noise_auroc"] > 0.95
    assert found["ece"] is not None
