"""What every implementation of :func:`npugraph.kernels.paths.aggregate` must do.

The Triton kernels are checked on a GPU, or in Triton's interpreter, which is chosen when they are
imported and so needs a process of its own:

    TRITON_INTERPRET=1 python tests/path_checks.py

Without the variable all cases are checked on a GPU.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from npugraph.kernels import paths_cuda, paths_items, paths_reference
from npugraph.kernels.paths import Edges


@dataclass
class Inputs:
    """The arguments of one call, and a gradient of its result."""

    states: Tensor
    relations: Tensor
    start: Tensor
    query: Tensor
    weight: Tensor
    edges: Edges
    slope: Tensor

    def to(self, dtype: torch.dtype, device: str = "cpu") -> Inputs:
        floats = (self.states, self.relations, self.query, self.slope)
        states, relations, query, slope = (part.to(device, dtype) for part in floats)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        weight, edges = self.weight.to(device, wide), self.edges.to(device)
        return Inputs(states, relations, self.start.to(device), query, weight, edges, slope)


def make(facts, entities, relations, questions, width, weights="mixed", seed=0) -> Inputs:
    """Draw the inputs, in numbers that bfloat16 can hold; some states are 0, as after a relu."""
    rng = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=rng).bfloat16().double()

    edges = Edges.of(facts, entities, relations)
    weight = torch.rand(len(edges), generator=rng).bfloat16().double().clamp(0.05, 1.0)
    if weights == "mixed":
        weight[torch.rand(len(edges), generator=rng) < 0.3] = 0.0
        weight[torch.rand(len(edges), generator=rng) < 0.3] = 1.0
    elif weights == "none":
        weight.zero_()
    elif weights == "one":
        weight.fill_(1.0)
    start = torch.randint(entities, (questions,), generator=rng)
    return Inputs(
        draw(entities, questions, width).relu(),
        draw(2 * relations, questions, width),
        start,
        draw(questions, width),
        weight,
        edges,
        draw(entities, questions, 4, width),
    )


def some_facts(count, entities, relations, seed=0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    columns = [torch.randint(n, (count,), generator=rng) for n in (entities, relations, entities)]
    return torch.stack(columns, 1)


def hub_facts() -> Tensor:
    """Nodes 2 and 5 are ends of so many facts that they are cut; nodes 9 and up have none."""
    facts = some_facts(440, 9, 3)
    facts[:270, 2] = 2
    facts[270:410, 0] = 5
    return facts


CASES = {
    "plain": lambda: make(some_facts(40, 9, 3), 9, 3, 4, 16),
    "no fact": lambda: make(some_facts(0, 4, 2), 4, 2, 3, 8),
    "no weight": lambda: make(some_facts(30, 6, 2), 6, 2, 3, 8, "none"),
    "all there": lambda: make(some_facts(50, 8, 2), 8, 2, 3, 8, "one"),
    "one entity": lambda: make(some_facts(3, 1, 2), 1, 2, 5, 8),
    "one relation": lambda: make(some_facts(40, 7, 1), 7, 1, 2, 8),
    "repeated facts": lambda: make(some_facts(12, 5, 2).repeat(3, 1), 5, 2, 3, 8, "one"),
    "hubs and empty rows": lambda: make(hub_facts(), 12, 3, 3, 8),
    "a width of 32": lambda: make(some_facts(20, 5, 2), 5, 2, 5, 32),
    "a width of 64": lambda: make(some_facts(20, 5, 2), 5, 2, 7, 64),
    "an odd width": lambda: make(some_facts(20, 5, 2), 5, 2, 23, 12),
    "one question": lambda: make(some_facts(20, 5, 2), 5, 2, 1, 8),
}


def literal(inputs: Inputs) -> Tensor:
    """The formula, node by node, question by question, number by number."""
    states, edges = inputs.states, inputs.edges
    entities, questions, width = states.shape
    out = torch.zeros(entities, questions, 4, width, dtype=torch.float64)
    for v, b, k in product(range(entities), range(questions), range(width)):
        messages = [float(inputs.query[b, k]) if inputs.start[b] == v else 0.0]
        for e in range(len(edges)):
            if edges.target[e] == v and inputs.weight[e] > 0:
                state = float(states[edges.source[e], b, k])
                vector = float(inputs.relations[edges.relation[e], b, k])
                messages.append(state * vector * float(inputs.weight[e]))
        mean = sum(messages) / len(messages)
        variance = sum(m * m for m in messages) / len(messages) - mean * mean
        found = mean, max(messages), min(messages), math.sqrt(max(variance, 1e-6))
        out[v, b, :, k] = torch.tensor(found, dtype=torch.float64)
    return out


def results(function, inputs: Inputs, **options) -> dict[str, Tensor]:
    """The result of a function and its gradients."""
    given = [x.clone().requires_grad_() for x in (inputs.states, inputs.relations, inputs.query)]
    states, relations, query = given
    out = function(states, relations, inputs.start, query, inputs.weight, inputs.edges, **options)
    assert out.dtype == states.dtype
    names = "result", "gradient of states", "gradient of relations", "gradient of query"
    gradients = torch.autograd.grad(out, given, inputs.slope)
    return dict(zip(names, (out.detach(), *gradients), strict=True))


def at_starts(inputs: Inputs) -> Inputs:
    """The same with states that are 0 but at the starts, as before the first layer."""
    states = torch.zeros_like(inputs.states)
    lanes = torch.arange(len(inputs.start), device=inputs.start.device)
    states[inputs.start, lanes] = inputs.states[inputs.start, lanes] + 1
    return Inputs(
        states,
        inputs.relations,
        inputs.start,
        inputs.query,
        inputs.weight,
        inputs.edges,
        inputs.slope,
    )


def check_equal(function, inputs: Inputs, dtype, device="cpu", tolerance=1e-5, **options) -> None:
    """A function in some precision equals the reference in double precision."""
    expected = results(
        paths_reference.aggregate,
        inputs.to(torch.float64, device),
        from_start=options.get("from_start", False),
    )
    found = results(function, inputs.to(dtype, device), **options)
    for name, value in expected.items():
        ours, scale = found[name].double(), float(value.abs().max().clamp_min(1e-6))
        torch.testing.assert_close(
            ours / scale, value / scale, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: n + m
        )


EXACT = {torch.float32: 2e-5, torch.bfloat16: 2e-2}


def check_kernels(device: str, case: str, dtype, from_start: bool, deterministic: bool) -> None:
    """The Triton kernels equal the reference in double precision."""
    inputs = at_starts(CASES[case]()) if from_start else CASES[case]()
    assert paths_cuda.usable(inputs.edges, inputs.states.to(device, dtype))
    options = {"from_start": from_start, "deterministic": deterministic}
    check_equal(paths_cuda.aggregate, inputs, dtype, device, EXACT[dtype], **options)


def check_in_the_interpreter() -> None:
    """Every case once, every combination for one whose nodes are cut; the rest is for a GPU."""
    for number, case in enumerate(CASES):
        dtype = torch.bfloat16 if number % 4 == 3 else torch.float32
        check_kernels("cpu", case, dtype, from_start=False, deterministic=True)
    paths_items.LONGEST = 5
    for dtype, from_start, deterministic in product(EXACT, (False, True), (False, True)):
        check_kernels("cpu", "plain", dtype, from_start, deterministic)
    assert not paths_cuda.usable(Edges.of(some_facts(3, 2, 2), 2, 2), torch.zeros(1).double())


if __name__ == "__main__":
    if os.environ.get("TRITON_INTERPRET") == "1":
        check_in_the_interpreter()
    else:
        for each in product(["cuda"], CASES, EXACT, (False, True), (False, True)):
            check_kernels(*each)
    sys.stdout.write("equal\n")
