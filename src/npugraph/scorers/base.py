"""What a score function is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from npugraph.arrays import run_length
from npugraph.graph import Side


class Scorer(nn.Module, ABC):
    """A score function over representations of width ``entity_width`` and ``relation_width``."""

    def entity_width(self, dimension: int) -> int:
        """Return how many numbers represent an entity at this dimension."""
        return dimension

    def relation_width(self, dimension: int) -> int:
        """Return how many numbers represent a relation at this dimension."""
        return dimension

    @abstractmethod
    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts: [..., width] each, broadcast against each other, to [...]."""

    @abstractmethod
    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing side.

        Shapes: known [..., q, w], relation [..., q, v], entities [..., E, w] to [..., q, E]. With
        leading dimensions each group of queries has entities of its own.
        """

    def against(
        self, known: Tensor, relation: Tensor, missing: Tensor, pool: Tensor, side: Side
    ) -> Tensor:
        """Score facts, then candidates for their missing side, as a training step needs both.

        Shapes: known and missing [b, w], relation [b, v]; pool [g, k, w], where row i serves the
        i-th of g runs of the facts, see :func:`in_runs`; to [b, 1 + k]. It is ``score`` and
        ``score_all`` side by side; a scorer may share between them what is the same for both.
        """
        head, tail = (known, missing) if side == "tail" else (missing, known)
        positive = self.score(head, relation, tail).unsqueeze(1)
        negative = in_runs(partial(self.score_all, side=side), (known, relation), pool)
        return torch.cat([positive, negative], 1)

    def factors(self, representation: Tensor) -> Tensor:
        """Return the moduli that the N3 penalty is taken of: [..., width] to [..., m]."""
        return representation.abs()


def in_runs(score: Callable[..., Tensor], queries: Sequence[Tensor], pool: Tensor) -> Tensor:
    """Score queries against the candidates of their runs.

    Shapes: queries [b, w] each and pool [g, k, w] to [b, k]; row i of the pool serves the i-th run
    of ceil(b / g) queries. ``score`` maps queries [n, q, w] and pools [n, k, w] to [n, q, k]. A
    last run that is shorter than the others is scored by itself.

    >>> pool = torch.tensor([[[1.0]], [[2.0]]])
    >>> in_runs(lambda query, pool: query @ pool.mT, [torch.ones(3, 1)], pool).tolist()
    [[1.0], [1.0], [2.0]]
    """
    count = len(queries[0])
    size = run_length(count, len(pool))
    whole = count // size
    if whole == len(pool):
        runs = (part.view(whole, size, part.shape[1]) for part in queries)
        return score(*runs, pool).reshape(count, -1)
    cut = whole * size
    parts = [
        in_runs(score, [part[:cut] for part in queries], pool[:whole]),
        score(*(part[cut:].unsqueeze(0) for part in queries), pool[whole : whole + 1]).squeeze(0),
    ]
    return torch.cat(parts)
