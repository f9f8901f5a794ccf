"""Messages along edges on the CPU: loops compiled with numba, forward and backward.

A thread works on a range of questions, LANES columns at a time: it gathers the messages of one node
after the other without keeping any, and backward adds their gradients to the rows of sources and
relations, in the order of the edges. No two threads write the same number, so results do not
depend on the number of threads. The winners, edges or -1 for the boundary, are kept in four bytes
per column, which compare as fast as numbers of single precision.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from npugraph.kernels import cpu, dispatch, paths_loops
from npugraph.kernels.paths_edges import Edges
from npugraph.kernels.paths_loops import LANES
from npugraph.kernels.paths_reference import degrees


@cache
def _compiled() -> tuple[cpu.Loop, cpu.Loop]:
    """Return the loops forward and backward."""
    from numba import njit
    from numba.extending import register_jitable

    # Products stay in the order written: they decide winners.
    options: dict[str, Any] = {"fastmath": {"contract", "nsz"}, "error_model": "numpy"}
    for part in paths_loops.PARTS:
        register_jitable(**options)(part)
    build = njit(nogil=True, **options)
    return build(paths_loops.forward), build(paths_loops.backward)


def usable(edges: Edges, *tensors: Tensor) -> bool:
    """Tell whether the loops can and should work on these edges and tensors."""
    _, questions, width = tensors[0].shape
    work = (edges.num_entities + len(edges)) * questions * width
    return width <= LANES and dispatch.on_cpu(work, *tensors)


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
        counts = edges.target.bincount(minlength=entities)
        begin = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        # Sources whose states may differ from 0.
        alive = torch.full((entities,), not from_start)
        alive[start] = True
        inverse = degrees(weight, edges).reciprocal()
        out = states.new_empty(entities, questions, 4, width)
        winners = states.new_empty(2, entities, questions * width, dtype=torch.int32)
        read = start, weight, edges.source, edges.relation, begin, alive, inverse
        given = _flat(states), _flat(relations), query, *read
        cpu.spread(_compiled()[0], questions, max(1, LANES // width), *given, out, winners)
        ctx.save_for_backward(states, relations, query, *read, out, winners)
        ctx.from_start = from_start
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        states, relations, query, start, *read, out, winners = ctx.saved_tensors
        to_states, to_relations = torch.empty_like(states), torch.empty_like(relations)
        to_query = torch.empty_like(query)
        given = _flat(states), _flat(relations), query, start, *read
        found = slopes[0].contiguous(), _flat(to_states), _flat(to_relations), to_query
        step = max(1, LANES // states.shape[2])
        cpu.spread(_compiled()[1], len(start), step, *given, out, winners, *found)
        if ctx.from_start:
            cell = start, torch.arange(len(start))
            kept = to_states[cell]
            to_states = torch.zeros_like(states).index_put_(cell, kept)
        return to_states, to_relations, to_query, None, None, None, None


def _flat(table: Tensor) -> Tensor:
    """Return a table [n, B, d] as rows of B d numbers."""
    return table.view(len(table), -1)
