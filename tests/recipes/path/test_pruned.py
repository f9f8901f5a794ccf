"""Questions on the most promising nodes alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from npugraph.errors import SettingsError
from npugraph.fitting import fit, load
from npugraph.kernels.paths import Edges
from npugraph.recipes import RECIPES
from npugraph.recipes.path.model import PathModel
from npugraph.recipes.path.pruned import Outgoing, best_of, with_unsent
from recipe_cases import CASES, groups

N, R = 40, 3


def some_facts() -> Tensor:
    rng = torch.Generator().manual_seed(1)
    columns = [torch.randint(high, (90,), generator=rng) for high in (N - 2, R, N - 2)]
    return torch.stack(columns, 1)


def model(nodes: int, facts: Tensor | None = None) -> PathModel:
    facts = some_facts() if facts is None else facts
    return PathModel(facts, N, R, d=6, layers=4, nodes=nodes, seed=2).double()


def some_weights(made: PathModel) -> Tensor:
    rng = torch.Generator().manual_seed(4)
    weight = torch.rand(len(made.edges), generator=rng).double()
    return weight.masked_fill(torch.rand(len(weight), generator=rng) < 0.2, 0.0)


@pytest.mark.parametrize("nodes", [N, 10 * N])
def test_with_all_nodes_nothing_changes(nodes: int) -> None:
    dense, pruned = model(0), model(nodes)
    start, query = torch.arange(8), torch.arange(8) % (2 * R)
    weight = some_weights(dense)
    scores = [made(start, query, weight) for made in (dense, pruned)]
    torch.testing.assert_close(scores[1], scores[0])
    slopes = [
        torch.autograd.grad(found.square().sum(), list(made.parameters()))
        for found, made in zip(scores, (dense, pruned), strict=True)
    ]
    torch.testing.assert_close(slopes[1], slopes[0])


def test_the_first_layer_is_exact_whatever_is_kept() -> None:
    """Only nodes that were not reached differ: they have no state."""
    facts = torch.tensor([[0, i % R, i] for i in range(1, 12)])
    for nodes in (1, 5):
        made = PathModel(facts, N, R, d=6, layers=1, nodes=nodes, seed=2).double()
        dense = PathModel(facts, N, R, d=6, layers=1, seed=2).double()
        asked = torch.tensor([0]), torch.tensor([1]), torch.ones(22).double()
        # The floor of the variance is added before the messages of 0 are.
        torch.testing.assert_close(
            made(*asked)[:, :12], dense(*asked)[:, :12], rtol=1e-4, atol=1e-5
        )
        far = made(*asked)[0, 12:]
        assert torch.equal(far, far[:1].expand_as(far))
        assert not torch.isclose(dense(*asked)[0, 12], far[0])


def test_only_what_can_be_reached_has_a_state() -> None:
    chain = torch.tensor([[i, 0, i + 1] for i in range(10)])
    made = PathModel(chain, 11, 1, d=6, layers=4, nodes=3, seed=2).double()
    scores = made(torch.tensor([0]), torch.tensor([0]), torch.ones(20).double())[0]
    assert len(scores[5:].unique()) == 1
    assert len(scores[:5].unique()) == 5


def test_messages_that_are_not_sent_count_as_zero() -> None:
    messages = torch.tensor([[1.0, 2.0, 6.0], [0.5, 0.5, 0.5]]).T.reshape(3, 1, 1, 2)

    def features(sent: Tensor) -> Tensor:
        mean, deviation = sent.mean(0), sent.var(0, unbiased=False).clamp_min(1e-6).sqrt()
        return torch.stack([mean, sent.amax(0), sent.amin(0), deviation], 2)

    zeros = torch.zeros(2, 1, 1, 2)
    found = with_unsent(features(messages), torch.tensor([3.0]), torch.tensor([5.0]))
    expected = features(torch.cat([messages, zeros]))
    torch.testing.assert_close(found, expected)
    same = with_unsent(features(messages), torch.tensor([3.0]), torch.tensor([3.0]))
    assert torch.equal(same, features(messages))


def test_the_best_are_kept_and_the_start() -> None:
    nodes, score = torch.tensor([3, 5, 8, 9]), torch.tensor([0.0, 2.0, 2.0, 2.0])
    assert best_of(nodes, score, torch.tensor([3]), 3).tolist() == [0, 1, 2]
    assert best_of(nodes, score, torch.tensor([9]), 1).tolist() == [3]
    assert best_of(nodes, score, torch.tensor([9]), 9).tolist() == [0, 1, 2, 3]


def test_what_is_reached_is_part_of_the_graph() -> None:
    edges = Edges.of(some_facts(), N, R)
    outgoing, weight = Outgoing(edges), torch.ones(len(edges))
    weight[::3] = 0.0
    senders = torch.tensor([1, 4, 20])
    here = outgoing.reached(senders, weight)
    expected = torch.isin(edges.source, senders) & (weight > 0)
    assert torch.equal(here.chosen, expected.nonzero().squeeze(1))
    assert torch.equal(here.nodes[here.edges.target], edges.target[here.chosen])
    assert torch.equal(here.nodes[here.edges.source], edges.source[here.chosen])
    nodes, most = outgoing.most(3)
    assert len(here.chosen) <= most
    assert len(here.nodes) <= nodes <= N


def test_fewer_nodes_take_less_memory() -> None:
    device = torch.device("cpu")
    sizes = [model(nodes).step_bytes(8, device) for nodes in (1, 2, 0)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2] / 2
    assert model(1).questions_per_pass() >= model(0).questions_per_pass()


def test_two_heads_need_all_nodes() -> None:
    with pytest.raises(SettingsError, match="set nodes=0 or objective=softmax"):
        RECIPES["npugraph-path"].settings(nodes=5, objective="npu")
    assert RECIPES["npugraph-path"].settings(nodes=5).nodes == 5


def test_it_learns_and_its_run_opens_again(tmp_path: Path) -> None:
    settings = CASES["path"].settings(nodes=12, epochs=4)
    fitted = fit(groups(), "path", settings, tmp_path / "run")
    assert fitted.progress.best_mrr > 0.5
    again = load(tmp_path / "run", "cpu").system
    assert isinstance(again, PathModel)
    assert again.nodes == 12
    facts = groups().test.facts
    torch.testing.assert_close(again.score(facts), fitted.system.score(facts))
    moved = again.on_graph(groups().train)
    assert isinstance(moved, PathModel)
    assert moved.nodes == 12
