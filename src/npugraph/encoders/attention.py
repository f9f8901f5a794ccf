"""nPUGraph's encoder: attention over the most credible neighbours."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from npugraph.encoders.base import Encoder, Lookup
from npugraph.encoders.sparse import csr, product

# Edges of one tile of the gradient on the CPU: two such blocks stay in cache.
EDGE_TILE = 2048
# The edge list, grouped by entity, and how to read it grouped by neighbour.
BUFFERS = (
    "edge_entity",
    "edge_neighbour",
    "edge_relation",
    "edge_fact",
    "entity_start",
    "neighbour_start",
    "neighbour_order",
)


class NeighbourAttention(Encoder):
    """The label-posterior-aware encoder: each entity attends to its most credible neighbours.

    A collected fact (h, r, t) makes h a neighbour of t and t a neighbour of h; relation r + R
    stands for r read from tail to head. With N_e the (at most ``cap``) neighbours of e whose
    facts have the highest posterior, a layer computes

        h_e' = h_e + tanh( sum_{(i, r) in N_e} gamma_i h_i M ),
        gamma = softmax over N_e of a . [h_e ; h_i ; h_r].

    The part of ``a`` that meets h_e adds the same number to every neighbour of e, and a softmax
    does not see that, so it is left out. In training the facts of the batch are hidden from
    the neighbour sets in both directions: no fact is scored with itself as evidence.

    Neighbours are an edge list, grouped by the entity they belong to; there is no padded table.
    """

    edge_entity: Tensor
    edge_neighbour: Tensor
    edge_relation: Tensor
    edge_fact: Tensor
    fact_of_row: Tensor
    entity_start: Tensor
    neighbour_start: Tensor
    neighbour_order: Tensor

    def __init__(
        self,
        facts: Tensor,
        tables: Lookup,
        num_relations: int,
        *,
        layers: int = 1,
        cap: int = 32,
        dropout: float = 0.0,
        rng: torch.Generator,
    ) -> None:
        """Build over the collected facts [n, 3]; ``tables`` holds 2R relations.

        The neighbour sets start as the first ``cap`` facts of each entity in a seeded random
        order, until :meth:`choose_neighbours` is given a posterior.
        """
        super().__init__()
        self.tables = tables
        self.num_facts = len(facts)
        width, relation_width = tables.entities.shape[1], tables.relations.shape[1]
        self.mix = nn.ParameterList(
            torch.randn(width, width, generator=rng) / width**0.5 for _ in range(layers)
        )
        self.attend = nn.ParameterList(
            torch.randn(width + relation_width, generator=rng) / width**0.5 for _ in range(layers)
        )
        self.dropout = nn.Dropout(dropout)
        self.cap = cap
        head, relation, tail = facts.unbind(1)
        number = torch.arange(len(facts))
        # Rows that repeat a fact are hidden together.
        self.register_buffer(
            "fact_of_row", torch.unique(facts, dim=0, return_inverse=True)[1], persistent=False
        )
        self._all = torch.stack(
            [
                torch.stack([head, tail], 1).flatten(),
                torch.stack([tail, head], 1).flatten(),
                torch.stack([relation, relation + num_relations], 1).flatten(),
                torch.stack([number, number], 1).flatten(),
            ]
        )
        for name in BUFFERS:
            self.register_buffer(name, torch.empty(0, dtype=torch.int64))
        self.choose_neighbours(torch.rand(len(facts), generator=rng))

    @torch.no_grad()
    def choose_neighbours(self, credibility: Tensor) -> None:
        """Keep for each entity the ``cap`` facts of highest credibility [n]; ties by number."""
        everything = self._all.to(credibility.device)
        order = torch.argsort(credibility[everything[3]], descending=True, stable=True)
        order = order[torch.argsort(everything[0][order], stable=True)]
        entity = everything[0][order]
        count = torch.bincount(entity, minlength=len(self.tables.entities))
        start = torch.cumsum(count, 0) - count
        place = torch.arange(len(entity), device=entity.device) - start[entity]
        chosen = everything[:, order[place < self.cap]]
        rows = [*chosen, *_starts(chosen[0], chosen[1], len(self.tables.entities))]
        for name, row in zip(BUFFERS, rows, strict=True):
            # The number of edges depends on degrees alone: the same buffers serve every epoch.
            buffer: Tensor = getattr(self, name)
            if buffer.shape == row.shape:
                buffer.copy_(row)
            else:
                setattr(self, name, row.to(buffer.device))

    def forward(self, hidden_facts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return (entities [E, d], relations [2R, d]).

        Args:
            hidden_facts: numbers of facts [b] that must not serve as evidence, or None.
        """
        entities, relations = self.tables()
        entities, relations = self.dropout(entities), self.dropout(relations)
        visible: Tensor | None = None
        if hidden_facts is not None:
            hidden = torch.zeros(self.num_facts, dtype=torch.bool, device=entities.device)
            hidden.index_fill_(0, self.fact_of_row[hidden_facts], True)
            visible = ~hidden[self.fact_of_row[self.edge_fact]]
        for mix, attend in zip(self.mix, self.attend, strict=True):
            gathered = self._attend(entities, relations, attend, visible)
            entities = entities + torch.tanh(gathered @ mix)
        return entities, relations

    def _attend(
        self, entities: Tensor, relations: Tensor, attend: Tensor, visible: Tensor | None
    ) -> Tensor:
        """Return the attention-weighted sum of each entity's neighbours: [E, d]."""
        # index_select, not indexing: its backward does not serialise on repeated ids.
        width = entities.shape[1]
        logit = (entities @ attend[:width]).index_select(0, self.edge_neighbour)
        logit = logit + (relations @ attend[width:]).index_select(0, self.edge_relation)
        if visible is not None:
            logit = logit.masked_fill(~visible, -torch.inf)
        # Under autocast the products above come in half precision: too coarse to sum up to 1.
        gamma = segment_softmax(logit.to(entities.dtype), self.edge_entity, len(entities))
        gathered: Tensor = _NeighbourSum.apply(  # type: ignore[no-untyped-call]
            entities,
            gamma,
            self.edge_entity,
            self.edge_neighbour,
            self.entity_start,
            self.neighbour_start,
            self.neighbour_order,
        )
        return gathered


def _starts(entity: Tensor, neighbour: Tensor, num_entities: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return where each entity's edges start, each neighbour's, and the order of the latter."""
    edges = torch.arange(num_entities + 1, device=entity.device)
    order = torch.argsort(neighbour, stable=True)
    return (
        torch.searchsorted(entity, edges),
        torch.searchsorted(neighbour[order], edges),
        order,
    )


class _NeighbourSum(torch.autograd.Function):
    """``out[e] = sum over the edges of e of weight * vectors[neighbour]``, by sparse products.

    The messages, one row an edge, are never stored: neither here nor in the gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,
        weight: Tensor,
        entity: Tensor,
        neighbour: Tensor,
        entity_start: Tensor,
        neighbour_start: Tensor,
        order: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(vectors, weight, entity, neighbour, neighbour_start, order)
        ctx.entity_start = entity_start
        return product(entity_start, neighbour, weight, vectors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        vectors, weight, entity, neighbour, neighbour_start, order = ctx.saved_tensors
        grad = grad.contiguous()
        back = product(neighbour_start, entity[order], weight[order], grad)
        grad_weight = _edge_products(grad, vectors, entity, neighbour, ctx.entity_start)
        return back, grad_weight, None, None, None, None, None


def _edge_products(
    left: Tensor, right: Tensor, entity: Tensor, neighbour: Tensor, start: Tensor
) -> Tensor:
    """Return the dot product of left[entity] and right[neighbour] for every edge: [m]."""
    if left.device.type != "cpu":
        zeros = torch.zeros_like(entity, dtype=left.dtype)
        pattern = csr(start, neighbour, zeros, len(right))
        products: Tensor = torch.sparse.sampled_addmm(pattern, left, right.T).values()
        return products
    out = left.new_empty(len(entity))
    for first in range(0, len(entity), EDGE_TILE):
        part = slice(first, first + EDGE_TILE)
        rows = left[entity[part]].mul_(right[neighbour[part]])
        torch.sum(rows, 1, out=out[part])
    return out


def segment_softmax(logit: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """Softmax of logits [m] within each segment [m]; a segment of -inf alone gets zeros."""
    with torch.no_grad():
        lowest = torch.finfo(logit.dtype).min
        top = torch.full((num_segments,), lowest, dtype=logit.dtype, device=logit.device)
        top = top.scatter_reduce(0, segment, logit, "amax").index_select(0, segment)
    weight = torch.exp(logit - top)
    total = torch.zeros(num_segments, dtype=logit.dtype, device=logit.device)
    total = total.index_add(0, segment, weight).index_select(0, segment)
    return weight / total.clamp(min=torch.finfo(logit.dtype).tiny)
