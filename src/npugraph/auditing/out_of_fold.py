"""Judge every fact by what never saw it.

What was trained on a wrong fact knows it by heart. So the facts are cut into folds, and each view
judges the facts of a fold by what never saw them, and a pool of uncollected facts to compare them
with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from npugraph.auditing.folds import Folds
from npugraph.auditing.missing import propose
from npugraph.auditing.pools import fold_pool
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.statistics.evidence import FactArrays
from npugraph.auditing.views import Ranking, View
from npugraph.data.corrupt import Noise
from npugraph.errors import SettingsError
from npugraph.graph import TripleIndex
from npugraph.model import Model

# What Judged holds of each fact.
PER_FACT = ("facts", "fold", "features", "replaced", "support")


@dataclass(frozen=True)
class Judged:
    """Facts with the features that the views gave them.

    Attributes:
        facts: int64 [n, 3].
        fold: int64 [n].
        features: float32 [n, len(columns)], those of all views side by side.
        replaced: int64 [n], which end of a fact of a pool was replaced: 0, 2, or -1, no single end.
        support: int64 [n], in how many facts of the other folds the less known of its two ends is.
        columns: the name of each feature, ``VIEW.COLUMN``.
        score: the columns whose mean is the plain score.
    """

    facts: Tensor
    fold: Tensor
    features: Tensor
    replaced: Tensor
    support: Tensor
    columns: tuple[str, ...]
    score: tuple[str, ...]

    @classmethod
    def join(cls, parts: Sequence[Judged]) -> Judged:
        """Return the facts of several folds, one after the other."""
        return parts[0]._with(
            {name: torch.cat([getattr(part, name) for part in parts]) for name in PER_FACT}
        )

    def select(self, rows: Tensor) -> Judged:
        """Return some of the facts."""
        return self._with({name: getattr(self, name)[rows] for name in PER_FACT})

    def _with(self, values: dict[str, Any]) -> Judged:
        return replace(self, **values)

    def plain_score(self) -> Tensor:
        """Return the plain score [n]: the mean of the scores of both questions."""
        return self.features[:, [self.columns.index(name) for name in self.score]].mean(1)

    def arrays(self) -> FactArrays:
        """Return them as arrays."""
        return FactArrays(
            self.features.numpy(),
            self.fold.numpy(),
            self.facts[:, 1].numpy(),
            self.plain_score().numpy(),
            self.replaced.numpy(),
            self.support.numpy(),
        )


@dataclass(frozen=True)
class CrossFit:
    """The collected facts of a graph, and uncollected ones, judged out of fold.

    Attributes:
        folds: which fold each fact is in.
        systems: by fold, the system that was not trained on it.
        views: what judged the facts.
        collected: the collected facts, in key order.
        pools: uncollected facts by kind.
        proposed: what each system would answer; facts of its own fold may be among it.
        known_wrong: the stored facts that are known to be wrong, which nothing was trained on.
        planted: the facts of the self-test by kind, judged as the collected ones are.
    """

    folds: Folds
    systems: tuple[Model, ...]
    views: tuple[View, ...]
    collected: Judged
    pools: dict[Noise, Judged]
    proposed: Judged
    known_wrong: Judged
    planted: dict[Noise, Judged] = field(default_factory=dict)


def judge_out_of_fold(
    folds: Folds,
    views: tuple[View, ...],
    settings: AuditSettings,
    known_wrong: Tensor | None = None,
) -> CrossFit:
    """Judge every fact, the pools and the proposals by what never saw them.

    Stored facts that are known to be wrong [k, 3] are in no fold; each is judged as if in one.
    """
    wrong = folds.graph.facts[:0] if known_wrong is None else known_wrong
    of_fold = torch.arange(len(wrong)) % folds.count
    # Roles are those of stored facts: planted ones would put entities where none belongs.
    index = folds.graph.index()
    ranking = ranking_view(views)
    parts = [
        _judge_fold(folds, fold, views, ranking, index, settings, wrong[of_fold == fold])
        for fold in range(folds.count)
    ]
    place = torch.cat([torch.nonzero(folds.fold == fold).squeeze(1) for fold in range(folds.count)])
    return CrossFit(
        folds,
        ranking.systems,
        views,
        Judged.join([part.collected for part in parts]).select(torch.argsort(place)),
        {kind: Judged.join([part.pools[kind] for part in parts]) for kind in settings.kinds},
        Judged.join([part.proposed for part in parts]),
        Judged.join([part.known_wrong for part in parts]).select(
            torch.argsort(torch.argsort(of_fold, stable=True))
        ),
        _by_kind(folds, Judged.join([part.planted for part in parts])),
    )


def _by_kind(folds: Folds, planted: Judged) -> dict[Noise, Judged]:
    """Divide the planted facts, which stand fold by fold, by their kind."""
    if folds.planted is None:
        return {}
    order = torch.argsort(folds.planted.fold, stable=True).tolist()
    kinds = [folds.planted.kind[place] for place in order]
    return {
        kind: planted.select(torch.tensor([one == kind for one in kinds]))
        for kind in dict.fromkeys(folds.planted.kind)
    }


def ranking_view(views: tuple[View, ...]) -> Ranking:
    """Return the first view that can rank entities."""
    for view in views:
        if isinstance(view, Ranking):
            return view
    raise SettingsError("None of the views can rank entities; take one of embedding and path, too.")


@dataclass(frozen=True)
class _Part:
    """The judged facts of one fold."""

    collected: Judged
    pools: dict[Noise, Judged]
    proposed: Judged
    planted: Judged
    known_wrong: Judged


def _judge_fold(
    folds: Folds,
    fold: int,
    views: tuple[View, ...],
    ranking: Ranking,
    index: TripleIndex,
    settings: AuditSettings,
    known_wrong: Tensor,
) -> _Part:
    thresholds, seed, system = settings.thresholds, settings.seed, ranking.systems[fold]
    columns = tuple(f"{view.name}.{column}" for view in views for column in view.columns)
    ends_of_others = folds.others(fold).facts[:, [0, 2]].flatten()
    degree = torch.bincount(ends_of_others, minlength=folds.graph.num_entities)
    score = tuple(f"{ranking.name}.{column}" for column in ranking.score)

    def judged(facts: Tensor, replaced: Tensor | None = None) -> Judged:
        where = torch.full((len(facts),), fold)
        ends = torch.full_like(where, -1) if replaced is None else replaced
        features = torch.cat([view.features(facts, fold) for view in views], 1)
        support = degree[facts[:, [0, 2]]].min(1).values
        return Judged(facts, where, features, ends, support, columns, score)

    mine = folds.graph.facts[folds.fold == fold]
    # A large graph needs no pool of its own size.
    most = min(thresholds.pool_facts // folds.count, len(mine))
    stored, known = folds.graph.facts, folds.index()

    def pool(kind: Noise) -> Judged:
        facts, replaced = fold_pool(stored, index, kind, fold, most, seed, system)
        fresh = ~known.contains(facts)
        return judged(facts[fresh], replaced[fresh])

    pools = {kind: pool(kind) for kind in settings.kinds}
    proposed = mine[:0]
    if settings.most_missing:
        wanted = thresholds.candidates_per_missing * settings.most_missing // folds.count
        proposed = propose(
            system,
            folds.others(fold),
            fold,
            folds.count,
            per_question=settings.per_question,
            most=max(wanted, thresholds.least_candidates),
            role_entities=thresholds.role_entities,
        )
    tested = mine[:0]
    if folds.planted is not None:
        tested = folds.planted.facts[folds.planted.fold == fold]
    return _Part(judged(mine), pools, judged(proposed), judged(tested), judged(known_wrong))
