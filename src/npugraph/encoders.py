"""Encoders: from ids to representations of every entity and relation."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class Encoder(nn.Module, ABC):
    """Gives representations of all entities [E, w] and of all relations [R, v]."""

    @abstractmethod
    def forward(self) -> tuple[Tensor, Tensor]:
        """Return (entities [E, w], relations [R, v])."""


class Lookup(Encoder):
    """Two tables of free vectors, one row an entity, one row a relation."""

    def __init__(self, entities: Tensor, relations: Tensor) -> None:
        """Start from the given tables."""
        super().__init__()
        self.entities = nn.Parameter(entities)
        self.relations = nn.Parameter(relations)

    @classmethod
    def normal(
        cls,
        entities: tuple[int, int],
        relations: tuple[int, int],
        scale: float,
        rng: torch.Generator,
    ) -> Lookup:
        """Draw both tables, of the given shapes, from a normal distribution of width ``scale``."""
        return cls(
            torch.randn(entities, generator=rng) * scale,
            torch.randn(relations, generator=rng) * scale,
        )

    def forward(self) -> tuple[Tensor, Tensor]:
        """Return the tables themselves."""
        return self.entities, self.relations


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
        width = tables.entities.shape[1]
        self.mix = nn.ParameterList(
            torch.randn(width, width, generator=rng) / width**0.5 for _ in range(layers)
        )
        self.attend = nn.ParameterList(
            torch.randn(2, width, generator=rng) / width**0.5 for _ in range(layers)
        )
        self.dropout = nn.Dropout(dropout)
        self.cap = cap
        head, relation, tail = facts.unbind(1)
        number = torch.arange(len(facts))
        self._all = torch.stack(
            [
                torch.cat([head, tail]),
                torch.cat([tail, head]),
                torch.cat([relation, relation + num_relations]),
                torch.cat([number, number]),
            ]
        )
        for name in ("edge_entity", "edge_neighbour", "edge_relation", "edge_fact"):
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
        names = ("edge_entity", "edge_neighbour", "edge_relation", "edge_fact")
        for name, row in zip(names, chosen, strict=True):
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
            hidden[hidden_facts] = True
            visible = ~hidden[self.edge_fact]
        for mix, attend in zip(self.mix, self.attend, strict=True):
            gathered = self._attend(entities, relations, attend, visible)
            entities = entities + torch.tanh(gathered @ mix)
        return entities, relations

    def _attend(
        self, entities: Tensor, relations: Tensor, attend: Tensor, visible: Tensor | None
    ) -> Tensor:
        """Return the attention-weighted sum of each entity's neighbours: [E, d]."""
        # index_select, not indexing: its backward does not serialise on repeated ids.
        logit = (entities @ attend[0]).index_select(0, self.edge_neighbour)
        logit = logit + (relations @ attend[1]).index_select(0, self.edge_relation)
        if visible is not None:
            logit = logit.masked_fill(~visible, -torch.inf)
        gamma = segment_softmax(logit, self.edge_entity, len(entities))
        messages = entities.index_select(0, self.edge_neighbour) * gamma.unsqueeze(1)
        return torch.zeros_like(entities).index_add(0, self.edge_entity, messages)


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
