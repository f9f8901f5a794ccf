"""States for what a question has reached alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from npugraph.recipes.path.reached import Reach, reached_share
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
        assert (made._reached_share() is None) == (most < 0)
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
    weight = torch.ones(6).masked_fill(edges.fact == 1, 0.0)
    every, some = (Reach(torch.tensor([0, 4]), w, edges) for w in (torch.ones(6), weight))
    assert every.step().T.long().tolist() == [[1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]
    assert every.step().T.long().tolist() == [[1, 1, 1, 0, 0], [0, 0, 0, 1, 1]]
    for _ in range(2):
        assert some.step().T.long().tolist() == [[1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]


@needs_numba
def test_memory_is_planned_for_what_is_reached() -> None:
    cpu = torch.device("cpu")
    chain = torch.tensor([[i, 0, i + 1] for i in range(999)])
    both = [PathModel(chain, 1000, 1, d=8, layers=3, reached_only=only) for only in (False, True)]
    every, few = (made.step_bytes(8, cpu) - 8 * made.score_bytes() for made in both)
    assert few < every / 50
    # A GPU works on all states.
    assert both[1]._reach(torch.device("cuda")) == both[0]._reach(cpu)
    assert both[1].questions_per_pass() > both[0].questions_per_pass()
    # 2, 4 and 6 of 1,000 nodes beside the start, but near the ends.
    share = reached_share(both[1].edges, 3, 8, torch.float32)
    assert share == pytest.approx((3 + 5 + 7) / 3 / 1000, rel=0.1)
    assert reached_share(model().edges, 8, 6, torch.float32) is None
    assert reached_share(both[1].edges, 3, 8, torch.bfloat16) is None
    assert reached_share(Edges.of(torch.empty(0, 3).long(), 5, 1), 3, 8, torch.float32) is None


def test_what_it_cannot_be_combined_with() -> None:
    with pytest.raises(SettingsError, match="set reached_only=false or nodes=0"):
        RECIPES["path"].settings(nodes=5, reached_only=True)
    with pytest.raises(SettingsError, match="reached_only=false or objective=softmax"):
        RECIPES["npugraph-path"].settings(objective="npu", reached_only=True)


@pytest.fixture(params=["all states", pytest.param("cells", marks=needs_numba)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By which of the two ways scores are found, whatever the share within reach."""
    monkeypatch.setattr(reached, "MOST_REACHED", 2.0 if request.param == "cells" else -1.0)
    return str(request.param)


def test_it_learns_and_its_run_opens_again(tmp_path: Path, way: str) -> None:
    settings = CASES["path"].settings(reached_only=True, epochs=4)
    fitted = fit(groups(), "path", settings, tmp_path / "run")
    assert fitted.progress.best_mrr > 0.5
    again = load(tmp_path / "run", "cpu").system
    assert isinstance(again, PathModel)
    assert again.reached_only
    assert (again._reached_share() is None) == (way == "all states")
    facts = groups().test.facts
    torch.testing.assert_close(again.score(facts), fitted.system.score(facts))
    moved = again.on_graph(groups().train)
    assert isinstance(moved, PathModel)
    assert moved.reached_only


@needs_numba
@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("path", {}),
        ("path, members", {}),
        ("npugraph-path", {"soft_facts": 0.5, "warmup": 1, "refresh": 1}),
        ("npugraph-plus", {}),
    ],
)
def test_a_training_on_cells_ends_as_one_on_all_states(
    case: str, changes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to rounding, which a few steps do not let grow; soft facts make other edges on the way."""
    found = []
    for most in (-1.0, 2.0):
        monkeypatch.setattr(reached, "MOST_REACHED", most)
        settings = CASES[case].settings(reached_only=True, epochs=2, **changes)
        found.append([line["loss"] for line in fit(groups(), CASES[case].recipe, settings).metrics])
    assert found[1] == pytest.approx(found[0], rel=1e-3)


@needs_numba
def test_a_resumed_training_on_cells_ends_bit_for_bit_as_an_unbroken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reached, "MOST_REACHED", 2.0)
    settings = CASES["path"].settings(reached_only=True, epochs=3)
    whole = fit(groups(), "path", settings, tmp_path / "whole")

    def stop(record: dict[str, Any]) -> None:
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(groups(), "path", settings, tmp_path / "broken", report=stop)
    again = fit(groups(), "path", settings, tmp_path / "broken", resume=True)
    assert len(again.metrics) == 3
    for name, value in whole.system.state_dict().items():
        assert torch.equal(again.system.state_dict()[name], value)


def test_facts_are_judged_and_explained(way: str) -> None:
    made = model().eval()
    assert (made._reached_share() is None) == (way == "all states")
    facts = made.stored.facts()
    judged = made.judge(facts[:10])
    torch.testing.assert_close(made.judge(facts[3:4]).raw, judged.raw[:, 3:4])
    own = tuple(facts[3].tolist())
    assert all(own not in path.facts for path in made.strongest_paths(facts[3], 3))


@needs_numba
def test_a_gradient_of_weights_is_made_on_all_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reached, "MOST_REACHED", 2.0)
    made = model()
    weight = some_weights(made).requires_grad_()
    (slope,) = torch.autograd.grad(made(*questions(), weight).square().sum(), weight)
    assert bool(slope.any())
    # Weights of single precision beside states of double, as they come.
    both = [made(*questions(), weight.detach().to(kind)) for kind in (torch.float64, torch.float32)]
    torch.testing.assert_close(both[1], both[0], rtol=1e-6, atol=1e-6)
