"""Facts as rows of ids [n, 3]: exact membership, and counts by relation."""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph.errors import DataError

# The ids of head, relation and tail.
Triple = tuple[int, int, int]


class TripleIndex:
    """Exact membership of facts, by binary search in sorted 64-bit keys.

    The key of (h, r, t) is ``(h * R + r) * E + t``, so the tails known for (h, r) lie side by
    side. Works on whatever device the facts are on.

    >>> index = TripleIndex(torch.tensor([[0, 0, 1], [0, 0, 2]]), num_entities=3, num_relations=1)
    >>> index.contains(torch.tensor([[0, 0, 2], [2, 0, 0]])).tolist()
    [True, False]
    """

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int) -> None:
        """Index ``facts`` [n, 3]; repeated facts count once."""
        if num_entities * num_relations * num_entities >= 2**63:
            raise DataError(
                f"{num_entities} entities and {num_relations} relations do not fit 64-bit keys; "
                "split the graph by relation."
            )
        self.num_entities = num_entities
        self.num_relations = num_relations
        self.keys = torch.unique(self.key(facts))

    def key(self, facts: Tensor) -> Tensor:
        """Return the key of each fact, int64, for facts of shape [..., 3]."""
        head, relation, tail = facts.unbind(-1)
        return (head * self.num_relations + relation) * self.num_entities + tail

    def __len__(self) -> int:
        return len(self.keys)

    def contains(self, facts: Tensor) -> Tensor:
        """Tell for each fact [..., 3] whether it is in the index: bool [...]."""
        return self.places(facts) >= 0

    def places(self, facts: Tensor) -> Tensor:
        """Return where each fact [..., 3] stands in key order, -1 if nowhere: int64 [...].

        >>> index = TripleIndex(torch.tensor([[0, 0, 1], [0, 0, 2]]), 3, 1)
        >>> index.places(torch.tensor([[0, 0, 2], [2, 0, 0]])).tolist()
        [1, -1]
        """
        keys = self.key(facts)
        if len(self.keys) == 0:
            return torch.full_like(keys, -1)
        place = torch.searchsorted(self.keys, keys).clamp_(max=len(self.keys) - 1)
        return torch.where(self.keys[place] == keys, place, -1)

    def tails(self, head: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Return the known tails of many queries as (query, tail), two int64 tensors [m].

        ``query`` numbers the queries [q] from 0 and is in ascending order.
        """
        first_key, start, count = self._known(head, relation)
        query = torch.repeat_interleave(torch.arange(len(head), device=head.device), count)
        shift = start - (torch.cumsum(count, 0) - count)
        place = torch.arange(len(query), device=head.device) + shift[query]
        return query, self.keys[place] - first_key[query]

    def count_tails(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return how many tails are known of each query [q]: int64 [q].

        >>> index = TripleIndex(torch.tensor([[0, 0, 1], [0, 0, 2]]), 3, 1)
        >>> index.count_tails(torch.tensor([0, 1]), torch.tensor([0, 0])).tolist()
        [2, 0]
        """
        return self._known(head, relation)[2]

    def _known(self, head: Tensor, relation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the first key of queries [q], and where and how many known facts they have."""
        first_key = (head * self.num_relations + relation) * self.num_entities
        start = torch.searchsorted(self.keys, first_key)
        count = torch.searchsorted(self.keys, first_key + self.num_entities) - start
        return first_key, start, count

    def facts(self) -> Tensor:
        """Return the distinct facts in key order, int64 [n, 3]."""
        pair, tail = self.keys // self.num_entities, self.keys % self.num_entities
        return torch.stack([pair // self.num_relations, pair % self.num_relations, tail], dim=1)

    def to(self, device: torch.device | str) -> TripleIndex:
        """Return this index on another device."""
        moved = object.__new__(TripleIndex)
        moved.num_entities, moved.num_relations = self.num_entities, self.num_relations
        moved.keys = self.keys.to(device)
        return moved


def flip(facts: Tensor) -> Tensor:
    """Swap head and tail of each fact [..., 3]."""
    return facts[..., [2, 1, 0]]


def distinct_tails(
    facts: Tensor, num_entities: int, num_relations: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distinct tails of each relation: (entities [m], start [R], size [R]).

    Those of relation r are ``entities[start[r] : start[r] + size[r]]``. For heads, give the
    flipped facts.
    """
    key = torch.unique(facts[:, 1] * num_entities + facts[:, 2])
    size = torch.bincount(key // num_entities, minlength=num_relations)
    return key % num_entities, torch.cumsum(size, 0) - size, size


def mean_answers(facts: Tensor, num_relations: int) -> Tensor:
    """Return how many tails a (head, relation) has on average, by relation: float64 [R].

    A relation without facts gets nan. For heads, give the flipped facts.
    """
    distinct = torch.unique(facts, dim=0)
    pairs = torch.unique(distinct[:, :2], dim=0)
    answers = torch.bincount(distinct[:, 1], minlength=num_relations).double()
    return answers / torch.bincount(pairs[:, 1], minlength=num_relations)
