"""The audit, one line per stage."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from torch import Tensor

from npugraph.auditing.answers import Answers, gather_answers
from npugraph.auditing.begun import begin
from npugraph.auditing.choosing import choose_training
from npugraph.auditing.clusters import judge_clusters
from npugraph.auditing.columns import check_columns, heeded, judge_columns, moved_odds
from npugraph.auditing.corrections import learn_corrections
from npugraph.auditing.cost import estimate_cost
from npugraph.auditing.earlier import Earlier
from npugraph.auditing.figures import short_text
from npugraph.auditing.folds import Folds, distinct_facts, judged_graph, make_folds
from npugraph.auditing.home import Home
from npugraph.auditing.issues import Issues, find_issues
from npugraph.auditing.judgement import (
    clean_mask,
    judge_missing,
    judge_stored,
    protected_mask,
    weigh,
    weigh_some,
)
from npugraph.auditing.judging import ranking_view
from npugraph.auditing.out_of_fold import CrossFit, judge_out_of_fold
from npugraph.auditing.page import report_data
from npugraph.auditing.presets import Tried, searches, suited_settings
from npugraph.auditing.promise import before_answers
from npugraph.auditing.recalibration import learn, stored_graph, told_priors
from npugraph.auditing.result import Findings
from npugraph.auditing.self_test import plant, self_test
from npugraph.auditing.settings import AuditSettings, Stage, ViewName
from npugraph.auditing.since import (
    Since,
    begin_since,
    end_since,
    folds_since,
    settings_since,
    training_since,
)
from npugraph.auditing.statistics.evidence import TruthModel
from npugraph.auditing.tables import LISTED
from npugraph.auditing.tasks import Tasks, open_tasks
from npugraph.auditing.views import ViewInputs, build_views, suited_views
from npugraph.auditing.write import write_audit
from npugraph.data.io import ReadOptions, local_folder
from npugraph.data.sources import GraphLike, facts_of, load_graph
from npugraph.graph import KnowledgeGraph
from npugraph.names import percent, shorten
from npugraph.report import ReportData, write_report
from npugraph.settings import TrainSettings, as_path, as_settings

log = logging.getLogger(__name__)

# Suspects that a notebook shows.
SHOWN_ROWS = 10


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Findings):
    """What an audit found, and ways to hand it on; see :class:`Findings` for what it holds."""

    def report_data(self, planted: Tensor | None = None) -> ReportData:
        """Return what the report shows; ``planted`` facts [n, 3] are those known to be wrong."""
        return report_data(self, planted)

    def report(self, path: str | Path) -> None:
        """Write the report, one HTML file."""
        write_report(self.report_data(), Path(path))

    def write(self, folder: str | Path) -> dict[str, Any]:
        """Write all files of the audit into a folder, or to an address; return its figures."""
        with local_folder(folder) as local:
            return write_audit(self, local)

    def __repr__(self) -> str:
        return f"<{short_text(self)}>"

    def _repr_html_(self) -> str:
        rows = self.suspects.select(LISTED[:4]).slice(0, SHOWN_ROWS).to_pylist()
        cells = "".join(
            "<tr>"
            + "".join(f"<td>{escape(shorten(row[name]))}</td>" for name in LISTED[:3])
            + f"<td>{escape(_chance(row['probability']))}</td></tr>"
            for row in rows
        )
        head = "".join(f"<th>{name}</th>" for name in LISTED[:4])
        return f"<p>{escape(short_text(self))}</p><table><tr>{head}</tr>{cells}</table>"


def _chance(probability: float | None) -> str:
    return "" if probability is None else percent(probability)


def audit(
    graph: GraphLike,
    settings: AuditSettings | Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    *,
    protected: Any = None,
    answers: Any = None,
    constraints: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    stage: Stage | None = None,
    since: str | Path | None = None,
    cluster: str | None = None,
    workers: int | None = None,
) -> Audit:
    """Find the wrong and the missing facts of a graph.

    Args:
        graph: the collected facts, as load_graph takes them. Facts labelled 0 are known to be
            wrong: they are not trained on. Facts labelled 1 are never suspected.
        settings: what is asked for, or a dict of what is not as by default.
        changes: settings of the recipe that differ from those that suit the graph's size.
        protected: facts that are known to be right and are never suspected: ids [m, 3], or what
            load_graph takes.
        answers: what people say of stored facts, as read_answers takes it. Facts called wrong are
            not trained on, those called right never suspected; 20 answers change probabilities.
        constraints: files of ``types``, ``rules`` and ``shapes``, as find_issues takes them.
        out: a folder for the systems, one run per fold; an interrupted audit goes on from there.
            Without it they are in a temporary folder, which goes with the audit.
        stage: called with the name of each stage and its progress.
        since: the folder of an earlier audit. Its systems are gone on with, settings that are not
            given are its own, and what is listed is of the facts that were added or changed.
        cluster: train and judge on a Ray cluster: its address, ``auto``, or ``local`` for one on
            this machine. All machines must see ``out``. None: in this process.
        workers: jobs at once on the cluster at most.

    Raises:
        NothingAddedError: no fact was, since that audit.
    """
    say = _teller(stage)
    home = Home(None if out is None else as_path(out, "the folder of the audit"))
    earlier = None if since is None else Earlier.open(as_path(since, "an earlier audit"))
    asked = _settings(settings, earlier)
    whole = load_graph(graph, ReadOptions(beside=asked.columns))
    check_columns(whole, asked)
    issues = find_issues(whole, **(constraints or {}))
    known = gather_answers(whole, answers)
    guarded = None if protected is None else facts_of(whole, protected)
    begun = _begin(whole, known, asked, changes or {}, earlier)
    with open_tasks(cluster, workers, asked.device) as tasks:
        inputs, tried = _prepare(begun, home, tasks, say)
        views = build_views(inputs, begun.views)
        say("judging", {})
        crossfit = judge_out_of_fold(inputs, views, known.wrong)
    say("weighing", {})
    chosen = replace(begun, training=inputs.training)
    return _weigh(chosen, crossfit, guarded, issues, tried)


@dataclass(frozen=True)
class _Begun:
    """What an audit begins with.

    Attributes:
        graph: the collected facts.
        known: what is known of them.
        settings: what is asked for.
        changes: settings of the recipe that were given.
        judged: the facts that are judged.
        training: the settings of the recipe.
        search: whether validation chooses among some of these.
        views: the names of the kinds of evidence.
        since: what is new, where there is an earlier audit.
    """

    graph: KnowledgeGraph
    known: Answers
    settings: AuditSettings
    changes: Mapping[str, Any]
    judged: KnowledgeGraph
    training: TrainSettings
    search: bool
    views: tuple[ViewName, ...]
    since: Since | None


def _settings(settings: object, earlier: Earlier | None) -> AuditSettings:
    if earlier is None:
        return as_settings(AuditSettings, settings)
    return settings_since(earlier, settings)


def _begin(
    graph: KnowledgeGraph,
    known: Answers,
    settings: AuditSettings,
    changes: Mapping[str, Any],
    earlier: Earlier | None,
) -> _Begun:
    """Decide how a graph is judged, before anything is trained."""
    judged = judged_graph(graph, known, settings)
    training = suited_settings(judged, settings, changes)
    since = None if earlier is None else begin_since(distinct_facts(judged), earlier)
    if since is not None:
        training = training_since(since, type(training), settings.device, changes)
    search, views = searches(judged, settings, changes), suited_views(judged, settings)
    return _Begun(graph, known, settings, changes, judged, training, search, views, since)


def _prepare(begun: _Begun, home: Home, tasks: Tasks, say: Stage) -> tuple[ViewInputs, Tried]:
    """Say the plan, cut the folds, and let validation choose settings where it should."""
    asked, since = begun.settings, begun.since
    cost = estimate_cost(
        *(begun.judged, asked, begun.training, begun.views),
        search=begun.search,
        paths_trained=since is None or bool(since.changes.relations),
        workers=tasks.workers,
    )
    say("plan", {"cost": cost})
    folds = plant(_folds(begun.judged, since, asked), begun.graph.index(), asked)
    if home.kept:
        begin(home.path, begun.graph, asked, begun.changes, begun.known.wrong, since)
    inputs = ViewInputs(folds, asked, begun.training, home, tasks, say, since)
    if not begun.search:
        return inputs, ()
    training, tried = choose_training(inputs)
    return replace(inputs, training=training), tried


def _weigh(
    begun: _Begun, crossfit: CrossFit, guarded: Tensor | None, issues: Issues, tried: Tried
) -> Audit:
    """Make probabilities and a verdict of what was judged.

    Args:
        begun: what the audit began with, and the settings that were chosen.
        crossfit: what was judged.
        guarded: facts that are known to be right [m, 3].
        issues: what was found without a model.
        tried: what the settings were chosen among.
    """
    asked, known, since = begun.settings, begun.known, begun.since
    folds, new = crossfit.folds, None if since is None else since.new
    model, mask = weigh(crossfit, asked), protected_mask(folds.graph, known, guarded)
    test = self_test(crossfit, model, clean_mask(folds.graph, known, guarded), asked, new)
    corrector = learn_corrections(crossfit, model, asked)
    proposed, missing_share = judge_missing(crossfit, model, known.never_proposed, asked)
    rows, narrowed = stored_graph(begun.graph, crossfit), weigh_some(crossfit, model, new, asked)
    judged_facts = judge_stored(crossfit, model, new, narrowed)
    stored, effects = judge_columns(judged_facts, rows, asked)
    odds = moved_odds(judged_facts, stored)[: len(mask)] if heeded(effects) else None
    stored, clusters = judge_clusters(stored, asked)
    if since is not None:
        # What was there before is not listed again.
        mask = mask | ~since.new
        mrr = ranking_view(crossfit.views).mrr
        since = end_since(since, mrr, test.auroc, asked.thresholds)
    without = (test, narrowed, asked)
    by_columns = bool(effects) and not before_answers(judged_facts, mask, *without).reliable
    said = before_answers(stored, mask, *without, clusters, by_columns=by_columns)
    collected, learned = learn(stored, rows, known, asked, trusted=said.reliable)
    return Audit(
        graph=begun.graph,
        name=begun.graph.name or begun.graph.source or "graph",
        settings=asked,
        training=begun.training,
        crossfit=crossfit,
        model=narrowed,
        test=replace(test, corrected=corrector.test.right),
        corrector=corrector,
        priors=told_priors(narrowed.priors, test.most_wrong, learned, asked),
        collected=collected,
        proposed=proposed,
        protected=mask,
        answers=known,
        learned=learned,
        issues=issues,
        missing_share=missing_share,
        wrong_end=_told_end(narrowed, asked),
        chosen=tried,
        columns=effects,
        by_columns=by_columns,
        column_odds=odds,
        clusters=clusters,
        since=since,
    )


def _folds(judged: KnowledgeGraph, since: Since | None, settings: AuditSettings) -> Folds:
    """Cut the facts into folds, or keep the folds that an earlier audit had."""
    if since is None:
        return make_folds(judged, settings.folds, settings.seed)
    return folds_since(distinct_facts(judged), since, settings)


def _teller(stage: Stage | None) -> Stage:
    """Return what logs each stage and calls ``stage``."""

    def say(name: str, progress: dict[str, Any]) -> None:
        if name != "epoch":  # the training logs those
            log.info("%s", " ".join([name, *(f"{k}={v}" for k, v in progress.items())]))
        if stage is not None:
            stage(name, progress)

    return say


def _told_end(model: TruthModel, settings: AuditSettings) -> str | None:
    """Return the end that is wrong, where the graph itself tells that there are wrong facts."""
    told = settings.beta is None and model.priors.identifiable and model.priors.beta.high < 1
    return model.wrong_end if told else None
