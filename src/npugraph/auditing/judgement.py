"""Probabilities of the collected and of the missing facts, and which may be suspected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.arrays import first_of_each
from npugraph.auditing.answers import RIGHT, WRONG, Answers
from npugraph.auditing.out_of_fold import CrossFit
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.statistics.answers import RANDOM, UNKNOWN
from npugraph.auditing.statistics.columns import apply_ratio
from npugraph.auditing.statistics.evidence import TruthModel, fit_truth_model, narrow
from npugraph.auditing.statistics.recovery import judge_proposals
from npugraph.calibration.class_priors import Interval
from npugraph.errors import DataError
from npugraph.graph import KnowledgeGraph, TripleIndex

Bools = NDArray[np.bool_]
Floats = NDArray[np.floating]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Judgement:
    """Probabilities of facts, with 90% intervals that come from the priors' own.

    Attributes:
        facts: int64 [n, 3].
        fold: int64 [n], whose system judged them.
        score: [n], log-odds of looking collected.
        probability: [n], of being true; ``low`` and ``high`` likewise.
    """

    facts: Tensor
    fold: Ints
    score: Floats
    probability: Floats
    low: Floats
    high: Floats

    def with_odds(self, ratio: NDArray[np.float64]) -> Judgement:
        """Return it with the odds of being wrong times a factor [n]."""
        figures = (self.probability, self.low, self.high)
        changed = (apply_ratio(values, ratio) for values in figures)
        return Judgement(self.facts, self.fold, self.score - np.log(ratio), *changed)

    def first(self, count: int) -> Judgement:
        """Return the first facts."""
        figures = (self.score, self.probability, self.low, self.high)
        return Judgement(
            self.facts[:count], self.fold[:count], *(values[:count] for values in figures)
        )


def weigh(crossfit: CrossFit, settings: AuditSettings) -> TruthModel:
    """Learn from the judged facts and the pools how scores become probabilities."""
    return fit_truth_model(
        crossfit.collected.arrays(),
        {kind: pool.arrays() for kind, pool in crossfit.pools.items()},
        beta=settings.beta,
        alpha=settings.alpha,
        thresholds=settings.thresholds,
        seed=settings.seed,
    )


def weigh_some(
    crossfit: CrossFit, model: TruthModel, about: Bools | None, settings: AuditSettings
) -> TruthModel:
    """Return how scores become probabilities among the collected facts ``about`` [n]; None: all."""
    if about is None:
        return model
    return narrow(
        model,
        crossfit.collected.arrays(),
        {kind: pool.arrays() for kind, pool in crossfit.pools.items()},
        about,
        beta=settings.beta,
        alpha=settings.alpha,
        thresholds=settings.thresholds,
        seed=settings.seed,
    )


def pool_scores(crossfit: CrossFit, model: TruthModel) -> tuple[Floats, Ints]:
    """Return scores and relations [m] of the facts of all pools."""
    features, fold, facts = (
        torch.cat([getattr(pool, name) for pool in crossfit.pools.values()])
        for name in ("features", "fold", "facts")
    )
    return model.stack.score(features.numpy(), fold.numpy()), facts[:, 1].numpy()


def judge_collected(
    crossfit: CrossFit,
    model: TruthModel,
    about: Bools | None = None,
    narrowed: TruthModel | None = None,
) -> Judgement:
    """Return the probabilities of the collected facts; ``narrowed`` tells those ``about`` [n]."""
    score = model.stack.collected
    probability = model.probability(score, collected=True)
    if about is not None and narrowed is not None:
        own = narrowed.probability(score, collected=True)
        probability = tuple(  # type: ignore[assignment]
            np.where(about, mine, all_) for mine, all_ in zip(own, probability, strict=True)
        )
    return Judgement(crossfit.collected.facts, crossfit.collected.fold.numpy(), score, *probability)


def judge_stored(
    crossfit: CrossFit,
    model: TruthModel,
    about: Bools | None = None,
    narrowed: TruthModel | None = None,
) -> Judgement:
    """Return the probabilities of the collected facts, then of those that are known to be wrong.

    Of the collected facts ``about`` [n] a ``narrowed`` model tells them, where there is one.
    """
    judged, wrong = judge_collected(crossfit, model, about, narrowed), crossfit.known_wrong
    score = model.stack.score(wrong.features.numpy(), wrong.fold.numpy())
    figures = (score, *model.probability(score, collected=True))
    return Judgement(
        torch.cat([judged.facts, wrong.facts]),
        np.concatenate([judged.fold, wrong.fold.numpy()]),
        *(
            np.concatenate([before, more])
            for before, more in zip(
                (judged.score, judged.probability, judged.low, judged.high), figures, strict=True
            )
        ),
    )


def judge_missing(
    crossfit: CrossFit, model: TruthModel, known_wrong: Tensor, settings: AuditSettings
) -> tuple[Judgement, Interval | None]:
    """Return facts that are not stored, judged, and the share of the true facts that they are.

    Where too few held-out facts are found again to learn from, they are judged as stored ones are.
    Facts that are known to be wrong are not proposed.
    """
    made = crossfit.proposed
    facts, fold, features = made.facts, made.fold.numpy(), made.features.numpy()
    index = crossfit.folds.graph.index()
    stored = index.contains(facts)
    folds = crossfit.folds
    if folds.planted is not None:
        known_wrong = torch.cat([known_wrong, folds.planted.facts])
    if folds.seen is not None:
        # Planted before, or taken out by the user since: systems may know them by heart.
        known_wrong = torch.cat([known_wrong, folds.seen])
    wrong = TripleIndex(known_wrong, index.num_entities, index.num_relations)
    # One system may find a fact by its head, another by its tail: the first one judges it.
    first = first_of_each(index.codes(facts))
    kept = first[~(stored | wrong.contains(facts))[first]].numpy()
    found = judge_proposals(
        features, fold, stored.numpy(), thresholds=settings.thresholds, seed=settings.seed
    )
    if found is not None:
        judged = (found.score, found.probability, found.low, found.high)
        missing_share = found.missing_share(crossfit.folds.count)
        return Judgement(facts[kept], fold[kept], *(v[kept] for v in judged)), missing_share
    score = model.stack.score(features[kept], fold[kept])
    probability = model.probability(score, collected=False)
    return Judgement(facts[kept], fold[kept], score, *probability), None


def protected_mask(
    graph: KnowledgeGraph, answers: Answers, protected: Tensor | None
) -> NDArray[np.bool_]:
    """Tell which distinct facts [n] must not be suspected: those given, and those known."""
    given = graph.facts[:0] if protected is None else protected
    wrong = TripleIndex(answers.wrong, graph.num_entities, graph.num_relations).contains(given)
    if bool(wrong.any()):
        row = graph.with_facts(given[wrong][:1]).to_table().to_pylist()[0]
        raise DataError(
            f"The fact ({', '.join(row.values())}) is to be protected and is known to be wrong, "
            "by its label or an answer; take it out of one of the two."
        )
    return _among(graph, torch.cat([given, answers.right]))


def clean_mask(
    graph: KnowledgeGraph, answers: Answers, protected: Tensor | None
) -> NDArray[np.bool_]:
    """Tell which distinct facts [n] are a part believed clean, whatever the audit says of them.

    They are those given, and those called right; not by somebody who chose them, or who also calls
    facts wrong and does not say how they came up: such facts may have been looked at for being
    suspicious.
    """
    origins = [RANDOM]
    if not ((answers.drawn == UNKNOWN) & (answers.said == WRONG)).any():
        origins.append(UNKNOWN)
    fair = (answers.said == RIGHT) & np.isin(answers.drawn, origins)
    given = graph.facts[:0] if protected is None else protected
    return _among(graph, torch.cat([given, answers.facts[torch.from_numpy(fair)]]))


def _among(graph: KnowledgeGraph, facts: Tensor) -> NDArray[np.bool_]:
    """Tell which distinct facts of a graph [n] are among some facts [m, 3]."""
    known = TripleIndex(facts, graph.num_entities, graph.num_relations)
    return known.contains(graph.index().facts()).numpy()
