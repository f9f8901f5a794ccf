"""Scores of all entities, tile by tile, without gradients: no tensor has three large sides."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

# Scores of one tile: small enough that its buffers stay in a core's own cache.
TILE_QUERIES, TILE_ENTITIES = 64, 4096
# On a GPU a tile should be large, but its buffers must fit.
GPU_TILE_SCORES = 2**24


def tiled(points: Tensor, entities: Tensor, tile: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Fill a table of scores from tiles: points [q, m], entities [E, m] to [q, E].

    ``tile`` maps points [m, a, 1] and entities [m, e], one row a coordinate, to scores [a, e].
    """
    out = points.new_empty(len(points), len(entities))
    on_cpu = points.device.type == "cpu"
    step_entities = max(1, TILE_ENTITIES if on_cpu else len(entities))
    step_points = TILE_QUERIES if on_cpu else max(1, GPU_TILE_SCORES // max(len(entities), 1))
    for first in range(0, len(entities), step_entities):
        columns = entities[first : first + step_entities].T.contiguous()
        for start in range(0, len(points), step_points):
            part = points[start : start + step_points].T.unsqueeze(-1)
            target = out[start : start + step_points, first : first + step_entities]
            target.copy_(tile(part, columns))
    return out
