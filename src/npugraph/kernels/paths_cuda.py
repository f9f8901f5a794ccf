"""Messages along edges on a GPU: Triton kernels, forward and backward.

Forward, a program reads the edges of a node once and writes its four features, and which edges are
its largest and smallest message: two bytes per column, the places within an item of at most 128
edges. Hubs are cut into items and joined.

Backward, the gradient of a message m of node v is

    level_v + rise_v m + [m is the largest] slope of max + [m is the smallest] slope of min

One pass by source adds up the gradient of the states, and writes the sum of ``weight * gradient``
of each group of edges with one source and one relation. One pass by relation adds up the products
of these sums and the sources' states. Nothing is added atomically. With ``deterministic=False`` the
pass by source leaves the extremes out, and another adds them atomically.

Bytes per column of B d, with numbers of s bytes, N nodes, E edges, R relations, P pairs of a source
and a relation that have an edge (:func:`traffic` counts them; hubs' parts and indices are small):

    forward       E s  states  + P s  relations  + N (4 s + 2)  features and winners
    coefficients  N 6 s
    by source     E (2 s + 2)  level, rise, winners  + P 2 s  relations and groups
                  + N 4 s  slopes of winners, states, their gradient
    by relation   P 2 s  groups and states  + R s

Rows that edges read are in the GPU's cache as far as a block of columns of all nodes fits in it.
The extremes in one order cost 2 E bytes per column, read in rows; added atomically they cost 4 N
additions to scattered numbers of four bytes, 32 bytes each as the memory moves them. Edges are some
10 to 20 times as many as nodes: one order is no dearer, and is the default.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from npugraph.kernels.paths_edges import Edges
from npugraph.kernels.paths_items import Items, Plan
from npugraph.kernels.paths_reference import degrees


@dataclass
class Launch:
    """The columns and warps of a program, per kernel. Results do not depend on them."""

    forward: tuple[int, int] = 256, 1
    source: tuple[int, int] = 256, 1
    relation: tuple[int, int] = 256, 1
    node: tuple[int, int] = 1024, 4


LAUNCH = Launch()
# Rows of winners, of nodes and hubs' parts, that can be numbered.
MOST_ROWS = 2**23

_plans: WeakKeyDictionary[Edges, Plan] = WeakKeyDictionary()


@cache
def kernels() -> Any | None:
    """Return the module of kernels, or None where Triton is not installed."""
    try:
        from npugraph.kernels import paths_triton
    except ImportError:
        return None
    return paths_triton


def usable(edges: Edges, *tensors: Tensor) -> bool:
    """Tell whether the kernels can work on these edges and tensors."""
    place = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    return (
        all(t.device.type == place for t in tensors)
        and len({t.dtype for t in tensors}) == 1
        and tensors[0].dtype in (torch.float32, torch.bfloat16)
        and edges.num_entities + len(edges) < MOST_ROWS
        and kernels() is not None
    )


def plan_of(edges: Edges) -> Plan:
    """Return the work of these edges, made once."""
    if edges not in _plans:
        _plans[edges] = Plan.of(edges)
    return _plans[edges]


def traffic(
    edges: Edges, questions: int, width: int, dtype: torch.dtype, *, cached: bool = False
) -> dict[str, int]:
    """Return the bytes that each kernel moves, forward and backward, in one order of additions.

    Args:
        edges: the edges.
        questions: how many questions (B) there are.
        width: how many numbers (d) a state has.
        dtype: their type.
        cached: count a row once however many edges read it, as if the cache held them all.
    """
    size, nodes, pairs = dtype.itemsize, edges.num_entities, plan_of(edges).groups
    states = nodes if cached else len(edges)
    from_pairs = nodes if cached else pairs
    relations = edges.num_relations if cached else pairs
    rows = {
        "forward": (states + relations) * size + nodes * (4 * size + 2),
        "coefficients": nodes * 6 * size,
        "by_source": states * (2 * size + 2) + (relations + pairs + 4 * nodes) * size,
        "by_relation": (pairs + from_pairs + edges.num_relations) * size,
    }
    return {name: questions * width * count for name, count in rows.items()}


def aggregate(
    states: Tensor,
    relations: Tensor,
    start: Tensor,
    query: Tensor,
    weight: Tensor,
    edges: Edges,
    from_start: bool = False,
    deterministic: bool = True,
) -> Tensor:
    """Return mean, max, min and deviation of each node's messages: see :mod:`.paths`."""
    inverse = degrees(weight, edges).reciprocal().float()
    out: Tensor = _Aggregate.apply(  # type: ignore[no-untyped-call]
        states.contiguous(),
        relations.contiguous(),
        query.contiguous(),
        start.int(),
        weight.detach().float().contiguous(),
        inverse,
        plan_of(edges),
        from_start,
        deterministic,
    )
    return out


def _launch(name: str, programs: int, columns: int, size: tuple[int, int], *arguments: Any) -> None:
    """Run a kernel: one program per item and block of columns."""
    block, warps = size
    block = min(block, 1 << (columns - 1).bit_length())
    if programs and columns:
        grid = programs, -(-columns // block)
        getattr(kernels(), name)[grid](*arguments, BLOCK=block, num_warps=warps)


def _join(items: Items, out: Tensor, parts: Tensor, columns: int) -> None:
    """Add up the parts of hubs into the rows of ``out``."""
    hubs = items.hub, items.part_first, items.part_last
    _launch("join_gradients", len(items.hub), columns, LAUNCH.node, *hubs, out, parts, columns)


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        relations: Tensor,
        query: Tensor,
        start: Tensor,
        weight: Tensor,
        inverse: Tensor,
        plan: Plan,
        from_start: bool,
        deterministic: bool,
    ) -> Tensor:
        entities, questions, width = states.shape
        columns, items = questions * width, plan.targets
        out = states.new_empty(entities, questions, 4, width)
        winners = states.new_empty(entities + items.parts, columns, dtype=torch.int16)
        own = states.new_empty(2, questions, width, dtype=torch.uint8)
        parts = states.new_empty(items.parts, 4, columns, dtype=torch.float32)
        read = states, relations, weight, plan.source, plan.relation
        written = start, query, inverse, out, winners, own, parts, entities, columns, width
        spans = items.first, items.last, items.row
        _launch(
            "forward", len(items.row), columns, LAUNCH.forward, *read, *spans, *written, from_start
        )
        hubs = items.hub, items.part_first, items.part_last
        _launch("join_features", len(items.hub), columns, LAUNCH.node, *hubs, *written)
        ctx.save_for_backward(states, relations, query, start, weight, inverse, out, winners, own)
        ctx.options = plan, from_start, deterministic
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        states, relations, query, start, weight, inverse, out, winners, own = ctx.saved_tensors
        plan, from_start, deterministic = ctx.options
        slope = slopes[0].contiguous()
        entities, questions, width = states.shape
        columns = questions * width
        level, rise = torch.empty_like(states), torch.empty_like(states)
        # The least deviation, 1e-3, is a little less in bfloat16, and the next number 1.007e-3.
        floor = 1.00001e-3 if states.dtype == torch.float32 else 1.001e-3
        given = slope, out, inverse, level, rise, columns, floor, width
        _launch("coefficients", entities, columns, LAUNCH.node, *given)
        kind = states.dtype if deterministic else torch.float32
        to_states = torch.empty_like(states, dtype=kind)
        to_relations = torch.empty_like(relations, dtype=kind)
        groups = states.new_empty(plan.groups, columns)
        _by_source(
            plan, states, relations, weight, start, slope, level, rise, winners, groups, to_states,
            from_start, deterministic,
        )  # fmt: skip
        _by_relation(plan, states, start, groups, to_relations, from_start)
        if not deterministic:
            items = plan.targets
            _launch(
                "scatter_extremes", len(items.row), columns, LAUNCH.forward, states, relations,
                weight, plan.source, plan.relation, items.first, items.row, items.owner, start,
                slope, winners, to_states, to_relations, columns, width, from_start,
            )  # fmt: skip
        cell = start.long(), torch.arange(questions, device=start.device)
        at_start, is_top, is_low = slope[cell].float(), own[0] != 0, own[1] != 0
        to_query = level[cell].float() + rise[cell].float() * query.float()
        to_query += at_start[:, 1].where(is_top, 0.0) + at_start[:, 2].where(is_low, 0.0)
        found = to_states.to(states.dtype), to_relations.to(states.dtype), to_query.to(query.dtype)
        return *found, *[None] * 6


def _by_source(
    plan: Plan,
    states: Tensor,
    relations: Tensor,
    weight: Tensor,
    start: Tensor,
    slope: Tensor,
    level: Tensor,
    rise: Tensor,
    winners: Tensor,
    groups: Tensor,
    to_states: Tensor,
    from_start: bool,
    extremes: bool,
) -> None:
    """Write the gradient of the states and of the groups' messages."""
    items, columns, width = plan.sources, groups.shape[1], states.shape[2]
    parts = states.new_empty(items.parts, columns, dtype=torch.float32)
    edges = weight[plan.order], plan.to, plan.by, plan.place, plan.group
    spans = items.first, items.last, items.row, items.owner
    slopes = start, slope, level, rise, winners
    sizes = items.keys, columns, width, from_start, extremes
    _launch(
        "by_source", len(items.row), columns, LAUNCH.source, states, relations, *edges, *spans,
        *slopes, groups, to_states, parts, *sizes,
    )  # fmt: skip
    _join(items, to_states, parts, columns)


def _by_relation(
    plan: Plan,
    states: Tensor,
    start: Tensor,
    groups: Tensor,
    to_relations: Tensor,
    from_start: bool,
) -> None:
    """Write the gradient of the relations."""
    items, columns, width = plan.relations, groups.shape[1], states.shape[2]
    parts = states.new_empty(items.parts, columns, dtype=torch.float32)
    spans = plan.number, plan.origin, items.first, items.last, items.row
    sizes = items.keys, columns, width, from_start
    _launch(
        "by_relation", len(items.row), columns, LAUNCH.relation, states, groups, *spans, start,
        to_relations, parts, *sizes,
    )  # fmt: skip
    _join(items, to_relations, parts, columns)
