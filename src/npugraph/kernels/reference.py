"""The operations in plain PyTorch: what they are, and what is used where nothing is faster."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from npugraph.arrays import run_length
from npugraph.kernels.tiles import tiled

Norm = Literal["l1", "l2", "modulus"]
# Keeps the gradient of the root finite where two complex numbers are the same.
TINY = 1e-30
# Numbers per tile of a perceptron's hidden layer: it stays in a core's own cache.
TILE_HIDDEN = 2**18


def trained(*tensors: Tensor) -> bool:
    """Tell whether a gradient will be asked for."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def lengths(gaps: Tensor, norm: Norm) -> Tensor:
    """Return the lengths of gaps [..., w]: [...]. ``modulus`` is the sum of complex moduli."""
    if norm == "modulus":
        real, imaginary = gaps.chunk(2, -1)
        return (real.square() + imaginary.square() + TINY).sqrt().sum(-1)
    length: Tensor = torch.linalg.vector_norm(gaps, ord=1 if norm == "l1" else 2, dim=-1)
    return length


def distances(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    """Return all distances between points [..., q, w] and entities [..., E, w]: [..., q, E]."""
    if trained(points, entities) or points.dim() > 2:
        return distances_with_gradient(points, entities, norm)
    if norm != "modulus" and points.device.type != "cpu":
        return _cdist(points, entities, norm)
    return tiled(points, entities, partial(_distance_tile, norm=norm))


def distances_with_gradient(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    """As :func:`distances`, by operations that PyTorch can differentiate."""
    if norm != "modulus":
        return _cdist(points, entities, norm)
    return lengths(points.unsqueeze(-2) - entities.unsqueeze(-3), norm)


def _cdist(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    # Without this mode cdist goes through a matrix product from 26 rows on.
    mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(points, entities, p=1.0 if norm == "l1" else 2.0, compute_mode=mode)


def _distance_tile(points: Tensor, columns: Tensor, norm: Norm) -> Tensor:
    """Sum one tile of distances over coordinates: [w, q, 1] and [w, e] to [q, e].

    One coordinate at a time, in place: each pass reads and writes buffers that stay in cache.
    """
    total = points.new_zeros(points.shape[1], columns.shape[1])
    gap = torch.empty_like(total)
    if norm == "modulus":
        half = len(points) // 2
        other = torch.empty_like(total)
        for k in range(half):
            torch.sub(columns[k], points[k], out=gap)
            torch.sub(columns[half + k], points[half + k], out=other)
            total.add_(gap.mul_(gap).addcmul_(other, other).sqrt_())
        return total
    for column, point in zip(columns.unbind(0), points.unbind(0), strict=True):
        torch.sub(column, point, out=gap)
        if norm == "l1":
            total.add_(gap.abs_())
        else:
            total.addcmul_(gap, gap)
    return total if norm == "l1" else total.sqrt_()


def perceptron_scores(query: Tensor, entities: Tensor, weight: Tensor) -> Tensor:
    """Return ``sum_k weight_k relu(query_k + entity_k)`` of all pairs: [..., q, E].

    relu(a + b) = max(a, -b) + b would save a pass per unit, but what it adds and takes away again
    leaves rounding behind: facts on which every unit is off would no longer tie.
    """
    if trained(query, entities, weight) or query.dim() > 2:
        return torch.relu(query.unsqueeze(-2) + entities.unsqueeze(-3)) @ weight
    return tiled(query, entities, partial(_perceptron_tile, weights=weight.tolist()))


def _perceptron_tile(points: Tensor, columns: Tensor, weights: list[float]) -> Tensor:
    total = points.new_zeros(points.shape[1], columns.shape[1])
    unit = torch.empty_like(total)
    for point, column, factor in zip(points, columns, weights, strict=True):
        torch.add(column, point, out=unit)
        total.add_(unit.relu_(), alpha=factor)
    return total


def gathered_perceptron(base: Tensor, table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
    """Return ``sum_m weight[i, m] relu(base[i, m] + table[ids[i, k], m])``: [b, k]."""
    scores: Tensor = _GatheredPerceptron.apply(base, table, ids, weight)  # type: ignore[no-untyped-call]
    return scores


class _GatheredPerceptron(torch.autograd.Function):
    """Never stores the hidden layer [b, k, m]: it is made tile by tile, and again going back.

    On the CPU that keeps it in cache; fresh memory of that size costs more than the sums.
    """

    @staticmethod
    def forward(ctx: Any, base: Tensor, table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(base, table, ids, weight)
        out = base.new_empty(ids.shape)
        for rows, hidden in _hidden_tiles(base, table, ids):
            torch.bmm(hidden, weight[rows].unsqueeze(-1), out=out[rows].unsqueeze(-1))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        base, table, ids, weight = ctx.saved_tensors
        grad_base, grad_weight = torch.empty_like(base), torch.empty_like(weight)
        grad_hidden = base.new_empty(*ids.shape, base.shape[1])
        for rows, hidden in _hidden_tiles(base, table, ids):
            part = grad[rows]
            torch.bmm(part.unsqueeze(1), hidden, out=grad_weight[rows].unsqueeze(1))
            # Where the unit is off the hidden value is 0; where it is on, the slope is 1.
            slope = torch.gt(hidden, 0, out=grad_hidden[rows])
            slope.mul_(weight[rows].unsqueeze(1)).mul_(part.unsqueeze(-1))
            torch.sum(slope, 1, out=grad_base[rows])
        flat = grad_hidden.flatten(0, 1)
        if table.device.type == "cpu":
            grad_table = torch.ops.aten.embedding_dense_backward(
                flat, ids.reshape(-1), len(table), -1, False
            )
        else:
            grad_table = torch.zeros_like(table).index_add_(0, ids.reshape(-1), flat)
        return grad_base, grad_table, None, grad_weight


def _hidden_tiles(base: Tensor, table: Tensor, ids: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield (rows, relu(base + table[ids])) tile by tile; the tile is overwritten by the next."""
    count, width = ids.shape[1], base.shape[1]
    step = len(ids) if base.device.type != "cpu" else max(1, TILE_HIDDEN // (count * width + 1))
    tile = base.new_empty(max(1, step) * count, width)
    for start in range(0, len(ids), max(1, step)):
        rows = slice(start, min(start + step, len(ids)))
        wanted = ids[rows].reshape(-1)
        gathered = torch.index_select(table, 0, wanted, out=tile[: len(wanted)])
        hidden = gathered.view(-1, count, width).add_(base[rows].unsqueeze(1)).relu_()
        yield rows, hidden


def answered(
    asked: Tensor, ids: Tensor, queries: Tensor, first: Tensor, count: Tensor, num_queries: int
) -> Tensor:
    """Tell which candidates answer which queries: see :func:`.dispatch.answered`."""
    run = torch.arange(len(asked)) // run_length(len(asked), len(ids))
    distinct, own = torch.unique(run * num_queries + asked, return_inverse=True)
    flat = ids.flatten()
    many = count[flat]
    cell = torch.repeat_interleave(many)
    place = torch.arange(len(cell)) + (first[flat] - many.cumsum(0) + many)[cell]
    answers = cell.div(ids.shape[1], rounding_mode="floor") * num_queries + queries[place]
    match = torch.searchsorted(distinct, answers).clamp_(max=len(distinct) - 1)
    hit = (distinct[match] == answers).nonzero().squeeze(1)
    found = torch.zeros(len(distinct), ids.shape[1], dtype=torch.bool)
    found[match[hit], cell[hit] % ids.shape[1]] = True
    return found[own]
