"""Run an audit: cross-fit, noise profile, one score, priors, probabilities, lists."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.arrays import first_of_each
from npugraph.auditing.begun import begin
from npugraph.auditing.features import FEATURES
from npugraph.auditing.missing import propose
from npugraph.auditing.out_of_fold import CrossFit, Judged, cross_fit, make_folds
from npugraph.auditing.settings import SEARCH, AuditSettings, searches, suited_settings
from npugraph.auditing.statistics.class_priors import Estimate, Priors
from npugraph.auditing.statistics.evidence import Sample, Verdict, reach_verdict
from npugraph.auditing.statistics.noise_kinds import NoiseProfile
from npugraph.auditing.statistics.recovery import judge_proposals
from npugraph.auditing.statistics.review_lists import find_missing_facts, find_suspect_facts
from npugraph.data.sources import load_graph
from npugraph.errors import DataError
from npugraph.explaining import Explainer, Explanation
from npugraph.fitting import fit
from npugraph.graph import KnowledgeGraph, Splits, TripleIndex
from npugraph.rules import RuleSet, mine
from npugraph.seeds import number
from npugraph.settings import TrainSettings

if TYPE_CHECKING:
    from npugraph.report import ReportData

log = logging.getLogger(__name__)

Floats = NDArray[np.floating]
Stage = Callable[[str, dict[str, Any]], object]
# Fewer facts than this cannot be judged by comparing them with one another.
LEAST_FACTS = 50


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
    fold: NDArray[np.int64]
    score: Floats
    probability: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found.

    Attributes:
        graph: the graph as given, repeats and all.
        name: what to call it.
        settings: what was asked for.
        training: the settings of every system.
        crossfit: the folds, the systems and what they said.
        profile: what kind of wrong facts there seem to be.
        priors: the estimated shares of true facts.
        collected: judgement of the distinct collected facts.
        proposed: judgement of the proposed missing facts.
        missing_share: share of the true facts that are not stored, or None where it cannot be told.
        wrong_end: ``head`` or ``tail`` where most wrong facts are wrong there; None where they are
            not, or where it was not told from the graph that there are any.
        protected: bool [n], distinct collected facts that must not be suspected.
        chosen: validation MRR of each training setting that was tried.
    """

    graph: KnowledgeGraph
    name: str
    settings: AuditSettings
    training: TrainSettings
    crossfit: CrossFit
    profile: NoiseProfile
    priors: Priors
    collected: Judgement
    proposed: Judgement
    protected: NDArray[np.bool_]
    missing_share: Estimate | None = None
    wrong_end: str | None = None
    chosen: tuple[tuple[dict[str, Any], float], ...] = ()

    @cached_property
    def suspects(self) -> pa.Table:
        """The collected facts most probably wrong, at most ``budget`` of them."""
        return find_suspect_facts(
            self._table(self.collected),
            self.collected.probability,
            score=self.collected.score,
            budget=self.settings.budget,
            protected=self.protected,
        )

    @cached_property
    def quarantine(self) -> pa.Table:
        """As many suspects as keep the expected share of wrong ones at the target.

        None where the share of wrong facts is a guess: a guess is no reason to take facts out.
        """
        return find_suspect_facts(
            self._table(self.collected),
            self.collected.probability,
            score=self.collected.score,
            budget=None if self.priors.identifiable else 0,
            target_precision=self.settings.target_precision,
            protected=self.protected,
        )

    @cached_property
    def missing(self) -> pa.Table:
        """The uncollected facts most probably true."""
        return find_missing_facts(
            self._table(self.proposed),
            self.proposed.probability,
            score=self.proposed.score,
            budget=self.settings.missing,
        )

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """Where the fact of each input row [n] stands among the distinct collected ones."""
        index = self.crossfit.folds.graph.index()
        return torch.searchsorted(index.keys, index.key(self.graph.facts)).numpy()

    @cached_property
    def posterior(self) -> pa.Table:
        """Every input row and every proposed fact, with its probability."""
        rows = self._table(self.collected).take(pa.array(self.place))
        known = rows.append_column("collected", pa.array(np.ones(len(rows), dtype=bool)))
        new = self._table(self.proposed)
        new = new.append_column("collected", pa.array(np.zeros(len(new), dtype=bool)))
        columns = ("head", "relation", "tail", "p", "low", "high", "score", "collected", "fold")
        names = [name if name != "p" else "probability" for name in columns]
        return pa.concat_tables([known, new]).select(list(columns)).rename_columns(names)

    def _table(self, judged: Judgement) -> pa.Table:
        """Return labels and figures; the probability is ``p`` here, since lists add their own."""
        table = self.graph.with_facts(judged.facts).to_table()
        figures = {
            "p": judged.probability,
            "low": judged.low,
            "high": judged.high,
            "score": judged.score,
            "fold": judged.fold + 1,
        }
        for name, values in figures.items():
            table = table.append_column(name, pa.array(values))
        return table

    @cached_property
    def rules(self) -> RuleSet:
        """Rules mined from the collected facts."""
        graph = self.crossfit.folds.graph
        return mine(graph.facts, graph.num_entities, graph.num_relations, seed=self.settings.seed)

    @cached_property
    def _explainers(self) -> tuple[Explainer, ...]:
        graph = self.crossfit.folds.graph
        return tuple(
            Explainer(graph, self.rules, system.score_all, device=system.device)
            for system in self.crossfit.systems
        )

    def explain(self, fact: tuple[str, str, str] | Tensor, top: int = 5) -> Explanation:
        """Return the evidence about one fact, given as labels or ids.

        A collected fact is ranked by the system that never saw it, a proposed one by the system
        that found it.
        """
        if not isinstance(fact, Tensor):
            head, relation, tail = fact
            entities, relations = self.graph.entities, self.graph.relations
            fact = torch.tensor([entities.id(head), relations.id(relation), entities.id(tail)])
        fold = 0
        for judged in (self.collected, self.proposed):
            place = torch.nonzero((judged.facts == fact.cpu()).all(1)).flatten().tolist()
            if place:
                fold = int(judged.fold[place[0]])
        return self._explainers[fold].explain(fact, top=top)

    def report_data(self, **known: Any) -> ReportData:
        """Return what the report shows; ``known`` truths (planted, removed) are passed on."""
        from npugraph.auditing.page import report_data

        return report_data(self, **known)

    def report(self, path: Path) -> None:
        """Write the report, one HTML file."""
        from npugraph.report import write_report

        write_report(self.report_data(), path)


def audit(
    graph: KnowledgeGraph | Splits,
    settings: AuditSettings | None = None,
    changes: Mapping[str, Any] | None = None,
    *,
    protected: Tensor | None = None,
    out: Path | None = None,
    stage: Stage | None = None,
) -> Audit:
    """Find the wrong and the missing facts of a graph.

    Args:
        graph: the collected facts; the parts of a split graph are put together.
        settings: what is asked for.
        changes: settings of the recipe that differ from those that suit the graph's size.
        protected: facts [m, 3] that are known to be right and are never suspected.
        out: a folder for the systems, one run a fold; an interrupted audit goes on from there.
        stage: called with the name of each stage and its progress.
    """
    settings = settings or AuditSettings()
    whole = load_graph(graph)
    name = whole.name or whole.source or "graph"
    if len(whole.index()) < LEAST_FACTS:
        raise DataError(
            f"{name!r} holds {len(whole.index())} distinct facts; an audit compares facts with "
            f"one another and needs at least {LEAST_FACTS}."
        )

    def say(name: str, progress: dict[str, Any]) -> None:
        if name != "epoch":  # the training logs those
            log.info("%s", " ".join([name, *(f"{k}={v}" for k, v in progress.items())]))
        if stage is not None:
            stage(name, progress)

    training = suited_settings(whole, settings, changes)
    if out is not None:
        begin(out, whole, settings, changes or {})
    training, chosen = _choose(whole, settings, training, changes or {}, say)
    say("training", {"epochs": training.epochs * settings.folds})
    fitted = cross_fit(
        whole,
        settings.recipe,
        training,
        folds=settings.folds,
        size=settings.compared,
        seed=settings.seed,
        out=None if out is None else out / "folds",
        report=lambda fold, record: say("epoch", {"fold": fold, **record}),
    )
    say("judging", {})
    return _judge(name, whole, settings, training, fitted, protected, chosen, say)


def _choose(
    graph: KnowledgeGraph,
    settings: AuditSettings,
    training: TrainSettings,
    changes: Mapping[str, Any],
    say: Stage,
) -> tuple[TrainSettings, tuple[tuple[dict[str, Any], float], ...]]:
    """On small graphs, let the validation MRR on the first fold choose among a few settings."""
    if not searches(graph, settings, changes):
        return training, ()
    splits = make_folds(graph, settings.folds, settings.seed).splits(0, 0.05, settings.seed)
    tried = []
    for values in SEARCH:
        say("choosing", values)
        one = replace(training, **values, seed=number(settings.seed, "choose") % 2**31)
        tried.append((values, fit(splits, settings.recipe, one).progress.best_mrr))
    best = max(tried, key=lambda pair: pair[1])[0]
    return replace(training, **best), tuple(tried)


def _judge(
    name: str,
    graph: KnowledgeGraph,
    settings: AuditSettings,
    training: TrainSettings,
    fitted: CrossFit,
    protected: Tensor | None,
    chosen: tuple[tuple[dict[str, Any], float], ...],
    say: Stage,
) -> Audit:
    """Turn what the systems said into probabilities."""
    verdict = reach_verdict(
        _sample(fitted.collected),
        {kind: _sample(pool) for kind, pool in fitted.pools.items()},
        beta=settings.beta,
        alpha=settings.alpha,
        seed=settings.seed,
    )
    say("missing", {})
    proposed, missing_share = _proposals(fitted, settings, verdict)
    mask = np.zeros(len(fitted.collected.facts), dtype=bool)
    if protected is not None:
        guarded = TripleIndex(protected, graph.num_entities, graph.num_relations)
        mask = guarded.contains(fitted.collected.facts).numpy()
    fold, score = fitted.collected.fold.numpy(), verdict.stack.collected
    priors = verdict.priors
    told = settings.beta is None and priors.identifiable and priors.beta.high < 1
    return Audit(
        graph=graph,
        name=name,
        settings=settings,
        training=training,
        crossfit=fitted,
        profile=verdict.profile,
        priors=verdict.priors,
        collected=Judgement(
            fitted.collected.facts, fold, score, *verdict.probability(score, collected=True)
        ),
        proposed=proposed,
        protected=mask,
        missing_share=missing_share,
        wrong_end=verdict.wrong_end if told else None,
        chosen=chosen,
    )


def _sample(judged: Judged) -> Sample:
    columns = [FEATURES.index("score_tail"), FEATURES.index("score_head")]
    return Sample(
        judged.features.numpy(),
        judged.fold.numpy(),
        judged.facts[:, 1].numpy(),
        judged.features[:, columns].mean(1).numpy(),
        judged.replaced.numpy(),
    )


def _proposals(
    fitted: CrossFit, settings: AuditSettings, verdict: Verdict
) -> tuple[Judgement, Estimate | None]:
    """Return facts that are not stored, judged, and the share of the true facts that they are.

    Where too few held-out facts are found again to learn from, they are judged as stored ones are.
    """
    facts, fold, features = _found(fitted, settings)
    index = fitted.folds.graph.index()
    stored = index.contains(facts)
    # One system may find a fact by its head, another by its tail: the first one judges it.
    first = first_of_each(index.key(facts))
    kept = first[~stored[first]].numpy()
    found = judge_proposals(features, fold, stored.numpy(), seed=settings.seed)
    if found is not None:
        judged = (found.score, found.probability, found.low, found.high)
        missing_share = found.missing_share(len(fitted.systems))
        return Judgement(facts[kept], fold[kept], *(v[kept] for v in judged)), missing_share
    score = verdict.stack.score(features[kept], fold[kept])
    probability = verdict.probability(score, collected=False)
    return Judgement(facts[kept], fold[kept], score, *probability), None


def _found(fitted: CrossFit, settings: AuditSettings) -> tuple[Tensor, NDArray[np.int64], Floats]:
    """Return what each system proposes [m, 3], whose proposal it is, and the features.

    A system knows nothing of the facts of its own fold: it may find them again.
    """
    facts, folds, features = [], [], []
    cut = fitted.folds
    count = cut.count if settings.missing else 0
    for fold in range(count):
        most = max(20 * settings.missing // count, 1000)
        others = cut.graph.select(cut.fold != fold)
        made = propose(fitted.systems[fold], others, fold, count, settings.per_question, most)
        facts.append(made)
        folds.append(torch.full((len(made),), fold))
        comparison = fitted.comparison(fold, settings.compared, settings.seed)
        features.append(comparison.features(made).cpu())
    if not facts:
        return cut.graph.facts[:0], np.zeros(0, dtype=np.int64), np.zeros((0, len(FEATURES)))
    return torch.cat(facts), torch.cat(folds).numpy(), torch.cat(features).numpy()
