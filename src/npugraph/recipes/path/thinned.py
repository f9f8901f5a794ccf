"""Thinned graphs: facts are judged where a third of the graph is missing, themselves among it.

A model of paths has met thinned graphs alone while it was trained, and what it says of a fact hangs
on a few of them. The mean over several is steadier, and in each other wrong facts are missing. The
facts that are missing can all be judged on the same graph, and those of one question at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from npugraph.seeds import generator

# How often every fact is judged so, where nothing else is asked for, on which graphs: with more
# facts judging takes minutes as it is, and with fewer of them per entity what is missing is missed.
DRAWS, MOST_FACTS, PER_ENTITY = 8, 20_000, 10
# Into so many parts the facts are dealt out in a draw; each part is missing once.
PARTS = 3


def draws_for(given: int | None, facts: int, entities: int) -> int:
    """Return how often facts are judged on a thinned graph, by what was asked for if anything."""
    if given is not None:
        return given
    return DRAWS if PER_ENTITY * entities <= facts <= MOST_FACTS else 0


def orders(facts: int, draws: int) -> Iterator[Tensor]:
    """Yield for each draw an order of the facts, always the same: part p is ``order[p::PARTS]``."""
    for draw in range(draws):
        yield torch.randperm(facts, generator=generator(0, "thinned", draw))


def by_group(place: Tensor, order: Tensor, groups: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the stored facts [m] to hide and the rows [k] to judge meanwhile.

    Args:
        place: the number of a stored fact for each row, -1 for none: [n].
        order: an order of the stored facts; group g is ``order[g::groups]``.
        groups: how many groups there are.
    """
    group = torch.where(place < 0, -1, order.argsort()[place] % groups)
    sorting = torch.argsort(group, stable=True)
    found, counts = torch.unique(group, return_counts=True)
    for number, rows in zip(found.tolist(), torch.split(sorting, counts.tolist()), strict=True):
        yield order[number::groups] if number >= 0 else order[:0], rows
