"""Messages along edges, gathered per node: plain PyTorch, the reference of the compiled kernels.

It makes every message, a tensor [N + E, B, d], and so takes much memory on a large graph. Numbers
of less than single precision are worked on in single precision and rounded at the end.
"""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph.kernels.paths_edges import Edges

# The least variance, so that the gradient of a standard deviation stays finite.
LEAST_VARIANCE = 1e-6


def degrees(weight: Tensor, edges: Edges) -> Tensor:
    """Return the number of messages of each node, its boundary message counted: [N]."""
    ones = torch.ones(edges.num_entities, dtype=weight.dtype, device=weight.device)
    return ones.index_add(0, edges.target, (weight > 0).to(weight.dtype))


def aggregate(
    states: Tensor,
    relations: Tensor,
    start: Tensor,
    query: Tensor,
    weight: Tensor,
    edges: Edges,
    from_start: bool = False,
) -> Tensor:
    """Return mean, max, min and deviation of each node's messages: see :mod:`.paths`."""
    entities, questions, _ = states.shape
    work = torch.promote_types(states.dtype, torch.float32)
    cell = start, torch.arange(questions, device=start.device)
    if from_start:
        at_start = torch.zeros(entities, questions, 1, dtype=torch.bool, device=states.device)
        at_start[cell] = True
        states = states.where(at_start, 0.0)
    present = (weight > 0).nonzero().squeeze(1)
    boundary = torch.zeros(states.shape, dtype=work, device=states.device)
    boundary = boundary.index_put(cell, query.to(work))
    passed = states.to(work)[edges.source[present]] * relations.to(work)[edges.relation[present]]
    messages = torch.cat([boundary, passed * weight[present, None, None].to(work)])
    nodes = torch.arange(entities, device=states.device)
    target = torch.cat([nodes, edges.target[present]])
    count = degrees(weight, edges).to(work)[:, None, None]
    nothing = torch.zeros_like(boundary)
    mean = nothing.index_add(0, target, messages) / count
    variance = nothing.index_add(0, target, messages * messages) / count - mean * mean
    largest = messages.gather(0, _winners(messages, target, entities, "amax"))
    smallest = messages.gather(0, _winners(messages, target, entities, "amin"))
    deviation = variance.clamp_min(LEAST_VARIANCE).sqrt()
    return torch.stack([mean, largest, smallest, deviation], 2).to(states.dtype)


@torch.no_grad()
def _winners(messages: Tensor, target: Tensor, entities: int, reduce: str) -> Tensor:
    """Return the row of the first largest or smallest message of each node: int64 [N, B, d]."""
    rows = target[:, None, None].expand_as(messages)
    # The boundary messages are the first rows, one per node: every node has a message.
    best = messages[:entities].scatter_reduce(0, rows, messages, reduce)
    wins = (messages == best[target]) | messages.isnan()
    number = torch.arange(len(messages), device=messages.device)[:, None, None]
    number = number.where(wins, len(messages))
    first = torch.full_like(rows[:entities], len(messages))
    return first.scatter_reduce(0, rows, number, "amin")
