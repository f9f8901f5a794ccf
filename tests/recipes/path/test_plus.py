from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from npugraph.errors import SettingsError
from npugraph.fitting import Fitted, fit, on_graph
from npugraph.graph import SIDES, KnowledgeGraph, Side, Splits
from npugraph.ranking.ranks import Ranks, rank
from npugraph.recipes.path import plus
from npugraph.recipes.path.members import MembersTraining
from npugraph.recipes.path.npu_model import WeightedPathModel
from npugraph.recipes.path.npu_training import WeightedPathTraining
from npugraph.recipes.path.plus import WEIGHTS, PlusModel, PlusSettings, PlusTraining, build
from npugraph.training.batch_loss import VALIDATION
from npugraph.training.memory import plan_memory
from recipe_cases import CASES, groups


def training(on: KnowledgeGraph | None = None, **changes: Any) -> PlusTraining:
    settings = CASES["npugraph-plus"].settings(**changes)
    assert isinstance(settings, PlusSettings)
    return build(settings, groups().train if on is None else on)


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    return fit(groups(), "npugraph-plus", CASES["npugraph-plus"].settings(validate_every=1))


def system_of(fitted: Fitted) -> PlusModel:
    assert isinstance(fitted.system, PlusModel)
    return fitted.system


def by_validation(splits: Splits) -> Callable[[Any], Ranks]:
    seen = {VALIDATION: torch.cat([splits.train.facts, splits.valid.facts])}
    sizes = splits.num_entities, splits.num_relations
    return lambda score_all: rank(score_all, splits.valid.facts, *sizes, seen)


def test_a_score_is_the_weighted_mean_of_both_logarithms(fitted: Fitted) -> None:
    system = system_of(fitted)
    known, relation = torch.arange(12), torch.arange(12) % 4
    weight = float(system.weight)
    for side in SIDES:
        parts = [part.score_all(known, relation, side) for part in (system.path, system.vectors)]
        paths, vectors = (part.softmax(1).log() for part in parts)
        expected = weight * paths + (1 - weight) * vectors
        found = system.score_all(known, relation, side)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_own_edges_are_hidden_where_a_fact_is_stored(fitted: Fitted) -> None:
    system, facts = system_of(fitted), groups().train.facts[:9]
    judged = system.path.judge(facts).among_all
    ends: dict[Side, tuple[int, int]] = {"tail": (0, 2), "head": (2, 0)}
    for place, (side, (known, answer)) in enumerate(ends.items()):
        vectors = system.vectors.score_all(facts[:, known], facts[:, 1], side).log_softmax(1)
        learned = vectors.gather(1, facts[:, answer, None]).squeeze(1)
        expected = system.weight * judged[place] + (1 - system.weight) * learned
        torch.testing.assert_close(system.score_as(facts, side), expected)


def test_paths_are_trained_as_they_are_alone() -> None:
    case = CASES["npugraph-plus"]
    last: list[dict[str, Tensor]] = []

    def keep(system: torch.nn.Module) -> dict[str, Any]:
        part = system.path if isinstance(system, PlusModel) else system
        last.append({key: value.clone() for key, value in part.state_dict().items()})
        return {}

    fit(groups(), "npugraph-plus", case.settings(), judge=keep)
    both = last[-1]
    fit(groups(), "path", CASES["path"].settings(), judge=keep)
    assert both.keys() == last[-1].keys()
    assert all(torch.equal(both[name], last[-1][name]) for name in both)


def test_every_fact_is_learned_in_every_pass() -> None:
    made = training(complex_epochs=12)
    count, rows = len(made.facts), []
    epochs = 6
    for epoch in range(1, epochs + 1):
        made.begin_epoch(epoch, torch.Generator().manual_seed(epoch))
        rows.append(made.learned.flatten().clone())
    learned = torch.cat(rows)
    # As many facts per question as come nearest to 12 passes.
    assert abs(len(learned) - 12 * count) <= epochs * made.num_items() / 2
    passes = len(learned) // count
    assert passes >= 6
    for number in range(passes):
        one = learned[number * count : (number + 1) * count]
        assert torch.equal(one.sort().values, torch.arange(count))
    assert not torch.equal(learned[:count], learned[count : 2 * count])


def test_few_passes_are_one_fact_per_question() -> None:
    assert training(complex_epochs=1).learned.shape[1] == 1


@pytest.mark.parametrize("weight_by", ["all", "linked", "unlinked"])
def test_the_weight_is_the_best_for_the_facts_it_is_chosen_by(weight_by: str) -> None:
    made, splits = training(weight_by=weight_by), groups()
    ranked = by_validation(splits)
    _, line = made.validate(ranked)
    system = made.system.eval()
    linked = system.kinds_of(splits.valid.facts)["linked"].numpy()
    assert 0 < linked.sum() < len(linked)
    where = {"all": np.ones_like(linked), "linked": linked, "unlinked": ~linked}

    def mrr(weight: float, kind: str) -> float:
        system.weight.fill_(weight)
        return ranked(system.score_all).metrics(VALIDATION, where=where[kind])["mrr"]

    for kind in where:
        best = max(mrr(weight, kind) for weight in WEIGHTS)
        assert mrr(line[f"weight_by_{kind}"], kind) == pytest.approx(best)
    assert line["weight"] == line[f"weight_by_{weight_by}"]
    assert line["mrr_paths_alone"] == pytest.approx(mrr(1.0, "all"))
    assert line["mrr_vectors_alone"] == pytest.approx(mrr(0.0, "all"))


def test_both_weights_are_logged(fitted: Fitted) -> None:
    best = fitted.metrics[fitted.progress.best_epoch - 1]
    assert best["valid_weight"] == pytest.approx(float(system_of(fitted).weight))
    assert best["valid_weight"] == best["valid_weight_by_all"]
    assert "valid_weight_by_unlinked" in best
    parts = best["valid_mrr_paths_alone"], best["valid_mrr_vectors_alone"]
    assert best["valid_mrr"] >= max(parts)


def test_without_validation_facts_both_count_the_same() -> None:
    splits = groups()
    none = torch.zeros(len(splits.valid), dtype=torch.bool)
    empty = Splits("none held out", splits.train, splits.valid.select(none), splits.test)
    made = fit(empty, "npugraph-plus", CASES["npugraph-plus"].settings(epochs=1))
    assert float(system_of(made).weight) == 0.5


def test_what_does_not_fit_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, ranked = training(), by_validation(groups())
    made.system.eval()
    whole = made.validate(ranked)[1]
    asked = []
    logarithms = PlusModel.logarithms

    def count(self: PlusModel, *query: Any) -> tuple[Tensor, Tensor]:
        asked.append(query[2])
        return logarithms(self, *query)

    monkeypatch.setattr(PlusModel, "logarithms", count)
    assert made.validate(ranked)[1] == whole
    assert asked == ["tail", "head"]
    monkeypatch.setattr(plus, "CPU_KEPT", 0)
    assert made.validate(ranked)[1] == whole
    assert len(asked) == 2 + 2 * len(WEIGHTS)


def test_a_graph_with_new_entities_is_refused(fitted: Fitted) -> None:
    with pytest.raises(SettingsError, match="a vector for every entity"):
        on_graph(fitted, groups().whole())


def test_memory_is_that_of_both_parts() -> None:
    made, device = training(), torch.device("cpu")
    settings = CASES["npugraph-plus"].settings()
    plan = plan_memory(made, settings, 100, device)
    sizes = [sum(4 * p.numel() for p in group["params"]) for group in made.parameter_groups()]
    assert plan.weights == sum(sizes)
    # Adam keeps two tables for the paths, Adagrad one for the vectors.
    facts = 100 * len(made.facts)
    assert plan.kept == 2 * plan.weights + 2 * sizes[0] + sizes[1] + facts
    more = plan_memory(made, settings, 1000, device)
    assert more.most >= plan.most
    assert "complex_d" in made.memory_settings


def test_the_paths_behind_a_fact_are_those_of_its_part(fitted: Fitted) -> None:
    system, fact = system_of(fitted), groups().train.facts[0]
    found = system.strongest_paths(fact, 3)
    assert found
    assert found == system.path.strongest_paths(fact, 3)


@pytest.mark.parametrize("weight_by", ["all", "linked", "unlinked"])
def test_the_best_epoch_is_chosen_by_the_same_facts_as_the_weight(weight_by: str) -> None:
    # A large step: the figures of an epoch go up and down.
    settings = CASES["npugraph-plus"].settings(
        weight_by=weight_by, epochs=6, validate_every=1, learning_rate=0.3
    )
    found = fit(groups(), "npugraph-plus", settings)
    mrr = [line[f"valid_mrr_{weight_by}"] for line in found.metrics]
    assert len(set(mrr)) > 2
    # So tuning and the bench, which read this name, go by the same figure.
    assert [line["valid_mrr"] for line in found.metrics] == mrr
    assert found.progress.best_epoch == mrr.index(max(mrr)) + 1
    assert found.progress.best_mrr == max(mrr)


def test_the_best_epoch_is_chosen_by_all_where_there_are_no_such_facts() -> None:
    splits = groups()
    linked = training().system.kinds_of(splits.valid.facts)["linked"]
    assert 0 < linked.sum() < len(linked)
    valid = splits.valid.with_facts(splits.valid.facts[linked])
    settings = CASES["npugraph-plus"].settings(weight_by="unlinked", epochs=3, validate_every=1)
    made = Splits("part", splits.train, valid, splits.test)
    found = fit(made, "npugraph-plus", settings)
    mrr = [line["valid_mrr_linked"] for line in found.metrics]
    assert found.progress.best_mrr == max(mrr) > 0


def weighed(on: KnowledgeGraph | None = None, **changes: Any) -> PlusTraining:
    return training(on, paths="npugraph-path", question_weights="posterior", **changes)


def belief_by_fact(model: WeightedPathModel) -> dict[tuple[int, ...], float]:
    belief = model.belief.tolist()
    return {tuple(fact): belief[row] for row, fact in enumerate(model.stored.facts().tolist())}


def test_vectors_learn_a_fact_as_far_as_the_paths_believe_it() -> None:
    train = groups().train
    # In another order, and some of them twice.
    order = torch.randperm(len(train.facts), generator=torch.Generator().manual_seed(3))
    facts = torch.cat([train.facts[order], train.facts[order[:20]]])
    made = weighed(warmup=1, on=train.with_facts(facts))
    rng = torch.Generator().manual_seed(0)
    made.begin_epoch(1, rng)
    assert made.vectors.weight is not None
    assert made.vectors.weight.eq(1).all()
    assert isinstance(made.path, WeightedPathTraining)
    made.path.give(torch.linspace(0.1, 1, len(made.path.facts)))
    made.begin_epoch(2, rng)
    known = belief_by_fact(made.path.system)
    expected = torch.tensor([known[tuple(fact)] for fact in facts.tolist()])
    assert len(facts) > len(known)
    torch.testing.assert_close(made.vectors.weight, expected)


def test_facts_that_nobody_believes_have_a_mean_loss() -> None:
    made = weighed()
    assert isinstance(made.path, WeightedPathTraining)
    made.path.give(torch.zeros(len(made.path.facts)))
    rng = torch.Generator().manual_seed(0)
    made.begin_epoch(1, rng)
    assert bool(made.loss(torch.arange(8), rng).isfinite())


def test_two_heads_weigh_no_answers_and_nor_do_the_vectors_beside_them() -> None:
    made = weighed(objective="npu")
    assert isinstance(made.path, WeightedPathTraining)
    made.path.give(torch.linspace(0, 1, len(made.path.facts)))
    made.begin_epoch(1, torch.Generator().manual_seed(0))
    assert made.vectors.weight is None


@pytest.mark.parametrize(("kinds", "count"), [("plausible", 1), ("all", 3)])
def test_the_posterior_is_fitted_to_the_kinds_that_are_asked_for(kinds: str, count: int) -> None:
    made = weighed(posterior_kinds=kinds)
    assert isinstance(made.path, WeightedPathTraining)
    assert len(made.path.refresh.kinds) == count
    assert made.path.refresh.kinds[-1] == "typed"


def test_a_relation_that_nobody_believes_does_not_move_its_vectors() -> None:
    made = weighed(complex_n3=0.0)
    assert isinstance(made.path, WeightedPathTraining)
    made.path.give((made.path.facts[:, 1] != 2).double())
    rng = torch.Generator().manual_seed(0)
    made.begin_epoch(1, rng)
    made.vectors.loss(torch.arange(len(made.vectors.facts)), rng).backward()
    size = 2 * made.system.num_relations
    gradients = [p.grad for p in made.system.vectors.parameters() if p.grad is not None]
    relations = next(grad for grad in gradients if len(grad) == size).abs()
    assert relations[2].max() < 1e-3 * relations[0].max()


@pytest.mark.parametrize("members", [1, 2])
def test_without_weights_of_answers_all_facts_count_the_same(members: int) -> None:
    made = training(paths="npugraph-path", warmup=1, members=members)
    for epoch in (1, 2):
        made.begin_epoch(epoch, torch.Generator().manual_seed(0))
    assert made.vectors.weight is None


def test_vectors_learn_by_what_all_members_believe() -> None:
    made = weighed(members=2)
    assert isinstance(made.path, MembersTraining)
    first, second = made.path.each()
    assert isinstance(first, WeightedPathTraining)
    assert isinstance(second, WeightedPathTraining)
    first.give(torch.linspace(0.1, 1, len(first.facts)))
    made.begin_epoch(1, torch.Generator().manual_seed(0))
    known = belief_by_fact(second.system)
    expected = torch.tensor([known[tuple(fact)] for fact in made.vectors.facts.tolist()])
    assert len(expected.unique()) > 9
    torch.testing.assert_close(made.vectors.weight, expected)
