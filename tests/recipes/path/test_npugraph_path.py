"""npugraph-path: what the posterior and soft facts do to the evidence, and the two heads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from npugraph.errors import DataError
from npugraph.graph import KnowledgeGraph, Vocabulary
from npugraph.recipes.npugraph.objective import Heads
from npugraph.recipes.path.npu import NPUPathSettings, build
from npugraph.recipes.path.npu_model import WeightedPathModel
from npugraph.recipes.path.npu_training import Refresh, WeightedPathTraining
from npugraph.recipes.path.recipe import PathSettings
from npugraph.recipes.path.recipe import build as build_path
from recipe_cases import groups

FACTS = torch.tensor([[0, 0, 1], [0, 0, 2], [0, 0, 3], [1, 1, 0], [0, 1, 1], [4, 0, 4], [2, 1, 3]])
SMALL = {"d": 4, "layers": 2, "edge_dropout": 0.0, "device": "cpu", "answers": 2}


def graph(facts: Tensor = FACTS) -> KnowledgeGraph:
    words = Vocabulary.of([f"e{i}" for i in range(6)]), Vocabulary.of(["r0", "r1"])
    return KnowledgeGraph(*words, facts)


def training(train: KnowledgeGraph | None = None, **values: Any) -> WeightedPathTraining:
    return build(NPUPathSettings(**{**SMALL, **values}), train or graph())


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def scores(system: WeightedPathModel) -> Tensor:
    return system.eval().score_all(torch.arange(6), torch.zeros(6, dtype=torch.int64), "tail")


# --- evidence


def test_before_there_is_a_posterior_it_is_path() -> None:
    plain = build_path(PathSettings(**SMALL), graph())
    mine = training(soft_facts=1.0)
    assert torch.equal(scores(mine.system), scores(plain.system))
    rows = torch.arange(plain.num_items())
    assert torch.equal(mine.loss(rows, rng()), plain.loss(rows, rng()))


def test_edges_weigh_what_their_facts_are_believed() -> None:
    system = training().system
    believed = torch.linspace(0.1, 1.0, len(FACTS), dtype=torch.float64)
    system.believe(believed)
    weight = system.weights_without(torch.tensor([2]))
    expected = believed.float().index_fill(0, torch.tensor([2]), 0.0)
    assert torch.equal(weight, expected[system.edges.fact])


def test_edges_weigh_in_full_where_only_questions_are_weighed() -> None:
    system = training(edge_weights="none", question_weights="posterior").system
    before = scores(system)
    system.believe(torch.full((len(FACTS),), 0.3, dtype=torch.float64))
    assert torch.equal(scores(system), before)
    assert system.belief.tolist() == pytest.approx([0.3] * len(FACTS))


def test_a_fact_that_is_not_believed_is_as_if_it_were_not_stored() -> None:
    wrong = training().system
    place = wrong.stored.places(FACTS[4:5])
    wrong.believe(torch.ones(len(FACTS), dtype=torch.float64).index_fill(0, place, 0.0))
    without = training(graph(torch.cat([FACTS[:4], FACTS[5:]]))).system
    torch.testing.assert_close(scores(wrong), scores(without))
    assert not torch.allclose(scores(wrong), scores(training().system))


def test_a_soft_fact_that_is_certain_is_as_good_as_a_stored_one() -> None:
    some = training(graph(FACTS[:6]), soft_facts=0.5).system
    some.add_soft(FACTS[6:], torch.ones(1))
    torch.testing.assert_close(scores(some), scores(training().system))
    assert len(some.edges) == 2 * len(FACTS)
    some.add_soft(FACTS[:0], torch.zeros(0))
    torch.testing.assert_close(scores(some), scores(training(graph(FACTS[:6])).system))
    with pytest.raises(DataError, match="room for 3 soft facts, not 7"):
        some.add_soft(FACTS, torch.ones(7))


def test_loaded_evidence_is_what_was_saved() -> None:
    one, other = (training(graph(FACTS[:6]), soft_facts=0.5) for _ in range(2))
    one.system.believe(torch.linspace(0.5, 1.0, 6, dtype=torch.float64))
    one.system.add_soft(FACTS[6:], torch.tensor([0.7]))
    other.load_state_dict(one.state_dict())
    assert torch.equal(scores(other.system), scores(one.system))
    assert torch.equal(other.system.weight, one.system.weight)


def test_on_another_graph_every_fact_counts_in_full() -> None:
    mine = training(objective="npu", soft_facts=0.5)
    mine.system.believe(torch.full((len(FACTS),), 0.5, dtype=torch.float64))
    moved = mine.system.on_graph(graph(FACTS[:5]))
    assert isinstance(moved, WeightedPathModel)
    assert moved.weight.tolist() == [1.0] * 5
    assert moved.second is not None
    start = torch.tensor([0, 1])
    psi1, psi0 = moved.both(start, start, moved.weights_without(start[:0]))
    assert psi1.shape == psi0.shape == (2, 6)


def test_soft_facts_between_hidden_ends_are_hidden_too() -> None:
    made = training(graph(FACTS[:6]), soft_facts=0.5, hide_pair_share=1.0)
    # (1, 0, 0) links a stored pair, (5, 1, 4) does not.
    made.system.add_soft(torch.tensor([[1, 0, 0], [5, 1, 4]]), torch.tensor([0.9, 0.8]))
    made.begin_epoch(1, rng())
    item = torch.nonzero((made.asked[:, :] == torch.tensor([0, 0, 1])).all(1)).view(1, 1)
    weight = made.weights(item, rng())
    seen = weight[made.system.edges.fact == 6], weight[made.system.edges.fact == 7]
    assert [part.tolist() for part in seen] == [[0.0, 0.0], pytest.approx([0.8, 0.8])]


def test_soft_facts_are_on_no_path_that_is_shown() -> None:
    system = training(graph(FACTS[:6]), soft_facts=0.5).system.eval()
    system.add_soft(torch.tensor([[2, 1, 3], [3, 0, 2]]), torch.tensor([0.9, 0.9]))
    shown = system.strongest_paths(torch.tensor([2, 0, 3]), 5)
    assert shown
    assert all(system.stored.contains(torch.tensor(path.facts)).all() for path in shown)


# --- when and of what the posterior is found


def test_when_the_posterior_is_found() -> None:
    assert [e for e in range(1, 9) if Refresh(warmup=2).is_due(e)] == [3]
    assert [e for e in range(1, 9) if Refresh(warmup=0, every=3).is_due(e)] == [1, 4, 7]


def test_a_graph_that_is_too_small_for_a_posterior_is_trained_without() -> None:
    made = training(warmup=0, soft_facts=0.5)
    made.begin_epoch(1, rng())
    assert made.system.weight.tolist() == [1.0] * 7 + [0.0] * 4
    assert made.health() == {"soft_facts": 0}


def test_given_weights_stay() -> None:
    made = build(NPUPathSettings(**SMALL, warmup=0, soft_facts=0.1), groups().train)
    given = torch.rand(len(made.facts), generator=rng()).double()
    made.give(given)
    made.begin_epoch(1, rng())
    assert torch.equal(made.system.weight[: len(given)], given.float())


def test_judged_facts_get_a_posterior_and_the_others_count_in_full() -> None:
    made = build(NPUPathSettings(**SMALL, warmup=0, judged_share=0.25), groups().train)
    made.begin_epoch(1, rng())
    assert made.system.running.epochs == 1
    weight = made.system.weight
    assert 0.75 * len(weight) <= int((weight == 1).sum()) < len(weight)
    assert 0 <= weight.min() < 1
    assert made.health()["posterior_mean"] == pytest.approx(float(weight.mean()), abs=1e-6)


def test_soft_facts_are_the_best_new_answers() -> None:
    made = build(NPUPathSettings(**SMALL, warmup=0, soft_facts=0.05), groups().train)
    drawn = made._best_answers(rng())
    assert len(drawn) > 16
    assert not made.system.stored.contains(drawn).any()
    assert len(drawn.unique(dim=0)) == len(drawn)
    # Every one is among the two best of its question in some direction.
    for fact in drawn[:20]:
        ranks = []
        for side, known, asked in (("tail", 0, 2), ("head", 2, 0)):
            every = made.system.score_all(fact[known : known + 1], fact[1:2], side)[0]  # type: ignore[arg-type]
            question = fact[1] + (4 if side == "head" else 0)
            mask = made.system.known.mask(fact[known : known + 1], question.view(1))[0]
            every = every.masked_fill(mask, -torch.inf)
            ranks.append(int((every > every[fact[asked]]).sum()))
        assert min(ranks) < 2
    made.begin_epoch(1, rng())
    taken = made.system.soft_probability
    assert ((taken == 0) | (taken >= 0.5)).all()
    assert made.health()["soft_facts"] == int((taken > 0).sum())


# --- the objective


def test_questions_count_by_the_posterior_of_their_facts() -> None:
    made = training(question_weights="posterior", answers=1)
    plain = training(answers=1)
    rows = torch.arange(2)
    first = made.items[rows][:, 0] % len(FACTS)
    made.system.believe(torch.zeros(len(FACTS), dtype=torch.float64).index_fill(0, first[:1], 1.0))
    plain.system.believe(made.system.running.mean.clone())
    assert first[0] != first[1]
    # Of the two questions only the first is left; its own edges are hidden in both trainings.
    asked = plain.ask(rows)
    losses = asked.softmax(
        plain.system(asked.start, asked.query, plain.weights(asked.items, rng()))
    )
    torch.testing.assert_close(made.loss(rows, rng()), losses[0, 0])


def test_the_objective_is_that_of_all_new_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    made = training(objective="npu", level_weight=0.5)
    seen: list[Heads] = []
    assert made.objective is not None
    kept = made.objective.forward
    monkeypatch.setattr(
        made.objective, "forward", lambda heads: (seen.append(heads), kept(heads))[1]
    )
    rows = torch.arange(made.num_items())
    loss = made.loss(rows, rng())
    (heads,) = seen
    # All facts in both directions, whatever the number of questions they share.
    assert heads.collected0.shape == (2 * len(FACTS),)
    assert heads.uncollected1.shape == heads.weight.shape == (2 * len(FACTS), 6)
    torch.testing.assert_close(heads.weight.sum(1), torch.ones(2 * len(FACTS)))
    level = (heads.collected1.square() + heads.collected0.square()).mean()
    torch.testing.assert_close(loss, kept(heads) + 0.5 * level)
    asked = made.ask(rows)
    row = torch.nonzero(asked.there)[:, 0]
    assert (heads.weight[asked.known[row]] == 0).all()


def test_one_answer_and_several_per_question_have_the_same_objective() -> None:
    losses = []
    for answers in (1, 4):
        made = training(objective="npu", answers=answers)
        # All facts at once: the same graph without edges is asked in both.
        losses.append(made.loss(torch.arange(made.num_items()), rng()))
    torch.testing.assert_close(*losses)


def test_ranking_is_by_psi0() -> None:
    system = training(objective="npu").system.eval()
    known = torch.tensor([0, 1, 2])
    relation = torch.tensor([0, 1, 0])
    with torch.no_grad():
        _, psi0 = system.both(known, relation, system.weights_without(known[:0]))
    torch.testing.assert_close(system.score_all(known, relation, "tail"), psi0)


def test_a_step_of_two_heads_takes_more_memory() -> None:
    device = torch.device("cpu")
    plain, soft, npu = (
        training(**values).step_bytes(8, device)
        for values in ({}, {"soft_facts": 1.0}, {"objective": "npu"})
    )
    assert plain <= soft
    assert npu > plain
