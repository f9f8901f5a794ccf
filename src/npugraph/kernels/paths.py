"""Messages along a graph's edges for many questions at once, and what each node gathers of them.

A question starts at an entity and asks by a relation; (h, r, ?) as it is, (?, r, t) as
(t, r + R, ?). An edge e from u to v of relation q passes, for question b, the message

    m_e = states[u, b] * relations[q, b] * weight_e

of d numbers. An edge of weight 0 is not there: it has no message and is not counted. Besides, each
node has one message of its own, the boundary: ``query[b]`` where question b starts, 0 elsewhere.
A node's count, sum and extremes are over all of these:

    mean = sum / count,  std = sqrt(max(mean of squares - mean^2, 1e-6)),  max and min

A largest or smallest message passes the gradient on; of several equal ones the first does: the
boundary before edges, edges in their order. Messages are multiplied and compared in single
precision (double for float64), from left to right as written, so that every implementation finds
the same winner.

:func:`aggregate` has three implementations, equal up to rounding; tests hold them to it:
:mod:`.paths_reference` in plain PyTorch, :mod:`.paths_cuda` for a GPU with Triton,
:mod:`.paths_cpu` for a CPU with numba (``pip install 'npugraph[fast]'``).
"""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph.kernels import paths_cpu, paths_cuda, paths_reference
from npugraph.kernels.paths_edges import Edges
from npugraph.kernels.paths_reference import LEAST_VARIANCE, degrees

__all__ = ["LEAST_VARIANCE", "Edges", "aggregate", "degrees", "is_fused"]


def aggregate(
    states: Tensor,
    relations: Tensor,
    start: Tensor,
    query: Tensor,
    weight: Tensor,
    edges: Edges,
    *,
    from_start: bool = False,
    deterministic: bool = True,
) -> Tensor:
    """Return mean, max, min and standard deviation of the messages of each node: [N, B, 4, d].

    Args:
        states: the nodes' states, [N, B, d], in float64, float32 or bfloat16.
        relations: the vectors of the 2R relations for each question, [2R, B, d].
        start: the entity that each question starts at, int64 [B].
        query: the boundary message of each question at its start, [B, d].
        weight: the weight of each edge in 0..1, [E]; its gradient is only made in plain PyTorch,
            which is chosen where it is asked for.
        edges: the edges.
        from_start: say that all states but those of the starts are the constant 0, as they are
            before the first layer. Results are the same; most of the work is left out, and the
            gradient of the states is made at the starts only.
        deterministic: on a GPU, add up gradients in one order. False adds those of the extremes
            as they come. Elsewhere the order is always the same.

    Example:
        >>> import torch
        >>> edges = Edges.of(torch.tensor([[0, 0, 1]]), 2, 1)
        >>> states = torch.tensor([[[3.0]], [[0.0]]])
        >>> relations = torch.tensor([[[2.0]], [[1.0]]])
        >>> out = aggregate(states, relations, torch.tensor([0]), torch.ones(1, 1),
        ...                 torch.tensor([1.0, 0.5]), edges)
        >>> out[1, 0, :, 0].tolist()  # 0 and 3 * 2 * 0.5 arrive at node 1
        [1.5, 3.0, 0.0, 1.5]
    """
    given = states, relations, start, query, weight, edges, from_start
    if weight.requires_grad:
        return paths_reference.aggregate(*given)
    if paths_cuda.usable(edges, states, relations, query):
        return paths_cuda.aggregate(*given, deterministic)
    if paths_cpu.usable(edges, states, relations, query):
        return paths_cpu.aggregate(*given)
    return paths_reference.aggregate(*given)


def is_fused(edges: Edges, width: int, device: torch.device, dtype: torch.dtype) -> bool:
    """Tell whether messages of many questions are added up as they are made, or first all held."""
    sample = torch.empty(0, 64, width, dtype=dtype, device=device)
    return paths_cuda.usable(edges, sample) or paths_cpu.usable(edges, sample)
