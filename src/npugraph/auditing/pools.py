"""Pools of uncollected facts, which the collected ones are compared with."""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph.data.corrupt import HEAD, RANKED, TAIL, Noise, Ranker, draw_pool
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
        system: that of the fold; it ranks answers, for which there is a stand-in.

    Returns:
        The facts [m, 3] and which of their ends was replaced [m]; see ``draw_pool``.
    """
    rng = generator(seed, "pool", kind, fold)
    some = facts[torch.randperm(len(facts), generator=rng)[:most]]
    ranker = _ranker(system, index) if kind in RANKED and system is not None else None
    return draw_pool(some, index, kind, rng, ranker)


def further_answers(facts: Tensor, replaced: Tensor, share: float, rng: torch.Generator) -> Tensor:
    """Draw how many of the other facts of a pool that answer the same question would be known.

    Wrong facts that come together, several to a question, stand beside one another in a graph, and
    whoever judges one of them knows most of the others.

    Args:
        facts: a pool of ``crowded`` facts [n, 3].
        replaced: which of their ends was [n].
        share: the chance that a fact is in another fold.
        rng: the draws come from it.

    Returns:
        float32 [n, 2], for the question of the tail and for that of the head.
    """
    more = torch.zeros(len(facts), 2)
    for side, end in enumerate((TAIL, HEAD)):
        mine = replaced == end
        asked = facts[mine][:, [1, TAIL - end]]
        _, question, count = torch.unique(asked, dim=0, return_inverse=True, return_counts=True)
        others = (count[question] - 1).float()
        more[mine, side] = torch.binomial(others, torch.full_like(others, share), generator=rng)
    return more


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
