"""Samplers: which uncollected facts stand beside each collected one in training."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from npugraph.graph import Side


class Sampler(ABC):
    """Chooses the candidates that a collected fact is compared with."""

    @abstractmethod
    def candidates(self, facts: Tensor, side: Side, rng: torch.Generator) -> Tensor | None:
        """Return entity ids [b, k] to put in place of ``side``, or None for every entity."""


class AllEntities(Sampler):
    """Every entity is a candidate; nothing is drawn."""

    def candidates(self, facts: Tensor, side: Side, rng: torch.Generator) -> Tensor | None:
        """Return None: every entity."""
        return None


class Uncollected:
    """Draws uniformly from the entities that do not make a collected fact, without rejection.

    For a query (h, r) with known tails t_0 < t_1 < ... the u-th entity that is *not* known is
    ``u + #{j : t_j - j <= u}``. All t_j - j lie, query after query, in one sorted array of keys, so
    one binary search draws any number of entities for any number of queries. The draws are
    exact, need no retries, and have a fixed shape.
    """

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int) -> None:
        """Index the collected facts [n, 3] for both sides."""
        self.num_entities = num_entities
        self.num_relations = num_relations
        self.sides = {
            "tail": self._index(facts),
            "head": self._index(facts[:, [2, 1, 0]]),
        }

    def _index(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Return (keys [m], pairs [m]) of the distinct facts, sorted by pair."""
        pair = facts[:, 0] * self.num_relations + facts[:, 1]
        key = torch.unique(pair * self.num_entities + facts[:, 2])
        pair, entity = key // self.num_entities, key % self.num_entities
        first = torch.searchsorted(pair, pair)
        rank = torch.arange(len(pair), device=pair.device) - first
        return pair * self.num_entities + (entity - rank), pair

    def draw(self, facts: Tensor, side: Side, count: int, rng: torch.Generator) -> Tensor:
        """Return entities [b, count] to put in place of ``side`` of facts [b, 3].

        Where every entity makes a collected fact there is nothing to draw: the row repeats the
        fact's own entity, and :meth:`free` says so.
        """
        keys, pairs = self.sides[side]
        known, own = (facts[:, 0], facts[:, 2]) if side == "tail" else (facts[:, 2], facts[:, 0])
        pair = known * self.num_relations + facts[:, 1]
        first = torch.searchsorted(pairs, pair)
        free = self._free(pairs, pair, first)
        # 53 random bits: with the 24 of single precision a large graph is not drawn evenly.
        chance = torch.rand(
            len(facts), count, generator=rng, device=facts.device, dtype=torch.float64
        )
        place = (chance * free.unsqueeze(1)).long().clamp(max=self.num_entities - 1)
        place = torch.minimum(place, (free - 1).clamp(min=0).unsqueeze(1))
        wanted = pair.unsqueeze(1) * self.num_entities + place
        skipped = torch.searchsorted(keys, wanted, right=True) - first.unsqueeze(1)
        drawn = place + skipped
        return torch.where(free.unsqueeze(1) > 0, drawn, own.unsqueeze(1))

    def free(self, facts: Tensor, side: Side) -> Tensor:
        """Return how many entities could be drawn for each fact: int64 [b]."""
        _, pairs = self.sides[side]
        known = facts[:, 0] if side == "tail" else facts[:, 2]
        pair = known * self.num_relations + facts[:, 1]
        return self._free(pairs, pair, torch.searchsorted(pairs, pair))

    def _free(self, pairs: Tensor, pair: Tensor, first: Tensor) -> Tensor:
        return self.num_entities - (torch.searchsorted(pairs, pair, right=True) - first)

    def to(self, device: torch.device | str) -> Uncollected:
        """Return this sampler on another device."""
        moved = object.__new__(Uncollected)
        moved.num_entities, moved.num_relations = self.num_entities, self.num_relations
        moved.sides = {
            side: (keys.to(device), pairs.to(device)) for side, (keys, pairs) in self.sides.items()
        }
        return moved
