"""States for what a question has reached alone: where no path has led to, the state is 0.

On a sparse graph most nodes are out of reach in most layers. On a CPU with numba only those within
reach are worked on, as long as they are a small part of all (:mod:`npugraph.kernels.paths_cells`);
otherwise all are, and the rest is set to 0 after every layer. Both give the same scores, up to
rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from npugraph.kernels import paths_cells
from npugraph.kernels.paths import Edges, degrees
from npugraph.kernels.paths_cells import Cells, Present
from npugraph.recipes.path.layers import PathLayer, degree_scales, next_states
from npugraph.seeds import generator

# With more than this share of all states within reach, working on all of them is faster.
MOST_REACHED = 0.35
# Questions that tell how much is within reach.
ASKED = 64


class Reach:
    """What questions have reached, layer by layer, on all nodes of a graph."""

    def __init__(self, start: Tensor, weight: Tensor, edges: Edges) -> None:
        """Begin where questions [B] start, on edges that have a weight [E]."""
        lanes = torch.arange(len(start), device=start.device)
        here = torch.zeros(edges.num_entities, len(start), device=start.device)
        self.here = here.index_put((start, lanes), here.new_ones(()))
        there = weight > 0
        self._source, self._target = edges.source[there], edges.target[there]

    def step(self) -> Tensor:
        """Go one step further; return what is reached then, bool [N, B]."""
        self.here = self.here.index_add(0, self._target, self.here[self._source]).clamp_max_(1)
        return self.here > 0


def reached_share(edges: Edges, layers: int, d: int, dtype: torch.dtype) -> float | None:
    """Return which share of all states is within reach, about; None: work on all of them.

    It is found by some questions, once for a graph, so that the way that scores are found does not
    depend on what is asked beside.

    Args:
        edges: the edges, all of them there.
        layers: the longest path.
        d: numbers per state.
        dtype: their type.
    """
    if len(edges) == 0 or not paths_cells.usable(edges, ASKED, d, dtype):
        return None
    drawn = torch.randint(len(edges), (ASKED,), generator=generator(0, "reach"))
    cells = paths_cells.reach(edges.source[drawn], torch.ones(len(edges)), edges, layers)
    share = cells.share(edges.num_entities)
    return share if share <= MOST_REACHED else None


def states_of(
    cells: Cells,
    start: Tensor,
    vectors: Tensor,
    weight: Tensor,
    edges: Edges,
    layers: Sequence[PathLayer],
) -> Tensor:
    """Return the states [C, d] of cells after the last layer."""
    present = Present.of(weight, edges, vectors.dtype)
    scale = degree_scales(degrees(weight, edges).to(vectors.dtype))[cells.node]
    states = vectors
    for steps, layer in enumerate(layers, 1):
        relations = layer.edge_vectors(vectors)
        features = paths_cells.aggregate(states, relations, start, vectors, present, cells, steps)
        states = pad(states, (0, 0, 0, len(features) - len(states))).unsqueeze(1)
        dense = layer.dense(states.dtype)
        states = next_states(features.unsqueeze(1), states, scale[: len(features)], *dense)
        states = states.squeeze(1)
    return states
