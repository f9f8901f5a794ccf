"""Candidates from the neighbourhood of the entity that is asked about."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from npugraph.graph import SIDES, Side, TripleIndex, flip
from npugraph.samplers.base import Candidates, Sampler
from npugraph.samplers.uniform import Uncollected
from npugraph.seeds import number

Ints = NDArray[np.int64]
# Entities whose neighbourhoods are made at once, and walks that are walked at once.
BLOCK = 256
WALKS = 2**20


class Neighbourhoods(nn.Module):
    """For each entity, entities near it with whole-number weights; both ends of a fact are near.

    Entity e's neighbours are ``ids[i]`` for the i with ``starts[e] < ends[i] <= starts[e + 1]``,
    where ``ends`` is the running sum of the weights. So one binary search in ``ends`` turns an
    even number in [starts[e], starts[e + 1]) into a neighbour drawn by weight.

    Memory: 12 bytes a neighbour, so at most 12 E min(E, cap) or 12 E min(E, walks).
    """

    ids: Tensor
    ends: Tensor
    starts: Tensor

    def __init__(self, ids: Ints, weights: Ints, sizes: Ints) -> None:
        """Keep neighbours [m] with weights [m], entity after entity, ``sizes`` [E] of them each."""
        super().__init__()
        ends = np.cumsum(weights)
        starts = np.concatenate([[0], ends])[np.concatenate([[0], np.cumsum(sizes)])]
        # They follow from the facts and the seed, so they need no place in a checkpoint.
        self.register_buffer("ids", torch.from_numpy(ids.astype(np.int32)), persistent=False)
        self.register_buffer("ends", torch.from_numpy(ends), persistent=False)
        self.register_buffer("starts", torch.from_numpy(starts), persistent=False)

    def at(self, place: Tensor) -> Tensor:
        """Return the neighbour that owns each place [...] in the running sum: int64 [...]."""
        owner = torch.searchsorted(self.ends, place, right=True)
        return self.ids[owner.clamp(max=len(self.ids) - 1)].long()


def within_hops(facts: Tensor, num_entities: int, hops: int, cap: int, seed: int) -> Neighbourhoods:
    """Return where 1 to ``hops`` steps may lead from each entity, at most ``cap`` of them, even.

    Facts are walked both ways, so two steps may lead back: the entity itself is a candidate, too.
    It must be: a model that never sees (h, r, h) as a candidate ranks it first.
    """
    near = _adjacency(facts, num_entities)
    rng = np.random.default_rng(number(seed, "neighbourhoods"))
    ids, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for first in range(0, num_entities, BLOCK):
        reached = found = near[first : first + BLOCK]
        for _ in range(hops - 1):
            reached = reached @ near
            found = found + reached
        start, end = (index.astype(np.int64) for index in found.nonzero())
        # A random order within each start, of which the first ``cap`` stay.
        order = np.lexsort((rng.random(len(start)), start))
        count = np.bincount(start, minlength=found.shape[0])
        rank = np.arange(len(start)) - np.repeat(np.cumsum(count) - count, count)
        keep = np.sort(order[rank < cap])
        keep = keep[np.lexsort((end[keep], start[keep]))]
        ids.append(end[keep])
        sizes.append(np.minimum(count, cap))
    neighbours = np.concatenate(ids)
    return Neighbourhoods(neighbours, np.ones_like(neighbours), np.concatenate(sizes))


def walk_ends(facts: Tensor, num_entities: int, hops: int, walks: int, seed: int) -> Neighbourhoods:
    """Return where ``walks`` random walks of ``hops`` steps from each entity end, by frequency.

    Every walk starts at the entity itself, and may end there.
    """
    near = _adjacency(facts, num_entities)
    degree = np.diff(near.indptr).astype(np.int64)
    first, target = near.indptr.astype(np.int64), near.indices.astype(np.int64)
    rng = np.random.default_rng(number(seed, "walks"))
    ids, weights, sizes = ([np.empty(0, np.int64)] for _ in range(3))
    for begin in np.array_split(np.arange(num_entities), max(1, num_entities * walks // WALKS)):
        at = np.repeat(begin, np.where(degree[begin] > 0, walks, 0))
        start = at
        for _ in range(hops):
            at = target[first[at] + (rng.random(len(at)) * degree[at]).astype(np.int64)]
        key, weight = np.unique(start * num_entities + at, return_counts=True)
        ids.append(key % num_entities)
        weights.append(weight.astype(np.int64))
        low = int(begin[0]) if len(begin) else 0
        sizes.append(np.bincount(key // num_entities - low, minlength=len(begin)))
    return Neighbourhoods(*(np.concatenate(part) for part in (ids, weights, sizes)))


def _adjacency(facts: Tensor, num_entities: int) -> sparse.csr_array:
    """Return which entities share a fact, bool [E, E], whatever the order of the facts."""
    head, tail = facts[:, 0].cpu().numpy(), facts[:, 2].cpu().numpy()
    ends = np.concatenate([head, tail]), np.concatenate([tail, head])
    cells = (np.ones(len(ends[0]), bool), ends)
    near = sparse.csr_array(cells, shape=(num_entities, num_entities))
    near.sum_duplicates()
    return near


class SANS(Sampler):
    """``count`` candidates from the neighbourhood of the known entity (Ahrabian et al. 2020).

    Tails for (h, r, ?) come from h's neighbours, heads for (?, r, t) from t's, by their weight
    among those that make no collected fact. Where there is none, they are drawn evenly from all
    entities that make no collected fact. The draws are exact, without rejection: what a query
    must skip is a few intervals of the running sum of weights, kept in ``keys`` and ``skips``.
    """

    def __init__(
        self,
        facts: Tensor,
        num_entities: int,
        num_relations: int,
        near: Neighbourhoods,
        count: int,
    ) -> None:
        """Draw ``count`` candidates for each fact of a batch from ``near``."""
        super().__init__()
        self.count = count
        self.num_relations = num_relations
        self.near = near
        # More than all weights of one entity, so that the keys of two queries never mix.
        self.span = int(near.starts.diff().max()) + 1 if num_entities else 1
        self.uncollected = Uncollected(facts, num_entities, num_relations)
        for side in SIDES:
            turned = facts if side == "tail" else flip(facts)
            distinct = TripleIndex(turned, num_entities, num_relations).facts()
            parts = self._skipped(distinct, num_entities)
            for name, part in zip(("pairs", "keys", "skips"), parts, strict=True):
                self.register_buffer(f"{side}_{name}", part, persistent=False)

    def _skipped(self, facts: Tensor, num_entities: int) -> tuple[Tensor, Tensor, Tensor]:
        """Find, for facts (known, relation, answer) in order, which weights a query must skip.

        Returns:
            pairs [m]: the query known * R + relation of each interval, ascending.
            keys [m]: query * span + the interval's start, less what the query skips before it.
            skips [m + 1]: the running sum of the intervals' lengths, from 0.
        """
        ends, starts = self.near.ends, self.near.starts
        weights = torch.diff(ends, prepend=ends.new_zeros(1))
        owner = torch.searchsorted(starts, ends - weights, right=True) - 1
        cells = owner * num_entities + self.near.ids
        pair = facts[:, 0] * self.num_relations + facts[:, 1]
        wanted = facts[:, 0] * num_entities + facts[:, 2]
        place = torch.searchsorted(cells, wanted)
        held = torch.zeros_like(wanted, dtype=torch.bool)
        inside = place < len(cells)
        held[inside] = cells[place[inside]] == wanted[inside]
        facts, pair, place = facts[held], pair[held], place[held]
        length = weights[place]
        skips = torch.cat([length.new_zeros(1), length.cumsum(0)])
        before = skips[:-1] - skips[torch.searchsorted(pair, pair)]
        start = ends[place] - length - starts[facts[:, 0]]
        return pair, pair * self.span + (start - before), skips

    def looked_up(self, facts: int) -> int:
        """Each fact's own."""
        return facts * self.count

    def candidates(
        self, facts: Tensor, rows: Tensor, side: Side, rng: torch.Generator
    ) -> Candidates | None:
        """Draw for one side of a batch."""
        names = ("pairs", "keys", "skips")
        pairs, keys, skips = (self.get_buffer(f"{side}_{name}") for name in names)
        known, own = (facts[:, 0], facts[:, 2]) if side == "tail" else (facts[:, 2], facts[:, 0])
        pair = known * self.num_relations + facts[:, 1]
        first = torch.searchsorted(pairs, pair)
        skipped = skips[torch.searchsorted(pairs, pair, right=True)] - skips[first]
        free = self.near.starts[known + 1] - self.near.starts[known] - skipped
        even = self.uncollected.draw(facts, side, self.count, rng)
        if len(self.near.ids) == 0:
            return Candidates(even, even != own.unsqueeze(1))
        chance = torch.rand(even.shape, generator=rng, device=facts.device, dtype=torch.float64)
        place = (chance * free.unsqueeze(1)).long()
        place = torch.minimum(place, (free - 1).clamp(min=0).unsqueeze(1))
        after = torch.searchsorted(keys, pair.unsqueeze(1) * self.span + place, right=True)
        place = place + skips[after] - skips[first].unsqueeze(1)
        near = self.near.at(place + self.near.starts[known].unsqueeze(1))
        drawn = torch.where(free.unsqueeze(1) > 0, near, even)
        return Candidates(drawn, drawn != own.unsqueeze(1))


def neighbourhoods(
    facts: Tensor,
    num_entities: int,
    kind: Literal["hops", "walks"],
    hops: int,
    limit: int,
    seed: int,
) -> Neighbourhoods:
    """Make neighbourhoods of either kind; ``limit`` is the cap or the number of walks."""
    make = within_hops if kind == "hops" else walk_ends
    return make(facts, num_entities, hops, limit, seed)
