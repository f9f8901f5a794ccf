"""Facts as edges that can be walked both ways, and the array helpers rules need."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.errors import DataError
from npugraph.graph import TripleIndex
from npugraph.triples import Triple

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def check_facts(facts: Tensor, num_entities: int, num_relations: int) -> None:
    """Refuse what is not an int64 tensor [n, 3] of known ids."""
    if facts.dtype != torch.int64 or facts.dim() != 2 or facts.shape[1] != 3:
        raise DataError(
            f"Facts must be an int64 tensor of shape [n, 3], not {facts.dtype} of shape "
            f"{list(facts.shape)}."
        )
    limits = torch.tensor([num_entities, num_relations, num_entities], device=facts.device)
    wrong = ((facts < 0) | (facts >= limits)).any(dim=1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise DataError(
            f"Fact {row} is {facts[row].tolist()}, but ids must lie in 0..{num_entities - 1} for "
            f"entities and 0..{num_relations - 1} for relations; encode it with the same graph."
        )


class DirectedEdges:
    """Every fact read both ways: r(h, t) is the edge (h, r, t) and the edge (t, r + R, h).

    Loops are left out. Edges lie in the order (start, end, direction), so that the edges around
    an entity and those between two entities are side by side.

    Attributes:
        index: the distinct facts, loops included.
        pair: int64 [m], start * E + end of each edge, ascending.
        direction: int64 [m], the directed relation of each edge, 0..2R-1.
        end: int64 [m], where each edge leads.
        first: int64 [E + 1], where the edges around each entity begin.
        degree: int64 [E], number of edges around each entity.
    """

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int) -> None:
        """Index facts [n, 3]; repeats count once."""
        facts = facts.cpu()
        check_facts(facts, num_entities, num_relations)
        self.num_entities = num_entities
        self.num_relations = num_relations
        self.index = TripleIndex(facts, num_entities, num_relations)
        straight = self.index.facts()
        straight = straight[straight[:, 0] != straight[:, 2]]
        head, relation, tail = straight.unbind(1)
        turned = torch.stack([tail, relation + num_relations, head], dim=1)
        both = torch.cat([straight, turned])
        self._by_direction = TripleIndex(both, num_entities, 2 * num_relations)
        start, direction, end = self._by_direction.facts().numpy().T
        order = np.argsort(start * num_entities + end, kind="stable")
        self.direction: Ints = direction[order]
        self.end: Ints = end[order]
        self.pair: Ints = start[order] * num_entities + self.end
        self.first = np.searchsorted(self.pair, np.arange(num_entities + 1) * num_entities)
        self.degree: Ints = np.diff(self.first)

    def inverse(self, direction: Ints) -> Ints:
        """Turn directed relations round.

        >>> DirectedEdges(torch.tensor([[0, 0, 1]]), 2, 3).inverse(np.array([0, 5])).tolist()
        [3, 2]
        """
        return (direction + self.num_relations) % (2 * self.num_relations)

    def between(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Return the edges of pairs [q] as (number of the pair, direction), two arrays [m]."""
        key = start * self.num_entities + end
        low = np.searchsorted(self.pair, key)
        owner, place = ranges(low, np.searchsorted(self.pair, key, side="right") - low)
        return owner, self.direction[place]

    def reach(self, start: Ints, direction: Ints) -> tuple[Ints, Ints]:
        """Return where directed relations [q] lead as (number of the query, end), arrays [m]."""
        query, end = self._by_direction.tails(torch.from_numpy(start), torch.from_numpy(direction))
        return query.numpy(), end.numpy()

    def fan(self, start: Ints, direction: Ints) -> Ints:
        """Count where directed relations [q] lead, int64 [q], without writing it out."""
        queries = torch.from_numpy(start), torch.from_numpy(direction)
        return self._by_direction.count_tails(*queries).numpy()

    def fact(self, start: int, direction: int, end: int) -> Triple:
        """Return the stored fact behind an edge."""
        if direction < self.num_relations:
            return start, direction, end
        return end, direction - self.num_relations, start


def ranges(start: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Write out ranges [q] as (number of the range, member), two arrays [sum of count].

    >>> owner, member = ranges(np.array([7, 0, 3]), np.array([2, 0, 1]))
    >>> owner.tolist(), member.tolist()
    ([0, 0, 2], [7, 8, 3])
    """
    owner = np.repeat(np.arange(len(count)), count)
    member = np.arange(len(owner)) + (start - (np.cumsum(count) - count))[owner]
    return owner, member


def spread(size: Ints, take: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw ``take`` of the numbers 0..size-1 for each of q ranges, evenly spread.

    A range is cut into ``take`` equal strata and one number is drawn from each, so everything is
    taken where take = size. Neighbouring strata may rarely draw the same number.

    Returns:
        (number of the range, number drawn), two arrays [sum of take].
    """
    owner, stratum = ranges(np.zeros_like(take), take)
    whole = (take == size)[owner]
    shift = np.where(whole, 0.0, rng.random(len(owner)))
    width = (size / np.maximum(take, 1))[owner]
    drawn = np.minimum(((stratum + shift) * width).astype(np.int64), size[owner] - 1)
    return owner, np.where(whole, stratum, drawn)
