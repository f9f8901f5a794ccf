"""The Triton kernels for messages along edges on a GPU. Skipped where there is none."""

import pytest
import torch

from npugraph.kernels import paths, paths_cuda, paths_items
from path_checks import (
    CASES,
    EXACT,
    at_starts,
    check_equal,
    check_kernels,
    make,
    results,
    some_facts,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

BOTH = pytest.mark.parametrize("from_start", [False, True])


@pytest.fixture
def large():
    """As many columns as a batch has, and hubs of several items."""
    facts = some_facts(20_000, 500, 20)
    facts[:6000, 2] = 7
    return make(facts, 500, 20, 37, 32)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", EXACT)
@BOTH
@pytest.mark.parametrize("deterministic", [False, True])
def test_kernels_equal_the_reference(case, dtype, from_start, deterministic):
    check_kernels("cuda", case, dtype, from_start, deterministic)


@pytest.mark.parametrize("dtype", EXACT)
def test_results_do_not_depend_on_blocks_and_repeat(large, dtype, monkeypatch):
    inputs = large.to(dtype, "cuda")
    expected = results(paths.aggregate, inputs)
    launch = paths_cuda.Launch((128, 2), (512, 4), (64, 1), (256, 2))
    for sizes in (paths_cuda.LAUNCH, launch):
        monkeypatch.setattr(paths_cuda, "LAUNCH", sizes)
        found = results(paths.aggregate, inputs)
        for name, value in expected.items():
            assert torch.equal(found[name], value), name


@pytest.mark.parametrize("dtype", EXACT)
@BOTH
def test_a_large_batch_equals_the_reference(large, dtype, from_start):
    inputs = at_starts(large) if from_start else large
    check_equal(paths.aggregate, inputs, dtype, "cuda", EXACT[dtype], from_start=from_start)


def test_hubs_are_really_cut(large):
    plan = paths_cuda.plan_of(large.edges)
    assert len(plan.targets.hub) > 0
    assert int((plan.targets.last - plan.targets.first).max()) == paths_items.LONGEST


def test_double_precision_is_left_to_the_reference(large):
    inputs = large.to(torch.float64, "cuda")
    assert not paths_cuda.usable(inputs.edges, inputs.states)
    assert results(paths.aggregate, inputs)["result"].dtype == torch.float64
