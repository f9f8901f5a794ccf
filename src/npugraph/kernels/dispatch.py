"""Which implementation does a piece of work: the one place that looks at devices.

Compiled loops (:mod:`.cpu`, with numba) do what is large enough on the CPU, Triton kernels
(:mod:`.cuda`) what they have a kernel for on a GPU, and plain PyTorch (:mod:`.reference`) the rest.
"""

from __future__ import annotations

import os
from functools import partial

import torch
from torch import Tensor

from npugraph.arrays import in_runs
from npugraph.compiling import available
from npugraph.kernels import cpu, cuda, reference
from npugraph.kernels.reference import Norm

# Fewer numbers than this are not worth compiling a loop for.
LEAST_WORK = 2**20
# Nor fewer cells than this of facts and their candidates, where a cell is much work in itself.
LEAST_CELLS = 2**14


def on_cpu(work: int, *tensors: Tensor) -> bool:
    """Tell whether a compiled loop should do ``work`` numbers on these tensors."""
    return (
        work >= LEAST_WORK
        and all(t.device.type == "cpu" for t in tensors)
        and len({t.dtype for t in tensors}) == 1
        and tensors[0].dtype in (torch.float32, torch.float64)
        and available()
    )


def on_gpu(*tensors: Tensor) -> bool:
    """Tell whether Triton kernels can work on these tensors: on a GPU, or in the interpreter."""
    place = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    return (
        all(t.device.type == place and t.dtype == torch.float32 for t in tensors)
        and cuda.kernels() is not None
    )


def distances(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    """Return all distances between points [..., q, w] and entities [..., E, w]: [..., q, E].

    Every norm is summed directly, coordinate by coordinate. Expanding the square into a matrix
    product would be shorter, but loses the digits that decide close ranks.

    >>> distances(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), "l2").tolist()
    [[5.0]]
    """
    if norm == "modulus" and on_gpu(points, entities):
        return cuda.modulus_distances(points, entities)
    if on_cpu(points.numel() * entities.shape[-2], points, entities):
        if points.dim() == 3:
            return cpu.grouped_distances(points, entities, norm)
        if points.dim() == 2 and not reference.trained(points, entities):
            return cpu.distance_table(points, entities, norm)
    return reference.distances(points, entities, norm)


def distances_against(points: Tensor, own: Tensor, pool: Tensor, norm: Norm) -> Tensor:
    """Return distances of points [b, w] to their own rows [b, w] and pools [g, k, w]: [b, 1 + k].

    Row i of the pool serves the i-th run of ceil(b / g) points.

    >>> distances_against(torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 1, 2), "l1").tolist()
    [[2.0, 2.0]]
    """
    if on_cpu(points.numel() * pool.shape[1], points, own, pool):
        return cpu.distances_against(points, own, pool, norm)
    length = reference.lengths(points - own, norm)
    others = in_runs(partial(distances, norm=norm), [points], pool)
    return torch.cat([length.unsqueeze(1), others], 1)


def perceptron_scores(query: Tensor, entities: Tensor, weight: Tensor) -> Tensor:
    """Return ``sum_k weight_k relu(query_k + entity_k)`` of all pairs.

    Shapes: query [..., q, m], entities [..., E, m], weight [m] to [..., q, E].
    """
    parts = query, entities, weight
    flat = query.dim() == 2 and not reference.trained(*parts)
    if flat and on_cpu(query.numel() * len(entities), *parts):
        return cpu.perceptron_table(*parts)
    return reference.perceptron_scores(*parts)


def gathered_perceptron(base: Tensor, table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
    """Return ``sum_m weight[i, m] relu(base[i, m] + table[ids[i, k], m])``: [b, k].

    Shapes: base and weight [b, m], table [E, m], ids [b, k].
    """
    if ids.shape[1] == 0:
        return base.new_empty(ids.shape)
    # Under autocast projections come in half precision, biases do not: the tiles need one dtype.
    table, weight = table.to(base.dtype), weight.to(base.dtype)
    if on_gpu(base, table, weight):
        return cuda.gathered_perceptron(base, table, ids, weight)
    if on_cpu(ids.numel() * base.shape[1], base, table, weight):
        return cpu.gathered_perceptron(base, table, ids, weight)
    return reference.gathered_perceptron(base, table, ids, weight)


def products(query: Tensor, entities: Tensor) -> Tensor:
    """Return the inner products of queries [..., q, w] and entities [..., E, w]: [..., q, E]."""
    if query.dim() == 3 and query.shape[1] == 1:
        # One query per group: this way round the library takes its matrix-vector product.
        return (entities @ query.mT).mT
    if cuda.misaligned(query, entities):
        return cuda.aligned_products(query, entities)
    return query @ entities.mT


def answered(
    asked: Tensor, ids: Tensor, queries: Tensor, first: Tensor, count: Tensor, num_queries: int
) -> Tensor:
    """Tell which candidates answer which of the queries that are asked, on the CPU: bool [b, k].

    Args:
        asked: numbers of queries, int64 [b].
        ids: candidates, int64 [g, k]; row i serves the i-th run of ceil(b / g) queries.
        queries: the queries that entities answer, entity after entity, int64 [n].
        first: where the queries of each entity begin, int64 [E].
        count: how many queries each entity answers, int64 [E].
        num_queries: how many queries there are.
    """
    if asked.numel() * ids.shape[1] >= LEAST_CELLS and available():
        return cpu.answered(asked, ids, queries, first, count)
    return reference.answered(asked, ids, queries, first, count, num_queries)
