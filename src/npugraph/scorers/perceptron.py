"""Perceptron scores over [h ; r ; t], with the first layer kept as one block a slot."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from npugraph.graph import Side
from npugraph.kernels import cpu as kernels
from npugraph.kernels import dispatch as gpu
from npugraph.scorers.base import Scorer
from npugraph.scorers.tiles import tiled


class MLP(Scorer):
    """``w . relu(W_h h + W_r r + W_t t + b) + c``: a perceptron over [h ; r ; t] (ERMLP).

    The first layer is kept as one block a slot. An entity is then projected once, and a fact
    costs a gather, an addition, an activation and a dot product.
    """

    def __init__(self, width: int, hidden: int, rng: torch.Generator | None = None) -> None:
        """``width`` numbers per entity and relation, ``hidden`` units."""
        super().__init__()
        bound = (3 * width) ** -0.5

        def even(*shape: int, limit: float = bound) -> nn.Parameter:
            return nn.Parameter((torch.rand(shape, generator=rng) * 2 - 1) * limit)

        self.head, self.relation, self.tail = (even(width, hidden) for _ in range(3))
        self.bias = even(hidden)
        self.out = even(hidden, limit=hidden**-0.5)
        self.shift = nn.Parameter(torch.zeros(()))

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        hidden = head @ self.head + (relation @ self.relation + self.bias) + tail @ self.tail
        return torch.relu(hidden) @ self.out + self.shift

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity, tile by tile: no tensor of queries x entities x hidden is made."""
        given, missing = (self.head, self.tail) if side == "tail" else (self.tail, self.head)
        query = known @ given + relation @ self.relation + self.bias
        return perceptron_scores(query, entities @ missing, self.out) + self.shift


def perceptron_scores(query: Tensor, entities: Tensor, weight: Tensor) -> Tensor:
    """Return ``sum_k weight_k relu(query_k + entity_k)`` of all pairs.

    Shapes: query [..., q, m], entities [..., E, m], weight [m] to [..., q, E].

    relu(a + b) = max(a, -b) + b would save a pass a unit, but what it adds and takes away again
    leaves rounding behind: facts on which every unit is off would no longer tie.
    """
    trained = torch.is_grad_enabled() and any(x.requires_grad for x in (query, entities, weight))
    if trained or query.dim() > 2:
        return torch.relu(query.unsqueeze(-2) + entities.unsqueeze(-3)) @ weight
    if kernels.usable(query.numel() * len(entities), query, entities, weight):
        out = query.new_empty(len(query), len(entities))
        parts = query.contiguous(), entities.T.contiguous(), weight.contiguous()
        kernels.run("_perceptron_table", len(query), 1, *parts, out, kernels.TILE)
        return out
    return tiled(query, entities, partial(_tile, weights=weight.tolist()))


def _tile(points: Tensor, columns: Tensor, weights: list[float]) -> Tensor:
    total = points.new_zeros(points.shape[1], columns.shape[1])
    unit = torch.empty_like(total)
    for point, column, factor in zip(points, columns, weights, strict=True):
        torch.add(column, point, out=unit)
        total.add_(unit.relu_(), alpha=factor)
    return total


# Numbers a tile of the perceptron's hidden layer: it stays in a core's own cache.
TILE_HIDDEN = 2**18


class _GatheredPerceptron(torch.autograd.Function):
    """``sum_m weight[i, m] relu(base[i, m] + table[ids[i, k], m])`` for i, k, and its gradient.

    The hidden layer [b, k, m] is never stored: it is made tile by tile, and again in the backward
    pass. On the CPU that keeps it in cache; fresh memory of that size costs more than the sums. A
    GPU has a kernel for it.
    """

    @staticmethod
    def forward(ctx: Any, base: Tensor, table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(base, table, ids, weight)
        if gpu.usable(base, table, weight):
            return gpu.perceptron_forward(base, table, ids, weight)
        out = base.new_empty(ids.shape)
        if kernels.usable(ids.numel() * base.shape[1], base, table, weight):
            parts = (x.contiguous() for x in (base, table, ids, weight))
            kernels.run("_gathered_forward", len(ids), 1, *parts, out)
            return out
        for rows, hidden in _hidden_tiles(base, table, ids):
            torch.bmm(hidden, weight[rows].unsqueeze(-1), out=out[rows].unsqueeze(-1))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        base, table, ids, weight = ctx.saved_tensors
        if gpu.usable(base, table, weight):
            to_base, to_table, to_weight = gpu.perceptron_backward(base, table, ids, weight, grad)
            return to_base, to_table, None, to_weight
        grad_base, grad_weight = torch.empty_like(base), torch.empty_like(weight)
        if kernels.usable(ids.numel() * base.shape[1], base, table, weight):
            grad_table = torch.zeros_like(table)
            parts = (x.contiguous() for x in (base, table, ids, weight, grad))
            grads = grad_base, grad_table, grad_weight
            kernels.run("_gathered_backward", base.shape[1], kernels.COLUMNS, *parts, *grads)
            return grad_base, grad_table, None, grad_weight
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


def gathered_perceptron(base: Tensor, table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
    """Return ``sum_m weight[i, m] relu(base[i, m] + table[ids[i, k], m])``: [b, k].

    Shapes: base and weight [b, m], table [E, m], ids [b, k].
    """
    if ids.shape[1] == 0:
        return base.new_empty(ids.shape)
    # Under autocast projections come in half precision, biases do not: the tiles need one dtype.
    table, weight = table.to(base.dtype), weight.to(base.dtype)
    scores: Tensor = _GatheredPerceptron.apply(base, table, ids, weight)  # type: ignore[no-untyped-call]
    return scores
