"""The work of the GPU kernels for messages along edges: items of bounded size, in three orders."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from npugraph.kernels.paths_edges import Edges

# Entries per item. A place in an item, and a sign for "nobody", fit in one byte.
LONGEST = 128


@dataclass(frozen=True, eq=False)
class Items:
    """Entries sorted by key, cut into items of one key each, and how to join those of one key.

    Every tensor is int32. A key with at most LONGEST entries is one item, an empty one if it has
    none, and its row is the key. Another key is a hub: its items have the rows ``keys``,
    ``keys + 1`` and so on, and part p of row ``keys + p`` belongs to the hub whose parts are
    ``part_first .. part_last``.

    Attributes:
        first: the first entry of each item, [I]; longest items first.
        last: one past the last entry, [I].
        row: the row that an item's sum belongs to, [I].
        owner: the item's key, [I].
        hub: the keys of several items, [H].
        part_first: the first part of each hub, [H].
        part_last: one past its last part, [H].
        keys: how many keys there are.
        parts: how many items belong to hubs.
    """

    first: Tensor
    last: Tensor
    row: Tensor
    owner: Tensor
    hub: Tensor
    part_first: Tensor
    part_last: Tensor
    keys: int
    parts: int

    @classmethod
    def of(cls, key: Tensor, keys: int) -> Items:
        """Cut entries with these sorted keys, int64 [n], in 0..keys-1."""
        count = key.bincount(minlength=keys)
        begin = count.cumsum(0) - count
        pieces = (count + LONGEST - 1).div(LONGEST, rounding_mode="floor").clamp_min(1)
        owner = torch.arange(keys, device=key.device).repeat_interleave(pieces)
        earlier = (pieces.cumsum(0) - pieces)[owner]
        first = begin[owner] + (torch.arange(len(owner), device=key.device) - earlier) * LONGEST
        last = torch.minimum(first + LONGEST, (begin + count)[owner])
        cut = pieces[owner] > 1
        row = torch.where(cut, keys - 1 + cut.cumsum(0), owner)
        order = torch.argsort(first - last, stable=True)
        hub = (pieces > 1).nonzero().squeeze(1)
        part_last = pieces[hub].cumsum(0)
        return cls(
            first=first[order].int(),
            last=last[order].int(),
            row=row[order].int(),
            owner=owner[order].int(),
            hub=hub.int(),
            part_first=(part_last - pieces[hub]).int(),
            part_last=part_last.int(),
            keys=keys,
            parts=int(cut.sum()),
        )

    @property
    def row_of_entry(self) -> tuple[Tensor, Tensor]:
        """The row of each entry and its place in the item, int64 [n] each, in sorted order."""
        order = torch.argsort(self.first, stable=True)
        first, last, row = (x[order].long() for x in (self.first, self.last, self.row))
        length = last - first
        number = torch.arange(int(length.sum()), device=first.device)
        return row.repeat_interleave(length), number - first.repeat_interleave(length)


@dataclass(frozen=True, eq=False)
class Plan:
    """The three orders in which the kernels read edges; every tensor but ``order`` is int32.

    Attributes:
        targets: items by target: the forward pass.
        source: sources of the edges in that order, [E].
        relation: their relations, [E].
        order: the number of each edge, sorted by source and relation, int64 [E].
        sources: items by source: the gradient of states.
        to: targets of the edges by source, [E].
        by: their relations, [E].
        place: where an edge can win: 256 times its row by target, plus its place in the item, [E].
        group: edges of one item by source and one relation are a group; its number at its last
            edge, -1 before, [E].
        groups: how many groups there are.
        relations: items of groups by relation: the gradient of relations.
        number: numbers of the groups by relation, [groups].
        origin: their sources, [groups].
    """

    targets: Items
    source: Tensor
    relation: Tensor
    order: Tensor
    sources: Items
    to: Tensor
    by: Tensor
    place: Tensor
    group: Tensor
    groups: int
    relations: Items
    number: Tensor
    origin: Tensor

    @classmethod
    def of(cls, edges: Edges) -> Plan:
        """Sort and cut the edges."""
        targets = Items.of(edges.target, edges.num_entities)
        row, spot = targets.row_of_entry
        order = torch.argsort(edges.source * edges.num_relations + edges.relation, stable=True)
        source, by = edges.source[order], edges.relation[order]
        sources = Items.of(source, edges.num_entities)
        item, _ = sources.row_of_entry
        ends = torch.ones_like(source, dtype=torch.bool)
        ends[:-1] = (item[1:] != item[:-1]) | (by[1:] != by[:-1])
        number = ends.cumsum(0) - 1
        origin, kind = source[ends], by[ends]
        order_of_groups = torch.argsort(kind, stable=True)
        return cls(
            targets=targets,
            source=edges.source.int(),
            relation=edges.relation.int(),
            order=order,
            sources=sources,
            to=edges.target[order].int(),
            by=by.int(),
            place=(row * 256 + spot)[order].int(),
            group=number.where(ends, -1).int(),
            groups=len(origin),
            relations=Items.of(kind[order_of_groups], edges.num_relations),
            number=order_of_groups.int(),
            origin=origin[order_of_groups].int(),
        )
