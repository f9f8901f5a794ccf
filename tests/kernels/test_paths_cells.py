"""Messages of the questions that have reached a node alone, in loops compiled for the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from npugraph.kernels import paths_cells, paths_reference
from npugraph.kernels.paths_cells import Cells, Present
from path_checks import CASES, Inputs, make, some_facts

pytest.importorskip("numba", reason="numba is not installed: pip install 'npugraph[fast]'")


@pytest.fixture(params=["compiled", "as they stand"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "as they stand":
        monkeypatch.setattr(paths_cells, "_compiled", lambda loop: loop)


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def steps_to(inputs: Inputs, most: int) -> Tensor:
    """Return by how many steps each node is reached first, most + 1 where it is not: [N, B]."""
    edges, questions = inputs.edges, len(inputs.start)
    result = torch.full((edges.num_entities, questions), most + 1)
    result[inputs.start, torch.arange(questions)] = 0
    for step in range(1, most + 1):
        for e in (inputs.weight > 0).nonzero().squeeze(1).tolist():
            came = result[edges.source[e]] < step
            here = result[edges.target[e]]
            result[edges.target[e]] = here.where(~came | (here < step), step)
    return result


def reach(inputs: Inputs, steps: int) -> Cells:
    return paths_cells.reach(inputs.start, inputs.weight, inputs.edges, steps)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("loops")
def test_cells_are_what_is_reached(case: str) -> None:
    inputs, steps = CASES[case](), 3
    cells, expected = reach(inputs, steps), steps_to(inputs, steps)
    assert cells.totals == tuple(int((expected <= step).sum()) for step in range(steps + 1))
    assert len(cells.node) == len(cells.question) == cells.totals[-1]
    for step, (begin, end) in enumerate(zip((0, *cells.totals), cells.totals, strict=False)):
        found = expected[cells.node[begin:end], cells.question[begin:end]]
        assert (found == step).all()
        assert (cells.question[begin:end].diff() >= 0).all()
    assert len(torch.unique(cells.node * len(inputs.start) + cells.question)) == len(cells.node)
    for step in range(steps + 1):
        for question in range(len(inputs.start)):
            count = int((expected[:, question] == step).sum())
            begin = int(cells.place[step, question])
            assert (cells.question[begin : begin + count] == question).all()
    share = float((expected[:, :] <= 1).sum() + (expected <= 2).sum() + (expected <= 3).sum())
    assert cells.share(inputs.edges.num_entities) == pytest.approx(share / 3 / expected.numel())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-10)])
@pytest.mark.usefixtures("loops")
def test_features_and_gradients_equal_the_reference(
    case: str, steps: int, dtype: torch.dtype, tolerance: float
) -> None:
    """Where what is not reached has a state of 0."""
    inputs = CASES[case]().to(torch.float64)
    cells = reach(inputs, steps)
    before, after = cells.totals[steps - 1], cells.totals[steps]
    known = cells.node[:before], cells.question[:before]
    wanted = cells.node[:after], cells.question[:after]

    def plain(states: Tensor, relations: Tensor, query: Tensor) -> Tensor:
        every = torch.zeros_like(inputs.states).index_put(known, states)
        return paths_reference.aggregate(
            every, relations, inputs.start, query, inputs.weight, inputs.edges
        )[wanted]

    def ours(states: Tensor, relations: Tensor, query: Tensor) -> Tensor:
        present = Present.of(inputs.weight, inputs.edges, dtype)
        given = (x.to(dtype) for x in (states, relations, query))
        states, relations, query = given
        return paths_cells.aggregate(
            states, relations, inputs.start, query, present, cells, steps
        ).double()

    given = [x.requires_grad_() for x in (inputs.states[known], inputs.relations, inputs.query)]
    found = []
    for function in (plain, ours):
        out = function(*given)
        slopes = torch.autograd.grad(out, given, inputs.slope[wanted])
        found.append((out.detach(), *slopes))
    for expected, value in zip(*found, strict=True):
        scale = float(expected.abs().max().clamp_min(1e-6)) if expected.numel() else 1.0
        torch.testing.assert_close(value / scale, expected / scale, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("one_thread")
def test_results_do_not_depend_on_threads() -> None:
    inputs = make(some_facts(60, 50, 4), 50, 4, 23, 16).to(torch.float32)
    found = []
    for threads in (1, 3, 2):
        torch.set_num_threads(threads)
        cells = reach(inputs, 3)
        states = inputs.states[cells.node, cells.question][: cells.totals[2]].requires_grad_()
        relations, query = inputs.relations.clone().requires_grad_(), inputs.query.clone()
        present = Present.of(inputs.weight, inputs.edges, torch.float32)
        out = paths_cells.aggregate(states, relations, inputs.start, query, present, cells, 3)
        slopes = torch.autograd.grad(out.square().sum(), [states, relations])
        found.append((cells.node, cells.question, out, *slopes))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_the_loops_are_for_graphs_that_are_worth_it() -> None:
    inputs = make(some_facts(2000, 500, 4), 500, 4, 1, 8)
    assert paths_cells.usable(inputs.edges, 64, 8, torch.float32)
    assert not paths_cells.usable(inputs.edges, 64, 8, torch.bfloat16)
    assert not paths_cells.usable(inputs.edges, 1, 8, torch.float32)
