from __future__ import annotations

from typing import Any

import pytest
import torch

from npugraph.graph import KnowledgeGraph
from npugraph.model import System
from npugraph.recipes import get_recipe
from npugraph.scorers import ComplEx
from npugraph.settings import make_settings
from npugraph.training.batch_loss import PlainTraining
from npugraph.training.relations import RelationTraining
from recipe_cases import groups

D = 5


def made(**changes: Any) -> PlainTraining:
    recipe = get_recipe("complex-n3")
    settings = make_settings(recipe.settings, {"d": D, "init_scale": 0.5, **changes})
    training = recipe.build(settings, train())
    assert isinstance(training, PlainTraining)
    return training


def train() -> KnowledgeGraph:
    return groups().train


def loss(training: PlainTraining, rows: torch.Tensor) -> torch.Tensor:
    return training.loss(rows, torch.Generator().manual_seed(0))


def test_relations_are_scored_as_facts_are() -> None:
    rng = torch.Generator().manual_seed(3)
    head, tail = torch.randn(7, 2 * D, generator=rng), torch.randn(7, 2 * D, generator=rng)
    relations, scorer = torch.randn(4, 2 * D, generator=rng), ComplEx()
    found = scorer.score_relations(head, tail, relations)
    for relation in range(4):
        expected = scorer.score(head, relations[relation].expand(7, -1), tail)
        torch.testing.assert_close(found[:, relation], expected)


@pytest.mark.parametrize("weight", [0.5, 4.0])
def test_the_question_for_the_relation_is_added_by_its_weight(weight: float) -> None:
    rows = torch.arange(3, 20)
    plain, more = made(), made(relation_weight=weight)
    assert isinstance(more, RelationTraining)
    system, facts = more.system, more.facts[rows]
    assert isinstance(system, System)
    # The definition, from the scores of whole facts.
    expected = torch.zeros(())
    for side in ("tail", "head"):
        scores = []
        for relation in range(system.num_relations):
            asked = facts.clone()
            asked[:, 1] = relation
            scores.append(system.score_as(asked, side))
        logarithms = torch.stack(scores, 1).log_softmax(1)
        expected -= logarithms.gather(1, facts[:, 1:2]).mean() / 2
    torch.testing.assert_close(loss(more, rows), loss(plain, rows) + weight * expected)


def test_a_fact_of_no_weight_is_not_asked() -> None:
    training = made(relation_weight=1.0)
    rows = torch.arange(6)
    training.weight = torch.ones(len(training.facts))
    training.weight[3:6] = 0
    other = made(relation_weight=1.0)
    # N3 looks at all facts of a batch, whatever they weigh.
    for one in (training, other):
        one.objective.n3 = 0.0
    torch.testing.assert_close(loss(training, rows), loss(other, rows[:3]))


def test_the_second_question_learns_relations() -> None:
    found = {}
    for weight in (0.0, 4.0):
        training = made(relation_weight=weight, init_scale=0.1)
        optimizer = torch.optim.Adagrad(training.parameters(), lr=0.1)
        rows = torch.arange(len(training.facts))
        for _ in range(6):
            optimizer.zero_grad()
            loss(training, rows).backward()
            optimizer.step()
        with torch.no_grad():
            entities, relations = training.system.represent()
            head, relation, tail = training.facts.unbind(1)
            count = training.system.num_relations
            scores = ComplEx().score_relations(entities[head], entities[tail], relations[:count])
        found[weight] = float(scores.log_softmax(1).gather(1, relation[:, None]).mean())
    assert found[4.0] > found[0.0] + 0.05


def test_a_step_is_planned_with_the_scores_of_the_relations() -> None:
    plain, more = made(), made(relation_weight=1.0)
    device = torch.device("cpu")
    extra = more.step_bytes(64, device) - plain.step_bytes(64, device)
    assert extra == 2 * 3 * 4 * 64 * plain.system.num_relations
