"""Gather the evidence about a fact from the stored facts, rules and scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from npugraph.errors import DataError, SettingsError
from npugraph.explaining.case import Case, Tables
from npugraph.explaining.contradictions import contradictions
from npugraph.explaining.records import (
    Alternative,
    EvidencePath,
    Explanation,
    Similar,
    Supporting,
    Usage,
)
from npugraph.graph import SIDES, KnowledgeGraph, Side
from npugraph.model import FoundPath
from npugraph.names import ReadableNames
from npugraph.ranking.ranks import ScoreAll, refuse_nan
from npugraph.rules import RuleSet, mine

# Features that more entities share than this say little and cost much.
MAX_FAN = 1000
MAX_FEATURES = 256


@dataclass(frozen=True)
class _Ranked:
    """What the scores say about one side of a fact."""

    score: float
    rank: float
    alternatives: list[Alternative]
    corrections: list[Alternative]


class Explainer:
    """Explains facts of one graph; build it once for many facts.

    One explanation costs about as much as looking once through the facts of its relation.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        rules: RuleSet | None = None,
        score_all: ScoreAll | None = None,
        *,
        readable: ReadableNames | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Prepare the evidence of a graph.

        Args:
            graph: whose facts are the evidence.
            rules: mined over the same vocabularies; mined here from the graph if not given.
            score_all: scores every entity as the missing side of queries [q]: returns [q, E].
            readable: how names are written in sentences; that of the graph if not given.
            device: where ``score_all`` wants its queries.
        """
        sizes = graph.num_entities, graph.num_relations
        self.rules = mine(graph.facts, *sizes) if rules is None else rules
        self.tables = Tables(graph, self.rules, readable)
        self.score_all = score_all
        self.device = device

    def explain(
        self,
        fact: Sequence[int] | Tensor,
        *,
        score_all: ScoreAll | None = None,
        paths: Sequence[FoundPath] = (),
        top: int = 5,
    ) -> Explanation:
        """Return the evidence about one fact, given as ids (head, relation, tail).

        Args:
            fact: three ids; the fact need not be stored.
            score_all: in the place of the explainer's own, for this fact.
            paths: what the model found between its ends.
            top: at most this many rules, ways, values and alternatives of each sort.
        """
        if top < 1:
            raise SettingsError(f"top={top} is too small; the least is 1.")
        case = self.tables.case(fact)
        ranked: dict[Side, _Ranked] = {}
        by_score = score_all or self.score_all
        if by_score is not None:
            ranked = {side: self._ranked(by_score, case, side, top) for side in SIDES}
        corrections = [item for part in ranked.values() for item in part.corrections]
        found = Explanation(
            fact=self.tables.labels(case.fact),
            ids=case.fact,
            stored=case.stored,
            supporting=self._supporting(case, top),
            contradicting=tuple(contradictions(self.tables, self.rules, case, top)),
            usage=tuple(self._usage(case)),
            similar=tuple(self._similar(case, top)),
            scores={side: part.score for side, part in ranked.items()},
            ranks={side: part.rank for side, part in ranked.items()},
            alternatives=tuple(a for part in ranked.values() for a in part.alternatives),
            corrections=tuple(sorted(corrections, key=lambda item: -item.gain)),
            paths=tuple(self._named(path) for path in paths[:top]),
        )
        return replace(found, names=self.tables.readable.differing(found.mentioned()))

    def _supporting(self, case: Case, top: int) -> tuple[Supporting, ...]:
        rules, row = self.rules, torch.tensor([case.fact])
        # No cap on the edges looked through: one fact can afford them all.
        firings = rules.judge(row, max_branch=max(int(rules.edges.degree.max()), 1))
        stored = rules.edges.index.contains(row).numpy().repeat(len(firings))
        supports, counts = rules.discounted(firings.rule, stored)
        found: dict[object, Supporting] = {}
        for place, number in enumerate(firings.rule.tolist()):
            rule = rules[number]
            bodies = rules.bodies(case.fact, number, top)
            # Over a symmetric relation the same atoms, turned round, say the same thing again.
            key = tuple(tuple((min(h, t), r, max(h, t)) for h, r, t in b) for b in bodies)
            if key not in found:
                found[key] = Supporting(
                    rule.describe(self.tables.graph.relations, self.tables.readable),
                    rule.kind,
                    float(firings.confidence[place]),
                    float(firings.lower[place]),
                    int(supports[place]),
                    int(counts[place]),
                    rule.sampled,
                    tuple(tuple(self.tables.labels(f) for f in body) for body in bodies),
                )
            if len(found) == top:
                break
        return tuple(found.values())

    def _usage(self, case: Case) -> Iterator[Usage]:
        total = len(case.heads)
        for side, entity, _, column, _ in case.sides():
            count = int((column == entity).sum())
            counts = np.unique(column, return_counts=True)[1]
            yield Usage(
                side,
                self.tables.name(entity),
                count,
                total,
                share=count / total if total else 0.0,
                percentile=float((counts < count).mean()) if total else 0.0,
                degree=int(self.tables.roles_without(case, entity).sum()),
            )

    def _similar(self, case: Case, top: int) -> Iterator[Similar]:
        """Entities by Adamic-Adar: shared features weigh 1 / log2(1 + entities that have them)."""
        edges = self.tables.edges
        relation = case.fact[1]
        for side, entity, opposite, _, _ in case.sides():
            towards = relation if side == "head" else relation + edges.num_relations
            around = slice(edges.first[entity], edges.first[entity + 1])
            end, direction = edges.end[around], edges.direction[around]
            # The fact itself is no feature, nor is its reverse, which would give it away.
            other = (end != opposite) | (direction % edges.num_relations != relation)
            end, back = end[other], edges.inverse(direction[other])
            fan = edges.fan(end, back)
            kept = np.argsort(fan, kind="stable")[:MAX_FEATURES]
            kept = kept[fan[kept] <= MAX_FAN]
            feature, found = edges.reach(end[kept], back[kept])
            weight = 1 / np.log2(1 + fan[kept])
            entities, place = np.unique(found, return_inverse=True)
            shared = np.bincount(place, weight[feature], minlength=len(entities))
            order = np.lexsort((entities, -shared))
            order = order[entities[order] != entity][:top]
            for one, common in zip(entities[order].tolist(), shared[order], strict=True):
                values = edges.reach(np.array([one]), np.array([towards]))[1]
                yield Similar(
                    side,
                    self.tables.name(one),
                    float(common / weight.sum()),
                    tuple(self.tables.name(v) for v in values[:top].tolist()),
                    bool((values == opposite).any()),
                )

    def _ranked(self, score_all: ScoreAll, case: Case, side: Side, top: int) -> _Ranked:
        head, relation, tail = case.fact
        known, own = (head, tail) if side == "tail" else (tail, head)
        ids = torch.tensor([known], device=self.device)
        scores = score_all(ids, torch.tensor([relation], device=self.device), side).cpu()
        num_entities = self.tables.graph.num_entities
        if scores.shape != (1, num_entities):
            raise DataError(
                f"score_all returned shape {tuple(scores.shape)} where (1, {num_entities}) was due."
            )
        refuse_nan(scores)
        values = scores[0].double().numpy()
        opposite, column = (case.heads, case.tails) if side == "tail" else (case.tails, case.heads)
        collected = np.zeros(num_entities, bool)
        collected[column[opposite == known]] = True
        # Other stored facts are no rivals: the rank is among what is not stored.
        rivals = ~collected
        rivals[own] = False
        higher = int((values[rivals] > values[own]).sum())
        ties = int((values[rivals] == values[own]).sum())
        order = np.argsort(-values, kind="stable")
        order = order[order != own]
        # An entity is meant at both ends only where such facts are stored.
        sensible = order if (case.heads == case.tails).any() else order[order != known]
        best = [sensible[collected[sensible] == state][:1] for state in (True, False)]

        def alternative(entity: int) -> Alternative:
            return Alternative(
                side,
                self.tables.labels(self.tables.place(case, side, entity)),
                float(values[entity]),
                float(values[entity] - values[own]),
                bool(collected[entity]),
            )

        corrections = [alternative(int(e)) for e in np.concatenate(best)]
        return _Ranked(
            float(values[own]),
            1 + higher + ties / 2,
            [alternative(int(e)) for e in order[:top]],
            [item for item in corrections if item.gain > 0],
        )

    def _named(self, path: FoundPath) -> EvidencePath:
        if not math.isfinite(path.weight):
            raise DataError(f"The weight {path.weight} of the path {path.facts} is not finite.")
        facts = tuple(self.tables.labels(self.tables.case(fact).fact) for fact in path.facts)
        return EvidencePath(facts, path.forward, path.weight)


def explain(
    graph: KnowledgeGraph,
    fact: Sequence[int] | Tensor,
    rules: RuleSet | None = None,
    score_all: ScoreAll | None = None,
    *,
    paths: Sequence[FoundPath] = (),
    readable: ReadableNames | None = None,
    top: int = 5,
    device: torch.device | str = "cpu",
) -> Explanation:
    """Explain one fact; for many facts build an :class:`Explainer` once.

    >>> from npugraph.data.datasets import load
    >>> graph = load("world").split().train
    >>> ids = graph.entities.id("Vienna"), graph.relations.id("capital_of")
    >>> found = explain(graph, (*ids, graph.entities.id("Germany")))
    >>> found.stored, found.contradicting[0].kind
    (False, 'functional')
    """
    explainer = Explainer(graph, rules, score_all, readable=readable, device=device)
    return explainer.explain(fact, paths=paths, top=top)
