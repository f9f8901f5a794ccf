"""Pools of uncollected facts, which the collected ones are compared with."""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph.data.corrupt import Noise, draw_pool
from npugraph.graph import TripleIndex
from npugraph.seeds import generator

# The kinds of wrong facts that a pool is drawn of. One end alone is a cut of ``one-sided``.
KINDS: tuple[Noise, ...] = ("random", "one-sided", "typed")


def fold_pool(
    facts: Tensor, index: TripleIndex, kind: Noise, fold: int, most: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Draw the pool of one fold, about one uncollected fact for each of its facts [n, 3].

    Args:
        facts: the facts of the fold.
        index: all collected facts.
        kind: of the uncollected facts.
        fold: its number.
        most: facts to draw for at most; a large graph needs no pool of its own size.
        seed: every draw follows from it.

    Returns:
        The facts [m, 3] and which of their ends was replaced [m]; see ``draw_pool``.
    """
    rng = generator(seed, "pool", kind, fold)
    some = facts[torch.randperm(len(facts), generator=rng)[:most]]
    return draw_pool(some, index, kind, rng)
