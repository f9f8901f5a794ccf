"""Score functions: how plausible is (head, relation, tail), given their representations.

A scorer owns no embedding table. It sees representations and returns scores; higher is more
plausible. Two calls are enough:

- ``score(head, relation, tail)`` broadcasts over leading dimensions, last dimension is width;
- ``score_all(known, relation, entities, side)`` scores every entity as the missing ``side``.

Both give the same numbers up to rounding; the conformance suite checks it for every scorer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

Side = Literal["head", "tail"]
SIDES: tuple[Side, Side] = ("tail", "head")


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
        """Score every entity as the missing side: [q, w], [q, v], [E, w] to [q, E]."""

    def factors(self, representation: Tensor) -> Tensor:
        """Return the moduli that the N3 penalty is taken of: [..., width] to [..., m]."""
        return representation.abs()


class DistMult(Scorer):
    """``sum_k h_k r_k t_k`` (Yang et al. 2015)."""

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        return (head * relation * tail).sum(-1)

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity; both sides are the same, the form is symmetric."""
        return (known * relation) @ entities.T


class ComplEx(Scorer):
    """``Re(sum_k h_k r_k conj(t_k))`` (Trouillon et al. 2016).

    A vector of d complex numbers is stored as two halves, [re_1..re_d, im_1..im_d].
    """

    def entity_width(self, dimension: int) -> int:
        """Two halves."""
        return 2 * dimension

    def relation_width(self, dimension: int) -> int:
        """Two halves."""
        return 2 * dimension

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        return (_rotate(head, relation) * tail).sum(-1)

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity: Re(h r conj t) is linear in each argument, so one product."""
        query = _rotate(known, relation, backwards=side == "head")
        return query @ entities.T

    def factors(self, representation: Tensor) -> Tensor:
        """Return the modulus of each complex number."""
        real, imaginary = representation.chunk(2, -1)
        # The tiny term keeps the gradient of the root finite at 0.
        return (real.square() + imaginary.square() + 1e-30).sqrt()


class TransE(Scorer):
    """``-||h + r - t||_p`` (Bordes et al. 2013), p = 1 or 2, not squared."""

    def __init__(self, p: int = 1) -> None:
        """Choose the norm ``p``: 1 or 2."""
        super().__init__()
        self.p = p

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        gap: Tensor = torch.linalg.vector_norm(head + relation - tail, ord=self.p, dim=-1)
        return -gap

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity by its distance to the point where it should be."""
        point = known + relation if side == "tail" else known - relation
        return -distances(point, entities, "l1" if self.p == 1 else "l2")


class RotatE(Scorer):
    """``gamma - sum_k |h_k e^(i theta_k) - t_k|`` (Sun et al. 2019).

    Entities are d complex numbers in two halves as in ComplEx; a relation is d angles.
    ``norm="l2"`` takes the Euclidean norm of the whole difference instead, as PyKEEN does.
    """

    def __init__(self, gamma: float = 0.0, norm: Literal["modulus", "l2"] = "modulus") -> None:
        """Choose the margin ``gamma`` and the norm."""
        super().__init__()
        self.gamma = gamma
        self.norm = norm

    def entity_width(self, dimension: int) -> int:
        """Two halves."""
        return 2 * dimension

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        gap = _rotate(head, _unit(relation)) - tail
        if self.norm == "l2":
            length: Tensor = torch.linalg.vector_norm(gap, dim=-1)
            return self.gamma - length
        real, imaginary = gap.chunk(2, -1)
        # The tiny term keeps the gradient of the root finite where the gap is 0.
        return self.gamma - (real.square() + imaginary.square() + 1e-30).sqrt().sum(-1)

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity; a rotation keeps lengths, so a head is found by turning back."""
        point = _rotate(known, _unit(relation), backwards=side == "head")
        return self.gamma - distances(point, entities, self.norm)


def _unit(angle: Tensor) -> Tensor:
    """Return e^(i angle) as two halves: [..., d] to [..., 2d]."""
    return torch.cat([angle.cos(), angle.sin()], -1)


def _rotate(x: Tensor, y: Tensor, backwards: bool = False) -> Tensor:
    """Multiply complex vectors in two halves: x y, or x conj(y)."""
    a, b = x.chunk(2, -1)
    c, d = y.chunk(2, -1)
    if backwards:
        return torch.cat([a * c + b * d, b * c - a * d], -1)
    return torch.cat([a * c - b * d, a * d + b * c], -1)


Norm = Literal["l1", "l2", "modulus"]
# Scores of one tile: small enough that the three buffers stay in a core's own cache.
TILE_QUERIES, TILE_ENTITIES = 64, 4096


def distances(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    """Return all distances between points [q, w] and entities [E, w]: [q, E].

    Every norm is summed directly, coordinate by coordinate. Expanding the square into a matrix
    product would be shorter, but loses the digits that decide close ranks.
    """
    if points.requires_grad or entities.requires_grad:
        return _distances_with_gradient(points, entities, norm)
    if norm != "modulus" and points.device.type != "cpu":
        mode = "donot_use_mm_for_euclid_dist"
        return torch.cdist(points, entities, p=1.0 if norm == "l1" else 2.0, compute_mode=mode)
    out = points.new_empty(len(points), len(entities))
    on_cpu = points.device.type == "cpu"
    tile_queries = TILE_QUERIES if on_cpu else max(1, 2**24 // max(len(entities), 1))
    tile_entities = TILE_ENTITIES if on_cpu else len(entities)
    for first in range(0, len(entities), max(tile_entities, 1)):
        columns = entities[first : first + tile_entities].T.contiguous()
        for start in range(0, len(points), tile_queries):
            tile = points[start : start + tile_queries].T.unsqueeze(-1)
            target = out[start : start + tile_queries, first : first + tile_entities]
            target.copy_(_tile(tile, columns, norm))
    return out


def _tile(points: Tensor, columns: Tensor, norm: Norm) -> Tensor:
    """Sum one tile of distances over coordinates: [w, q, 1] and [w, e] to [q, e].

    One coordinate at a time, in place: each pass reads and writes buffers that stay in cache.
    """
    total = points.new_zeros(points.shape[1], columns.shape[1])
    gap = torch.empty_like(total)
    if norm == "modulus":
        half = len(points) // 2
        other = torch.empty_like(total)
        for k in range(half):
            torch.sub(columns[k], points[k], out=gap)
            torch.sub(columns[half + k], points[half + k], out=other)
            total.add_(gap.mul_(gap).addcmul_(other, other).sqrt_())
        return total
    for column, point in zip(columns.unbind(0), points.unbind(0), strict=True):
        torch.sub(column, point, out=gap)
        if norm == "l1":
            total.add_(gap.abs_())
        else:
            total.addcmul_(gap, gap)
    return total if norm == "l1" else total.sqrt_()


def _distances_with_gradient(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    if norm != "modulus":
        return torch.cdist(points, entities, p=1.0 if norm == "l1" else 2.0)
    gap = points.unsqueeze(1) - entities
    real, imaginary = gap.chunk(2, -1)
    return (real.square() + imaginary.square() + 1e-30).sqrt().sum(-1)
