"""Plain messages along edges against the formula, written out."""

import pytest
import torch

from npugraph.kernels import paths_reference
from npugraph.kernels.paths import Edges, aggregate, degrees
from path_checks import CASES, at_starts, check_equal, literal, make, results, some_facts

SMALL = sorted(set(CASES) - {"a width of 64", "an odd width", "hubs and empty rows"})


def test_edges_go_both_ways_and_are_sorted_by_target():
    facts = some_facts(200, 10, 4)
    edges = Edges.of(facts, 10, 4)
    assert len(edges) == 400
    assert edges.num_relations == 8
    assert (edges.target.diff() >= 0).all()
    forth = edges.relation < 4
    heads = torch.where(forth, edges.source, edges.target)
    tails = torch.where(forth, edges.target, edges.source)
    found = torch.stack([heads, edges.relation % 4, tails], 1)
    assert torch.equal(found, facts[edges.fact])
    assert torch.equal(edges.fact.bincount(), torch.full((200,), 2))
    assert edges.to("cpu") is edges


def test_degrees_count_the_edges_that_are_there_and_the_boundary():
    edges = Edges.of(torch.tensor([[0, 0, 1], [2, 0, 1]]), 4, 1)
    weight = torch.where(edges.fact == 1, 0.0, 0.5)
    assert degrees(weight, edges).tolist() == [2.0, 2.0, 1.0, 1.0]


@pytest.mark.parametrize("case", SMALL)
def test_the_reference_is_the_formula(case):
    inputs = CASES[case]()
    torch.testing.assert_close(
        results(paths_reference.aggregate, inputs)["result"], literal(inputs)
    )


@pytest.mark.parametrize("weights", ["mixed", "none"])
def test_gradients_are_those_of_finite_differences(weights):
    inputs = make(some_facts(14, 5, 2), 5, 2, 3, 2, weights)
    rng = torch.Generator().manual_seed(1)

    def draw(like):
        # No two messages are equal, so that a small step changes no winner.
        return torch.randn(like.shape, generator=rng, dtype=torch.float64).requires_grad_()

    given = draw(inputs.states), draw(inputs.relations), draw(inputs.query)
    weight = inputs.weight.clone().requires_grad_(weights == "mixed")
    there = weight.detach() > 0

    def function(states, relations, query, weight):
        weight = torch.where(there, weight, 0.0)
        return aggregate(states, relations, inputs.start, query, weight, inputs.edges)

    assert torch.autograd.gradcheck(function, (*given, weight), eps=1e-7, atol=1e-5)


def test_of_equal_messages_the_first_passes_the_gradient_on():
    edges = Edges.of(torch.tensor([[0, 0, 2], [1, 0, 2], [0, 1, 2]]), 3, 2)
    weight = (edges.relation < 2).double()
    states = torch.tensor([[[1.0]], [[1.0]], [[0.0]]], dtype=torch.float64, requires_grad=True)
    relations = torch.ones(4, 1, 1, dtype=torch.float64, requires_grad=True)
    query = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    out = aggregate(states, relations, torch.tensor([2]), query, weight, edges)
    given = states, relations, query
    largest = torch.autograd.grad(out[2, 0, 1, 0], given, retain_graph=True)
    assert [g.flatten().tolist() for g in largest] == [[1, 0, 0], [1, 0, 0, 0], [0]]
    smallest = torch.autograd.grad(out[2, 0, 2, 0], given)
    assert [g.flatten().tolist() for g in smallest] == [[0, 0, 0], [0, 0, 0, 0], [1]]


def test_a_state_that_is_no_number_shows():
    inputs = CASES["plain"]()
    inputs.states[3, 1, 2] = float("nan")
    inputs.weight.fill_(1.0)
    out = results(paths_reference.aggregate, inputs)["result"]
    reached = inputs.edges.target[inputs.edges.source == 3]
    assert out[reached, 1, :, 2].isnan().all()
    assert not out[:, 0].isnan().any()


@pytest.mark.parametrize("case", SMALL)
def test_before_the_first_layer_the_result_is_the_same_and_starts_have_the_gradient(case):
    inputs = at_starts(CASES[case]())
    plain = results(paths_reference.aggregate, inputs)
    short = results(paths_reference.aggregate, inputs, from_start=True)
    lanes = torch.arange(len(inputs.start))
    name = "gradient of states"
    at_start = plain[name][inputs.start, lanes]
    assert torch.equal(short[name][inputs.start, lanes], at_start)
    short[name][inputs.start, lanes] = 0.0
    assert not short.pop(name).any()
    for other, value in short.items():
        assert torch.equal(value, plain[other])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("from_start", [False, True])
def test_half_precision_is_worked_on_in_single_precision(case, from_start):
    inputs = CASES[case]()
    inputs = at_starts(inputs) if from_start else inputs
    check_equal(
        paths_reference.aggregate, inputs, torch.bfloat16, tolerance=2e-2, from_start=from_start
    )
