"""A second tail, or head, where a relation has one nearly always."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from npugraph.arrays import Ints
from npugraph.auditing.issues.facts import OTHER, Facts, listed, regular, strong
from npugraph.auditing.issues.literals import Bools
from npugraph.graph import Side

# Meetings by chance that are too few to compare with.
LEAST = 5


def second_tails(facts: Facts) -> pa.Table:
    """Return further tails of a head, of relations that have one tail per head."""
    return _second(facts, "tail")


def second_heads(facts: Facts) -> pa.Table:
    """Return further heads of a tail, of relations that have one head per tail."""
    return _second(facts, "head")


def _second(facts: Facts, side: Side) -> pa.Table:
    """Return the facts that give an entity another value on one side."""
    entity = facts.end(OTHER[side])
    key = entity * facts.num_relations + facts.relation
    groups_of, sizes = np.unique(key, return_counts=True)
    relation = groups_of % facts.num_relations
    groups = np.bincount(relation, minlength=facts.num_relations)
    single = np.bincount(relation[sizes == 1], minlength=facts.num_relations)
    score = regular(single, groups - 1)
    one = strong(single, groups - 1) & ~facts.valued & ~_by_chance(facts, entity, relation, sizes)
    rows, firsts = further(facts, side)
    chosen = one[facts.relation[rows]]
    rows, firsts = rows[chosen], firsts[chosen]
    names = facts.names(rows)
    values = facts.names(firsts)[side]
    entities = names[OTHER[side]].to_pylist()
    sentences = [
        f"{single[r]:,} of the {groups[r] - 1:,} other {OTHER[side]}s of {facts.named(r)} "
        f"have one {side}; {facts.short(name)} also has {facts.short(value)}."
        for r, name, value in zip(
            facts.relation[rows].tolist(), entities, values.to_pylist(), strict=True
        )
    ]
    kind = f"second-{side}"
    return listed(kind, score[facts.relation[rows]], sentences, **names, other=values)


def further(facts: Facts, side: Side) -> tuple[Ints, Ints]:
    """Return facts that give an entity another value on one side, and the one stored first.

    Both are places [k]; ``side`` is where the value stands.
    """
    entity = facts.end(OTHER[side])
    # Facts with the same entity and relation side by side, in the order of the input.
    order = np.lexsort((facts.first, facts.relation, entity))
    key = (entity * facts.num_relations + facts.relation)[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    first = order[np.repeat(starts, np.diff(np.append(starts, len(key))))]
    later = first != order
    rows = np.sort(order[later])
    place = np.empty(len(order), np.int64)
    place[order] = first
    return rows, place[rows]


def _by_chance(facts: Facts, entity: Ints, relation: Ints, sizes: Ints) -> Bools:
    """Tell which relations [R] have one value per entity for want of facts only.

    If the facts of each entity [n] were dealt out to the relations anew, two of the same relation
    would meet so often; where they really meet half as often or more, nothing keeps them apart.

    Args:
        facts: the facts.
        entity: who has the value, of each fact.
        relation: of each group of facts with the same entity and relation [g].
        sizes: of the groups.
    """
    degree = np.bincount(entity)
    share = facts.counts / max(len(facts), 1)
    chance = (degree * (degree - 1) / 2).sum() * share**2
    met = np.bincount(relation, sizes * (sizes - 1) / 2, minlength=facts.num_relations)
    # A relation that most facts have meets itself however they are dealt.
    return np.asarray((chance >= LEAST) & (2 * met >= chance) & (share <= 0.5))
