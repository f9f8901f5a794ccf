"""Draw many false facts of a kind."""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph.arrays import first_of_each
from npugraph.data.corrupt import replace, similar
from npugraph.data.corrupt.caged import draw_caged
from npugraph.data.corrupt.kinds import HEAD, RANKED, Noise
from npugraph.errors import DataError
from npugraph.graph import TripleIndex
from npugraph.seeds import generator, number

# Rounds after which a graph is taken to have no room for as many false facts.
ROUNDS = 200
# The share of the facts, by whole heads, that a pool of one source is made from.
SOURCE_SHARE = 0.1


def draw_pool(
    facts: Tensor,
    index: TripleIndex,
    kind: Noise,
    rng: torch.Generator,
    ranker: similar.Ranker | None = None,
    source_share: float = SOURCE_SHARE,
) -> tuple[Tensor, Tensor]:
    """Draw about one uncollected fact for each fact [n, 3]; those that are collected drop out.

    Args:
        facts: what is corrupted.
        index: all collected facts; the roles are theirs, too.
        kind: of the false facts.
        rng: the draws come from it.
        ranker: what ranks the answers of ``hard`` and ``crowded``; without one a stand-in does.
        source_share: of the facts, by whole heads, that those of one source are made from.

    Returns:
        The facts [m, 3] and which of their ends was replaced [m]: HEAD, TAIL, or -1, no single end.
    """
    if kind in RANKED and ranker is None:
        seed = int(torch.randint(2**31, (), generator=rng))
        ranker = similar.spectral(index.facts(), index, seed)
    if kind == "one-source":
        source = facts_of_few_heads(facts, max(1, round(source_share * len(facts))), rng)
        facts = source[torch.randint(max(len(source), 1), (len(facts),), generator=rng)]
    if kind == "crowded" and ranker is not None:
        facts = similar.repeated(facts, ranker, rng)
    stored = index.facts()
    if kind in ("one-sided", "typed", "wrong-tail"):
        roles = replace.Roles(stored, index.num_entities, index.num_relations)
        drawn, end = replace.entity_of_pool(kind, roles)(facts, rng)
    else:
        drawn, end = _change(kind, stored, index, ranker)(facts, rng)
    fresh = ~index.contains(drawn)
    return drawn[fresh], end[fresh]


def draw_false_facts(
    facts: Tensor, known: TripleIndex, wanted: int, kind: Noise, seed: int
) -> Tensor:
    """Draw ``wanted`` distinct facts [n, 3] that are not known, by corrupting ``facts`` [m, 3].

    ``caged`` draws what its published code does, which may be one or a few less; the order of the
    facts matters to it.
    """
    return draw_with_origin(facts, known, wanted, kind, seed)[0]


def draw_with_origin(
    facts: Tensor, known: TripleIndex, wanted: int, kind: Noise, seed: int
) -> tuple[Tensor, Tensor]:
    """Return the same facts [n, 3] and what each was made of [n, 3].

    That is -1 where it is made of nothing (``random``), or where nobody keeps it (``caged``).
    """
    if kind == "caged":
        drawn = draw_caged(facts, known, wanted, seed)
        return drawn, torch.full_like(drawn, -1)
    rng = generator(seed, "plant")
    ranker = None
    if kind in RANKED:
        ranker = similar.spectral(facts, known, number(seed, "spectral"))
    change = _change(kind, facts, known, ranker)
    if kind == "one-source":
        # As many stored facts as false ones: about half of what the source says is wrong.
        facts = facts_of_few_heads(facts, wanted, generator(seed, "source"))
    found = origin = facts[:0]
    for _ in range(ROUNDS):
        if len(found) == wanted:
            return found, origin
        count = 2 * (wanted - len(found)) + 16
        # Random facts are made of nothing.
        chosen = facts[:1].expand(count, 3)
        if kind != "random":
            chosen = facts[torch.randint(len(facts), (count,), generator=rng)]
        if kind == "crowded" and ranker is not None:
            chosen = similar.repeated(chosen, ranker, rng)
        drawn, _ = change(chosen, rng)
        made_of = chosen if kind != "random" else torch.full_like(chosen, -1)
        fresh = ~known.contains(drawn)
        drawn, made_of = torch.cat([found, drawn[fresh]]), torch.cat([origin, made_of[fresh]])
        first = first_of_each(known.codes(drawn))[:wanted]
        found, origin = drawn[first], made_of[first]
    raise DataError(
        f"Only {len(found)} of {wanted} false facts could be found with noise "
        f"{kind!r}: the graph has no room for more; try another noise or a lower rate."
    )


def facts_of_few_heads(facts: Tensor, least: int, rng: torch.Generator) -> Tensor:
    """Return the facts of heads drawn until there are ``least`` facts: [m, 3], in given order."""
    heads, place, count = torch.unique(facts[:, HEAD], return_inverse=True, return_counts=True)
    order = torch.randperm(len(heads), generator=rng)
    before = torch.cumsum(count[order], 0) - count[order]
    taken = torch.zeros(len(heads), dtype=torch.bool)
    taken[order[before < least]] = True
    return facts[taken[place]]


def _change(
    kind: Noise, stored: Tensor, index: TripleIndex, ranker: similar.Ranker | None
) -> replace.Change:
    """Return the function that makes facts of a kind from stored ones [n, 3]."""
    if kind == "random":
        return replace.random(index)
    if kind == "swapped":
        return replace.swapped(stored, index)
    if kind == "relation":
        return replace.relation(index.num_relations)
    if kind == "near-duplicate":
        return similar.near_duplicate(stored, index)
    if kind == "caged":
        return replace.caged(index)
    if ranker is not None:
        return similar.hard(index, ranker) if kind == "hard" else similar.crowded(ranker)
    roles = replace.Roles(stored, index.num_entities, index.num_relations)
    if kind == "relation-typed":
        return replace.relation_typed(roles)
    if kind == "one-source":
        return replace.one_source(roles)
    return replace.entity(kind, roles)
