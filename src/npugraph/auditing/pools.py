"""Pools of uncollected facts, which the collected ones are compared with."""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph.data.corrupt import TAIL, Noise, Ranker, draw_pool
from npugraph.graph import Side, TripleIndex
from npugraph.model import Model
from npugraph.seeds import generator


def fold_pool(
    facts: Tensor,
    index: TripleIndex,
    kind: Noise,
    fold: int,
    most: int,
    seed: int,
    system: Model | None = None,
) -> tuple[Tensor, Tensor]:
    """Draw the pool of one fold, about ``most`` uncollected facts.

    Facts of all folds are corrupted: most wrong facts stand beside what they are a corruption of,
    few in its place, and a system of a fold knows the facts of all others.

    Args:
        facts: all facts that are judged [n, 3].
        index: all collected facts.
        kind: of the uncollected facts.
        fold: its number.
        most: facts to draw for at most.
        seed: every draw follows from it.
        system: that of the fold; it ranks the answers of ``hard``, for which there is a stand-in.

    Returns:
        The facts [m, 3] and which of their ends was replaced [m]; see ``draw_pool``.
    """
    rng = generator(seed, "pool", kind, fold)
    some = facts[torch.randperm(len(facts), generator=rng)[:most]]
    ranker = _ranker(system, index) if kind == "hard" and system is not None else None
    return draw_pool(some, index, kind, rng, ranker)


def _ranker(system: Model, index: TripleIndex) -> Ranker:
    """Return what ranks the entities of a role as a system scores them."""
    system.eval()
    device = system.device

    @torch.no_grad()
    def score(known: Tensor, relation: int, end: int, role: Tensor) -> Tensor:
        asked = known.to(device)
        side: Side = "tail" if end == TAIL else "head"
        relations = torch.full_like(asked, relation)
        return system.score_among(asked, relations, side, role.to(device)).float().cpu()

    return Ranker(index.facts(), index, score)
