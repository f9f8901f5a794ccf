"""Validation facts as evidence, without training on them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cli_calls import npugraph, refusal
from npugraph.asking import evaluate, predict
from npugraph.errors import SettingsError
from npugraph.fitting import Fitted, along_validation, fit
from npugraph.graph import Splits
from npugraph.recipes.path.npu_model import WeightedPathModel
from npugraph.recipes.path.plus import PlusModel
from recipe_cases import CASES, groups

QUERY = {"head": "e03", "relation": "a"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fitted, Path]:
    folder = tmp_path_factory.mktemp("runs") / "path"
    return fit(groups(), "path", CASES["path"].settings(), out=folder), folder


def both_parts() -> torch.Tensor:
    return torch.cat([groups().train.facts, groups().valid.facts])


@pytest.mark.parametrize("recipe", ["path", "path, members"])
def test_scores_are_those_along_both_parts(recipe: str) -> None:
    case = CASES[recipe]
    fitted = fit(groups(), case.recipe, case.settings(epochs=1))
    expected = fitted.system.on_graph(groups().train.with_facts(both_parts())).eval()
    found = along_validation(fitted)
    known, relation = torch.arange(9), torch.arange(9) % 4
    scores = found.system.score_all(known, relation, "tail")
    torch.testing.assert_close(scores, expected.score_all(known, relation, "tail"))
    assert not torch.allclose(scores, fitted.system.score_all(known, relation, "tail"))
    # What is known of the graph stays, and so does the system that was trained.
    assert found.splits is fitted.splits


def test_what_is_believed_of_the_training_facts_stays() -> None:
    case = CASES["npugraph-path, soft"]
    fitted = fit(groups(), case.recipe, case.settings())
    old, new = fitted.system, along_validation(fitted).system
    assert isinstance(old, WeightedPathModel)
    assert isinstance(new, WeightedPathModel)
    stored = new.stored.facts()
    place = old.stored.places(stored)
    assert bool((old.belief < 1).any())
    torch.testing.assert_close(new.belief[place >= 0], old.belief[place[place >= 0]])
    assert bool((new.belief[place < 0] == 1).all())
    assert int((place < 0).sum()) == len(groups().valid)
    believed = old.soft_probability > 0
    used = believed & ~new.stored.contains(old.soft)
    # Some of what was believed is among the validation facts: they serve once.
    assert 0 < int(used.sum()) < int(believed.sum())
    left = new.soft_probability > 0
    torch.testing.assert_close(new.soft[left], old.soft[used])
    assert not bool(new.stored.contains(new.soft[left]).any())
    # With nothing new it is the same model.
    same = old.along(groups().train)
    query = torch.arange(5), torch.arange(5) % 4
    torch.testing.assert_close(same.score_all(*query, "tail"), old.score_all(*query, "tail"))


def test_without_validation_facts_nothing_is_claimed() -> None:
    splits = groups()
    none = torch.zeros(len(splits.valid), dtype=torch.bool)
    empty = Splits("none held out", splits.train, splits.valid.select(none), splits.test)
    fitted = fit(empty, "path", CASES["path"].settings(epochs=1))
    with pytest.raises(SettingsError, match="no validation facts"):
        evaluate(fitted, with_validation=True)


def test_of_plus_the_paths_alone_go_further() -> None:
    fitted = fit(groups(), "npugraph-plus", CASES["npugraph-plus"].settings(epochs=1))
    made, system = along_validation(fitted).system, fitted.system
    assert isinstance(made, PlusModel)
    assert isinstance(system, PlusModel)
    assert made.weight == system.weight
    assert made.vectors is system.vectors
    query = torch.arange(5), torch.arange(5) % 4
    paths = system.path.on_graph(groups().train.with_facts(both_parts())).eval()
    logs = paths.score_all(*query, "head").log_softmax(1)
    learned = system.vectors.score_all(*query, "head").log_softmax(1)
    expected = system.weight * logs + (1 - system.weight) * learned
    torch.testing.assert_close(made.score_all(*query, "head"), expected)


def test_evaluate_and_predict_take_it(run: tuple[Fitted, Path]) -> None:
    fitted, folder = run
    plain, more = (evaluate(fitted, with_validation=given) for given in (False, True))
    assert more["with_validation"]
    assert "with_validation" not in plain
    assert more["filters"] == evaluate(along_validation(fitted))["filters"]
    scores = predict(folder, **QUERY, with_validation=True)["score"]
    assert scores != predict(folder, **QUERY)["score"]


def test_validation_facts_are_not_ranked_by_themselves(run: tuple[Fitted, Path]) -> None:
    with pytest.raises(SettingsError, match="cannot be evidence while they are ranked"):
        evaluate(run[0], part="valid", with_validation=True)


def test_vectors_are_refused() -> None:
    fitted = fit(groups(), "distmult", CASES["distmult"].settings(epochs=1))
    with pytest.raises(SettingsError, match="for the recipes path"):
        evaluate(fitted, with_validation=True)


def test_the_command_says_so(run: tuple[Fitted, Path]) -> None:
    done = npugraph("evaluate", run[1], "--with-validation")
    assert "validation facts as evidence" in done.output
    asked = [word for name, value in QUERY.items() for word in (f"--{name}", value)]
    answers = npugraph("predict", run[1], *asked, "--with-validation")
    assert answers.output != npugraph("predict", run[1], *asked).output
    said = refusal("evaluate", run[1], "--with-validation", "--candidates", "5")
    assert "among all entities" in said
