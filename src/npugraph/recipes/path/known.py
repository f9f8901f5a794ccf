"""The known answers of questions, in both directions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from npugraph.graph import TripleIndex, flip


def both_ways(facts: Tensor, num_relations: int) -> Tensor:
    """Return facts [n, 3] as they are, then reversed with relation r + R: [2n, 3].

    >>> both_ways(torch.tensor([[0, 1, 2]]), 3).tolist()
    [[0, 1, 2], [2, 4, 0]]
    """
    shift = torch.tensor([0, num_relations, 0], device=facts.device)
    return torch.cat([facts, flip(facts) + shift])


def question_numbers(asked: Tensor, num_relations: int) -> Tensor:
    """Return one number for the question of each of ``asked`` [n, 3]: start * 2R + query.

    >>> question_numbers(torch.tensor([[1, 4, 2], [1, 4, 0]]), 3).tolist()
    [10, 10]
    """
    return asked[:, 0] * (2 * num_relations) + asked[:, 1]


class KnownAnswers:
    """Which entities answer a question (start, query) by the stored facts."""

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int) -> None:
        """Keep the answers of all questions about facts [n, 3]."""
        both = both_ways(facts, num_relations)
        self.index = TripleIndex(both, num_entities, 2 * num_relations)

    def to(self, device: torch.device) -> KnownAnswers:
        """Return the answers on another device."""
        moved = object.__new__(KnownAnswers)
        moved.index = self.index.to(device)
        return moved

    def count(self, start: Tensor, query: Tensor) -> Tensor:
        """Return how many answers each question [B] has: int64 [B]."""
        return self.index.count_tails(start, query)

    def mask(self, start: Tensor, query: Tensor, most: int | None = None) -> Tensor:
        """Tell for questions [B] which entities are known to answer them: bool [B, E].

        Where ``most`` answers are the most that these questions can have together, nothing
        waits for the device to count them.

        >>> known = KnownAnswers(torch.tensor([[0, 0, 1], [0, 0, 2]]), 3, 1)
        >>> known.mask(torch.tensor([0, 2]), torch.tensor([0, 1])).tolist()
        [[False, True, True], [True, False, False]]
        """
        count, size = len(start), self.index.num_entities
        begin, end = self.index.span(start, query)
        total = (end - begin).cumsum(0)
        if most is None:
            most = int(total[-1]) if count else 0
        place = torch.arange(most, device=start.device)
        question = torch.searchsorted(total, place, right=True)
        here = question < count
        question = question.clamp(max=max(count - 1, 0))
        number = begin[question] + place - pad(total, (1, 0))[question]
        answer = self.index.keys[number.clamp(max=len(self.index.keys) - 1)] % size
        # Places beyond the last answer write to a number that is cut off.
        cell = torch.where(here, question * size + answer, count * size)
        flat = torch.zeros(count * size + 1, dtype=torch.bool, device=start.device)
        return flat.index_fill_(0, cell, True)[:-1].view(count, size)
