"""Candidates from caches of hard ones, kept per query."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from npugraph.arrays import first_by_key
from npugraph.errors import SettingsError
from npugraph.graph import SIDES, Side
from npugraph.samplers.base import Candidates, Sampler
from npugraph.samplers.uniform import Uncollected

# Maps facts [b, 3], the side that is replaced and entities [b, k] to scores [b, k].
ScoreCandidates = Callable[[Tensor, Side, Tensor], Tensor]


class NSCaching(Sampler):
    """``count`` candidates drawn evenly from a cache of hard ones (Zhang et al. 2019).

    Every query of the training facts, (h, r) for tails and (r, t) for heads, has a cache of N1
    entities. After a draw the caches just used are renewed: of the N1 entities in the cache and N2
    fresh ones, N1 are drawn without replacement with chances softmax(score). Adding Gumbel noise
    to the scores and taking the N1 best does that in one fixed shape.

    The published code renews both caches of a fact at each step; here it is the one of the side
    that was replaced, at half of the cost. Caches hold no entity that makes a collected fact.
    A repeated entity leaves as long as there are others, else small graphs fill a cache with one.

    Memory: 4 N1 bytes a query, in buffers that are part of a checkpoint.
    """

    def __init__(
        self,
        facts: Tensor,
        num_entities: int,
        num_relations: int,
        score: ScoreCandidates,
        rng: torch.Generator,
        *,
        count: int = 1,
        cache: int = 30,
        extra: int = 30,
    ) -> None:
        """Fill the caches of N1 = ``cache`` entities evenly; N2 = ``extra`` join at a renewal.

        ``score`` is called without gradients. It must not be a module: a sampler that holds the
        system would save it twice.
        """
        super().__init__()
        if isinstance(score, torch.nn.Module):
            raise SettingsError("score must be a function, not a module; give a bound method.")
        self.score = score
        self.count = count
        self.extra = extra
        self.uncollected = Uncollected(facts, num_entities, num_relations)
        for side in SIDES:
            query, first = _queries(facts, num_relations, side)
            drawn = self.uncollected.draw(facts[first], side, cache, rng)
            self.register_buffer(f"{side}_cache", drawn.int())
            self.register_buffer(f"{side}_query", query, persistent=False)

    def looked_up(self, facts: int) -> int:
        """The caches of the facts, and what joins them when they are renewed."""
        return facts * (self.get_buffer("tail_cache").shape[1] + self.extra)

    @torch.no_grad()
    def candidates(
        self, facts: Tensor, rows: Tensor, side: Side, rng: torch.Generator
    ) -> Candidates | None:
        """Draw from the caches of one side of a batch, then renew them."""
        caches = self.get_buffer(f"{side}_cache")
        query = self.get_buffer(f"{side}_query")[rows]
        held = caches[query].long()
        shape = (len(facts), self.count)
        place = torch.randint(held.shape[1], shape, generator=rng, device=facts.device)
        renewed = self._renew(facts, side, held, rng)
        # Facts of one query all write what the first of them found: the outcome is defined.
        caches[query] = renewed[first_of_equals(query)].int()
        free = self.uncollected.free(facts, side) > 0
        return Candidates(held.gather(1, place), free.unsqueeze(1).expand(shape))

    def _renew(self, facts: Tensor, side: Side, held: Tensor, rng: torch.Generator) -> Tensor:
        """Return the next caches [b, N1] of a batch, given what they hold [b, N1]."""
        fresh = self.uncollected.draw(facts, side, self.extra, rng)
        pool = torch.cat([held, fresh], 1).sort(1).values
        repeated = torch.zeros_like(pool, dtype=torch.bool)
        repeated[:, 1:] = pool[:, 1:] == pool[:, :-1]
        scores = self.score(facts, side, pool).float()
        noise = -torch.empty_like(scores).exponential_(generator=rng).log()
        keys = (scores + noise).masked_fill(repeated, -torch.inf)
        return pool.gather(1, keys.topk(held.shape[1], 1).indices)


def _queries(facts: Tensor, num_relations: int, side: Side) -> tuple[Tensor, Tensor]:
    """Return the query of each fact [n], numbered from 0, and a fact of each query [q]."""
    known = facts[:, 0] if side == "tail" else facts[:, 2]
    _, query = torch.unique(known * num_relations + facts[:, 1], return_inverse=True)
    return query, first_by_key(query)


def first_of_equals(values: Tensor) -> Tensor:
    """Return for each value [b] where an equal one first stands: int64 [b], in a fixed shape.

    >>> first_of_equals(torch.tensor([7, 3, 7, 3])).tolist()
    [0, 1, 0, 1]
    """
    ordered, order = values.sort(stable=True)
    return order[torch.searchsorted(ordered, values)]
