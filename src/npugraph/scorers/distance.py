"""Scores that are distances: how far the tail is from where the relation takes the head."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from npugraph.errors import SettingsError
from npugraph.graph import Side
from npugraph.kernels import TINY, distances, distances_against
from npugraph.scorers.base import Scorer
from npugraph.scorers.bilinear import multiply

# As in functional.normalize.
SHORTEST = 1e-12


class TransE(Scorer):
    """``-||h + r - t||_p`` (Bordes et al. 2013), p = 1 or 2, not squared.

    With ``normalize`` h, r and t are scaled to Euclidean length 1 first.
    """

    def __init__(self, p: int = 1, normalize: bool = False) -> None:
        """Choose the norm ``p``, 1 or 2, and whether lengths count."""
        super().__init__()
        if p not in (1, 2):
            raise SettingsError(f"p={p} must be 1 or 2.")
        self.p = p
        self.normalize = normalize

    def _scaled(self, *vectors: Tensor) -> tuple[Tensor, ...]:
        if not self.normalize:
            return vectors
        return tuple(unit_length(vector) for vector in vectors)

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        head, relation, tail = self._scaled(head, relation, tail)
        gap: Tensor = torch.linalg.vector_norm(head + relation - tail, ord=self.p, dim=-1)
        return -gap

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity by its distance to the point where it should be."""
        known, relation, entities = self._scaled(known, relation, entities)
        point = known + relation if side == "tail" else known - relation
        return -distances(point, entities, "l1" if self.p == 1 else "l2")

    def against(
        self, known: Tensor, relation: Tensor, missing: Tensor, pool: Tensor, side: Side
    ) -> Tensor:
        """Score facts and candidates by their distance to the same point."""
        known, relation, missing, pool = self._scaled(known, relation, missing, pool)
        point = known + relation if side == "tail" else known - relation
        return -distances_against(point, missing, pool, "l1" if self.p == 1 else "l2")


class RotatE(Scorer):
    """``gamma - sum_k |h_k e^(i theta_k) - t_k|`` (Sun et al. 2019).

    Entities are d complex numbers in two halves as in ComplEx; a relation is d angles, counted in
    units of ``unit`` radians: where angles and coordinates are of one size, so are the steps that
    an optimiser takes for them.
    ``norm="l2"`` takes the Euclidean norm of the whole difference instead, as PyKEEN does.
    """

    def __init__(
        self,
        gamma: float = 0.0,
        norm: Literal["modulus", "l2"] = "modulus",
        unit: float = 1.0,
    ) -> None:
        """Choose the margin ``gamma``, the norm, and the unit of angles."""
        super().__init__()
        if norm not in ("modulus", "l2"):
            raise SettingsError(f"norm={norm!r} must be one of modulus, l2.")
        self.gamma = gamma
        self.norm = norm
        self.unit = unit

    def entity_width(self, dimension: int) -> int:
        """Two halves."""
        return 2 * dimension

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        gap = multiply(head, _unit(self.unit * relation)) - tail
        if self.norm == "l2":
            length: Tensor = torch.linalg.vector_norm(gap, dim=-1)
            return self.gamma - length
        real, imaginary = gap.chunk(2, -1)
        # The tiny term keeps the gradient of the root finite where the gap is 0.
        return self.gamma - (real.square() + imaginary.square() + TINY).sqrt().sum(-1)

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity; a rotation keeps lengths, so a head is found by turning back."""
        point = multiply(known, _unit(self.unit * relation), backwards=side == "head")
        return self.gamma - distances(point, entities, self.norm)

    def against(
        self, known: Tensor, relation: Tensor, missing: Tensor, pool: Tensor, side: Side
    ) -> Tensor:
        """Score facts and candidates by their distance to the same point."""
        point = multiply(known, _unit(self.unit * relation), backwards=side == "head")
        return self.gamma - distances_against(point, missing, pool, self.norm)


class _UnitLength(torch.autograd.Function):
    """As functional.normalize; its gradient takes a third of the passes over the vectors."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).clamp_(min=SHORTEST)
        unit: Tensor = vectors / length
        ctx.save_for_backward(unit, length)
        return unit

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        unit, length = ctx.saved_tensors
        # What is too short to be scaled keeps its direction of change whole.
        along = (grad * unit).sum(-1, keepdim=True).masked_fill_(length <= SHORTEST, 0.0)
        return torch.addcmul(grad, unit, along, value=-1).div_(length)


def unit_length(vectors: Tensor) -> Tensor:
    """Scale vectors [..., w] to Euclidean length 1; zeros stay zeros.

    >>> unit_length(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6..., 0.8...], [0.0, 0.0]]
    """
    scaled: Tensor = _UnitLength.apply(vectors)  # type: ignore[no-untyped-call]
    return scaled


def _unit(angle: Tensor) -> Tensor:
    """Return e^(i angle) as two halves: [..., d] to [..., 2d]."""
    return torch.cat([angle.cos(), angle.sin()], -1)
