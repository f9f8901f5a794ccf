"""Messages along edges on the CPU: loops compiled with numba, forward and backward.

A thread works on a range of questions, LANES columns at a time: it gathers the messages of one node
after the other without keeping any, and backward adds their gradients to the rows of sources and
relations, in the order of the edges. No two threads write the same number, so results do not
depend on the number of threads. Of an extreme it keeps which edge of the node has it, -1 for the
boundary.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from npugraph.compiling import Loop, compiled
from npugraph.kernels import cpu, dispatch, paths_loops
from npugraph.kernels.paths_edges import Edges
from npugraph.kernels.paths_loops import LANES
from npugraph.kernels.paths_reference import degrees

# Edges whose numbers are exact in single precision.
MOST_EDGES = 2**24


@cache
def _compiled() -> tuple[Loop, Loop]:
    """Return the loops forward and backward."""
    # Products stay in the order written: they decide winners.
    options: dict[str, Any] = {"fastmath": {"contract", "nsz"}, "error_model": "numpy"}
    forward = compiled(paths_loops.forward, paths_loops.PARTS, **options)
    return forward, compiled(paths_loops.backward, paths_loops.PARTS, **options)


def usable(edges: Edges, *tensors: Tensor) -> bool:
    """Tell whether the loops can and should work on these edges and tensors."""
    _, questions, width = tensors[0].shape
    work = (edges.num_entities + len(edges)) * questions * width
    return width <= LANES and len(edges) < MOST_EDGES and dispatch.on_cpu(work, *tensors)


def aggregate(
    states: Tensor,
    relations: Tensor,
    start: Tensor,
    query: Tensor,
    weight: Tensor,
    edges: Edges,
    from_start: bool = False,
) -> Tensor:
    """Return mean, max, min and deviation of each node's messages: see :mod:`.paths`."""
    out: Tensor = _Aggregate.apply(  # type: ignore[no-untyped-call]
        states.contiguous(),
        relations.contiguous(),
        query.contiguous(),
        start,
        weight.detach().to(states.dtype),
        edges,
        from_start,
    )
    return out


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        relations: Tensor,
        query: Tensor,
        start: Tensor,
        weight: Tensor,
        edges: Edges,
        from_start: bool,
    ) -> Tensor:
        entities, questions, width = states.shape
        there = weight > 0
        if from_start:
            # Messages of 0 change nothing but where the boundary is not 0.
            alive = torch.zeros(entities, dtype=torch.bool).index_fill_(0, start, True)
            passing = there & alive[edges.source]
            there &= alive[edges.source] | alive[edges.target]
        else:
            passing = there
        inverse = degrees(weight, edges).reciprocal()
        out = states.new_empty(entities, questions, 4, width)
        winners = states.new_empty(2, entities, questions * width)
        given = _flat(states), _flat(relations), query, start, inverse
        step = max(1, LANES // width)
        cpu.spread(
            _compiled()[0], questions, step, *given, *_rows(edges, weight, there), out, winners
        )
        read = states, relations, query, start, inverse, weight, passing
        ctx.save_for_backward(*read, out, winners)
        ctx.options = edges, from_start
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        states, relations, query, start, inverse, weight, passing, *made = ctx.saved_tensors
        edges, from_start = ctx.options
        to_states, to_relations = torch.empty_like(states), torch.empty_like(relations)
        to_query = torch.empty_like(query)
        given = _flat(states), _flat(relations), query, start, inverse
        found = slopes[0].contiguous(), _flat(to_states), _flat(to_relations), to_query
        rows, step = _rows(edges, weight, passing), max(1, LANES // states.shape[2])
        cpu.spread(_compiled()[1], len(start), step, *given, *rows, *made, *found)
        if from_start:
            cell = start, torch.arange(len(start))
            to_states = torch.zeros_like(states).index_put_(cell, to_states[cell])
        return to_states, to_relations, to_query, None, None, None, None


def _rows(edges: Edges, weight: Tensor, kept: Tensor) -> tuple[Tensor, ...]:
    """Return where each node's kept edges begin, their sources, relations, weights and numbers.

    Edges of a node are numbered as if all were kept, in the type of the weights, which compares
    as fast as the messages do and is exact below MOST_EDGES.
    """
    counts = edges.target.bincount(minlength=edges.num_entities)
    first = (counts.cumsum(0) - counts)[edges.target]
    number = (torch.arange(len(edges)) - first).to(weight.dtype)
    left = edges.target[kept].bincount(minlength=edges.num_entities)
    begin = torch.cat([left.new_zeros(1), left.cumsum(0)])
    return begin, edges.source[kept], edges.relation[kept], weight[kept], number[kept]


def _flat(table: Tensor) -> Tensor:
    """Return a table [n, B, d] as rows of B d numbers."""
    return table.view(len(table), -1)
