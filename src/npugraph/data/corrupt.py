"""Draw false facts: for the protocol, which plants them, and for the audit's pools.

There are four kinds. ``random``: head, relation and tail are drawn evenly from the whole space of
triples; ``one-sided``: a given fact with its head or tail replaced by any entity; ``typed``:
replaced by an entity that the graph has in that place of that relation; ``wrong-tail``: as
``one-sided``, but always the tail.

What is drawn is only known not to be stored: a graph that lacks facts may lack this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from npugraph.arrays import first_of_each
from npugraph.errors import DataError
from npugraph.graph import TripleIndex, distinct_tails, flip
from npugraph.seeds import generator

Noise = Literal["random", "one-sided", "typed", "wrong-tail"]
# The columns of a fact that hold entities.
HEAD, TAIL = 0, 2
# Rounds after which a graph is taken to have no room for as many false facts.
ROUNDS = 200


class Roles:
    """The entities that are seen at each end of each relation."""

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int) -> None:
        """Look through facts [n, 3]."""
        self._heads = distinct_tails(flip(facts), num_entities, num_relations)
        self._tails = distinct_tails(facts, num_entities, num_relations)

    def pick(self, end: int, relation: Tensor, chance: Tensor) -> Tensor:
        """Return one of the entities at an end of each relation [n], by a number in [0, 1): [n]."""
        entities, start, size = self._heads if end == HEAD else self._tails
        return entities[start[relation] + (chance * size[relation]).long()]


def any_triples(count: int, num_entities: int, num_relations: int, rng: torch.Generator) -> Tensor:
    """Draw head, relation and tail evenly: int64 [count, 3]."""
    sizes = (num_entities, num_relations, num_entities)
    return torch.stack([torch.randint(n, (count,), generator=rng) for n in sizes], dim=1)


def draw_ends(kind: Noise, count: int, rng: torch.Generator) -> Tensor:
    """Draw which end of each fact to replace, HEAD or TAIL: int64 [count]."""
    end = TAIL * torch.randint(2, (count,), generator=rng)
    return torch.full_like(end, TAIL) if kind == "wrong-tail" else end


def replace_ends(facts: Tensor, end: Tensor, entity: Tensor) -> Tensor:
    """Return facts [n, 3] with one end [n] each replaced by an entity [n]."""
    changed = facts.clone()
    changed[torch.arange(len(facts)), end] = entity
    return changed


def draw_pool(
    facts: Tensor, index: TripleIndex, kind: Noise, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw about one uncollected fact for each fact [n, 3]; those that are collected drop out.

    Args:
        facts: what is corrupted.
        index: all collected facts; the roles are theirs, too.
        kind: of the false facts.
        rng: the draws come from it.

    Returns:
        The facts [m, 3] and which of their ends was replaced [m]: HEAD, TAIL, or -1, no single end.
    """
    count, sizes = len(facts), (index.num_entities, index.num_relations)
    end = torch.full((count,), -1)
    drawn = any_triples(count, *sizes, rng)
    if kind != "random":
        end = draw_ends(kind, count, rng)
        entity = drawn[:, HEAD]
        if kind == "typed":
            roles, relation = Roles(index.facts(), *sizes), facts[:, 1]
            heads, tails = (
                roles.pick(one, relation, torch.rand(count, generator=rng, dtype=torch.float64))
                for one in (HEAD, TAIL)
            )
            entity = torch.where(end == HEAD, heads, tails)
        drawn = replace_ends(facts, end, entity)
    fresh = ~index.contains(drawn)
    return drawn[fresh], end[fresh]


def draw_false_facts(
    facts: Tensor, known: TripleIndex, wanted: int, kind: Noise, seed: int
) -> Tensor:
    """Draw ``wanted`` distinct facts [n, 3] that are not known, by corrupting ``facts`` [m, 3]."""
    rng = generator(seed, "plant")
    draw = _drawer(kind, facts, known.num_entities, known.num_relations)
    found = facts[:0]
    for _ in range(ROUNDS):
        if len(found) == wanted:
            return found
        drawn = draw(2 * (wanted - len(found)) + 16, rng)
        drawn = torch.cat([found, drawn[~known.contains(drawn)]])
        found = drawn[first_of_each(known.key(drawn))][:wanted]
    raise DataError(
        f"Only {len(found)} of {wanted} false facts could be found with noise "
        f"{kind!r}: the graph is too dense for that; try another noise or a lower rate."
    )


def _drawer(
    kind: Noise, facts: Tensor, num_entities: int, num_relations: int
) -> Callable[[int, torch.Generator], Tensor]:
    """Return a function that draws candidate false facts: (count, generator) to [count, 3]."""
    if kind == "random":
        return lambda count, rng: any_triples(count, num_entities, num_relations, rng)
    roles = Roles(facts, num_entities, num_relations)

    def corrupted(count: int, rng: torch.Generator) -> Tensor:
        chosen = facts[torch.randint(len(facts), (count,), generator=rng)]
        end = draw_ends(kind, count, rng)
        chance = torch.rand(count, generator=rng, dtype=torch.float64)
        if kind == "typed":
            heads, tails = (roles.pick(one, chosen[:, 1], chance) for one in (HEAD, TAIL))
            return replace_ends(chosen, end, torch.where(end == HEAD, heads, tails))
        return replace_ends(chosen, end, (chance * num_entities).long())

    return corrupted
