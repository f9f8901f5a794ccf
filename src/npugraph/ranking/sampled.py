"""Ranks among a sample of the entities, for graphs where all of them are too many.

Such figures are higher than those among all entities, the more so the smaller the sample, and do
not order systems as those do (Krichene and Rendle 2020). So they have names of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from npugraph.errors import DataError
from npugraph.graph import SIDES, Side, TripleIndex
from npugraph.model import Model, Trained
from npugraph.ranking.evaluate import Part, known_facts
from npugraph.ranking.ranks import Floats, refuse_nan, summarise
from npugraph.seeds import generator

# Numbers of facts and candidates that are compared at once.
AT_ONCE = 2**20
SUFFIX = "_among_sampled"
SHOWN = ("mrr", "mean_rank", "hits@1", "hits@3", "hits@10")


@torch.no_grad()
def ranks_among_sampled(
    system: Model, facts: Tensor, count: int, seed: int = 0, known: TripleIndex | None = None
) -> tuple[Floats, Floats]:
    """Rank both ends of facts [n, 3] among entities drawn evenly: ranks and candidates [2n].

    Ties count half. A drawn entity that makes a fact of ``known``, or the fact itself, is no
    candidate. Facts that are ranked at once share the draw, ``count`` entities with repeats.
    """
    if count < 1:
        raise DataError(f"{count} candidates cannot be ranked; draw at least one.")
    made: list[Tensor] = []
    for side in SIDES:
        for number, part in enumerate(torch.split(facts, max(1, AT_ONCE // count))):
            rng = generator(seed, "sampled candidates", side, number)
            drawn = torch.randint(system.num_entities, (count,), generator=rng).to(facts.device)
            made.append(_ranked(system, part, side, drawn, known))
    ranks, candidates = torch.cat(made, 1).double().cpu().numpy()
    return ranks, candidates


def _ranked(
    system: Model, facts: Tensor, side: Side, drawn: Tensor, known: TripleIndex | None
) -> Tensor:
    """Return ranks and numbers of candidates [2, n] of one side of facts."""
    given, own = (0, 2) if side == "tail" else (2, 0)
    scores = system.score_among(facts[:, given], facts[:, 1], side, drawn)
    true = system.score_as(facts, side).unsqueeze(1).to(scores)
    refuse_nan(scores)
    counts = drawn != facts[:, own, None]
    if known is not None:
        others = facts.unsqueeze(1).repeat(1, len(drawn), 1)
        others[..., own] = drawn
        counts &= ~known.contains(others)
    higher, ties = ((scores > true) & counts).sum(1), ((scores == true) & counts).sum(1)
    return torch.stack([1 + higher + ties / 2, 1 + counts.sum(1)])


def named(ranks: Floats, candidates: Floats) -> dict[str, float]:
    """Return figures of ranks among sampled candidates, by names that say so.

    >>> import numpy as np
    >>> named(np.array([1.0, 2.0]), np.array([3.0, 3.0]))["mrr_among_sampled"]
    0.75
    """
    found = summarise(ranks, candidates)
    return {f"{name}{SUFFIX}": found[name] for name in SHOWN}


def evaluate_among_sampled(
    fitted: Trained,
    candidates: int,
    filters: Sequence[str] = ("clean",),
    part: Part = "test",
    *,
    seed: int = 0,
) -> dict[str, Any]:
    """Return figures of ranks among sampled candidates, per filter.

    Args:
        fitted: a system and its graph.
        candidates: how many entities are drawn.
        filters: which known facts are no candidates, as for ``evaluate``.
        part: which facts to rank.
        seed: the draws follow from it.
    """
    splits, system = fitted.splits, fitted.system
    facts = splits.parts()[part].facts.to(system.device)
    if len(facts) == 0:
        raise DataError(f"The {part} part of {splits.name!r} holds no facts to rank.")
    sizes = splits.num_entities, splits.num_relations
    found = {}
    for name in filters:
        index = TripleIndex(known_facts(splits, name), *sizes).to(system.device)
        found[name] = named(*ranks_among_sampled(system, facts, candidates, seed, index))
    return {
        "graph": splits.name,
        "part": part,
        "facts": len(facts),
        "sampled_candidates": candidates,
        "filters": found,
    }
