"""States for what a question has reached alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from npugraph.compiling import available
from npugraph.errors import SettingsError
from npugraph.fitting import fit, load
from npugraph.kernels import dispatch
from npugraph.kernels.paths import Edges
from npugraph.recipes import RECIPES
from npugraph.recipes.path import reached
from npugraph.recipes.path.model import PathModel
from npugraph.recipes.path.reached import one_step_on, planned_share, starts
from recipe_cases import CASES, groups

N, R = 60, 3
needs_numba = pytest.mark.skipif(not available(), reason="numba is not installed")


@pytest.fixture(autouse=True)
def work_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "LEAST_WORK", 0)


def some_facts(count: int = 80) -> Tensor:
    """Facts that leave two entities without any."""
    rng = torch.Generator().manual_seed(1)
    columns = [torch.randint(high, (count,), generator=rng) for high in (N - 2, R, N - 2)]
    return torch.stack(columns, 1)


def model(**changes: object) -> PathModel:
    given: dict[str, object] = {"d": 6, "layers": 4, "reached_only": True, "seed": 2}
    return PathModel(some_facts(), N, R, **{**given, **changes}).double()  # type: ignore[arg-type]


def some_weights(made: PathModel) -> Tensor:
    rng = torch.Generator().manual_seed(4)
    weight = torch.rand(len(made.edges), generator=rng).double()
    return weight.masked_fill(torch.rand(len(weight), generator=rng) < 0.3, 0.0)


def questions(count: int = 20) -> tuple[Tensor, Tensor]:
    return torch.arange(count) * 3 % N, torch.arange(count) % (2 * R)


@needs_numba
def test_both_ways_give_the_same_scores_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, weight = questions(), some_weights(model())
    found = []
    for most in (-1.0, 2.0):
        monkeypatch.setattr(reached, "MOST_REACHED", most)
        made = model()
        assert (made._planned_share() == 1) == (most < 0)
        scores = made(*asked, weight)
        slopes = torch.autograd.grad(scores.square().sum(), list(made.parameters()))
        found.append((scores, *slopes))
    for expected, value in zip(*found, strict=True):
        torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("most", [-1.0, 2.0])
def test_what_is_not_reached_has_one_score(most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reached, "MOST_REACHED", most)
    chain = torch.tensor([[i, 0, i + 1] for i in range(10)])
    made = PathModel(chain, 11, 1, d=6, layers=4, reached_only=True, seed=2).double()
    scores = made(torch.tensor([0]), torch.tensor([0]), torch.ones(20).double())[0]
    assert len(scores[5:].unique()) == 1
    assert len(scores[:5].unique()) == 5
    # An edge that is not there leads nowhere.
    fact = (made.edges.fact == 2).nonzero().squeeze(1)
    cut = torch.ones(20).double().index_fill_(0, fact, 0.0)
    assert len(made(torch.tensor([0]), torch.tensor([0]), cut)[0, 3:].unique()) == 1


def test_where_all_is_reached_at_once_nothing_changes() -> None:
    facts = torch.tensor([[i, 0, j] for i in range(6) for j in range(6)])
    both = [
        PathModel(facts, 6, 1, d=6, layers=3, reached_only=only, seed=2).double()
        for only in (False, True)
    ]
    asked = torch.arange(6), torch.zeros(6, dtype=torch.int64), torch.ones(72).double()
    torch.testing.assert_close(both[1](*asked), both[0](*asked))


def test_elsewhere_it_is_another_model() -> None:
    asked = (*questions(), some_weights(model()))
    assert not torch.allclose(model()(*asked), model(reached_only=False)(*asked))


def test_a_step_goes_along_edges_that_have_a_weight() -> None:
    edges = Edges.of(torch.tensor([[0, 0, 1], [1, 0, 2], [3, 0, 4]]), 5, 1)
    weight = torch.ones(6)
    here = starts(torch.tensor([0, 4]), 5)
    assert here.T.tolist() == [[True, False, False, False, False], [False] * 4 + [True]]
    after = one_step_on(here, weight, edges)
    assert after.T.long().tolist() == [[1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]
    weight[edges.fact == 1] = 0.0
    assert one_step_on(after, weight, edges).T.long().tolist() == [[1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]


@needs_numba
def test_memory_is_planned_for_what_is_reached() -> None:
    cpu = torch.device("cpu")
    chain = torch.tensor([[i, 0, i + 1] for i in range(999)])
    both = [PathModel(chain, 1000, 1, d=8, layers=3, reached_only=only) for only in (False, True)]
    every, few = (made.step_bytes(8, cpu) - 8 * made.score_bytes() for made in both)
    assert few < every / 50
    # A GPU works on all states.
    assert both[1]._reach(torch.device("cuda")) == both[0]._reach(cpu)
    assert both[1].questions_per_pass() >= both[0].questions_per_pass()
    # 2, 4 and 6 of 1,000 nodes beside the start, but near the ends.
    share = planned_share(both[1].edges, 3, 8)
    assert share == pytest.approx(reached.MARGIN * (3 + 5 + 7) / 3 / 1000, rel=0.1)
    assert planned_share(model().edges, 8, 6) == 1.0
    assert planned_share(Edges.of(torch.empty(0, 3).long(), 5, 1), 3, 8) == 1.0


def test_what_it_cannot_be_combined_with() -> None:
    with pytest.raises(SettingsError, match="set reached_only=false or nodes=0"):
        RECIPES["path"].settings(nodes=5, reached_only=True)
    with pytest.raises(SettingsError, match="reached_only=false or objective=softmax"):
        RECIPES["npugraph-path"].settings(objective="npu", reached_only=True)


def test_it_learns_and_its_run_opens_again(tmp_path: Path) -> None:
    settings = CASES["path"].settings(reached_only=True, epochs=4)
    fitted = fit(groups(), "path", settings, tmp_path / "run")
    assert fitted.progress.best_mrr > 0.5
    again = load(tmp_path / "run", "cpu").system
    assert isinstance(again, PathModel)
    assert again.reached_only
    facts = groups().test.facts
    torch.testing.assert_close(again.score(facts), fitted.system.score(facts))
    moved = again.on_graph(groups().train)
    assert isinstance(moved, PathModel)
    assert moved.reached_only


@pytest.mark.parametrize("most", [-1.0, 2.0])
def test_facts_are_judged_and_explained(most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The strongest paths are of the same scores, whichever way those are found."""
    monkeypatch.setattr(reached, "MOST_REACHED", most)
    made = model().eval()
    facts = made.stored.facts()
    judged = made.judge(facts[:10])
    one = made.judge(facts[3:4])
    torch.testing.assert_close(one.raw, judged.raw[:, 3:4])
    for path in made.strongest_paths(facts[3], 3):
        assert path.facts[0] != tuple(facts[3].tolist())
