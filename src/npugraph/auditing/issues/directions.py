"""Relations that go from one entity to another, and one way only."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch

from npugraph.arrays import Ints
from npugraph.auditing.issues.facts import Facts, listed, regular, strong, text


def self_loops(facts: Facts) -> pa.Table:
    """Return facts from an entity to itself, of relations that hardly ever have them."""
    loop = facts.head == facts.tail
    straight = facts.counts - facts.by_relation(loop)
    score = regular(straight, facts.counts - 1)
    rows = np.flatnonzero(loop & strong(straight, facts.counts - 1)[facts.relation])
    sentences = [
        f"{straight[r]:,} of the {facts.counts[r] - 1:,} other facts of {facts.named(r)} "
        "join two different entities."
        for r in facts.relation[rows].tolist()
    ]
    return listed("self-loop", score[facts.relation[rows]], sentences, **facts.names(rows))


def both_ways(facts: Facts) -> pa.Table:
    """Return pairs of facts that are each other's reverse, of relations that go one way only."""
    later, back = later_reverses(facts)
    double = np.bincount(facts.relation[later], minlength=facts.num_relations)
    pairs = facts.by_relation(facts.head != facts.tail) - double
    score = regular(pairs - double, pairs - 1)
    chosen = strong(pairs - double, pairs - 1)[facts.relation[later]]
    rows, back = later[chosen], back[chosen]
    names, others = facts.names(rows), facts.names(back)
    sentences = [
        f"{pairs[r] - double[r]:,} of the {pairs[r] - 1:,} other pairs of {facts.named(r)} "
        "are stored one way only; of this one the reverse is stored, too."
        for r in facts.relation[rows].tolist()
    ]
    other = [text(fact) for fact in zip(*(c.to_pylist() for c in others.values()), strict=True)]
    return listed("both-ways", score[facts.relation[rows]], sentences, **names, other=other)


def later_reverses(facts: Facts) -> tuple[Ints, Ints]:
    """Return facts whose reverse was stored before, and that reverse: places [k] and [k]."""
    turned = np.stack([facts.tail, facts.relation, facts.head], axis=1)
    back = facts.graph.index().places(torch.from_numpy(turned)).numpy()
    rows = np.flatnonzero((back >= 0) & (facts.first > facts.first[back]))
    return rows, back[rows]
