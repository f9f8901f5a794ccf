"""Find and count rules at a bounded cost.

One-atom rules are counted exactly, by one sparse product whose cost is the sum over pairs of
entities of (edges between them) squared. Two-atom rules are counted on the paths x-z-y: all of
them where there are no more than ``max_paths``, else a seeded sample in which each middle entity z
gives at most c paths, c being as large as ``max_paths`` allows. A hub thus weighs no more than any
entity with c paths through it. Time and memory are linear in facts and ``max_paths`` but for the
sorting: about 150 bytes per fact and per path.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from torch import Tensor

from npugraph.errors import SettingsError
from npugraph.rules.edges import DirectedEdges, Ints, ranges, spread
from npugraph.rules.ruleset import RuleSet, wilson_lower
from npugraph.seeds import number

# Paths of two edges that are looked at; more are sampled.
MAX_PATHS = 2_000_000
# Rules while they are counted: first, second (2R for none), head, support, body count; [k] each.
_Counts = tuple[Ints, Ints, Ints, Ints, Ints]


def mine(
    facts: Tensor,
    num_entities: int,
    num_relations: int,
    *,
    compositions: bool = True,
    min_support: int = 2,
    min_lower: float = 0.05,
    max_rules: int = 100_000,
    max_paths: int = MAX_PATHS,
    seed: int = 0,
) -> RuleSet:
    """Mine inverse, subsumption and composition rules from facts.

    Args:
        facts: int64 [n, 3]; repeats count once.
        num_entities: E.
        num_relations: R.
        compositions: whether to look for rules of two body atoms.
        min_support: keep rules that at least this many stored facts follow.
        min_lower: keep rules whose lower bound is at least this.
        max_rules: keep the best of them.
        max_paths: paths of two edges to look at; never fewer than one per middle entity.
        seed: of the sample of paths, where there are more.

    >>> import torch
    >>> facts = torch.tensor([[0, 0, 1], [1, 0, 0], [2, 0, 3], [3, 0, 2]])
    >>> rules = mine(facts, num_entities=4, num_relations=1)
    >>> rules[0].kind, rules[0].support, rules[0].body_count
    ('symmetric', 4, 4)
    """
    least = {"min_support": min_support, "max_rules": max_rules, "max_paths": max_paths}
    for name, value in least.items():
        if value < 1:
            raise SettingsError(f"{name}={value} is too small; the least is 1.")
    if not 0 <= min_lower <= 1:
        raise SettingsError(f"min_lower={min_lower} must lie between 0 and 1.")
    edges = DirectedEdges(facts, num_entities, num_relations)
    parts, sampled = [_count_single(edges)], False
    if compositions:
        counts, sampled = _count_composed(edges, max_paths, seed)
        parts.append(counts)
    first, second, head, support, body = (np.concatenate(c) for c in zip(*parts, strict=True))
    lower = wilson_lower(support, body)
    keep = np.flatnonzero((support >= min_support) & (lower >= min_lower))
    # Of equal bounds the better supported rule comes first, then the simpler one.
    ties = (second[keep], first[keep], head[keep], second[keep] < 2 * num_relations)
    keep = keep[np.lexsort((*ties, -support[keep], -lower[keep]))][:max_rules]
    bodies = np.stack([first[keep], second[keep]], axis=1)
    return RuleSet(edges, bodies, head[keep], support[keep], body[keep], sampled)


def _count_single(edges: DirectedEdges) -> _Counts:
    """Count d(x, y) => r(x, y) for all directed relations d and relations r != d."""
    relations = edges.num_relations
    column = np.cumsum(np.diff(edges.pair, prepend=-1) != 0) - 1
    shape = (2 * relations, int(column[-1]) + 1 if len(column) else 0)
    cells = (np.ones(len(column), np.int64), (edges.direction, column))
    table = sparse.csr_array(cells, shape=shape)
    joint = (table @ table[:relations].T).tocoo()
    first, head = (index.astype(np.int64) for index in joint.coords)
    keep = first != head
    first, head, support = first[keep], head[keep], joint.data[keep]
    body = np.bincount(edges.direction, minlength=2 * relations)[first]
    return first, np.full_like(first, 2 * relations), head, support, body


def _count_composed(edges: DirectedEdges, max_paths: int, seed: int) -> tuple[_Counts, bool]:
    """Count d(x, z), e(z, y) => r(x, y); tell also whether on a sample."""
    relations = edges.num_relations
    pairs, pair, body, sampled = _paths(edges, max_paths, seed)
    # One instance is one pair of entities, whatever the number of paths between them.
    instance = np.unique(body * max(len(pairs), 1) + pair)
    body, pair = np.divmod(instance, max(len(pairs), 1))
    stored = edges.direction < relations
    fact_pair, fact_relation = edges.pair[stored], edges.direction[stored]
    low = np.searchsorted(fact_pair, pairs)
    count = np.searchsorted(fact_pair, pairs, side="right") - low
    heads = int(count[pair].sum())
    if heads > 2 * max_paths:
        # Many relations between the same two entities: fewer instances bound the work.
        rng = np.random.default_rng(number(seed, "rules", "instances"))
        kept = rng.random(len(pair)) < 2 * max_paths / heads
        body, pair, sampled = body[kept], pair[kept], True
    bodies, body_count = np.unique(body, return_counts=True)
    owner, place = ranges(low[pair], count[pair])
    rule, support = np.unique(body[owner] * relations + fact_relation[place], return_counts=True)
    body, head = np.divmod(rule, max(relations, 1))
    first, second = np.divmod(body, max(2 * relations, 1))
    return (first, second, head, support, body_count[np.searchsorted(bodies, body)]), sampled


def _paths(edges: DirectedEdges, max_paths: int, seed: int) -> tuple[Ints, Ints, Ints, bool]:
    """Draw paths x-z-y without turning back.

    Returns:
        The distinct pairs x * E + y, ascending; the number of its pair and the body d * 2R + e of
        each path, two arrays [p]; and whether paths were left out.
    """
    degree = edges.degree
    size = degree * (degree - 1)
    take = np.minimum(size, cap_per_middle(size, max_paths))
    rng = np.random.default_rng(number(seed, "rules", "paths"))
    middle, path = spread(size, take, rng)
    # A path is an ordered pair of different edges around its middle.
    one, other = np.divmod(path, np.maximum(degree - 1, 1)[middle])
    other += other >= one
    one += edges.first[middle]
    other += edges.first[middle]
    start, end = edges.end[one], edges.end[other]
    forward = np.flatnonzero(start != end)
    key = start[forward] * edges.num_entities + end[forward]
    first = edges.inverse(edges.direction[one[forward]])
    body = first * (2 * edges.num_relations) + edges.direction[other[forward]]
    pairs, pair = np.unique(key, return_inverse=True)
    return pairs, pair, body, bool((take < size).any())


def cap_per_middle(size: Ints, budget: int) -> int:
    """Return the largest c, at least 1, with sum of min(size, c) <= budget.

    >>> cap_per_middle(np.array([2, 6, 90]), 20)
    12
    """
    ordered = np.sort(size)
    below = np.concatenate([[0], np.cumsum(ordered)])
    if below[-1] <= budget:
        return max(int(size.max(initial=1)), 1)
    # The i smallest fit whole, the rest share what is left.
    left = (budget - below[:-1]) // (len(size) - np.arange(len(size)))
    return max(int(left[np.argmax(left < ordered)]), 1)
