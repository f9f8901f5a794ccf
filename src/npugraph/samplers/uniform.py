"""Candidates drawn evenly from the entities that make no collected fact."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from npugraph import kernels
from npugraph.arrays import run_length
from npugraph.graph import SIDES, Side, TripleIndex, flip
from npugraph.samplers.base import Candidates, Sampler
from npugraph.triples import number_questions


class Uncollected(nn.Module):
    """Draws uniformly from the entities that do not make a collected fact, without rejection.

    For a query (h, r) with known tails t_0 < t_1 < ... the u-th entity that is *not* known is
    ``u + #{j : t_j - j <= u}``. All t_j - j lie, query after query, in one sorted array of keys, so
    one binary search draws any number of entities for any number of queries. The draws are
    exact, need no retries, and have a fixed shape.
    """

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int) -> None:
        """Index the collected facts [n, 3] for both sides."""
        super().__init__()
        self.num_entities = num_entities
        self.num_relations = num_relations
        for side in SIDES:
            index = TripleIndex(
                facts if side == "tail" else flip(facts), num_entities, num_relations
            )
            asked = index.keys // num_entities
            rank = torch.arange(len(asked), device=asked.device) - torch.searchsorted(asked, asked)
            # They follow from the facts, so they need no place in a checkpoint.
            self.register_buffer(f"{side}_keys", index.keys - rank, persistent=False)
            self.register_buffer(f"{side}_asked", asked, persistent=False)
            self.register_buffer(f"{side}_questions", index.questions, persistent=False)

    def _side(self, facts: Tensor, side: Side) -> tuple[Tensor, Tensor, Tensor]:
        """Return the keys and their questions [m] of a side, and the questions of facts [b]."""
        known = facts[:, 0] if side == "tail" else facts[:, 2]
        question = number_questions(
            known * self.num_relations + facts[:, 1], getattr(self, f"{side}_questions")
        )
        return self.get_buffer(f"{side}_keys"), self.get_buffer(f"{side}_asked"), question

    def draw(self, facts: Tensor, side: Side, count: int, rng: torch.Generator) -> Tensor:
        """Return entities [b, count] to put in place of ``side`` of facts [b, 3].

        Where every entity makes a collected fact there is nothing to draw: the row repeats the
        fact's own entity, and :meth:`free` says so.
        """
        keys, asked, question = self._side(facts, side)
        own = facts[:, 2] if side == "tail" else facts[:, 0]
        first = torch.searchsorted(asked, question)
        free = self._free(asked, question, first)
        # 53 random bits: with the 24 of single precision a large graph is not drawn evenly.
        chance = torch.rand(
            len(facts), count, generator=rng, device=facts.device, dtype=torch.float64
        )
        place = (chance * free.unsqueeze(1)).long().clamp(max=self.num_entities - 1)
        place = torch.minimum(place, (free - 1).clamp(min=0).unsqueeze(1))
        wanted = question.unsqueeze(1) * self.num_entities + place
        skipped = torch.searchsorted(keys, wanted, right=True) - first.unsqueeze(1)
        drawn = place + skipped
        return torch.where(free.unsqueeze(1) > 0, drawn, own.unsqueeze(1))

    def free(self, facts: Tensor, side: Side) -> Tensor:
        """Return how many entities could be drawn for each fact: int64 [b]."""
        _, asked, question = self._side(facts, side)
        return self._free(asked, question, torch.searchsorted(asked, question))

    def _free(self, asked: Tensor, question: Tensor, first: Tensor) -> Tensor:
        return self.num_entities - (torch.searchsorted(asked, question, right=True) - first)


class Answered(nn.Module):
    """The queries that each entity answers in the collected facts, for both sides.

    Looks from the candidates' side: few entities are drawn for many facts, and most answer few
    queries, so going through all these queries is cheaper than asking of every fact and candidate
    whether they make a collected fact. How many there are depends on the draw, which a recorded
    step on a GPU does not allow; :func:`collected` is for there.
    """

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int) -> None:
        """Index the collected facts [n, 3]."""
        super().__init__()
        self.num_relations = num_relations
        self.num_queries = num_entities * num_relations
        for side in SIDES:
            query, entity = self._split(facts, side)
            order = torch.argsort(entity)
            count = torch.bincount(entity, minlength=num_entities)
            self.register_buffer(f"{side}_queries", query[order], persistent=False)
            self.register_buffer(f"{side}_count", count, persistent=False)
            self.register_buffer(f"{side}_first", count.cumsum(0) - count, persistent=False)

    def _split(self, facts: Tensor, side: Side) -> tuple[Tensor, Tensor]:
        """Return the numbers of the queries (known, relation) for a side, and the answers."""
        known, relation, entity = (facts if side == "tail" else flip(facts)).unbind(1)
        return known * self.num_relations + relation, entity

    def among(self, facts: Tensor, ids: Tensor, side: Side) -> Tensor:
        """Tell which candidates [g, k] make a collected fact in place of ``side``: bool [b, k].

        Candidates and facts meet where they have both the run of facts and the query in common.

        >>> answered = Answered(torch.tensor([[0, 0, 1], [0, 0, 2]]), 4, 1)
        >>> answered.among(torch.tensor([[0, 0, 1]]), torch.tensor([[2, 3]]), "tail").tolist()
        [[True, False]]
        """
        queries, first, count = (
            self.get_buffer(f"{side}_{name}") for name in ("queries", "first", "count")
        )
        query, _ = self._split(facts, side)
        return kernels.answered(query, ids, queries, first, count, self.num_queries)


class Shared(nn.Module):
    """Entities drawn evenly from all, for runs of facts, and which of them make a collected fact.

    Sharing turns many small gathers into one matrix product.
    """

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int, share: int) -> None:
        """Index the collected facts [n, 3]; ``share`` facts of a batch get the same draws."""
        super().__init__()
        self.share = share
        self.num_entities = num_entities
        self.index = TripleIndex(facts, num_entities, num_relations)
        self.answered = Answered(facts, num_entities, num_relations)

    def draw(
        self, facts: Tensor, side: Side, count: int, rng: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return ids [g, count] for g runs of facts [b, 3], and whether collected [b, count].

        Where ``share`` does not divide the number of facts, runs are as equal as can be: all are
        of the same length but the last, which is shorter.
        """
        shape = (-(-len(facts) // self.share), count)
        ids = torch.randint(self.num_entities, shape, generator=rng, device=facts.device)
        if facts.device.type == "cpu":
            return ids, self.answered.among(facts, ids, side)
        if self.index.keys.device != facts.device:
            self.index = self.index.to(facts.device)
        return ids, collected(self.index, facts, ids, side)


class Uniform(Sampler):
    """``count`` entities drawn evenly, each fact its own or ``share`` facts the same ones.

    With ``share`` = 1 the draw is from the entities that make no collected fact. Shared draws are
    from all entities; those that make a collected fact with one of the facts do not count there.
    """

    def __init__(
        self, facts: Tensor, num_entities: int, num_relations: int, count: int, share: int = 1
    ) -> None:
        """Draw ``count`` candidates for each of, or each ``share`` of, the facts of a batch."""
        super().__init__()
        self.count = count
        self.own = Uncollected(facts, num_entities, num_relations) if share == 1 else None
        sizes = (num_entities, num_relations)
        self.shared = None if share == 1 else Shared(facts, *sizes, share)

    def looked_up(self, facts: int) -> int:
        """Those of each run of facts."""
        share = 1 if self.shared is None else self.shared.share
        return -(-facts // share) * self.count

    def candidates(
        self, facts: Tensor, rows: Tensor, side: Side, rng: torch.Generator
    ) -> Candidates | None:
        """Draw for one side of a batch."""
        if self.shared is not None:
            ids, known = self.shared.draw(facts, side, self.count, rng)
            return Candidates(ids, ~known)
        assert self.own is not None
        drawn = self.own.draw(facts, side, self.count, rng)
        own = facts[:, 2:] if side == "tail" else facts[:, :1]
        return Candidates(drawn, drawn != own)


def collected(index: TripleIndex, facts: Tensor, ids: Tensor, side: Side) -> Tensor:
    """Tell which candidates [g, k] make a collected fact in place of ``side``: bool [b, k]."""
    made = facts.unsqueeze(1).expand(-1, ids.shape[1], -1).clone()
    made[..., 2 if side == "tail" else 0] = of_each_fact(ids, len(facts))
    return index.contains(made)


def of_each_fact(ids: Tensor, count: int) -> Tensor:
    """Return the candidates [b, k] of each of ``count`` facts, given those of their runs [g, k].

    >>> of_each_fact(torch.tensor([[7], [8]]), 3).tolist()
    [[7], [7], [8]]
    """
    return ids[torch.arange(count, device=ids.device) // run_length(count, len(ids))]
