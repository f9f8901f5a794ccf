"""Distances of complex vectors and perceptrons on a GPU, as Triton kernels.

As a chain of tensor operations the distance of every candidate to its point, or a perceptron's
hidden layer, and their gradients, write and read a tensor [facts, candidates, d] some ten or twenty
times; a kernel reads it once. The plain equivalents are in :mod:`npugraph.scorers.distance` and
:mod:`npugraph.scorers.perceptron`, and are used where Triton is not installed. Both give the same
numbers up to rounding; tests hold them to it, on a GPU and in Triton's interpreter.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch
from torch import Tensor

# Candidates and coordinates that one program works on at a time.
CANDIDATES, COORDINATES = 16, 64


@cache
def kernels() -> Any | None:
    """Return the module of kernels, or None where Triton is not installed."""
    try:
        from npugraph.kernels import cuda as gpu_kernels
    except ImportError:
        return None
    return gpu_kernels


def usable(*tensors: Tensor) -> bool:
    """Tell whether the kernels can work on these tensors."""
    place = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    return (
        all(t.device.type == place and t.dtype == torch.float32 for t in tensors)
        and kernels() is not None
    )


def modulus_forward(points: Tensor, entities: Tensor, share: int, tiny: float) -> Tensor:
    """Return ``sum_k sqrt(|entity_k - point_k|^2 + tiny)``: [n, e].

    Shapes: points [n, 2d] and entities [n / share, e, 2d], real parts before imaginary ones.
    ``share`` points in a row have the same entities.
    """
    module = kernels()
    assert module is not None
    count, half = entities.shape[1], points.shape[1] // 2
    out = points.new_empty(len(points), count)
    grid = (len(points), -(-count // CANDIDATES))
    module.forward[grid](points, entities, out, share, count, half, tiny, CANDIDATES, COORDINATES)
    return out


def modulus_backward(
    points: Tensor, entities: Tensor, share: int, tiny: float, slope: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of points and entities, given that of the distances [n, e].

    Every number is the sum of one program, in one order: no atomic additions.
    """
    module = kernels()
    assert module is not None
    count, half = entities.shape[1], points.shape[1] // 2
    to_points, to_entities = torch.empty_like(points), torch.empty_like(entities)
    arguments = (points, entities, slope, to_points, to_entities, share, count, half, tiny)
    blocks = -(-half // COORDINATES)
    grid = (len(points), blocks)
    # Where no two points have the same entities one pass finds both gradients.
    module.backward_points[grid](*arguments, CANDIDATES, COORDINATES, share == 1)
    if share > 1:
        grid = (len(entities), -(-count // CANDIDATES), blocks)  # type: ignore[assignment]
        module.backward_entities[grid](*arguments, CANDIDATES, COORDINATES)
    return to_points, to_entities


def perceptron_forward(base: Tensor, table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
    """Return ``sum_m weight[i, m] relu(base[i, m] + table[ids[i, k], m])``: [n, k].

    Shapes: base and weight [n, m], table [E, m], ids int64 [n, k].
    """
    module = kernels()
    assert module is not None
    out = base.new_empty(ids.shape)
    inputs = (part.contiguous() for part in (base, table, ids, weight))
    count, width = ids.shape[1], base.shape[1]
    grid = (len(ids), -(-count // CANDIDATES))
    module.perceptron_forward[grid](*inputs, out, count, width, CANDIDATES, COORDINATES)
    return out


def perceptron_backward(
    base: Tensor, table: Tensor, ids: Tensor, weight: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of base, table and weight, given that of the scores [n, k].

    A table's row may serve many facts: what they bring is added as it comes, so that the last bits
    of its gradient differ from run to run, as those of an indexed addition do.
    """
    module = kernels()
    assert module is not None
    inputs = tuple(part.contiguous() for part in (base, table, ids, weight, slope))
    found = torch.empty_like(inputs[0]), torch.zeros_like(inputs[1]), torch.empty_like(inputs[3])
    count, width = ids.shape[1], base.shape[1]
    grid = (len(ids), -(-width // COORDINATES))
    module.perceptron_backward[grid](*inputs, *found, count, width, CANDIDATES, COORDINATES)
    return found
