"""Candidates for missing facts, without ever looking at all pairs.

For every question that the graph answers at least once, (h, r, ?) and (?, r, t), the best few
entities are taken that are seen in the asked role and make no collected fact. The cost is

    number of questions x min(entities of the role, role_entities) x width

multiply-adds: linear in the graph. Where a role has more entities, the most frequent are looked at.
"""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph.arrays import first_of_each
from npugraph.auditing.features import stored_answers
from npugraph.auditing.thresholds import TUNED
from npugraph.graph import SIDES, KnowledgeGraph, Side, TripleIndex, flip
from npugraph.model import Model

# Scores held at once.
TABLE = 2**24


@torch.no_grad()
def propose(
    system: Model,
    graph: KnowledgeGraph,
    part: int,
    parts: int,
    *,
    per_question: int,
    most: int,
    role_entities: int = TUNED.role_entities,
    beside: Tensor | None = None,
) -> Tensor:
    """Return uncollected candidates [m, 3], the most plausible of their question first.

    Args:
        system: scores them.
        graph: the collected facts.
        part: which questions to ask, those whose known entity is ``part`` modulo ``parts``.
        parts: into how many parts the questions are cut.
        per_question: candidates per question at most.
        most: candidates at most; those that stand out from their question's others are kept.
        role_entities: entities of a role that are looked at.
        beside: facts [k, 3] of whose questions ``most`` candidates are kept, too.
    """
    system.eval()
    found, chance = [], []
    for side in SIDES:
        facts = graph.facts if side == "tail" else flip(graph.facts)
        facts = facts[torch.argsort(facts[:, 1], stable=True)]
        counts = torch.bincount(facts[:, 1], minlength=graph.num_relations).tolist()
        for own in torch.split(facts, counts):
            queries = torch.unique(own[:, 0])
            queries = queries[queries % parts == part]
            if len(queries):
                role = role_of(own, role_entities)
                made, value = best_new(system, own, queries, role, side, per_question)
                found.append(made if side == "tail" else flip(made))
                chance.append(value)
    if not found:
        return graph.facts[:0]
    everything, value = torch.cat(found), torch.cat(chance)
    order = torch.argsort(value, descending=True, stable=True)
    # Both questions of a fact may have found it.
    found_once = everything[order[first_of_each(graph.index().codes(everything[order]))]]
    kept = torch.arange(len(found_once)) < most
    if beside is not None:
        asked = same_question(found_once, beside, graph.num_entities, graph.num_relations)
        kept |= asked & (asked.cumsum(0) <= most)
    return found_once[kept]


def same_question(facts: Tensor, others: Tensor, num_entities: int, num_relations: int) -> Tensor:
    """Tell which facts [n, 3] answer a question, (h, r, ?) or (?, r, t), that others [m, 3] answer.

    >>> facts = torch.tensor([[0, 0, 1], [1, 0, 0]])
    >>> same_question(facts, torch.tensor([[0, 0, 2]]), 3, 1).tolist()
    [True, False]
    """
    found = torch.zeros(len(facts), dtype=torch.bool)
    for end in (0, 2):
        # As facts without their other end.
        asked, known = (
            torch.stack([part[:, end], part[:, 1], torch.zeros_like(part[:, 1])], 1)
            for part in (facts, others)
        )
        found |= TripleIndex(known, num_entities, num_relations).contains(asked)
    return found


def role_of(own: Tensor, most: int) -> Tensor:
    """Return the entities that a relation's facts [n, 3] have as answers, sorted, at most some."""
    role: Tensor
    role, count = torch.unique(own[:, 2], return_counts=True)
    if len(role) > most:
        role = role[torch.argsort(count, descending=True, stable=True)[:most]].sort().values
    return role


def best_new(
    system: Model, own: Tensor, queries: Tensor, role: Tensor, side: Side, per_question: int
) -> tuple[Tensor, Tensor]:
    """Return the best new answers as (known, relation, answer) [m, 3] and how they stand out."""
    relation = int(own[0, 1])
    keep = min(per_question, len(role))
    # An entity stands in a relation to itself only where that is seen.
    loops = bool((own[:, 0] == own[:, 2]).any())
    device = system.device
    made, value = [], []
    for part in torch.split(queries, max(1, TABLE // len(role))):
        known = part.to(device)
        scores = system.score_among(known, torch.full_like(known, relation), side, role.to(device))
        level = torch.logsumexp(scores.float(), 1, keepdim=True)
        stored = stored_answers(own, part, role).to(device)
        scores = scores.float().masked_fill(stored, -torch.inf)
        if not loops:
            scores.masked_fill_(known.unsqueeze(1) == role.to(device), -torch.inf)
        best, place = scores.topk(keep, 1)
        new = torch.stack(
            [
                part.unsqueeze(1).expand(-1, keep),
                torch.full((len(part), keep), relation),
                role[place.cpu()],
            ],
            -1,
        )
        fresh = torch.isfinite(best).cpu()
        made.append(new[fresh])
        value.append((best - level).cpu()[fresh])
    return torch.cat(made), torch.cat(value)
