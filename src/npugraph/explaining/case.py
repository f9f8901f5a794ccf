"""One fact against the other facts of its relation, and the tables that make this cheap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from npugraph.errors import DataError
from npugraph.explaining.records import Labels
from npugraph.graph import KnowledgeGraph, Side
from npugraph.names import ReadableNames
from npugraph.rules import DirectedEdges, RuleSet
from npugraph.rules.edges import Ints, check_facts
from npugraph.triples import Triple


@dataclass(frozen=True, eq=False)
class Case:
    """A fact and the other distinct facts of its relation.

    Attributes:
        fact: the ids of head, relation and tail.
        stored: whether the graph holds the fact.
        heads: int64 [m], heads of the other facts of the relation.
        tails: int64 [m], their tails.
    """

    fact: Triple
    stored: bool
    heads: Ints
    tails: Ints

    def sides(self) -> Iterator[tuple[Side, int, int, Ints, Ints]]:
        """Yield for each side its name, its entity, the opposite entity, and both columns."""
        head, _, tail = self.fact
        yield "head", head, tail, self.heads, self.tails
        yield "tail", tail, head, self.tails, self.heads


class Tables:
    """A graph prepared for looking up the surroundings of facts.

    Attributes:
        graph: the graph.
        edges: its facts, to be walked both ways.
        roles: int64 [E, 2R], sparse: how often an entity is the head of r, or (at r + R) its tail.
        readable: how names are written in sentences.
    """

    def __init__(
        self, graph: KnowledgeGraph, rules: RuleSet, readable: ReadableNames | None = None
    ) -> None:
        """Prepare ``graph``; the edges of the rules are used again where they are the same."""
        sizes = graph.num_entities, graph.num_relations
        found = rules.edges.num_entities, rules.edges.num_relations
        if found != sizes:
            raise DataError(
                f"The rules are about {found[0]} entities and {found[1]} relations, the graph has "
                f"{sizes[0]} and {sizes[1]}; mine them over the same vocabularies."
            )
        self.graph = graph
        self.readable = readable or graph.readable
        self.edges = rules.edges
        if not self.edges.index.holds_same(graph.index().to("cpu")):
            self.edges = DirectedEdges(graph.facts, *sizes)
        head, relation, tail = self.edges.index.facts().numpy().T
        order = np.argsort(relation, kind="stable")
        self._heads, self._tails = head[order], tail[order]
        self._first = np.searchsorted(relation[order], np.arange(sizes[1] + 1))
        cells = (np.concatenate([head, tail]), np.concatenate([relation, relation + sizes[1]]))
        ones = np.ones(2 * len(head), np.int64)
        self.roles = sparse.csr_array((ones, cells), shape=(sizes[0], 2 * sizes[1]))

    def case(self, fact: Sequence[int] | Tensor) -> Case:
        """Look up a fact, given as three ids."""
        row = torch.as_tensor(fact, dtype=torch.int64).cpu().reshape(1, -1)
        check_facts(row, self.graph.num_entities, self.graph.num_relations)
        head, relation, tail = row[0].tolist()
        rows = slice(self._first[relation], self._first[relation + 1])
        heads, tails = self._heads[rows], self._tails[rows]
        same = (heads == head) & (tails == tail)
        return Case((head, relation, tail), bool(same.any()), heads[~same], tails[~same])

    def roles_without(self, case: Case, entity: int) -> Ints:
        """Count how often an entity is in each role [2R], the fact of the case left out."""
        counts: Ints = self.roles[[entity]].toarray()[0]
        head, relation, tail = case.fact
        counts[relation] -= case.stored and entity == head
        counts[relation + self.graph.num_relations] -= case.stored and entity == tail
        return counts

    def name(self, entity: int) -> str:
        """Return the label of an entity."""
        return self.graph.entities.label(entity)

    def labels(self, fact: Sequence[int]) -> Labels:
        """Return the labels of a fact."""
        head, relation, tail = fact
        return self.name(head), self.graph.relations.label(relation), self.name(tail)

    def place(self, case: Case, side: Side, entity: int) -> Triple:
        """Return the fact of a case with another entity on one side."""
        head, relation, tail = case.fact
        return (entity, relation, tail) if side == "head" else (head, relation, entity)
