"""Sparse products over a graph: what graph convolutions need instead of one row an edge.

Every sum here is a product with a sparse matrix, in the forward and in the backward pass: it does
not serialise on repeated ids, and adds in a fixed order on the CPU.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn


def csr(start: Tensor, column: Tensor, value: Tensor, num_columns: int) -> Tensor:
    """Return a CSR matrix; repeated places are allowed and add up."""
    size = (len(start) - 1, num_columns)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")
        made: Tensor = torch.sparse_csr_tensor(start, column, value, size, check_invariants=False)
        return made


def product(start: Tensor, column: Tensor, value: Tensor, dense: Tensor) -> Tensor:
    """Multiply a CSR matrix with a dense one, in the precision of the latter."""
    # Autocast would turn one of the two into half precision, and not the other.
    with torch.autocast(dense.device.type, enabled=False):
        return csr(start, column, value, len(dense)) @ dense


class DistinctFacts(nn.Module):
    """The distinct facts among rows that may repeat, and which of them are hidden.

    Attributes:
        facts: int64 [n, 3], sorted.
        of_row: int64 [rows], the distinct fact that each row states.
    """

    of_row: Tensor

    def __init__(self, rows: Tensor) -> None:
        """Number the distinct facts of rows [m, 3]."""
        super().__init__()
        self.facts, of_row = torch.unique(rows, dim=0, return_inverse=True)
        self.register_buffer("of_row", of_row, persistent=False)

    def visible(self, hidden_rows: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Return 1 for each distinct fact [n] that may serve as evidence, 0 for a hidden one."""
        seen = torch.ones(len(self.facts), dtype=dtype, device=self.of_row.device)
        if hidden_rows is not None:
            seen.index_fill_(0, self.of_row[hidden_rows], 0.0)
        return seen


class Groups(nn.Module):
    """Rows that belong to one of ``count`` groups: spread vectors to rows, add rows up.

    >>> groups = Groups(torch.tensor([1, 0, 1]), 2)
    >>> groups.add_up(torch.tensor([[1.0], [2.0], [4.0]])).tolist()
    [[2.0], [5.0]]
    >>> groups.take(torch.tensor([[7.0], [8.0]])).tolist()
    [[8.0], [7.0], [8.0]]
    """

    index: Tensor
    order: Tensor
    start: Tensor

    def __init__(self, index: Tensor, count: int) -> None:
        """``index`` int64 [m] says which group each row belongs to."""
        super().__init__()
        order = torch.argsort(index, stable=True)
        # They follow from the facts, so they need no place in a checkpoint.
        self.register_buffer("index", index, persistent=False)
        self.register_buffer("order", order, persistent=False)
        start = torch.searchsorted(index[order], torch.arange(count + 1, device=index.device))
        self.register_buffer("start", start, persistent=False)

    def take(self, table: Tensor) -> Tensor:
        """Return the vector of each row's group: [count, d] to [m, d]."""
        taken: Tensor = _Take.apply(table, self)  # type: ignore[no-untyped-call]
        return taken

    def add_up(self, rows: Tensor) -> Tensor:
        """Return the sum of the rows of each group: [m, d] to [count, d]."""
        added: Tensor = _AddUp.apply(rows, self)  # type: ignore[no-untyped-call]
        return added


def _take(table: Tensor, groups: Groups) -> Tensor:
    return table.index_select(0, groups.index)


def _add_up(rows: Tensor, groups: Groups) -> Tensor:
    ones = rows.new_ones(len(rows))
    return product(groups.start, groups.order, ones, rows.contiguous())


class _Take(torch.autograd.Function):
    """Rows of a table; the gradient is a sparse product, not an indexed addition."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, groups: Groups) -> Tensor:
        ctx.groups = groups
        return _take(table, groups)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _add_up(grad, ctx.groups), None


class _AddUp(torch.autograd.Function):
    """Sums of rows by group, and back."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, groups: Groups) -> Tensor:
        ctx.groups = groups
        return _add_up(rows, groups)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _take(grad, ctx.groups), None


class PairedEdges(nn.Module):
    """Edges that bring a neighbour's vector to an entity, grouped by (entity, relation) pair.

    Many edges share a pair: FB15k-237 has 544 thousand edges both ways, but 150 thousand pairs.
    What depends on the relation is done once a pair; edges are only ever added up.

    Attributes:
        entity: the pairs [P] by the entity that receives.
        relation: the pairs [P] by relation.
        edge_pair: int64 [m], the pair of each edge; edges are sorted by pair.
        edge_neighbour: int64 [m], the entity that sends.
        edge_fact: int64 [m], the number of the distinct fact that made the edge.
    """

    edge_pair: Tensor
    edge_entity: Tensor
    edge_neighbour: Tensor
    edge_fact: Tensor
    pair_start: Tensor
    neighbour_start: Tensor
    neighbour_order: Tensor
    neighbour_pair: Tensor

    def __init__(self, edges: Tensor, fact: Tensor, num_entities: int, num_relations: int) -> None:
        """Group edges int64 [m, 3], columns neighbour, relation, entity, made by ``fact`` [m]."""
        super().__init__()
        self.num_entities = num_entities
        key = edges[:, 2] * num_relations + edges[:, 1]
        order = torch.argsort(key, stable=True)
        pairs, pair, count = torch.unique(key[order], return_inverse=True, return_counts=True)
        self.entity = Groups(pairs // num_relations, num_entities)
        self.relation = Groups(pairs % num_relations, num_relations)
        neighbour = edges[order, 0]
        by_neighbour = Groups(neighbour, num_entities)
        buffers = {
            "edge_pair": pair,
            "edge_entity": edges[order, 2],
            "edge_neighbour": neighbour,
            "edge_fact": fact[order],
            "pair_start": nn.functional.pad(count.cumsum(0), (1, 0)),
            "neighbour_start": by_neighbour.start,
            "neighbour_order": by_neighbour.order,
            "neighbour_pair": pair[by_neighbour.order],
        }
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=False)

    def step_bytes(self, width: int) -> int:
        """Return the bytes of one vector of ``width`` numbers per pair and a weight per edge."""
        return 4 * (self.num_pairs * width + 8 * len(self.edge_pair))

    @property
    def num_pairs(self) -> int:
        """P."""
        return len(self.pair_start) - 1

    def gather(self, vectors: Tensor, weight: Tensor) -> Tensor:
        """Return, for each pair, the sum over its edges of weight [m] * the neighbour's vector.

        Shapes: vectors [E, d] to [P, d]. The weights get no gradient.
        """
        gathered: Tensor = _Gather.apply(vectors, weight, self)  # type: ignore[no-untyped-call]
        return gathered

    def count(self, weight: Tensor, index: Tensor, size: int) -> Tensor:
        """Add up weights [m] by ``index`` [m]: [size]. Whole numbers add up exactly, anyhow."""
        return weight.new_zeros(size).index_add_(0, index, weight)


class _Gather(torch.autograd.Function):
    """``out[p] = sum over the edges of pair p of weight * vectors[neighbour]``."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, weight: Tensor, edges: PairedEdges) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(weight)
        return product(edges.pair_start, edges.edge_neighbour, weight, vectors.contiguous())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        edges, (weight,) = ctx.edges, ctx.saved_tensors
        weight = weight[edges.neighbour_order]
        back = product(edges.neighbour_start, edges.neighbour_pair, weight, grad.contiguous())
        return back, None, None
