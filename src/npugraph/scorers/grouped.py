"""Queries in groups that share a relation, for scorers to whom a relation is expensive."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Columns that tell most relations apart, and rows compared in full at a time.
KEY_COLUMNS, CHECKED_ROWS = 16, 1024


def by_relation(relation: Tensor, score: Callable[[Tensor], Tensor]) -> Tensor:
    """Score queries group by group: relation [q, v] to [q, E], q at least 1.

    ``score`` maps the places [n] of queries with one and the same relation to scores [n, E].
    """
    group = same_rows(relation.detach())
    order = torch.argsort(group, stable=True)
    sizes: list[int] = torch.bincount(group).tolist()
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    return torch.cat([score(rows) for rows in torch.split(order, sizes)]).index_select(0, place)


def same_rows(rows: Tensor) -> Tensor:
    """Number the distinct rows of a matrix [q, v]: int64 [q], equal where rows are equal.

    A relation may be a whole matrix, too wide to sort by. A few columns are enough to tell
    relations apart; that they are is checked, and only where they are not all columns are sorted.

    >>> same_rows(torch.tensor([[1.0, 2.0], [0.0, 5.0], [1.0, 2.0]])).tolist()
    [1, 0, 1]
    """
    group: Tensor = torch.unique(rows[:, :KEY_COLUMNS], dim=0, return_inverse=True)[1]
    order = torch.argsort(group, stable=True)
    count = torch.bincount(group)
    example = order[(torch.cumsum(count, 0) - count)[group]]
    steps = range(0, len(rows), CHECKED_ROWS)
    parts = (slice(first, first + CHECKED_ROWS) for first in steps)
    if rows.shape[1] > KEY_COLUMNS and not all(
        torch.equal(rows[part], rows[example[part]]) for part in parts
    ):
        group = torch.unique(rows, dim=0, return_inverse=True)[1]
    return group
