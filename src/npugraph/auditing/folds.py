"""Which facts are judged, and which fold each of them is in."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from npugraph.arrays import first_by_key
from npugraph.auditing.answers import Answers
from npugraph.auditing.settings import AuditSettings
from npugraph.data.corrupt import Noise
from npugraph.errors import DataError, SettingsError
from npugraph.graph import KnowledgeGraph, Splits, TripleIndex
from npugraph.seeds import generator


def judged_graph(
    graph: KnowledgeGraph, answers: Answers, settings: AuditSettings
) -> KnowledgeGraph:
    """Return the rows that are trained on and judged: all but those known to be wrong."""
    known = TripleIndex(answers.wrong, graph.num_entities, graph.num_relations)
    kept = graph.select(~known.contains(graph.facts)) if len(known) else graph
    count, least = len(kept.index()), settings.thresholds.least_facts
    if count < least:
        raise DataError(
            f"{graph.name or graph.source or 'graph'!r} holds {count} distinct facts"
            + (" that are not known to be wrong" if len(known) else "")
            + f"; an audit compares facts with one another and needs at least {least}."
        )
    return kept


@dataclass(frozen=True)
class Planted:
    """Facts that the audit planted to test itself: wrong, and no part of any list.

    Attributes:
        facts: int64 [k, 3], distinct, none of them stored.
        kind: of each of them, [k].
        fold: int64 [k].
    """

    facts: Tensor
    kind: tuple[Noise, ...]
    fold: Tensor


@dataclass(frozen=True)
class Folds:
    """Which fold each distinct fact of a graph is in.

    Attributes:
        graph: the distinct facts, in key order.
        fold: int64 [n], 0..count - 1.
        count: how many folds there are.
        planted: facts of the self-test. Systems are trained on them as on stored ones.
        seen: int64 [s, 3], facts that are not stored but were once trained on, by systems that
            these start from; they serve as no example of a wrong fact.
        new: bool [n], which facts no system was trained on before; None: all.
    """

    graph: KnowledgeGraph
    fold: Tensor
    count: int
    planted: Planted | None = None
    seen: Tensor | None = None
    new: Tensor | None = None

    def others(self, fold: int) -> KnowledgeGraph:
        """Return what the system of a fold may know, its validation facts among them."""
        return self._with_planted(self.graph.select(self.fold != fold), fold)

    def index(self) -> TripleIndex:
        """Return all facts that were judged: the stored and the planted ones."""
        if self.planted is None:
            return self.graph.index()
        both = torch.cat([self.graph.facts, self.planted.facts])
        return TripleIndex(both, self.graph.num_entities, self.graph.num_relations)

    def not_drawn(self) -> TripleIndex:
        """Return all facts that are no examples of uncollected ones: judged, or seen before."""
        index = self.index()
        if self.seen is None:
            return index
        both = torch.cat([index.facts(), self.seen])
        return TripleIndex(both, index.num_entities, index.num_relations)

    def _with_planted(self, graph: KnowledgeGraph, fold: int) -> KnowledgeGraph:
        """Add the planted facts of all other folds."""
        if self.planted is None:
            return graph
        more = self.planted.facts[self.planted.fold != fold]
        both = graph.with_facts(torch.cat([graph.facts, more]), graph.source)
        if graph.confidence is None:
            return both
        # Nobody is confident of them: they count as the stored ones do on average.
        usual = graph.confidence.nanmean().expand(len(more))
        return replace(both, confidence=torch.cat([graph.confidence, usual]))

    def splits(
        self, fold: int, valid_share: float, seed: int, validated: Tensor | None = None
    ) -> Splits:
        """Return what a fold's system is trained and validated on; test is the fold itself.

        A system that starts from another knows by heart what that one was trained on. So it is
        validated on what that one was ``validated`` on [m, 3], and on a share of the new facts.
        """
        others = torch.nonzero(self.fold != fold).squeeze(1)
        order = others[torch.randperm(len(others), generator=generator(seed, "valid", fold))]
        if validated is None or self.new is None:
            num_valid = max(1, round(valid_share * len(order)))
            valid, train = order[:num_valid], order[num_valid:].sort().values
        else:
            old = TripleIndex(validated, self.graph.num_entities, self.graph.num_relations)
            held, fresh = old.contains(self.graph.facts[order]), self.new[order]
            # Of the new ones the first few, which are in random order.
            held |= fresh & (fresh.cumsum(0) <= round(valid_share * int(fresh.sum())))
            valid, train = order[held], order[~held].sort().values
        held_out = self.graph.select(self.fold == fold)
        known = self._with_planted(self.graph.select(train), fold)
        return Splits(f"fold {fold + 1}", known, self.graph.select(valid), held_out)


def distinct_facts(graph: KnowledgeGraph) -> KnowledgeGraph:
    """Return the distinct facts of a graph, in key order, each as it stands first."""
    return graph.select(first_by_key(graph.index().codes(graph.facts)))


def make_folds(graph: KnowledgeGraph, count: int, seed: int) -> Folds:
    """Cut the distinct facts of a graph into ``count`` folds of equal size, seeded."""
    distinct = distinct_facts(graph)
    if not 2 <= count <= len(distinct):
        raise SettingsError(f"folds={count} must lie between 2 and the {len(distinct)} facts.")
    fold = torch.empty(len(distinct), dtype=torch.int64)
    order = torch.randperm(len(distinct), generator=generator(seed, "folds"))
    fold[order] = torch.arange(len(distinct)) % count
    return Folds(distinct, fold, count)
