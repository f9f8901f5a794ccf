"""Mined rules and what they say about facts and queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from npugraph.errors import DataError, SettingsError
from npugraph.graph import Side, Vocabulary
from npugraph.names import Readable, shorten
from npugraph.rules.edges import (
    Bools,
    DirectedEdges,
    Floats,
    Ints,
    check_facts,
    ranges,
    spread,
)
from npugraph.seeds import number
from npugraph.triples import Triple

RuleKind = Literal["symmetric", "inverse", "subsumption", "composition"]
Z95 = 1.959963984540054
# Edges looked at in one go when compositions are applied: about 20 MB.
CHUNK = 1 << 16


def wilson_lower(support: Ints | int, count: Ints | int) -> Floats:
    """Return the lower end of Wilson's 95% interval for support / count; 0 where count is 0.

        (p + z^2/2n - z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n),   p = support/n, z = 1.96

    >>> wilson_lower(np.array([0, 9, 90]), np.array([0, 10, 100])).round(3).tolist()
    [0.0, 0.596, 0.826]
    """
    n = np.maximum(np.asarray(count, np.float64), 1)
    share = np.asarray(support, np.float64) / n
    width = Z95 * np.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
    lower = (share + Z95**2 / (2 * n) - width) / (1 + Z95**2 / n)
    # At support 0 the formula is 0 but for rounding.
    return np.where(np.asarray(support) > 0, lower, 0.0)


@dataclass(frozen=True)
class Rule:
    """One rule with its counts.

    Attributes:
        body: one or two directed relations, in the order they are walked from x to y.
        head: the relation the rule concludes.
        support: instances of the body whose head is a stored fact.
        body_count: instances of the body.
        num_relations: R, which tells the two directions of a body atom apart.
        sampled: whether the counts are of a sample of the instances.
    """

    body: tuple[int, ...]
    head: int
    support: int
    body_count: int
    num_relations: int
    sampled: bool = False

    @property
    def confidence(self) -> float:
        """Share of the instances whose head is stored."""
        return self.support / self.body_count

    @property
    def lower(self) -> float:
        """Lower end of Wilson's 95% interval of the confidence."""
        return float(wilson_lower(self.support, self.body_count))

    @property
    def kind(self) -> RuleKind:
        """What sort of rule this is."""
        if len(self.body) == 2:
            return "composition"
        if self.body[0] == self.head + self.num_relations:
            return "symmetric"
        return "inverse" if self.body[0] >= self.num_relations else "subsumption"

    def describe(self, relations: Vocabulary, readable: Readable = shorten) -> str:
        """Return the rule in words; ``readable`` writes the names, and cuts long ones.

        >>> Rule((1,), 0, 3, 4, num_relations=1).describe(Vocabulary.of(["borders"]))
        'borders(y, x) => borders(x, y)'
        """
        ends = [("x", "y")] if len(self.body) == 1 else [("x", "z"), ("z", "y")]
        atoms = []
        for direction, (start, end) in zip(self.body, ends, strict=True):
            order = (start, end) if direction < self.num_relations else (end, start)
            name = readable(relations.label(direction % self.num_relations))
            atoms.append(f"{name}({', '.join(order)})")
        return f"{', '.join(atoms)} => {readable(relations.label(self.head))}(x, y)"


@dataclass(frozen=True, eq=False)
class Firings:
    """Which rules speak for which facts; confidences are leave-one-out.

    Attributes:
        fact: int64 [m], the row of the fact a rule fires for, ascending.
        rule: int64 [m], the number of that rule; within a fact the best comes first.
        confidence: float64 [m], share of the rule's other instances that are stored.
        lower: float64 [m], the lower bound of that share.
        best: int64 [n], for each fact its best rule by lower bound, -1 where none fires.
        best_confidence: float64 [n], confidence of that rule, 0 where none fires.
        best_lower: float64 [n], lower bound of that rule, 0 where none fires.
    """

    fact: Ints
    rule: Ints
    confidence: Floats
    lower: Floats
    best: Ints
    best_confidence: Floats
    best_lower: Floats

    def __len__(self) -> int:
        return len(self.fact)


@dataclass(frozen=True, eq=False)
class RuleSet:
    """Mined rules, best first, with the edges they were mined from.

    Attributes:
        edges: the facts the rules were mined from and are applied with.
        body: int64 [k, 2], directed relations; the second is 2R in rules of one atom.
        head: int64 [k], the relation each rule concludes.
        support: int64 [k].
        body_count: int64 [k].
        sampled: whether compositions were counted on a sample of the paths.
    """

    edges: DirectedEdges
    body: Ints
    head: Ints
    support: Ints
    body_count: Ints
    sampled: bool

    def __len__(self) -> int:
        return len(self.head)

    def __getitem__(self, rule: int) -> Rule:
        body = tuple(int(d) for d in self.body[rule] if d < 2 * self.edges.num_relations)
        counts = int(self.support[rule]), int(self.body_count[rule])
        sampled = self.sampled and len(body) == 2
        return Rule(body, int(self.head[rule]), *counts, self.edges.num_relations, sampled)

    @cached_property
    def lower(self) -> Floats:
        """Lower bounds [k] of the confidences, descending."""
        return wilson_lower(self.support, self.body_count)

    @cached_property
    def composed(self) -> Bools:
        """Which rules [k] have two body atoms."""
        return self.body[:, 1] < 2 * self.edges.num_relations

    @cached_property
    def _by_code(self) -> tuple[Ints, Ints]:
        """Codes of the rules in ascending order, and the rule of each."""
        codes = self._code(self.body[:, 0], self.body[:, 1], self.head)
        order = np.argsort(codes)
        return codes[order], order

    @cached_property
    def _openings(self) -> Ints:
        """Codes of the edges by which a composition can begin from x, or turned round from y."""
        rules = np.flatnonzero(self.composed)
        from_head = self._opening(self.head[rules], self.body[rules, 0], False)
        last = self.edges.inverse(self.body[rules, 1])
        return np.unique([from_head, self._opening(self.head[rules], last, True)])

    def _opening(self, relation: Ints, direction: Ints, from_tail: Bools | bool) -> Ints:
        relations = self.edges.num_relations
        return (relation * 2 + from_tail) * (2 * relations) + direction

    def _code(self, first: Ints, second: Ints | int, head: Ints) -> Ints:
        relations = self.edges.num_relations
        return (first * (2 * relations + 1) + second) * relations + head

    def _match(self, owner: Ints, code: Ints) -> tuple[Ints, Ints]:
        """Keep what is the code of a rule: (owner, rule), each pair once."""
        codes, order = self._by_code
        found = np.flatnonzero(_among(code, codes))
        rule = order[np.searchsorted(codes, code[found])]
        key = np.unique(owner[found] * len(self) + rule)
        return key // len(self), key % len(self)

    def discounted(self, rule: Ints, stored: Bools) -> tuple[Ints, Ints]:
        """Return support and body count of rules [m] without the fact each one fires for.

        The fact's own pair of entities leaves both counts. In a symmetric rule a stored fact is
        also the body of the instance the other way round, which leaves them too. A sample of
        paths need not hold the pair: there a stored fact is taken out all the same, so as never
        to favour it, and one that is not stored changes nothing. Not taken out are instances
        with the fact in the body of a composition that concludes its own relation.
        """
        turned = self.body[rule, 0] == self.head[rule] + self.edges.num_relations
        mirrored = stored & turned & ~self.composed[rule]
        support = self.support[rule] - stored - mirrored
        count = self.body_count[rule] - 1 - mirrored
        if self.sampled:
            count += ~stored & self.composed[rule]
        return np.maximum(support, 0), np.maximum(count, 0)

    def judge(self, facts: Tensor, *, max_branch: int = 256, seed: int = 0) -> Firings:
        """Find the rules that fire for facts [n, 3], stored or not, leave-one-out.

        A rule that no other instance confirms does not count as firing. For compositions the
        edges around the end with fewer of them are looked through: n * max_branch at most.

        Args:
            facts: the facts to judge, int64 [n, 3].
            max_branch: look at no more edges than this per fact, a seeded sample beyond.
            seed: of that sample.
        """
        if max_branch < 1:
            raise SettingsError(f"max_branch={max_branch} is too small; the least is 1.")
        facts = facts.cpu()
        check_facts(facts, self.edges.num_entities, self.edges.num_relations)
        rows = facts.numpy()
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        if len(self) and len(rows):
            owner, direction = self.edges.between(rows[:, 0], rows[:, 2])
            # Loops have no edges; a fact's own edge is no rule's body, as no rule has r => r.
            code = self._code(direction, 2 * self.edges.num_relations, rows[owner, 1])
            parts.append(self._match(owner, code))
            if self.composed.any():
                parts.extend(self._match_paths(rows, max_branch, seed))
        fact, rule = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self._firings(facts, fact, rule)

    def _match_paths(self, rows: Ints, max_branch: int, seed: int) -> list[tuple[Ints, Ints]]:
        """Match the paths of two edges between the ends of facts [n, 3], in chunks."""
        edges = self.edges
        rng = np.random.default_rng(number(seed, "rules", "judge"))
        from_tail = edges.degree[rows[:, 2]] < edges.degree[rows[:, 0]]
        near = np.where(from_tail, rows[:, 2], rows[:, 0])
        far = np.where(from_tail, rows[:, 0], rows[:, 2])
        # A path from an entity back to itself is no instance.
        size = np.where(near == far, 0, edges.degree[near])
        take = np.minimum(size, max_branch)
        chunk = (np.cumsum(take) - 1) // CHUNK
        parts = []
        for piece in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(chunk)) + 1):
            owner, place = spread(size[piece], take[piece], rng)
            owner = piece[owner]
            place += edges.first[near[owner]]
            # Most edges begin no rule for this relation; finding that out is cheap.
            opening = self._opening(rows[owner, 1], edges.direction[place], from_tail[owner])
            useful = np.flatnonzero(_among(opening, self._openings))
            owner, place = owner[useful], place[useful]
            # Where the middle is the far end there is no second edge, as edges have no loops.
            path, second = edges.between(edges.end[place], far[owner])
            owner, first = owner[path], edges.direction[place[path]]
            turned = from_tail[owner]
            code = self._code(
                np.where(turned, edges.inverse(second), first),
                np.where(turned, edges.inverse(first), second),
                rows[owner, 1],
            )
            parts.append(self._match(owner, code))
        return parts

    def _firings(self, facts: Tensor, fact: Ints, rule: Ints) -> Firings:
        """Discount, order and sum up what fires: (fact, rule), two arrays [m]."""
        stored = self.edges.index.contains(facts).numpy()[fact]
        support, count = self.discounted(rule, stored)
        lower = wilson_lower(support, count)
        order = np.lexsort((rule, -lower, fact))
        order = order[support[order] > 0]
        fact, rule, lower = fact[order], rule[order], lower[order]
        confidence = support[order] / count[order]
        best = np.full(len(facts), -1, np.int64)
        best_confidence, best_lower = np.zeros(len(facts)), np.zeros(len(facts))
        judged, first = np.unique(fact, return_index=True)
        best[judged], best_confidence[judged] = rule[first], confidence[first]
        best_lower[judged] = lower[first]
        return Firings(fact, rule, confidence, lower, best, best_confidence, best_lower)

    def score_entities(self, known: Tensor, relation: Tensor, side: Side) -> sparse.csr_array:
        """Score entities as the missing side of queries [q]: sparse float64 [q, E].

        The score of an entity is the best leave-one-out lower bound of the inverse, symmetric
        and subsumption rules that conclude the fact it makes; 0, not stored, where none does.
        Work and memory: q times the rules of a relation, plus the edges they lead along.
        """
        entities, relations = self.edges.num_entities, self.edges.num_relations
        known, relation = known.cpu(), relation.cpu()
        check_facts(torch.stack([known, relation, known], dim=1), entities, relations)
        if side not in ("head", "tail"):
            raise DataError(f"side={side!r} must be 'head' or 'tail'.")
        singles = np.flatnonzero(~self.composed)
        singles = singles[np.argsort(self.head[singles], kind="stable")]
        asked, given = relation.numpy(), known.numpy()
        low = np.searchsorted(self.head[singles], asked)
        high = np.searchsorted(self.head[singles], asked, side="right")
        query, place = ranges(low, high - low)
        rule = singles[place]
        # d(x, y) from a known y is the turned relation from y to x.
        direction = self.body[rule, 0]
        direction = direction if side == "tail" else self.edges.inverse(direction)
        hit, found = self.edges.reach(given[query], direction)
        query, rule = query[hit], rule[hit]
        ends = (given[query], found) if side == "tail" else (found, given[query])
        facts = torch.from_numpy(np.stack([ends[0], asked[query], ends[1]], axis=1))
        value = wilson_lower(*self.discounted(rule, self.edges.index.contains(facts).numpy()))
        key = query * entities + found
        order = np.lexsort((value, key))
        order = order[value[order] > 0]
        last = np.flatnonzero(np.diff(key[order], append=-1))
        cell = key[order][last]
        values = value[order][last]
        shape = (len(given), entities)
        return sparse.csr_array((values, (cell // entities, cell % entities)), shape=shape)

    def bodies(self, fact: Triple, rule: int, limit: int = 5) -> list[tuple[Triple, ...]]:
        """Return the stored facts by which a rule fires for a fact, at most ``limit`` ways."""
        head, _, tail = fact
        body = self[rule].body
        edges = self.edges
        middles = edges.reach(np.array([head]), np.array([body[0]]))[1]
        if len(body) == 1:
            return [(edges.fact(head, body[0], tail),)] if tail in middles else []
        back = edges.inverse(np.array([body[1]]))
        if head == tail:
            return []
        common = np.intersect1d(middles, edges.reach(np.array([tail]), back)[1])
        return [
            (edges.fact(head, body[0], z), edges.fact(z, body[1], tail))
            for z in common[:limit].tolist()
        ]


def _among(values: Ints, ordered: Ints) -> Bools:
    """Tell which values [m] are in a sorted, non-empty array."""
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: Bools = ordered[place] == values
    return found
