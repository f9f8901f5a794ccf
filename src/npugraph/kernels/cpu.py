"""Operations by loops that PyTorch has no single operation for, compiled where numba is installed.

A chain of tensor operations writes and reads each number once per operation; a compiled loop keeps
it in a register. Needs numba (``pip install 'npugraph[fast]'``); :mod:`.dispatch` says when.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
from torch import Tensor

from npugraph.arrays import run_length
from npugraph.compiling import Loop, compiled
from npugraph.kernels import cpu_loops as loops
from npugraph.kernels.reference import TINY, Norm

# Columns that one thread works on at a time: two cache lines of single precision.
COLUMNS = 32
# Entities whose scores are summed at once: they stay in a core's own cache.
TILE = 1024


@cache
def _compiled(loop: Loop) -> Loop:
    # Sums may be fused and reordered within a vector, but nan and inf mean what they say.
    # A division by zero gives inf, as in torch; checking for it would keep loops from vectors.
    fastmath = {"contract", "nsz", "reassoc"}
    return compiled(loop, fastmath=fastmath, error_model="numpy")


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="npugraph")


def run(loop: Loop, count: int, step: int, *arguments: Tensor | float) -> None:
    """Compile a loop and call it as :func:`spread` does."""
    spread(_compiled(loop), count, step, *arguments)


def spread(kernel: Loop, count: int, step: int, *arguments: Tensor | float) -> None:
    """Call a compiled loop on ranges of 0..count, multiples of ``step``, in torch's threads."""
    arrays = [x.detach().numpy() if isinstance(x, Tensor) else x for x in arguments]
    threads = torch.get_num_threads()
    blocks = -(-count // step)
    size = max(1, -(-blocks // threads)) * step
    ranges = [(start, min(start + size, count)) for start in range(0, count, size)]
    if len(ranges) <= 1:
        for first, last in ranges:
            kernel(first, last, *arrays)
        return
    jobs = [_pool(threads).submit(kernel, first, last, *arrays) for first, last in ranges[1:]]
    # The first range is done here: waking one thread less matters where a call is short.
    kernel(*ranges[0], *arrays)
    for job in jobs:
        job.result()


def distance_table(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    """Return all distances between points [q, w] and entities [E, w], without gradient: [q, E]."""
    out = points.new_empty(len(points), len(entities))
    parts = points.contiguous(), entities.T.contiguous()
    if norm == "modulus":
        run(loops.modulus_table, len(points), 1, *parts, out, TILE)
    else:
        run(loops.distance_table, len(points), 1, *parts, int(norm == "l2"), out, TILE)
    return out


def grouped_distances(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    """Return distances of groups: points [g, q, w] and entities [g, e, w] to [g, q, e]."""
    found: Tensor = _Distances.apply(points, entities, norm)  # type: ignore[no-untyped-call]
    return found


def distances_against(points: Tensor, own: Tensor, pool: Tensor, norm: Norm) -> Tensor:
    """Return distances of points [b, w] to own rows [b, w] and pools [g, k, w]: [b, 1 + k]."""
    found: Tensor = _DistancesAgainst.apply(points, own, pool, norm)  # type: ignore[no-untyped-call]
    return found


class _Distances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
        flat, entities = points.reshape(-1, points.shape[2]).contiguous(), entities.contiguous()
        out = flat.new_empty(len(flat), entities.shape[1])
        _measure(flat, entities, norm, out)
        ctx.save_for_backward(flat, entities, out)
        ctx.norm = norm
        return out.view(len(entities), points.shape[1], -1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        flat, entities, out = ctx.saved_tensors
        slope = _slope(grad.reshape(out.shape), out, ctx.norm)
        to_points, to_entities = torch.zeros_like(flat), torch.zeros_like(entities)
        _measure_backward(flat, entities, ctx.norm, slope, to_points, to_entities)
        return to_points.view(len(entities), -1, flat.shape[1]), to_entities, None


class _DistancesAgainst(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, own: Tensor, pool: Tensor, norm: Norm) -> Tensor:
        points, own, pool = points.contiguous(), own.contiguous(), pool.contiguous()
        out = points.new_empty(len(points), 1 + pool.shape[1])
        _measure(points, own.unsqueeze(1), norm, out[:, :1])
        _measure(points, pool, norm, out[:, 1:])
        ctx.save_for_backward(points, own, pool, out)
        ctx.norm = norm
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        points, own, pool, out = ctx.saved_tensors
        slope = _slope(grad, out, ctx.norm)
        to_points, to_own, to_pool = (torch.zeros_like(x) for x in (points, own, pool))
        to_own_rows = to_own.unsqueeze(1)
        _measure_backward(points, own.unsqueeze(1), ctx.norm, slope[:, :1], to_points, to_own_rows)
        _measure_backward(points, pool, ctx.norm, slope[:, 1:], to_points, to_pool)
        return to_points, to_own, to_pool, None


def _measure(points: Tensor, entities: Tensor, norm: Norm, out: Tensor) -> None:
    """Write distances of points [b, w] and entities [g, e, w] of their runs to [b, e]."""
    share = run_length(len(points), len(entities))
    if norm == "modulus":
        run(loops.modulus_forward, len(points), 1, points, entities, share, TINY, out)
    else:
        squared = int(norm == "l2")
        run(loops.distance_forward, len(points), 1, points, entities, share, squared, out)


def _slope(grad: Tensor, out: Tensor, norm: Norm) -> Tensor:
    """Return the gradient [b, e] as the loops want it: of Euclidean distances over the distance."""
    return torch.where(out > 0, grad / out, 0.0) if norm == "l2" else grad.contiguous()


def _measure_backward(
    points: Tensor,
    entities: Tensor,
    norm: Norm,
    slope: Tensor,
    to_points: Tensor,
    to_entities: Tensor,
) -> None:
    """Add the gradients of :func:`_measure` to those of points and entities."""
    share, width = run_length(len(points), len(entities)), points.shape[1]
    # A few columns at a time: a candidate's gradient stays in cache over its facts.
    rest = (slope, to_points, to_entities)
    if norm == "modulus":
        run(loops.modulus_backward, width // 2, COLUMNS, points, entities, share, TINY, *rest)
    else:
        squared = int(norm == "l2")
        run(loops.distance_backward, width, COLUMNS, points, entities, share, squared, *rest)


def perceptron_table(query: Tensor, entities: Tensor, weight: Tensor) -> Tensor:
    """Return ``sum_k weight_k relu(query_k + entity_k)``: [q, m], [E, m], [m] to [q, E]."""
    out = query.new_empty(len(query), len(entities))
    parts = query.contiguous(), entities.T.contiguous(), weight.contiguous()
    run(loops.perceptron_table, len(query), 1, *parts, out, TILE)
    return out


def gathered_perceptron(base: Tensor, table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
    """Return ``sum_m weight[i, m] relu(base[i, m] + table[ids[i, k], m])``: [b, k]."""
    scores: Tensor = _GatheredPerceptron.apply(base, table, ids, weight)  # type: ignore[no-untyped-call]
    return scores


class _GatheredPerceptron(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, base: Tensor, table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(base, table, ids, weight)
        out = base.new_empty(ids.shape)
        parts = (x.contiguous() for x in (base, table, ids, weight))
        run(loops.gathered_forward, len(ids), 1, *parts, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        base, table, ids, weight = ctx.saved_tensors
        to_base, to_weight = torch.empty_like(base), torch.empty_like(weight)
        to_table = torch.zeros_like(table)
        parts = (x.contiguous() for x in (base, table, ids, weight, grad))
        grads = to_base, to_table, to_weight
        run(loops.gathered_backward, base.shape[1], COLUMNS, *parts, *grads)
        return to_base, to_table, None, to_weight


def answered(asked: Tensor, ids: Tensor, queries: Tensor, first: Tensor, count: Tensor) -> Tensor:
    """Tell which candidates answer which queries: see :func:`.dispatch.answered`."""
    found = torch.zeros(len(asked), ids.shape[1], dtype=torch.bool)
    run(loops.answered, len(ids), 1, asked, ids, queries, first, count, found)
    return found
