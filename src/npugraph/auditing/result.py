"""What an audit found: the judged facts, and the tables a person reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.auditing.answers import Answers, Learned
from npugraph.auditing.clusters import Cluster
from npugraph.auditing.corrections import Corrector
from npugraph.auditing.issues import Issues
from npugraph.auditing.judgement import Judgement, pool_scores
from npugraph.auditing.out_of_fold import CrossFit
from npugraph.auditing.presets import Tried
from npugraph.auditing.promise import find_suspects, promised_suspects, wrong_among
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.since import Since, limited, touches
from npugraph.auditing.statistics.columns import ColumnEffect
from npugraph.auditing.statistics.contribution import Contribution, contributions
from npugraph.auditing.statistics.evidence import TruthModel
from npugraph.auditing.statistics.review_lists import find_missing_facts
from npugraph.auditing.statistics.self_test import SelfTest
from npugraph.auditing.statistics.verdict import (
    CANNOT_JUDGE,
    RELIABLE,
    Level,
    Verdict,
    count_interval,
    judge_proposed,
    judge_relations,
    judge_trust,
    not_taken_yet,
)
from npugraph.auditing.tables import (
    CORRECTED,
    LISTED,
    posterior_table,
    proposal_places,
    suspicion_places,
    told_figures,
)
from npugraph.auditing.told import ToldFacts, among
from npugraph.auditing.views import Ranking
from npugraph.auditing.views.path import half_of
from npugraph.calibration.class_priors import Interval, Priors
from npugraph.explaining import Audited, Explainer, Explanation, Meant, fact_ids, why_untold
from npugraph.graph import KnowledgeGraph
from npugraph.model import Model
from npugraph.recipes.path.judging import JudgingModel
from npugraph.report import Correction
from npugraph.rules import RuleSet, mine
from npugraph.settings import TrainSettings

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Findings:
    """What an audit found.

    Attributes:
        graph: the graph as given, repeats and all.
        name: what to call it.
        settings: what was asked for.
        training: the settings of every system.
        crossfit: the folds, the systems and what they said.
        model: what the features say, and how scores become probabilities.
        test: what became of the facts that the audit planted.
        corrector: what proposes corrections.
        priors: the estimated shares of true facts.
        collected: judgement of the distinct collected facts that are not known to be wrong.
        proposed: judgement of the proposed missing facts.
        protected: bool [n], distinct collected facts that must not be suspected.
        answers: what is known of single facts, by labels of the input and by answers.
        learned: what these taught.
        issues: what breaks the regularities of the graph, found without a model.
        missing_share: share of the true facts that are not stored, or None where it cannot be told.
        wrong_end: ``head`` or ``tail`` where most wrong facts are wrong there; None where they are
            not, or where it was not told from the graph that there are any.
        chosen: validation MRR of each training setting that was tried.
        columns: what each column of the input says about its facts.
        by_columns: whether no count could be promised without these.
        column_odds: by which factor they change the odds of being wrong of each distinct collected
            fact [n]; None: they say nothing.
        clusters: entities whose facts stand out, at either end.
        since: how it came of an earlier audit; None: it is a full one.
    """

    graph: KnowledgeGraph
    name: str
    settings: AuditSettings
    training: TrainSettings
    crossfit: CrossFit
    model: TruthModel
    test: SelfTest
    corrector: Corrector
    priors: Priors
    collected: Judgement
    proposed: Judgement
    protected: NDArray[np.bool_]
    answers: Answers
    learned: Learned
    issues: Issues
    missing_share: Interval | None = None
    wrong_end: str | None = None
    chosen: Tried = ()
    columns: Mapping[str, ColumnEffect] = dataclasses.field(default_factory=dict)
    by_columns: bool = False
    column_odds: Floats | None = None
    clusters: tuple[Cluster, ...] = ()
    since: Since | None = None

    @cached_property
    def verdict(self) -> Verdict:
        """What may be said of the suspects."""
        level = self.settings.thresholds.level
        said = judge_trust(
            self.test,
            self.model,
            wrong_among(self.collected, self._promised_rows, level),
            answered=self.learned.carries,
            refuted=self.learned.refutes,
            clustered=bool(self.clusters),
            by_columns=self.by_columns,
            thresholds=self.settings.thresholds,
        )
        said = limited(said, self.since, self.settings.thresholds)
        return not_taken_yet(said, columns=bool(self.columns), lacking=self.learned.lacking)

    @property
    def share_told(self) -> bool:
        """Whether the share of wrong facts is told: it may not be most of them, for all we know."""
        most = 1 - self.priors.beta.low
        by_audit = self.verdict.reliable and most <= self.settings.thresholds.told_share
        return by_audit or self.learned.share is not None

    @property
    def told_end(self) -> str | None:
        """The end at which most wrong facts are wrong, where anything is told of these."""
        return self.wrong_end if self.verdict.reliable or self.share_told else None

    @cached_property
    def told(self) -> NDArray[np.bool_]:
        """Of which distinct collected facts [n] the probability is told.

        Of none where the verdict is not ``reliable``, nor of relations whose own verdict is not;
        where answers carry the probabilities, of all.
        """
        relation = self.collected.facts[:, 1].numpy()
        if not self.verdict.reliable or self.learned.carries:
            return np.full(len(relation), self.verdict.reliable)
        poor = [number for number, level in self.relation_verdicts.items() if level != RELIABLE]
        return ~np.isin(relation, poor)

    @cached_property
    def missing_verdict(self) -> Verdict:
        """What may be said of the missing facts."""
        if self.settings.missing == 0:
            return Verdict(CANNOT_JUDGE, "No missing facts were asked for.")
        return judge_proposed(self.missing_share, self.settings.thresholds)

    @cached_property
    def relation_verdicts(self) -> dict[int, Level]:
        """The verdict on each relation with enough facts, by its number."""
        relation = self.collected.facts[:, 1].numpy()
        return judge_relations(
            self.model,
            relation,
            pool_scores(self.crossfit, self.model),
            self.verdict.level,
            self.settings.thresholds,
        )

    @cached_property
    def expected_wrong(self) -> Interval | None:
        """How many suspects should be wrong; None where nothing is promised."""
        if not self.verdict.reliable:
            return None
        return wrong_among(self.collected, self.suspect_rows, self.settings.thresholds.level)

    @cached_property
    def expected_true(self) -> Interval | None:
        """How many of the listed missing facts should be true; None where nothing is promised."""
        if not self.missing_verdict.reliable:
            return None
        judged, level = self.proposed, self.settings.thresholds.level
        value, low, high = (
            end[self.missing_rows] for end in (judged.probability, judged.low, judged.high)
        )
        return count_interval(value, low, high, level)

    @cached_property
    def suspects(self) -> pa.Table:
        """The collected facts most probably wrong, at most ``budget``: columns of suspects.tsv.

        ``replace`` and ``by`` are the proposed correction: the side, and what to put there. Where
        what was meant seems to be stored already, ``stored_head`` and ``stored_tail`` are the ends
        of that fact; the suspect is to be taken out, and nothing is to be put in its place. Where
        the verdict is not ``reliable`` there are no probabilities and no corrections.
        """
        table = self._list(self.collected, self.suspect_rows, self.told)
        columns: dict[str, list[str | None]] = {name: [] for name in CORRECTED}
        for row, found in zip(table.to_pylist(), self.corrections, strict=True):
            cells = dict.fromkeys(CORRECTED)
            if found is not None and found.stored:
                cells |= {"stored_head": row["head"], "stored_tail": row["tail"]}
                cells[f"stored_{found.side}"] = found.label
            elif found is not None:
                cells |= {"replace": found.side, "by": found.label}
            for name, values in columns.items():
                values.append(cells[name])
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values, pa.string()))
        return table

    @cached_property
    def corrections(self) -> tuple[Correction | None, ...]:
        """What may be meant instead of each suspect."""
        rows = self.suspect_rows
        if not self.corrects:
            return (None,) * len(rows)
        label = self.graph.entities.label
        return tuple(
            None if one is None else Correction(one.side, label(one.entity), one.stored)
            for one in self.corrector.propose(self.crossfit, rows, self.settings)
        )

    @cached_property
    def missing(self) -> pa.Table:
        """The uncollected facts most probably true: columns of missing.tsv."""
        return self._list(self.proposed, self.missing_rows, self._missing_told)

    @cached_property
    def quarantine(self) -> pa.Table:
        """The input rows that cleaning takes out, as in quarantine.tsv.

        They are the facts that are known to be wrong and, where the verdict is ``reliable``, as
        many suspects as keep the share of wrong ones at the target even by the lower end of its
        interval. Facts of rare relations stay: nothing was learned of these.
        """
        return self.graph.to_table().filter(pa.array(self.taken_out))

    @cached_property
    def cleaned(self) -> pa.Table:
        """The input rows that cleaning leaves, as in cleaned.tsv."""
        return self.graph.to_table().filter(pa.array(~self.taken_out))

    @cached_property
    def posterior(self) -> pa.Table:
        """Every input row and every proposed fact with its probability: as in posterior.parquet.

        A fact that is known to be wrong has probability 0 and no score. ``known`` is what labels
        and answers say. ``place`` is that in the order of distinct facts, from 1: of stored ones
        the most suspicious is first, of proposed ones the most probable. ``source`` is there
        where the audit was told of one, ``new`` where it goes on from an earlier audit: whether
        the fact was added or changed, and ``column_odds`` where columns were heeded.
        """
        more: dict[str, tuple[pa.Array, pa.DataType]] = {}
        if self.since is not None:
            fresh = (self.place >= 0) & self.since.new[self.place]
            more["new"] = pa.array(fresh), pa.bool_()
        source = self.graph.columns.get(self.settings.source or "")
        if source is not None:
            more["source"] = source.cast(pa.string()), pa.string()
        if self.column_odds is not None:
            odds = pa.array(self.column_odds[self.place], mask=self.place < 0)
            more["column_odds"] = odds, pa.float64()
        return posterior_table(
            self.graph,
            self.place,
            self.collected,
            self.proposed,
            told=(self.told, self._missing_told),
            right=self.answers.right,
            more=more,
        )

    @cached_property
    def views(self) -> tuple[Contribution, ...]:
        """What each kind of evidence brings: with it, without it, and by it alone."""
        judged = self.crossfit.collected
        return contributions(
            judged.arrays(),
            {kind: pool.arrays() for kind, pool in self.crossfit.pools.items()},
            [name.partition(".")[0] for name in judged.columns],
            thresholds=self.settings.thresholds,
            seed=self.settings.seed,
        )

    @cached_property
    def suspect_rows(self) -> Ints:
        """Places of the suspects among the distinct collected facts, most suspicious first.

        Where probabilities hold, they end where a fact is as probable as any.
        """
        if self.verdict.reliable:
            return self._promised_rows
        judged = self.collected
        return find_suspects(
            judged, self.protected, judged.probability, budget=self.settings.budget
        )

    @cached_property
    def _promised_rows(self) -> Ints:
        """The same, if probabilities hold."""
        share = self.priors.beta.value
        return promised_suspects(self.collected, self.protected, share, self.settings.budget)

    @cached_property
    def quarantine_rows(self) -> Ints:
        """Places of the suspects in quarantine among the distinct collected facts."""
        if not self.verdict.reliable:
            return np.zeros(0, dtype=np.int64)
        relation = self.collected.facts[:, 1]
        rare = torch.bincount(relation)[relation] < self.settings.thresholds.rare_facts
        return find_suspects(
            self.collected,
            self.protected | rare.numpy() | ~self.told,
            self.collected.high,
            target_precision=self.settings.target_precision,
        )

    @cached_property
    def missing_rows(self) -> Ints:
        """Places of the listed missing facts among the proposed ones, most probable first.

        Without a number asked for, they end where fewer than half should be true; where that
        cannot be told, at the budget.
        """
        most, given = self.settings.most_missing, self.settings.missing is not None
        if not given and not self.missing_verdict.reliable:
            most = min(most, self.settings.budget)
        asked = self.asked_missing
        listed = find_missing_facts(
            pa.table({"fact": np.arange(len(asked))}),
            self.proposed.probability[asked],
            score=self.proposed.score[asked],
            budget=most,
        )
        rows: Ints = asked[listed["row"].to_numpy()]
        if given or not self.missing_verdict.reliable:
            return rows
        least = self.settings.thresholds.least_missing
        return rows[self.proposed.probability[rows] >= least]

    @property
    def asked_missing(self) -> Ints:
        """Places of the proposed facts that may be listed: all, or those beside new facts."""
        if self.since is None:
            return np.arange(len(self.proposed.facts))
        graph = self.crossfit.folds.graph
        return np.nonzero(touches(self.proposed.facts, graph, self.since))[0]

    @cached_property
    def corrects(self) -> bool:
        """Whether corrections are proposed: where the self-test found most of them right."""
        return (
            self.verdict.reliable
            and self.corrector.test.right >= self.settings.thresholds.least_corrected
        )

    @property
    def _missing_told(self) -> NDArray[np.bool_]:
        """Of which proposed facts [n] the probability is told: of all, or of none."""
        return np.full(len(self.proposed.facts), self.missing_verdict.reliable)

    def _list(self, judged: Judgement, rows: Ints, told: NDArray[np.bool_]) -> pa.Table:
        """Return some judged facts with the columns of a list."""
        table = self.graph.with_facts(judged.facts[rows]).to_table()
        for name, values in told_figures(judged, told).items():
            table = table.append_column(name, values.take(pa.array(rows)))
        return table.select(list(LISTED))

    @cached_property
    def place(self) -> Ints:
        """Where the fact of each input row [n] stands among the distinct collected ones.

        It is -1 for a fact that is known to be wrong.
        """
        return self.crossfit.folds.graph.index().places(self.graph.facts).numpy()

    @cached_property
    def taken_out(self) -> NDArray[np.bool_]:
        """Which input rows [n] cleaning takes out."""
        return np.isin(self.place, self.quarantine_rows) | (self.place < 0)

    @cached_property
    def rules(self) -> RuleSet:
        """Rules mined from the collected facts."""
        graph = self.crossfit.folds.graph
        return mine(graph.facts, graph.num_entities, graph.num_relations, seed=self.settings.seed)

    @cached_property
    def suspect_evidence(self) -> tuple[Explanation, ...]:
        """The evidence on the first suspects, as many as were asked for."""
        return self._explained(self.collected, self.suspect_rows[: self.settings.explained])

    @cached_property
    def missing_evidence(self) -> tuple[Explanation, ...]:
        """The evidence on the first missing facts, as many as were asked for."""
        return self._explained(self.proposed, self.missing_rows[: self.settings.explained])

    def _explained(self, judged: Judgement, rows: Ints) -> tuple[Explanation, ...]:
        """Explain some facts fold by fold, so that each system is opened once."""
        order = rows[np.argsort(judged.fold[rows], kind="stable")]
        found = {row: self.explain(judged.facts[row]) for row in order.tolist()}
        return tuple(found[row] for row in rows.tolist())

    @cached_property
    def _explainer(self) -> Explainer:
        return Explainer(
            self.crossfit.folds.graph,
            self.rules,
            readable=self.graph.readable,
            device=self.crossfit.systems[0].device,
        )

    @cached_property
    def _by_paths(self) -> tuple[Model, ...]:
        """The two systems of a view that judges by paths, along collected facts, none planted."""
        for view in self.crossfit.views:
            if isinstance(view, Ranking) and isinstance(view.systems[0], JudgingModel):
                graph = self.crossfit.folds.graph
                return tuple(system.on_graph(graph).eval() for system in view.systems[:2])
        return ()

    def explain(self, fact: tuple[str, str, str] | Tensor, top: int = 5) -> Explanation:
        """Return the evidence about one fact, given as labels or ids.

        A collected fact is ranked by the system that never saw it, a proposed one by the system
        that found it; both come with their probability. What a label or an answer says is told.
        """
        if not isinstance(fact, Tensor):
            fact = fact_ids(self.graph, fact)
        told, fold = self._told(fact)
        judge = self._by_paths[half_of(fold)] if self._by_paths else None
        paths = () if judge is None else judge.strongest_paths(fact.to(judge.device), top)
        by_system = self.crossfit.systems[fold].score_all
        found = self._explainer.explain(fact, score_all=by_system, paths=paths, top=top)
        told = dataclasses.replace(
            told,
            meant=self._meant(fact, found.fact),
            issues=self.issues.against(found.fact)[:top],
        )
        return found.by_audit(told, self.graph.readable)

    def _told(self, fact: Tensor) -> tuple[Audited, int]:
        """Return what the audit tells of a fact, and the fold whose system judges it."""
        for facts in self._told_facts:
            at = facts.find(fact)
            if at is not None:
                return facts.tell(at), int(facts.judged.fold[at])
        if among(fact, self.answers.wrong):
            return Audited((0.0, 0.0, 0.0), "", None, known=False), 0
        untold = why_untold(False, self.verdict.level, self.verdict.why)
        return Audited((None, None, None), untold, None), 0

    @cached_property
    def _told_facts(self) -> tuple[ToldFacts, ToldFacts]:
        """The stored and the proposed facts, and what may be told of them."""
        stored = ToldFacts(
            self.collected,
            True,
            self.verdict,
            self.told,
            suspicion_places(self.collected),
            self.suspect_rows,
            self.answers.right,
            self.columns,
            self.column_odds,
        )
        proposed = ToldFacts(
            self.proposed,
            False,
            self.missing_verdict,
            self._missing_told,
            proposal_places(self.proposed),
            self.missing_rows,
            self.answers.right[:0],
            {},
        )
        return stored, proposed

    def _meant(self, fact: Tensor, names: tuple[str, str, str]) -> Meant | None:
        """Return what is proposed instead of a fact, where it is a suspect."""
        same = (self.collected.facts[self.suspect_rows] == fact.cpu()).all(1)
        for place in torch.nonzero(same).flatten().tolist():
            fix = self.corrections[place]
            if fix is not None:
                return Meant.instead_of(names, fix.side, fix.label, fix.stored)
        return None
