"""Scores that are distances: how far the tail is from where the relation takes the head."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from npugraph.arrays import run_length
from npugraph.errors import SettingsError
from npugraph.graph import Side
from npugraph.kernels import cpu as kernels
from npugraph.kernels import dispatch as gpu
from npugraph.scorers.base import Scorer, in_runs
from npugraph.scorers.bilinear import multiply
from npugraph.scorers.tiles import tiled


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


Norm = Literal["l1", "l2", "modulus"]
# As in functional.normalize.
SHORTEST = 1e-12


def distances(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    """Return all distances between points [..., q, w] and entities [..., E, w]: [..., q, E].

    Every norm is summed directly, coordinate by coordinate. Expanding the square into a matrix
    product would be shorter, but loses the digits that decide close ranks.
    """
    trained = torch.is_grad_enabled() and (points.requires_grad or entities.requires_grad)
    work = points.numel() * entities.shape[-2]
    if norm == "modulus" and gpu.usable(points, entities):
        return _moduli(points, entities)
    if points.dim() == 3 and kernels.usable(work, points, entities):
        found: Tensor = _Distances.apply(points, entities, norm)  # type: ignore[no-untyped-call]
        return found
    if trained or points.dim() > 2:
        return _distances_with_gradient(points, entities, norm)
    if kernels.usable(work, points, entities):
        return _compiled_table(points, entities, norm)
    if norm != "modulus" and points.device.type != "cpu":
        return _cdist(points, entities, norm)
    return tiled(points, entities, partial(_tile, norm=norm))


# Keeps the gradient of the root finite where two complex numbers are the same.
TINY = 1e-30


class _Distances(torch.autograd.Function):
    """Distances of groups [g, q, w] and [g, e, w], by compiled loops."""

    @staticmethod
    def forward(ctx: Any, points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
        flat, entities = points.reshape(-1, points.shape[2]).contiguous(), entities.contiguous()
        out = flat.new_empty(len(flat), entities.shape[1])
        _measure(flat, entities, norm, out)
        ctx.save_for_backward(flat, entities, out)
        ctx.norm = norm
        return out.view(len(entities), points.shape[1], -1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        flat, entities, out = ctx.saved_tensors
        slope = _slope(grad.reshape(out.shape), out, ctx.norm)
        to_points, to_entities = torch.zeros_like(flat), torch.zeros_like(entities)
        _measure_backward(flat, entities, ctx.norm, slope, to_points, to_entities)
        return to_points.view(len(entities), -1, flat.shape[1]), to_entities, None


class _DistancesAgainst(torch.autograd.Function):
    """Distances of points [b, w] to their own rows [b, w] and to pools [g, k, w]: [b, 1 + k]."""

    @staticmethod
    def forward(ctx: Any, points: Tensor, own: Tensor, pool: Tensor, norm: Norm) -> Tensor:
        points, own, pool = points.contiguous(), own.contiguous(), pool.contiguous()
        out = points.new_empty(len(points), 1 + pool.shape[1])
        _measure(points, own.unsqueeze(1), norm, out[:, :1])
        _measure(points, pool, norm, out[:, 1:])
        ctx.save_for_backward(points, own, pool, out)
        ctx.norm = norm
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        points, own, pool, out = ctx.saved_tensors
        slope = _slope(grad, out, ctx.norm)
        to_points, to_own, to_pool = (torch.zeros_like(x) for x in (points, own, pool))
        to_own_rows = to_own.unsqueeze(1)
        _measure_backward(points, own.unsqueeze(1), ctx.norm, slope[:, :1], to_points, to_own_rows)
        _measure_backward(points, pool, ctx.norm, slope[:, 1:], to_points, to_pool)
        return to_points, to_own, to_pool, None


def distances_against(points: Tensor, own: Tensor, pool: Tensor, norm: Norm) -> Tensor:
    """Return distances of points [b, w] to their own rows [b, w] and pools [g, k, w]: [b, 1 + k].

    >>> distances_against(torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 1, 2), "l1").tolist()
    [[2.0, 2.0]]
    """
    if kernels.usable(points.numel() * pool.shape[1], points, own, pool):
        found: Tensor = _DistancesAgainst.apply(points, own, pool, norm)  # type: ignore[no-untyped-call]
        return found
    gap = points - own
    if norm == "modulus":
        real, imaginary = gap.chunk(2, 1)
        length = (real.square() + imaginary.square() + TINY).sqrt().sum(1)
    else:
        length = torch.linalg.vector_norm(gap, ord=1 if norm == "l1" else 2, dim=1)
    others = in_runs(partial(distances, norm=norm), [points], pool)
    return torch.cat([length.unsqueeze(1), others], 1)


def _measure(points: Tensor, entities: Tensor, norm: Norm, out: Tensor) -> None:
    """Write distances of points [b, w] and entities [g, e, w] of their runs to [b, e]."""
    share = run_length(len(points), len(entities))
    if norm == "modulus":
        kernels.run("_modulus_forward", len(points), 1, points, entities, share, TINY, out)
    else:
        squared = int(norm == "l2")
        kernels.run("_distance_forward", len(points), 1, points, entities, share, squared, out)


def _slope(grad: Tensor, out: Tensor, norm: Norm) -> Tensor:
    """Return the gradient [b, e] as the loops want it: of Euclidean distances over the distance."""
    return torch.where(out > 0, grad / out, 0.0) if norm == "l2" else grad.contiguous()


def _measure_backward(
    points: Tensor,
    entities: Tensor,
    norm: Norm,
    slope: Tensor,
    to_points: Tensor,
    to_entities: Tensor,
) -> None:
    """Add the gradients of :func:`_measure` to those of points and entities."""
    share, width = run_length(len(points), len(entities)), points.shape[1]
    # A few columns at a time: a candidate's gradient stays in cache over its facts.
    step = kernels.COLUMNS
    rest = (slope, to_points, to_entities)
    if norm == "modulus":
        kernels.run("_modulus_backward", width // 2, step, points, entities, share, TINY, *rest)
    else:
        squared = int(norm == "l2")
        kernels.run("_distance_backward", width, step, points, entities, share, squared, *rest)


def _moduli(points: Tensor, entities: Tensor) -> Tensor:
    """Return sums of moduli by the GPU's kernels, for groups or for one table."""
    if points.dim() == 3:
        found: Tensor = _Moduli.apply(points, entities)  # type: ignore[no-untyped-call]
        return found
    whole: Tensor = _Moduli.apply(points.unsqueeze(0), entities.unsqueeze(0))  # type: ignore[no-untyped-call]
    return whole.squeeze(0)


class _Moduli(torch.autograd.Function):
    """Sums of moduli of groups [g, q, 2d] and [g, e, 2d], on a GPU."""

    @staticmethod
    def forward(ctx: Any, points: Tensor, entities: Tensor) -> Tensor:
        ctx.share = points.shape[1]
        flat, entities = points.reshape(-1, points.shape[2]).contiguous(), entities.contiguous()
        ctx.save_for_backward(flat, entities)
        return gpu.modulus_forward(flat, entities, ctx.share, TINY).view(
            len(entities), ctx.share, -1
        )

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        flat, entities = ctx.saved_tensors
        slope = grad.reshape(len(flat), -1).contiguous()
        to_points, to_entities = gpu.modulus_backward(flat, entities, ctx.share, TINY, slope)
        return to_points.view(len(entities), ctx.share, -1), to_entities


def _compiled_table(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    out = points.new_empty(len(points), len(entities))
    parts = points.contiguous(), entities.T.contiguous()
    if norm == "modulus":
        kernels.run("_modulus_table", len(points), 1, *parts, out, kernels.TILE)
    else:
        squared = int(norm == "l2")
        kernels.run("_distance_table", len(points), 1, *parts, squared, out, kernels.TILE)
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


def _cdist(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    # Without this mode cdist goes through a matrix product from 26 rows on.
    mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(points, entities, p=1.0 if norm == "l1" else 2.0, compute_mode=mode)


def _distances_with_gradient(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    if norm != "modulus":
        return _cdist(points, entities, norm)
    gap = points.unsqueeze(-2) - entities.unsqueeze(-3)
    real, imaginary = gap.chunk(2, -1)
    return (real.square() + imaginary.square() + TINY).sqrt().sum(-1)
