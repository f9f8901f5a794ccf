"""Facts as rows of ids [n, 3]: exact membership, and counts by relation."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from npugraph.errors import DataError

# The ids of head, relation and tail.
Triple = tuple[int, int, int]
# Keys are below this: they are 64-bit integers with a sign.
KEY_LIMIT = 2**63
# Where keys of all questions would reach this, only those that some fact has are numbered.
PLAIN_LIMIT = KEY_LIMIT


class TripleIndex:
    """Exact membership of facts, by binary search in sorted 64-bit keys.

    The key of (h, r, t) is ``q * E + t``, where q is the number of the question (h, r): the tails
    known for it lie side by side. q is ``h * R + r``; where such keys would not fit 64 bits
    (Freebase has 86 million entities and 14,824 relations), it is the place of ``h * R + r`` among
    those that some fact has, and a question that none has is -1. The order of facts is the same.
    Works on whatever device the facts are on.

    >>> index = TripleIndex(torch.tensor([[0, 0, 1], [0, 0, 2]]), num_entities=3, num_relations=1)
    >>> index.contains(torch.tensor([[0, 0, 2], [2, 0, 0]])).tolist()
    [True, False]
    """

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int) -> None:
        """Index ``facts`` [n, 3]; repeated facts count once."""
        self.num_entities = num_entities
        self.num_relations = num_relations
        # Those that some fact has, as h * R + r, where only these have numbers.
        self.questions: Tensor | None = None
        if num_entities * num_relations * num_entities >= PLAIN_LIMIT:
            self.questions = _distinct(torch.add(facts[:, 1], facts[:, 0], alpha=num_relations))
            if len(self.questions) * num_entities >= KEY_LIMIT:
                raise DataError(
                    f"{num_entities} entities and {len(self.questions)} pairs of a head and a "
                    "relation do not fit 64-bit keys; split the graph by relation."
                )
        self.keys = _distinct(self._key(facts))

    def _question(self, head: Tensor, relation: Tensor) -> Tensor:
        pairs = torch.add(relation, head, alpha=self.num_relations)
        return number_questions(pairs, self.questions)

    def _key(self, facts: Tensor) -> Tensor:
        """Return the key of each fact [..., 3]: int64 [...], negative where it has none."""
        head, relation, tail = facts.unbind(-1)
        question = self._question(head, relation)
        return torch.add(tail, question, alpha=self.num_entities)

    def codes(self, facts: Tensor) -> Tensor:
        """Return numbers of facts [n, 3], stored or not, that are equal for equal facts alone.

        They are in the order of facts, and are to be compared within one call: int64 [n].

        >>> index = TripleIndex(torch.tensor([[0, 0, 1]]), num_entities=3, num_relations=1)
        >>> index.codes(torch.tensor([[2, 0, 0], [1, 0, 1], [2, 0, 0]])).argsort().tolist()
        [1, 0, 2]
        """
        if self.questions is None:
            return self._key(facts)
        return TripleIndex(facts, self.num_entities, self.num_relations).places(facts)

    def __len__(self) -> int:
        return len(self.keys)

    def holds_same(self, other: TripleIndex) -> bool:
        """Tell whether another index, of as many entities and relations, has the same facts."""
        # Where only some questions have numbers, equal keys may be of other facts.
        mine, others = self.questions, other.questions
        same = mine is others or (
            mine is not None and others is not None and torch.equal(mine, others)
        )
        return same and torch.equal(self.keys, other.keys)

    def contains(self, facts: Tensor) -> Tensor:
        """Tell for each fact [..., 3] whether it is in the index: bool [...]."""
        return self.places(facts) >= 0

    def places(self, facts: Tensor) -> Tensor:
        """Return where each fact [..., 3] stands in key order, -1 if nowhere: int64 [...].

        >>> index = TripleIndex(torch.tensor([[0, 0, 1], [0, 0, 2]]), 3, 1)
        >>> index.places(torch.tensor([[0, 0, 2], [2, 0, 0]])).tolist()
        [1, -1]
        """
        return _places(self.keys, self._key(facts))

    def tails(self, head: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Return the known tails of many queries as (query, tail), two int64 tensors [m].

        ``query`` numbers the queries [q] from 0 and is in ascending order.
        """
        start, end = self.span(head, relation)
        count = end - start
        query = torch.repeat_interleave(torch.arange(len(head), device=head.device), count)
        shift = start - (torch.cumsum(count, 0) - count)
        place = torch.arange(len(query), device=head.device) + shift[query]
        first_key = self._question(head, relation) * self.num_entities
        return query, self.keys[place] - first_key[query]

    def count_tails(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return how many tails are known of each query [q]: int64 [q].

        >>> index = TripleIndex(torch.tensor([[0, 0, 1], [0, 0, 2]]), 3, 1)
        >>> index.count_tails(torch.tensor([0, 1]), torch.tensor([0, 0])).tolist()
        [2, 0]
        """
        start, end = self.span(head, relation)
        return end - start

    def span(self, head: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Return the places of the facts of queries [q]: from the first [q] to before the second.

        >>> index = TripleIndex(torch.tensor([[0, 0, 1], [0, 0, 2]]), 3, 1)
        >>> [ends.tolist() for ends in index.span(torch.tensor([0]), torch.tensor([0]))]
        [[0], [2]]
        """
        first_key = self._question(head, relation) * self.num_entities
        last_key = first_key + self.num_entities
        return torch.searchsorted(self.keys, first_key), torch.searchsorted(self.keys, last_key)

    def facts(self) -> Tensor:
        """Return the distinct facts in key order, int64 [n, 3]."""
        pair, tail = self.keys // self.num_entities, self.keys % self.num_entities
        if self.questions is not None:
            pair = self.questions[pair]
        return torch.stack([pair // self.num_relations, pair % self.num_relations, tail], dim=1)

    def to(self, device: torch.device | str) -> TripleIndex:
        """Return this index on another device."""
        moved = object.__new__(TripleIndex)
        moved.num_entities, moved.num_relations = self.num_entities, self.num_relations
        moved.keys = self.keys.to(device)
        moved.questions = None if self.questions is None else self.questions.to(device)
        return moved


def number_questions(pairs: Tensor, questions: Tensor | None) -> Tensor:
    """Return the numbers of questions ``h * R + r`` [...] as an index has them: int64 [...].

    Args:
        pairs: the questions.
        questions: of the index, see :class:`TripleIndex`; -1 is the number of any other.
    """
    return pairs if questions is None else _places(questions, pairs)


def wrapped_key(facts: Tensor, num_entities: int, num_relations: int) -> Tensor:
    """Return ``(h * R + r) * E + t`` of facts [n, 3], cut off at 64 bits: int64 [n].

    It is for drawing by fact: on the largest graphs different facts may have the same one.
    """
    return (facts[:, 0] * num_relations + facts[:, 1]) * num_entities + facts[:, 2]


def _distinct(keys: Tensor) -> Tensor:
    """Return the distinct ones of whole numbers [n], ascending; these are sorted where they are.

    >>> _distinct(torch.tensor([5, 3, 5, 3, 7])).tolist()
    [3, 5, 7]
    """
    if keys.device.type != "cpu":
        distinct: Tensor = torch.unique(keys)
        return distinct
    # NumPy sorts several times as fast as PyTorch does on a CPU.
    ordered = keys.numpy()
    ordered.sort()
    fresh = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return torch.from_numpy(ordered[fresh])


def _places(sorted_values: Tensor, values: Tensor) -> Tensor:
    """Return the places of values [...] among distinct sorted ones [n], -1 if nowhere: [...]."""
    if len(sorted_values) == 0:
        return torch.full_like(values, -1)
    place = torch.searchsorted(sorted_values, values).clamp_(max=len(sorted_values) - 1)
    return torch.where(sorted_values[place] == values, place, -1)


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
    key = _distinct(facts[:, 1] * num_entities + facts[:, 2])
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
