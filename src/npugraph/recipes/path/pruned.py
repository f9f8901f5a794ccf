"""A question on the most promising nodes alone, for graphs whose states do not fit.

A layer sends messages from at most ``nodes`` nodes per question: those whose states score highest
as answers so far (as A*Net does, Zhu et al. 2023), and where the question starts. What they reach
gets a state; all others have none, so that memory follows the reach and not the graph. A message
that is not sent counts as 0, as that of a node that was not reached. With ``nodes`` of at
least as many as there are, all take part from the first layer on, and nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from npugraph.kernels.paths import LEAST_VARIANCE, Edges


@dataclass(frozen=True, eq=False)
class Reached:
    """The part of a graph that one layer of one question works on.

    Attributes:
        nodes: its nodes, rising, int64 [n].
        chosen: the numbers of its edges in the whole graph, rising, int64 [m].
        edges: these edges, with nodes numbered by their place in ``nodes``.
    """

    nodes: Tensor
    chosen: Tensor
    edges: Edges


class Outgoing:
    """The edges of a graph by where they start."""

    def __init__(self, edges: Edges) -> None:
        """Sort the edges by source."""
        self.edges = edges
        self.order, begin = edges.by_source
        self.begin, self.count = begin[:-1], begin.diff()

    def reached(self, senders: Tensor, weight: Tensor) -> Reached:
        """Return what nodes [s] reach along edges with weights [E], themselves included."""
        count = self.count[senders]
        within = torch.arange(int(count.sum()), device=senders.device)
        within = within - (count.cumsum(0) - count).repeat_interleave(count)
        chosen = self.order[self.begin[senders].repeat_interleave(count) + within]
        # In the order of the whole graph, which decides between equal messages.
        chosen = chosen[weight[chosen] > 0].sort().values
        edges = self.edges
        nodes = torch.unique(torch.cat([senders, edges.target[chosen]]))
        here = Edges(
            torch.searchsorted(nodes, edges.source[chosen]),
            edges.relation[chosen],
            torch.searchsorted(nodes, edges.target[chosen]),
            edges.fact[chosen],
            len(nodes),
            edges.num_relations,
        )
        return Reached(nodes, chosen, here)

    def most(self, senders: int) -> tuple[int, int]:
        """Return how many nodes and edges so many nodes can reach at most."""
        largest = self.count.sort(descending=True).values[:senders]
        edges = int(largest.sum())
        return min(self.edges.num_entities, senders + edges), edges


def with_unsent(features: Tensor, arrived: Tensor, due: Tensor) -> Tensor:
    """Return features [n, B, 4, d] as if the messages that were not sent had arrived as 0.

    Args:
        features: mean, max, min and deviation of the messages that arrived.
        arrived: how many did, [n].
        due: how many there are in the whole graph, [n].
    """
    share = (arrived / due).to(features.dtype)[:, None, None]
    mean, largest, smallest, deviation = features.unbind(2)
    after = mean * share
    variance = (deviation.square() + mean.square()) * share - after.square()
    spread = variance.clamp_min(LEAST_VARIANCE).sqrt()
    made = torch.stack([after, largest.clamp_min(0), smallest.clamp_max(0), spread], 2)
    return torch.where(share.unsqueeze(2) == 1, features, made)


def best_of(nodes: Tensor, score: Tensor, start: Tensor, most: int) -> Tensor:
    """Return the rows of the best nodes [n] by score, and of the start; the first of equal ones.

    >>> best_of(torch.tensor([2, 5, 7]), torch.tensor([0.1, 0.3, 0.3]), torch.tensor([2]), 2)
    tensor([0, 1])
    """
    score = score.where(nodes != start, torch.inf)
    return torch.argsort(score, descending=True, stable=True)[:most].sort().values


# Runs a layer on what was reached: (number, states [n, 1, d], where it starts there, what was
# reached) to states [n, 1, d]; and scores states [n, 1, d]: [1, n].
Step = Callable[[int, Tensor, Tensor, Reached], Tensor]
Score = Callable[[Tensor], Tensor]


def pruned(
    outgoing: Outgoing,
    start: Tensor,
    first: Tensor,
    weight: Tensor,
    sizes: tuple[int, int],
    step: Step,
    score: Score,
) -> tuple[Tensor, Tensor]:
    """Return which nodes [n] one question reached in its last layer, and their states [n, 1, d].

    Args:
        outgoing: the edges.
        start: where the question starts, int64 [1].
        first: the state there, [1, d].
        weight: of every edge, [E].
        sizes: how many nodes send messages, at most, and how many layers there are.
        step: one layer.
        score: what tells the best nodes.
    """
    (nodes, layers), every = sizes, outgoing.edges.num_entities
    known = torch.arange(every, device=start.device) if nodes >= every else start
    states = first.new_zeros(len(known), 1, first.shape[1])
    states = states.index_put((torch.searchsorted(known, start),), first.unsqueeze(1))
    for number in range(layers):
        if number:
            with torch.no_grad():
                kept = best_of(known, score(states)[0], start, nodes)
            known, states = known[kept], states[kept]
        here = outgoing.reached(known, weight)
        place = torch.searchsorted(here.nodes, known)
        states = states.new_zeros(len(here.nodes), *states.shape[1:]).index_copy(0, place, states)
        states = step(number, states, torch.searchsorted(here.nodes, start), here)
        known = here.nodes
    return known, states
