"""Messages along edges in loops compiled for the CPU."""

import pytest
import torch

from npugraph.kernels import paths, paths_cpu
from path_checks import CASES, at_starts, check_equal, make, results, some_facts

pytest.importorskip("numba", reason="numba is not installed: pip install 'npugraph[fast]'")


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("from_start", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-10)])
def test_loops_equal_the_reference(case, from_start, dtype, tolerance):
    inputs = at_starts(CASES[case]()) if from_start else CASES[case]()
    check_equal(paths_cpu.aggregate, inputs, dtype, tolerance=tolerance, from_start=from_start)


def test_results_do_not_depend_on_threads_and_repeat(threads):
    inputs = make(some_facts(300, 40, 4), 40, 4, 23, 32).to(torch.float32)
    found = []
    for count in (1, 3, 3):
        threads(count)
        found.append(results(paths_cpu.aggregate, inputs))
    for name, value in found[0].items():
        assert torch.equal(found[1][name], value)
        assert torch.equal(found[2][name], value)


def test_aggregate_takes_the_loops_where_there_is_enough_work():
    inputs = make(some_facts(2000, 50, 4), 50, 4, 16, 32).to(torch.float32)
    given = inputs.states, inputs.relations, inputs.query
    assert paths_cpu.usable(inputs.edges, *given)
    assert not paths_cpu.usable(inputs.edges, *(x.bfloat16() for x in given))
    assert not paths_cpu.usable(inputs.edges, *(x.repeat(1, 1, 8) for x in given[:2]))
    short = make(some_facts(20, 5, 4), 5, 4, 16, 32).to(torch.float32)
    assert not paths_cpu.usable(short.edges, short.states, short.relations, short.query)
    ours, loops = (results(f, inputs) for f in (paths.aggregate, paths_cpu.aggregate))
    for name, value in loops.items():
        assert torch.equal(ours[name], value)


def test_a_gradient_of_weights_is_made_in_plain_operations():
    inputs = make(some_facts(2000, 50, 4), 50, 4, 16, 32).to(torch.float32)
    weight = inputs.weight.clone().requires_grad_()
    out = paths.aggregate(
        inputs.states, inputs.relations, inputs.start, inputs.query, weight, inputs.edges
    )
    (gradient,) = torch.autograd.grad(out, weight, inputs.slope)
    assert gradient[weight > 0].abs().sum() > 0
    assert not gradient[weight == 0].any()
