"""Operations on a GPU: Triton kernels, and products that tensor cores can take.

As a chain of tensor operations the distance of every candidate to its point, or a perceptron's
hidden layer, and their gradients, write and read a tensor [facts, candidates, d] some ten or twenty
times; a kernel reads it once. Needs Triton; :mod:`.dispatch` says when.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from npugraph.kernels.reference import TINY

# Candidates and coordinates that one program works on at a time.
CANDIDATES, COORDINATES = 16, 64
# The number of entities that a GPU multiplies fast is a multiple of this; and the least numbers of
# an entity for which it matters.
ALIGNED, LEAST_ALIGNED = 8, 256


@cache
def kernels() -> Any | None:
    """Return the module of Triton kernels, or None where Triton is not installed."""
    try:
        from npugraph.kernels import cuda_triton
    except ImportError:
        return None
    return cuda_triton


def modulus_distances(points: Tensor, entities: Tensor) -> Tensor:
    """Return ``sum_k |entity_k - point_k|`` of complex numbers in two halves.

    Shapes: points [q, 2d] and entities [e, 2d] to [q, e], or groups of them.
    """
    if points.dim() == 3:
        found: Tensor = _Moduli.apply(points, entities)  # type: ignore[no-untyped-call]
        return found
    whole: Tensor = _Moduli.apply(points.unsqueeze(0), entities.unsqueeze(0))  # type: ignore[no-untyped-call]
    return whole.squeeze(0)


class _Moduli(torch.autograd.Function):
    """Sums of moduli of groups [g, q, 2d] and [g, e, 2d]."""

    @staticmethod
    def forward(ctx: Any, points: Tensor, entities: Tensor) -> Tensor:
        ctx.share = points.shape[1]
        flat, entities = points.reshape(-1, points.shape[2]).contiguous(), entities.contiguous()
        ctx.save_for_backward(flat, entities)
        return _modulus_forward(flat, entities, ctx.share).view(len(entities), ctx.share, -1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        flat, entities = ctx.saved_tensors
        slope = grad.reshape(len(flat), -1).contiguous()
        to_points, to_entities = _modulus_backward(flat, entities, ctx.share, slope)
        return to_points.view(len(entities), ctx.share, -1), to_entities


def _modulus_forward(points: Tensor, entities: Tensor, share: int) -> Tensor:
    """Return ``sum_k sqrt(|entity_k - point_k|^2 + TINY)``: [n, e].

    Shapes: points [n, 2d] and entities [n / share, e, 2d], real parts before imaginary ones.
    ``share`` points in a row have the same entities.
    """
    module = kernels()
    assert module is not None
    count, half = entities.shape[1], points.shape[1] // 2
    out = points.new_empty(len(points), count)
    grid = (len(points), -(-count // CANDIDATES))
    module.forward[grid](points, entities, out, share, count, half, TINY, CANDIDATES, COORDINATES)
    return out


def _modulus_backward(
    points: Tensor, entities: Tensor, share: int, slope: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of points and entities, given that of the distances [n, e].

    Every number is the sum of one program, in one order: no atomic additions.
    """
    module = kernels()
    assert module is not None
    count, half = entities.shape[1], points.shape[1] // 2
    to_points, to_entities = torch.empty_like(points), torch.empty_like(entities)
    arguments = (points, entities, slope, to_points, to_entities, share, count, half, TINY)
    blocks = -(-half // COORDINATES)
    grid = (len(points), blocks)
    # Where no two points have the same entities one pass finds both gradients.
    module.backward_points[grid](*arguments, CANDIDATES, COORDINATES, share == 1)
    if share > 1:
        grid = (len(entities), -(-count // CANDIDATES), blocks)  # type: ignore[assignment]
        module.backward_entities[grid](*arguments, CANDIDATES, COORDINATES)
    return to_points, to_entities


def gathered_perceptron(base: Tensor, table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
    """Return ``sum_m weight[i, m] relu(base[i, m] + table[ids[i, k], m])``: [b, k].

    A table's row may serve many facts: what they bring to its gradient is added as it comes, so
    that its last bits differ from run to run, as those of an indexed addition do.
    """
    scores: Tensor = _GatheredPerceptron.apply(base, table, ids, weight)  # type: ignore[no-untyped-call]
    return scores


class _GatheredPerceptron(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, base: Tensor, table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(base, table, ids, weight)
        module = kernels()
        assert module is not None
        out = base.new_empty(ids.shape)
        inputs = (part.contiguous() for part in (base, table, ids, weight))
        count, width = ids.shape[1], base.shape[1]
        grid = (len(ids), -(-count // CANDIDATES))
        module.perceptron_forward[grid](*inputs, out, count, width, CANDIDATES, COORDINATES)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        base, table, ids, weight = ctx.saved_tensors
        module = kernels()
        assert module is not None
        inputs = tuple(part.contiguous() for part in (base, table, ids, weight, grad))
        found = to_base, to_table, to_weight = (
            torch.empty_like(inputs[0]),
            torch.zeros_like(inputs[1]),
            torch.empty_like(inputs[3]),
        )
        count, width = ids.shape[1], base.shape[1]
        grid = (len(ids), -(-width // COORDINATES))
        module.perceptron_backward[grid](*inputs, *found, count, width, CANDIDATES, COORDINATES)
        return to_base, to_table, None, to_weight


def misaligned(query: Tensor, entities: Tensor) -> bool:
    """Tell whether the number of entities keeps a GPU from its fast matrix products.

    Tensor cores read rows of a multiple of 16 bytes. For narrow vectors copies cost more than that
    brings, and so they do where products are in full precision and no tensor core is used.
    """
    return (
        query.device.type == "cuda"
        and query.dim() == entities.dim() == 2
        and query.shape[1] >= LEAST_ALIGNED
        and len(entities) % ALIGNED != 0
        and torch.get_float32_matmul_precision() != "highest"
        and not torch.is_autocast_enabled("cuda")
    )


def aligned_products(query: Tensor, entities: Tensor) -> Tensor:
    """Return ``query @ entities.T``, worked out with rows of zeros up to a multiple of ALIGNED."""
    found: Tensor = _AlignedProducts.apply(query, entities)  # type: ignore[no-untyped-call]
    return found


class _AlignedProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, entities: Tensor) -> Tensor:
        padded = pad(entities, (0, 0, 0, -len(entities) % ALIGNED))
        ctx.save_for_backward(query, padded)
        return (query @ padded.T)[:, : len(entities)]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        query, padded = ctx.saved_tensors
        count = grad.shape[1]
        grad = pad(grad, (0, len(padded) - count))
        return grad @ padded, (grad.T @ query)[:count]
