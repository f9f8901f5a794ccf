"""The edges that messages travel along, in the order the kernels read them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of a graph's facts in both directions, sorted by target, then by relation.

    A fact (h, r, t) gives the edges h --r--> t and t --(r + R)--> h. A repeated fact gives
    repeated edges; a loop gives two.

    Attributes:
        source: where an edge starts, int64 [E].
        relation: its relation, 0..2R-1, int64 [E].
        target: where it ends, int64 [E]; never falls.
        fact: the number of the fact it came from, int64 [E].
        num_entities: how many entities (N) there are.
        num_relations: how many relations (2R) there are, both directions counted.
    """

    source: Tensor
    relation: Tensor
    target: Tensor
    fact: Tensor
    num_entities: int
    num_relations: int

    @classmethod
    def of(cls, facts: Tensor, num_entities: int, num_relations: int) -> Edges:
        """Return the edges of facts (head, relation, tail), int64 [n, 3], over R relations.

        >>> edges = Edges.of(torch.tensor([[0, 0, 2], [2, 1, 1]]), 3, 2)
        >>> len(edges), edges.num_relations
        (4, 4)
        >>> edges.source.tolist(), edges.relation.tolist(), edges.target.tolist()
        ([2, 2, 0, 1], [2, 1, 0, 3], [0, 1, 2, 2])
        >>> edges.fact.tolist()
        [0, 1, 0, 1]
        """
        head, relation, tail = facts.long().unbind(1)
        source, target = torch.cat([head, tail]), torch.cat([tail, head])
        relation = torch.cat([relation, relation + num_relations])
        order = torch.argsort(target * (2 * num_relations) + relation, stable=True)
        fact = torch.arange(len(facts), device=facts.device).repeat(2)
        source, relation, target = source[order], relation[order], target[order]
        return cls(source, relation, target, fact[order], num_entities, 2 * num_relations)

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def by_source(self) -> tuple[Tensor, Tensor]:
        """The numbers of the edges by source, and where those of each node begin [N + 1]."""
        count = self.source.bincount(minlength=self.num_entities)
        begin = torch.cat([count.new_zeros(1), count.cumsum(0)])
        return torch.argsort(self.source, stable=True), begin

    @property
    def device(self) -> torch.device:
        """The device that the edges are on."""
        return self.source.device

    def to(self, device: torch.device | str) -> Edges:
        """Return the same edges on another device."""
        if torch.device(device) == self.device:
            return self
        columns = self.source, self.relation, self.target, self.fact
        source, relation, target, fact = (column.to(device) for column in columns)
        return Edges(source, relation, target, fact, self.num_entities, self.num_relations)
