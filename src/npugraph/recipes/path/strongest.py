"""The strongest paths behind an answer.

What an edge brings in a layer is ``weight * d score / d weight``: to first order, by how much the
score would fall without its message there. A path takes its edges in rising layers; a state
stays where it is in the layers between. A path weighs as much as its edges on average, in the
layers where that is most (after the interpretation of Zhu et al. 2021). The search is exact: it
goes on with the prefix that can still become the best path, and that bound comes from the best
ways from every node to the end, found first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.kernels.paths import LEAST_VARIANCE, Edges, degrees

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Prefixes looked at, at most: only where most good ways run in circles are there more.
MOST_PREFIXES = 5000
# Edges whose messages are made at once: so many stay in a cache.
AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Passed:
    """What one layer passed on for one question.

    Attributes:
        states: the states before it, [N, 1, d].
        relations: its vectors of the edge relations, [2R, 1, d].
        features: mean, max, min and deviation of the messages of each node, [N, 1, 4, d].
    """

    states: Tensor
    relations: Tensor
    features: Tensor


@torch.no_grad()
def edge_shares(
    passed: Sequence[Passed], slopes: Sequence[Tensor], edges: Edges, weight: Tensor, ends: Tensor
) -> Tensor:
    """Return what every edge brings to a score in every layer: [layers, edges].

    Edges that are on no path between the ends have -inf. Of several equal largest messages each
    counts as the largest, so that none is preferred.

    Args:
        passed: what each layer passed on.
        slopes: the gradients of the score with respect to the features, [N, 1, 4, d] each.
        edges: the edges.
        weight: of every edge; 0: it is not there.
        ends: where the question starts, and the answer, int64 [2].
    """
    shares = weight.new_full((len(passed), len(edges)), -torch.inf)
    count = degrees(weight, edges)
    between = _between(len(passed), edges, weight, ends)
    for number, (layer, slope, useful) in enumerate(zip(passed, slopes, between, strict=True)):
        for chosen in torch.split(useful, AT_ONCE):
            shares[number, chosen] = _shares(layer, slope, edges, weight, count, chosen)
    return shares


def _shares(
    layer: Passed, slope: Tensor, edges: Edges, weight: Tensor, count: Tensor, chosen: Tensor
) -> Tensor:
    """Return what some edges [m] bring in one layer: [m]."""
    target = edges.target[chosen]
    given = layer.states[edges.source[chosen], 0] * layer.relations[edges.relation[chosen], 0]
    message = given * weight[chosen, None].to(given.dtype)
    mean, largest, smallest, deviation = layer.features[target, 0].unbind(1)
    by_mean, by_largest, by_smallest, by_deviation = slope[target, 0].unbind(1)
    varies = deviation > 1.001 * LEAST_VARIANCE**0.5
    spread = torch.where(varies, (message - mean) / deviation, 0.0)
    total = (by_mean + by_deviation * spread) / count[target, None]
    total = total + by_largest * (message == largest) + by_smallest * (message == smallest)
    return (message * total).sum(1).to(weight.dtype)


def _between(layers: int, edges: Edges, weight: Tensor, ends: Tensor) -> list[Tensor]:
    """Return for each layer the numbers of the edges that some path between the ends may take."""
    here = weight > 0
    source, target = edges.source[here], edges.target[here]

    def grown(begin: Tensor, at: Tensor, to: Tensor) -> list[Tensor]:
        """Return the nodes [N] within 0, 1, ... steps of one."""
        reached = torch.zeros(edges.num_entities, dtype=torch.bool, device=begin.device)
        found = [reached.index_fill(0, begin, True)]
        for _ in range(layers - 1):
            found.append(found[-1].index_fill(0, to[found[-1][at]], True))
        return found

    after, before = grown(ends[:1], source, target), grown(ends[1:], target, source)
    numbers = here.nonzero().squeeze(1)
    return [
        numbers[after[number][source] & before[layers - 1 - number][target]]
        for number in range(layers)
    ]


def best_paths(
    edges: Edges, shares: Tensor, start: int, end: int, k: int
) -> list[tuple[float, tuple[int, ...]]]:
    """Return the k heaviest paths from one entity to another: (weight, numbers of the edges).

    A path meets no entity twice, and its weight is above 0. Of equal weights the shorter path
    comes first, then the one with the smaller numbers.

    Args:
        edges: the edges.
        shares: what each edge brings in each layer, [layers, edges]; -inf: it cannot be taken.
        start: where paths begin.
        end: where they end.
        k: at most so many.
    """
    return _Search(edges, shares, start, end).run(k)


@dataclass(frozen=True, eq=False)
class _Ways:
    """All ways to go on from one prefix, the most promising first.

    Attributes:
        prefix: the numbers of its edges.
        edge: int64 [m], the edge that each way takes next.
        sums: [m, layers + 1], the largest sum with all of these edges before each layer.
        bound: [m], the largest weight that a path going this way may have.
        left: edges that come after.
    """

    prefix: tuple[int, ...]
    edge: Ints
    sums: Floats
    bound: Floats
    left: int


class _Search:
    """Paths with the best bound first; those of all lengths in one queue."""

    def __init__(self, edges: Edges, shares: Tensor, start: int, end: int) -> None:
        self.start = start
        useful = shares.isfinite().any(0) & (edges.source != edges.target)
        useful &= (edges.target != start) & (edges.source != end)
        taken = useful.nonzero().squeeze(1).cpu()
        source, target = edges.source.cpu()[taken], edges.target.cpu()[taken]
        order = torch.argsort(source, stable=True)
        # Edges are numbered anew here, by their source, and keep their order.
        self.number: Ints = taken[order].numpy()
        self.source: Ints = source[order].numpy()
        self.target: Ints = target[order].numpy()
        self.shares: Floats = shares.cpu()[:, taken[order]].double().numpy()
        self.begin = np.searchsorted(self.source, np.arange(edges.num_entities + 1))
        self.rest = self._rest(edges.num_entities, end)
        self.queue: list[tuple[float, int, tuple[int, ...], int, _Ways]] = []

    def _rest(self, num_entities: int, end: int) -> Floats:
        """Return the largest sums [layers + 1, edges + 1, N] from a node before a layer to the end.

        The second number is that of the edges taken.
        """
        layers = len(self.shares)
        rest = np.full((layers + 1, layers + 1, num_entities), -np.inf)
        rest[:, 0, end] = 0.0
        some = np.flatnonzero(np.diff(self.begin))
        for layer in reversed(range(layers)):
            for taken in range(1, layers - layer + 1):
                through = self.shares[layer] + rest[layer + 1, taken - 1, self.target]
                rest[layer, taken] = rest[layer + 1, taken]
                if len(some):
                    best = np.maximum.reduceat(through, self.begin[some])
                    rest[layer, taken, some] = np.maximum(rest[layer, taken, some], best)
        return rest

    def run(self, k: int) -> list[tuple[float, tuple[int, ...]]]:
        """Return the k best paths."""
        layers = len(self.shares)
        for length in range(1, layers + 1):
            self._go_on((), np.zeros(layers + 1), self.start, length)
        found: list[tuple[float, tuple[int, ...]]] = []
        for _ in range(MOST_PREFIXES):
            if not self.queue or len(found) == k:
                break
            bound, _, path, place, ways = heappop(self.queue)
            self._add(ways, place + 1)
            if ways.left:
                self._go_on(path, ways.sums[place], int(self.target[path[-1]]), ways.left)
            else:
                found.append((-bound, tuple(self.number[list(path)].tolist())))
        return found

    def _go_on(self, prefix: tuple[int, ...], sums: Floats, node: int, left: int) -> None:
        """Queue the ways on from a node, with ``left`` edges still to take."""
        edge = np.arange(self.begin[node], self.begin[node + 1])
        edge = edge[~np.isin(self.target[edge], self.source[list(prefix)])]
        after = np.full((len(edge), len(sums)), -np.inf)
        for layer, shares in enumerate(self.shares):
            through = sums[layer] + shares[edge]
            after[:, layer + 1] = np.maximum(after[:, layer], through)
        bound = (after + self.rest[:, left - 1, self.target[edge]].T).max(1, initial=-np.inf)
        bound = bound / (len(prefix) + left)
        order = np.argsort(-bound, kind="stable")
        order = order[bound[order] > 0]
        self._add(_Ways(prefix, edge[order], after[order], bound[order], left - 1), 0)

    def _add(self, ways: _Ways, place: int) -> None:
        """Queue one of the ways; the next one follows when it is taken out."""
        if place < len(ways.edge):
            path = (*ways.prefix, int(ways.edge[place]))
            length = len(path) + ways.left
            heappush(self.queue, (-float(ways.bound[place]), length, path, place, ways))
