"""Scores that are distances: how far the tail is from where the relation takes the head."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from npugraph.errors import SettingsError
from npugraph.graph import Side
from npugraph.kernels import TINY, distances, distances_against
from npugraph.peers import ALONE, Peers
from npugraph.scorers.base import Scorer
from npugraph.scorers.bilinear import multiply

# As in functional.normalize.
SHORTEST = 1e-12


class TransE(Scorer):
    """``-||h + r - t||_p`` (Bordes et al. 2013), p = 1 or 2, not squared.

    With ``normalize`` h, r and t are scaled to Euclidean length 1 first.
    """

    def __init__(self, p: int = 1, normalize: bool = False, peers: Peers = ALONE) -> None:
        """Choose the norm ``p``, 1 or 2, whether lengths count, and who holds the vectors."""
        super().__init__()
        if p not in (1, 2):
            raise SettingsError(f"p={p} must be 1 or 2.")
        self.p = p
        self.normalize = normalize
        self.peers = peers

    def _scaled(self, *vectors: Tensor) -> tuple[Tensor, ...]:
        if not self.normalize:
            return vectors
        scaled: tuple[Tensor, ...] = _UnitLength.apply(self.peers, *vectors)  # type: ignore[no-untyped-call]
        return scaled

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

    def part(self, peers: Peers) -> Scorer | None:
        """Lengths are those of whole vectors; only the norm 1 is a sum."""
        return TransE(self.p, self.normalize, peers) if self.p == 1 else None


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

    def part(self, peers: Peers) -> Scorer | None:
        """The first rank has the margin; only the sum of moduli is a sum."""
        if self.norm != "modulus":
            return None
        return RotatE(self.gamma if peers.rank == 0 else 0.0, self.norm, self.unit)


class _UnitLength(torch.autograd.Function):
    """As functional.normalize; its gradient takes a third of the passes over the vectors.

    Each rank has some columns of the vectors: what belongs to a whole one is summed over the ranks,
    for all vectors at once.
    """

    @staticmethod
    def forward(ctx: Any, peers: Peers, *vectors: Tensor) -> tuple[Tensor, ...]:
        own = [torch.linalg.vector_norm(vector, dim=-1, keepdim=True) for vector in vectors]
        lengths = [length.clamp(min=SHORTEST) for length in peers.lengths(own)]
        units = tuple(vector / length for vector, length in zip(vectors, lengths, strict=True))
        ctx.save_for_backward(*units, *lengths)
        ctx.peers = peers
        return units

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        units, lengths = ctx.saved_tensors[: len(grads)], ctx.saved_tensors[len(grads) :]
        each = zip(grads, units, strict=True)
        along = ctx.peers.sums([(grad * unit).sum(-1, keepdim=True) for grad, unit in each])
        found = []
        for grad, unit, length, share in zip(grads, units, lengths, along, strict=True):
            # What is too short to be scaled keeps its direction of change whole.
            share = share.masked_fill(length <= SHORTEST, 0.0)
            found.append(torch.addcmul(grad, unit, share, value=-1).div_(length))
        return None, *found


def unit_length(vectors: Tensor) -> Tensor:
    """Scale vectors [..., w] to Euclidean length 1; zeros stay zeros.

    >>> unit_length(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6..., 0.8...], [0.0, 0.0]]
    """
    scaled: tuple[Tensor] = _UnitLength.apply(ALONE, vectors)  # type: ignore[no-untyped-call]
    return scaled[0]


def _unit(angle: Tensor) -> Tensor:
    """Return e^(i angle) as two halves: [..., d] to [..., 2d]."""
    return torch.cat([angle.cos(), angle.sin()], -1)
