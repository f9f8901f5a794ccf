"""Two scores a fact: the collection scores of the two classes of nPUGraph."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from npugraph.graph import Side
from npugraph.kernels import gathered_perceptron
from npugraph.scorers import MLP, Scorer


class TwoHeads(nn.Module, ABC):
    """Two scores a fact, psi1 and psi0: the collection scores of the two classes."""

    @abstractmethod
    def entity_width(self, dimension: int) -> int:
        """Return how many numbers represent an entity."""

    @abstractmethod
    def relation_width(self, dimension: int) -> int:
        """Return how many numbers represent a relation."""

    @abstractmethod
    def scores(
        self,
        entities: Tensor,
        relations: Tensor,
        facts: Tensor,
        new_tails: Tensor,
        new_heads: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Score facts [b, 3], then the facts with new tails [b, k] and with new heads [b, k].

        Returns:
            psi1 and psi0, [b, 1 + k + k] each.
        """

    @abstractmethod
    def score_all(
        self, known: Tensor, relation: Tensor, entities: Tensor, side: Side, head: int
    ) -> Tensor:
        """Score every entity as the missing side by psi1 (head 1) or psi0 (head 0): [q, E]."""

    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """Return the sizes of the numbers that facts are scored from, for a penalty on them."""
        return head.abs(), relation.abs(), tail.abs()


class MLPHeads(TwoHeads):
    """Two perceptrons over [h ; r ; t], as in the paper."""

    def __init__(
        self, width: int, hidden: int, dropout: float = 0.0, rng: torch.Generator | None = None
    ) -> None:
        """Make both heads of the same shape; ``dropout`` is on hidden units."""
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.psi1 = MLP(width, hidden, rng)
        self.psi0 = MLP(width, hidden, rng)

    def entity_width(self, dimension: int) -> int:
        """As given."""
        return dimension

    def relation_width(self, dimension: int) -> int:
        """As given."""
        return dimension

    def scores(
        self,
        entities: Tensor,
        relations: Tensor,
        facts: Tensor,
        new_tails: Tensor,
        new_heads: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Project every entity once for both heads, then gather and add."""
        first, (head, starts) = _used(entities, facts[:, 0], new_heads)
        last, (tail, ends) = _used(entities, facts[:, 2], torch.cat([facts[:, 2:], new_tails], 1))
        results = []
        for mlp in (self.psi1, self.psi0):
            as_head, as_tail = first @ mlp.head, last @ mlp.tail
            middle = embedding(facts[:, 1], relations @ mlp.relation + mlp.bias)
            # One mask a collected fact: it and its corruptions are compared by the same units.
            out = self.dropout(mlp.out.expand(len(facts), -1)).contiguous()
            blocks = (
                gathered_perceptron(embedding(head, as_head) + middle, as_tail, ends, out),
                gathered_perceptron(embedding(tail, as_tail) + middle, as_head, starts, out),
            )
            results.append(torch.cat(blocks, 1) + mlp.shift)
        return results[0], results[1]

    def score_all(
        self, known: Tensor, relation: Tensor, entities: Tensor, side: Side, head: int
    ) -> Tensor:
        """Score every entity with one of the two perceptrons."""
        mlp = self.psi1 if head == 1 else self.psi0
        return mlp.score_all(known, relation, entities, side)


def _used(entities: Tensor, *ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return the rows of entities [E, w] that occur in the ids, and the ids as places in them.

    On the CPU projecting fewer rows saves most of a step. Where most rows occur, and on a GPU,
    where counting them would make the host wait, all rows are returned.
    """
    if entities.device.type != "cpu":
        return entities, list(ids)
    seen = torch.zeros(len(entities), dtype=torch.bool)
    for part in ids:
        seen[part] = True
    used = torch.nonzero(seen).squeeze(1)
    if 2 * len(used) > len(entities):
        return entities, list(ids)
    place = torch.cumsum(seen, 0) - 1
    return embedding(used, entities), [place[part] for part in ids]


class BilinearHeads(TwoHeads):
    """Two bilinear heads: entities are shared, each head has relations and a shift of its own."""

    def __init__(self, scorer: Scorer) -> None:
        """Use ``scorer`` (DistMult or ComplEx) for both heads."""
        super().__init__()
        self.scorer = scorer
        self.shift = nn.Parameter(torch.zeros(2))

    def entity_width(self, dimension: int) -> int:
        """As the scorer's."""
        return self.scorer.entity_width(dimension)

    def relation_width(self, dimension: int) -> int:
        """Two relation vectors side by side: first psi1's, then psi0's."""
        return 2 * self.scorer.relation_width(dimension)

    def scores(
        self,
        entities: Tensor,
        relations: Tensor,
        facts: Tensor,
        new_tails: Tensor,
        new_heads: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Gather every entity once; a product scores it by both halves of the relation."""
        relation = torch.stack(embedding(facts[:, 1], relations).chunk(2, 1), 1)
        head, tail = embedding(facts[:, :1], entities), embedding(facts[:, 2:], entities)
        ends = embedding(torch.cat([facts[:, 2:], new_tails], 1), entities)
        blocks = (
            self.scorer.score_all(head, relation, ends, "tail"),
            self.scorer.score_all(tail, relation, embedding(new_heads, entities), "head"),
        )
        psi1, psi0 = (torch.cat(blocks, 2) + self.shift.unsqueeze(1)).unbind(1)
        return psi1, psi0

    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """Return the scorer's; the relation has those of either head."""
        return tuple(self.scorer.factors(part) for part in (head, *relation.chunk(2, -1), tail))

    def score_all(
        self, known: Tensor, relation: Tensor, entities: Tensor, side: Side, head: int
    ) -> Tensor:
        """Score every entity with one half of the relation."""
        part = relation.chunk(2, -1)[1 - head]
        return self.scorer.score_all(known, part, entities, side) + self.shift[1 - head]
