from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from npugraph.errors import SettingsError
from npugraph.fitting import fit
from npugraph.graph import KnowledgeGraph, Vocabulary
from npugraph.recipes.path.batch_loss import PathTraining
from npugraph.recipes.path.known import both_ways
from npugraph.recipes.path.recipe import PathSettings, build
from npugraph.training import loop
from recipe_cases import CASES, groups

# 0 has three answers for relation 0, and is linked with 1 by three facts, one of them reversed.
FACTS = torch.tensor([[0, 0, 1], [0, 0, 2], [0, 0, 3], [1, 1, 0], [0, 1, 1], [4, 0, 4], [2, 1, 3]])
ENTITIES, RELATIONS = 6, 2


def training(facts: Tensor = FACTS, **values: Any) -> PathTraining:
    words = Vocabulary.of([f"e{i}" for i in range(ENTITIES)]), Vocabulary.of(["r0", "r1"])
    settings = {"d": 4, "layers": 2, "edge_dropout": 0.0, "device": "cpu", **values}
    return build(PathSettings(**settings), KnowledgeGraph(*words, facts))


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def epochs(made: PathTraining, count: int) -> list[Tensor]:
    items = []
    for epoch in range(1, count + 1):
        made.begin_epoch(epoch, rng())
        items.append(made.items.clone())
    return items


@pytest.mark.parametrize("answers", [1, 2, 5])
def test_a_pass_asks_every_fact_in_both_directions(answers: int) -> None:
    made = training(answers=answers)
    (items,) = epochs(made, 1)
    assert items.shape == (made.num_items(), answers)
    asked = both_ways(made.facts, RELATIONS)
    assert items[items >= 0].sort().values.tolist() == list(range(len(asked)))
    for item in items:
        mine = asked[item[item >= 0]]
        assert len(mine) > 0
        assert len(mine[:, :2].unique(dim=0)) == 1
    # (0, 0, ?) has three answers, (4, 0, ?) and the nine others one each; loops count twice.
    shared = {1: 14, 2: 13, 5: 12}
    assert made.num_items() == shared[answers]


def test_repeated_facts_are_asked_once() -> None:
    assert training(torch.cat([FACTS, FACTS])).num_items() == training().num_items()


def test_epochs_go_on_where_the_last_one_ended() -> None:
    made = training(answers=1, epoch_share=0.4)
    count = made.num_items()
    assert count == round(0.4 * 14)
    joined = torch.cat(epochs(made, 7)).squeeze(1)
    assert joined[:14].sort().values.tolist() == list(range(14))
    assert joined[14:28].sort().values.tolist() == list(range(14))
    assert not torch.equal(joined[:14], joined[14:28])


def test_the_items_of_an_epoch_follow_from_its_number() -> None:
    one, other = training(epoch_share=0.5), training(epoch_share=0.5)
    expected = epochs(one, 5)
    for epoch in (4, 2, 5):
        other.begin_epoch(epoch, rng(7))
        assert torch.equal(other.items, expected[epoch - 1])
    assert not torch.equal(expected[0], epochs(training(epoch_share=0.5, seed=1), 1)[0])


def hidden(made: PathTraining, fact: list[int]) -> list[list[int]]:
    """Return the facts without edges while one fact is asked."""
    place = made.system.stored.places(torch.tensor([fact]))
    weight = made.weights(place.unsqueeze(0), rng())
    gone = made.system.edges.fact[weight == 0]
    assert torch.equal(gone.sort().values, gone.unique().repeat_interleave(2))
    return made.facts[gone.unique()].tolist()


def test_the_own_edges_of_a_batch_are_hidden() -> None:
    assert hidden(training(), [0, 0, 1]) == [[0, 0, 1]]
    backwards = training()
    place = backwards.system.stored.places(torch.tensor([[2, 1, 3]])) + len(FACTS)
    weight = backwards.weights(place.unsqueeze(0), rng())
    assert backwards.facts[backwards.system.edges.fact[weight == 0]].tolist() == [[2, 1, 3]] * 2


def test_all_edges_between_two_ends_can_be_hidden() -> None:
    made = training(hide_pair_share=1.0)
    assert hidden(made, [0, 0, 1]) == [[0, 0, 1], [0, 1, 1], [1, 1, 0]]
    assert hidden(made, [4, 0, 4]) == [[4, 0, 4]]


def test_a_share_of_the_facts_loses_all_edges_between_the_ends() -> None:
    splits = groups()
    made = build(PathSettings(hide_pair_share=0.5, edge_dropout=0.0), splits.train)
    rows = torch.arange(len(made.facts)).unsqueeze(1)
    # Every pair of this graph has a fact and its reverse, or is alone in train.
    counts = [
        int((made.weights(rows[i : i + 1], rng(i)) == 0).sum()) // 2 for i in range(len(rows))
    ]
    alone = torch.bincount(made.pair)[made.pair] == 1
    twins = [count for count, single in zip(counts, alone.tolist(), strict=True) if not single]
    assert {count for count, single in zip(counts, alone.tolist(), strict=True) if single} <= {1}
    assert 0.4 < sum(count == 2 for count in twins) / len(twins) < 0.6


def test_a_share_of_the_edges_is_dropped() -> None:
    made = build(PathSettings(edge_dropout=0.25), groups().train)
    weight = made.weights(torch.tensor([[0]]), rng())
    assert set(weight.unique().tolist()) == {0.0, 1.0}
    assert 0.2 < (weight == 0).float().mean() < 0.3


@pytest.mark.parametrize("answers", [1, 3])
def test_the_loss_is_a_softmax_over_what_is_not_known(answers: int) -> None:
    made = training(answers=answers)
    made.double().train()
    rows = torch.arange(made.num_items())[:5]
    items, asked = made.items[rows], both_ways(made.facts, RELATIONS)
    weight = made.weights(torch.where(items >= 0, items, items[:, :1]), rng())
    losses = []
    for item in items:
        for fact in item[item >= 0]:
            start, query, answer = asked[fact]
            scores = made.system(start[None], query[None], weight)[0]
            known = asked[(asked[:, 0] == start) & (asked[:, 1] == query), 2].tolist()
            among = [e for e in range(ENTITIES) if e == answer or e not in known]
            losses.append(-scores[among].log_softmax(0)[among.index(int(answer))])
    torch.testing.assert_close(made.loss(rows, rng()), torch.stack(losses).mean())


def test_linked_and_unlinked_pairs_are_validated_apart() -> None:
    fitted = fit(groups(), "path", CASES["path"].settings(epochs=1))
    line = fitted.metrics[-1]
    valid = groups().valid.facts
    linked = fitted.system.kinds_of(valid)["linked"].float().mean().item()
    assert 0 < linked < 1
    mixed = linked * line["valid_mrr_linked"] + (1 - linked) * line["valid_mrr_unlinked"]
    assert mixed == pytest.approx(line["valid_mrr"])


def step_sizes(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> list[float]:
    """Return the step size of every step of a short training."""
    sizes: list[float] = []

    def descend(loss: Tensor, optimizer: torch.optim.Optimizer, *_: object) -> Tensor:
        sizes.append(optimizer.param_groups[0]["lr"])
        return loss.detach()

    monkeypatch.setattr(loop, "descend", descend)
    values = {"d": 2, "epochs": 4, "batch_size": 40, "answers": 8, "learning_rate": 0.8}
    fit(groups(), "path", CASES["path"].settings(**{**values, **changes}))
    return sizes


def test_a_linear_schedule_falls_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = step_sizes(monkeypatch)
    steps = len(sizes)
    assert steps % 4 == 0
    assert steps > 4
    assert sizes == pytest.approx([0.8 * (1 - done / steps) for done in range(steps)])
    assert step_sizes(monkeypatch, schedule="constant") == [0.8] * steps


def test_a_linear_schedule_is_a_tenth_from_where_it_decays(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = step_sizes(monkeypatch)
    sizes = step_sizes(monkeypatch, decay_at=0.5)
    half = len(plain) // 2
    assert sizes == pytest.approx([*plain[:half], *(size / 10 for size in plain[half:])])


def test_a_step_cannot_be_recorded() -> None:
    with pytest.raises(SettingsError, match="cuda_graph=false"):
        PathSettings(cuda_graph=True)
