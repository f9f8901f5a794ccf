"""TransR: distances in a space of the relation's own."""

from __future__ import annotations

from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor

from npugraph.errors import SettingsError
from npugraph.graph import Side
from npugraph.kernels import distances
from npugraph.scorers.base import Scorer
from npugraph.scorers.grouped import by_relation

Scaling = Literal["normalize", "clamp", "none"]


class TransR(Scorer):
    """``-||s(h M_r) + r - s(t M_r)||_p`` (Lin et al. 2015), p = 1 or 2, not squared.

    A relation is [r ; M_r], k numbers and a matrix [d, k] row by row; an entity is d numbers.
    What s does with a projected entity, by ``scaling``:

    - ``normalize``: scales it, and r too, to Euclidean length 1;
    - ``clamp``: scales it to length 1 in the p-norm where it is longer, as PyKEEN does;
    - ``none``: nothing.
    """

    def __init__(
        self, p: int = 1, scaling: Scaling = "normalize", relation_dimension: int | None = None
    ) -> None:
        """Choose the norm ``p``, the scaling, and k; None: as many as an entity has."""
        super().__init__()
        if p not in (1, 2):
            raise SettingsError(f"p={p} must be 1 or 2.")
        if scaling not in get_args(Scaling):
            known = ", ".join(get_args(Scaling))
            raise SettingsError(f"scaling={scaling!r} must be one of {known}.")
        self.p = p
        self.scaling = scaling
        self.relation_dimension = relation_dimension

    def relation_width(self, dimension: int) -> int:
        """A vector and a matrix."""
        return (self.relation_dimension or dimension) * (1 + dimension)

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        shift, matrix = self._parts(relation, head.shape[-1])
        start, end = (
            self._project(ends.unsqueeze(-2), matrix).squeeze(-2) for ends in (head, tail)
        )
        gap: Tensor = torch.linalg.vector_norm(start + shift - end, ord=self.p, dim=-1)
        return -gap

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity; queries of one relation share the projection of the entities.

        Queries count as of one relation where their matrices are equal, that is, where they are
        the same row of a table. The gradient of a shared matrix goes to the first of them.
        """
        if len(known) == 1 and known.dim() > 2:
            return self.score_all(known[0], relation[0], entities[0], side).unsqueeze(0)
        if known.numel() == 0:
            return known @ entities.mT
        shift, matrix = self._parts(relation, known.shape[-1])
        if side == "head":
            shift = -shift
        if known.dim() == 2:
            scored = partial(self._score_group, known, shift, matrix, entities)
            return by_relation(relation[:, shift.shape[1] :], scored)
        # Each group of queries has a few entities of its own.
        point = self._project(known.unsqueeze(-2), matrix) + shift.unsqueeze(-2)
        pool = self._project(entities.unsqueeze(-3), matrix)
        return -distances(point, pool, self._norm()).squeeze(-2)

    def _score_group(
        self, known: Tensor, shift: Tensor, matrix: Tensor, entities: Tensor, rows: Tensor
    ) -> Tensor:
        """Score every entity for the queries in ``rows`` [n], which share a matrix: [n, E]."""
        shared = matrix[rows[0]]
        point = self._project(known.index_select(0, rows), shared) + shift.index_select(0, rows)
        return -distances(point, self._project(entities, shared), self._norm())

    def _norm(self) -> Literal["l1", "l2"]:
        return "l1" if self.p == 1 else "l2"

    def _parts(self, relation: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Return (r [..., k], M [..., d, k]) of relations [..., k (1 + d)]."""
        k = relation.shape[-1] // (1 + width)
        shift = relation[..., :k]
        if self.scaling == "normalize":
            shift = _unit(shift, 2)[0]
        return shift, relation[..., k:].reshape(*relation.shape[:-1], width, k)

    def _project(self, vectors: Tensor, matrix: Tensor) -> Tensor:
        """Return s(x M): [..., n, d] and [..., d, k] to [..., n, k]."""
        projected = vectors @ matrix
        if self.scaling == "none":
            return projected
        if self.scaling == "normalize":
            return _unit(projected, 2)[0]
        unit, length = _unit(projected, self.p)
        return torch.where(length < 1, projected, unit)


def _unit(vectors: Tensor, p: int) -> tuple[Tensor, Tensor]:
    """Return vectors [..., k] at length 1 in the p-norm, and their lengths [..., 1].

    They are brought to a largest coordinate of 1 first: squares of what a product of large
    numbers gives would overflow. Vectors shorter than about 1e-12 stay shorter than 1.
    """
    size = vectors.detach().abs().amax(-1, keepdim=True).clamp(min=1e-12)
    scaled = vectors / size
    length = torch.linalg.vector_norm(scaled, ord=p, dim=-1, keepdim=True)
    return scaled / length.clamp(min=1), (size * length).detach()
