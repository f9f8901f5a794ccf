"""Messages of the questions that have reached a node, and of no others: loops for the CPU.

On a sparse graph a question reaches few nodes in a few steps. A cell is a node that a question has
reached. Where all other states are 0 (the setting ``reached_only`` of the path model), the
features of cells are those of :func:`npugraph.kernels.paths.aggregate`, and nothing else is
made. Needs numba.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from npugraph.compiling import Loop, compiled
from npugraph.kernels import cpu, dispatch
from npugraph.kernels import paths_cells_loops as loops
from npugraph.kernels.paths_edges import Edges
from npugraph.kernels.paths_reference import degrees


@cache
def _compiled(loop: Loop) -> Loop:
    # As in paths_cpu: products stay in the order written, for they decide winners.
    options: dict[str, Any] = {"fastmath": {"contract", "nsz"}, "error_model": "numpy"}
    return compiled(loop, loops.PARTS, **options)


@dataclass(frozen=True, eq=False)
class Cells:
    """The nodes that questions reach, by the step that reaches them first, then by question.

    Attributes:
        node: int64 [C].
        question: int64 [C].
        within: how many of a question are reached within 0, 1, ... steps, int64 [steps + 1, B].
        place: the first cell of each step and question, int64 [steps + 1, B].
        totals: how many cells there are within 0, 1, ... steps: the first ones.
    """

    node: Tensor
    question: Tensor
    within: Tensor
    place: Tensor
    totals: tuple[int, ...]

    def share(self, entities: int) -> float:
        """Return the share of all states within reach after a layer, the mean over layers."""
        layers, questions = len(self.totals) - 1, self.within.shape[1]
        return sum(self.totals[1:]) / (layers * questions * entities)


def usable(edges: Edges, questions: int, width: int, dtype: torch.dtype) -> bool:
    """Tell whether the loops can and should work on so many questions with so long states."""
    work = (edges.num_entities + len(edges)) * questions * width
    return dispatch.on_cpu(work, torch.empty(0, dtype=dtype, device=edges.device))


def reach(start: Tensor, weight: Tensor, edges: Edges, steps: int) -> Cells:
    """Return what questions that start at entities [B] reach along edges with weights [E]."""
    count = len(start)
    order, begin = edges.by_source
    found = torch.empty(count, edges.num_entities, dtype=torch.int32)
    within = torch.empty(steps + 1, count, dtype=torch.int64)
    there = (weight > 0)[order]
    given = start.contiguous(), begin, edges.target[order], there, found, within
    cpu.spread(_compiled(loops.reach), count, 1, *given)
    fresh = within.diff(dim=0, prepend=within.new_zeros(1, count))
    place = (fresh.flatten().cumsum(0) - fresh.flatten()).view_as(fresh)
    node = torch.empty(int(fresh.sum()), dtype=torch.int64)
    question = torch.empty_like(node)
    cpu.spread(_compiled(loops.number), count, 1, found, within, place, node, question)
    return Cells(node, question, within, place, tuple(within.sum(1).tolist()))


@dataclass(frozen=True, eq=False)
class Present:
    """The edges that are there, sorted by target.

    Attributes:
        inverse: one over the number of messages of each node, [N].
        begin: where the edges of each node begin, [N + 1].
        source: where they start.
        relation: their relations.
        weight: their weights.
    """

    inverse: Tensor
    begin: Tensor
    source: Tensor
    relation: Tensor
    weight: Tensor

    @classmethod
    def of(cls, weight: Tensor, edges: Edges, dtype: torch.dtype) -> Present:
        """Leave out edges of weight 0; numbers are those of states of this type."""
        kept, weight = weight > 0, weight.detach().to(dtype)
        count = edges.target[kept].bincount(minlength=edges.num_entities)
        begin = torch.cat([count.new_zeros(1), count.cumsum(0)])
        inverse = degrees(weight, edges).reciprocal()
        return cls(inverse, begin, edges.source[kept], edges.relation[kept], weight[kept])


def aggregate(
    states: Tensor,
    relations: Tensor,
    start: Tensor,
    query: Tensor,
    present: Present,
    cells: Cells,
    steps: int,
) -> Tensor:
    """Return mean, max, min and deviation of the messages of cells: [C', 4, d].

    Args:
        states: of the cells within ``steps - 1`` steps, [C, d].
        relations: the vectors of the 2R relations for each question, [2R, B, d].
        start: the entity that each question starts at, int64 [B].
        query: the boundary message of each question at its start, [B, d].
        present: the edges.
        cells: what the questions reach.
        steps: features are of the cells within so many steps.
    """
    given = states.contiguous(), relations.contiguous(), query.contiguous()
    options = start.contiguous(), present, cells, steps
    out: Tensor = _Aggregate.apply(*given, *options)  # type: ignore[no-untyped-call]
    return out


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        relations: Tensor,
        query: Tensor,
        start: Tensor,
        present: Present,
        cells: Cells,
        steps: int,
    ) -> Tensor:
        count, width = cells.totals[steps], states.shape[1]
        out = states.new_empty(count, 4, width)
        winners = states.new_empty(2, count, width)
        given = states, relations, query, start, *_columns(present), *_of(cells)
        cpu.spread(_compiled(loops.forward), len(start), 1, steps, *given, out, winners)
        ctx.save_for_backward(states, relations, query, start, out, winners)
        ctx.options = present, cells, steps
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        states, relations, query, start, out, winners = ctx.saved_tensors
        present, cells, steps = ctx.options
        found = [torch.zeros_like(x) for x in (states, relations, query)]
        given = states, relations, query, start, *_columns(present), *_of(cells)
        made = out, winners, slopes[0].contiguous()
        cpu.spread(_compiled(loops.backward), len(start), 1, steps, *given, *made, *found)
        return *found, None, None, None, None


def _columns(present: Present) -> tuple[Tensor, ...]:
    numbers = present.begin, present.source, present.relation
    return present.inverse, *numbers, present.weight


def _of(cells: Cells) -> tuple[Tensor, ...]:
    return cells.node, cells.place, cells.within
