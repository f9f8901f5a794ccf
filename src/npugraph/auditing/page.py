"""Fill the report, and the summary, from what an audit found."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.auditing.alternatives import better_alternatives, end_of
from npugraph.auditing.answers import sentences as sentences_on_answers
from npugraph.auditing.columns import column_note
from npugraph.auditing.promise import wrong_among
from npugraph.auditing.result import Findings
from npugraph.auditing.settings import SET_BY_AUDIT
from npugraph.auditing.statistics.verdict import RELIABLE
from npugraph.auditing.tables import CORRECTED, FACT
from npugraph.explaining import Alternative, CollectionModel, Explanation
from npugraph.graph import TripleIndex
from npugraph.metrics import reliability_curve
from npugraph.names import counted
from npugraph.report import (
    INTERVAL,
    Assessment,
    Coefficient,
    Estimate,
    Evidence,
    FactRow,
    FamilyRow,
    GraphSummary,
    Health,
    PlantedCheck,
    Provenance,
    RelationHealth,
    Reliability,
    ReliabilityBin,
    ReportData,
    Setting,
    ViewRow,
    YieldPoint,
    settings_rows,
)

Bools = NDArray[np.bool_]
# How a sentence on a path begins.
BY_PATH = "the score rests on the path "
# Paths of a fact that are shown, at most.
PATHS = 3
# Bins of the reliability curve, all of the same width.
BINS = 10


def report_data(found: Findings, planted: Tensor | None = None) -> ReportData:
    """Return all that the report shows; ``planted`` facts [n, 3] are those known to be wrong."""
    graph = found.crossfit.folds.graph
    return ReportData(
        graph=GraphSummary(
            found.name, len(found.graph.index()), graph.num_entities, graph.num_relations
        ),
        provenance=Provenance(
            found.settings.recipe, found.settings.seed, found.settings.folds, _settings(found)
        ),
        health=estimated_health(found),
        suspects=_suspects(found, planted),
        missing=_missing(found),
        reliability=None
        if planted is None or not found.verdict.reliable
        else reliability(found, planted),
        yield_curve=_yield(found, planted),
        collection=_collection(found),
        views=tuple(
            ViewRow(one.view, one.features, kind, value, one.without.get(kind), one.alone[kind])
            for one in found.views
            for kind, value in one.together.items()
        ),
        warnings=(*notes(found), *warnings(found)),
        issues=found.issues.groups(),
        names=found.graph.readable.differing(_listed_names(found)),
        planted=None if planted is None else planted_check(found, planted),
        assessment=assessment(found),
    )


def _listed_names(found: Findings) -> set[str]:
    """Return every name that the report shows by itself."""
    names = set(found.graph.relations.labels.to_pylist())
    for table in (found.suspects, found.missing):
        for column in {*FACT, *CORRECTED} & set(table.column_names):
            names |= set(table[column].to_pylist())
    for group in found.issues.groups():
        names |= {name for row in group.examples for name in row.about}
    return names - {None}


def _settings(found: Findings) -> tuple[Setting, ...]:
    """Return the audit's settings, those of the recipe, what was tried, and what was tuned.

    What the recipe has under a name of the audit is shown with the name of the recipe.
    """
    own = tuple(row for row in settings_rows(found.settings) if row.name != "thresholds")
    names = {row.name for row in own}
    recipe = found.settings.recipe
    of_recipe = tuple(
        dataclasses.replace(row, name=f"{recipe}: {row.name}") if row.name in names else row
        for row in settings_rows(found.training)
        # The audit sets these two of its systems itself.
        if row.name not in SET_BY_AUDIT
    )
    tried = tuple(
        Setting("tried " + ", ".join(f"{k}={v}" for k, v in values.items()), f"{mrr:.4f}", "MRR")
        for values, mrr in found.chosen
    )
    return own + of_recipe + tried + settings_rows(found.settings.thresholds)


def estimated_health(found: Findings) -> Health:
    """Return the estimated shares of wrong facts, of all and by relation, and of missing ones."""
    beta = found.priors.beta
    wrong = Estimate(1 - beta.value, 1 - beta.high, 1 - beta.low)
    relation = found.collected.facts[:, 1].numpy()
    # Where an audit goes on from another, it speaks of what is new.
    about = np.ones(len(relation), dtype=bool) if found.since is None else found.since.new
    labels = found.graph.relations
    rows = []
    for number in np.unique(relation[about]):
        mine = about & (relation == number)
        judged = found.relation_verdicts.get(int(number), found.verdict.level)
        enough = mine.sum() >= found.settings.thresholds.rare_facts and judged == RELIABLE
        # No interval: that of all facts allows for errors that look like true ones, and nobody
        # knows which relations these are in.
        value = float(1 - found.collected.probability[mine].mean())
        estimate = Estimate(value) if enough else None
        rows.append(RelationHealth(labels.label(int(number)), int(mine.sum()), estimate))
    missing = None
    if found.missing_share is not None and found.missing_verdict.reliable:
        missing = Estimate(*found.missing_share)
    if found.share_told:
        return Health(wrong, "", tuple(rows), missing, found.told_end)
    return Health(None, untold_share(found), tuple(rows), missing, found.told_end)


def untold_share(found: Findings) -> str:
    """Return why the share of wrong facts is not told, as a sentence."""
    if not found.verdict.reliable:
        return found.verdict.why
    least = 1 - found.priors.beta.high
    return (
        f"At least {least:.1%} of the facts seem to be wrong. Errors that look like true facts "
        "cannot be counted here: for all that is known they may be most of them."
    )


def assessment(found: Findings) -> Assessment:
    """Return the verdict, and what to do next."""
    wrong, true = found.expected_wrong, found.expected_true
    return Assessment(
        found.verdict.level,
        found.verdict.why,
        found.verdict.helps,
        found.missing_verdict.level,
        found.missing_verdict.why,
        None if wrong is None else Estimate(*wrong),
        None if true is None else Estimate(*true),
        tuple(FamilyRow(**dataclasses.asdict(row)) for row in found.test.families),
        _next_steps(found),
        _tested_reliability(found) if found.verdict.reliable else None,
    )


def _next_steps(found: Findings) -> tuple[tuple[str, str], ...]:
    """Return commands to go on with, each with what it does."""
    steps = []
    if len(found.quarantine_rows):
        command = "npugraph export DIR --format graph --quarantine --out FILE"
        steps.append((command, "Take the graph without the facts in quarantine, in its format."))
    if len(found.suspect_rows):
        first = found.suspects.slice(0, 1).to_pylist()[0]
        fact = shlex.join(found.graph.readable(first[name]) for name in FACT)
        steps += [
            ("npugraph review DIR", "Judge the suspects in a browser; what you say teaches it."),
            (f"npugraph explain DIR {fact}", "See all that speaks for and against one of them."),
        ]
    command = "npugraph audit GRAPH --answers answers.tsv --out ANOTHER_DIR"
    steps.append((command, "Or write right or wrong into a file, and audit again with it."))
    return tuple(steps)


def _tested_reliability(found: Findings) -> Reliability:
    """Return the reliability curve of the self-test."""
    bins = tuple(
        ReliabilityBin(point.probability, Estimate(point.true, point.low, point.high), point.facts)
        for point in found.test.curve
    )
    return Reliability(
        bins,
        f"The observed share is what the {found.test.planted:,} planted facts say: it holds if "
        "wrong facts lie where these do.",
    )


def notes(found: Findings) -> tuple[str, ...]:
    """Return sentences on what was done with the input, and on lists that were cut."""
    said = []
    if found.since is not None:
        said.append(found.since.sentence())
        said += [f"A full audit is due: {reason}" for reason in found.since.due]
    said += [column_note(name, effect) for name, effect in found.columns.items()]
    said += [cluster.sentence(found.graph) for cluster in found.clusters]
    said += sentences_on_answers(found.answers, found.learned)
    said += _cut_missing(found)
    if found.protected.all() and found.since is None:
        said.append("Every fact that was judged is known to be right, so there are no suspects.")
    return tuple(said)


def _cut_missing(found: Findings) -> list[str]:
    """Return a sentence where missing.tsv ends although further facts should be true."""
    asked, listed = found.settings, len(found.missing_rows)
    if asked.missing is not None or not found.missing_verdict.reliable:
        return []
    chance = found.proposed.probability[found.asked_missing]
    more = int((chance >= asked.thresholds.least_missing).sum()) - listed
    if more <= 0:
        return []
    return [
        f"missing.tsv was cut after {counted(listed, 'fact')}: "
        f"{counted(more, 'more fact has', 'more facts have')} a probability of at least "
        f"{asked.thresholds.least_missing:.0%}. Ask for more with --missing N."
    ]


def warnings(found: Findings) -> tuple[str, ...]:
    """Return sentences on where the result should not be trusted."""
    said = []
    beta, rare_facts = found.priors.beta, found.settings.thresholds.rare_facts
    if found.verdict.reliable and not found.share_told:
        said.append(untold_share(found))
    elif found.verdict.reliable and beta.high - beta.low > 0.05:
        said.append(
            f"The share of wrong facts is only known to lie between {1 - beta.high:.1%} and "
            f"{1 - beta.low:.1%}: errors that look like true facts may be there, too, and are not "
            "in the list."
        )
    said += _unseen(found)
    counts = np.bincount(found.collected.facts[:, 1].numpy())
    rare = int(((counts > 0) & (counts < rare_facts)).sum())
    if rare:
        said.append(
            f"{rare} of {int((counts > 0).sum())} relations have fewer than {rare_facts} facts: "
            "what is said of their facts rests on other relations."
        )
    ends = torch.bincount(found.collected.facts[:, [0, 2]].flatten())
    lonely = int((ends == 1).sum())
    if lonely:
        said.append(
            f"{lonely:,} of {int((ends > 0).sum()):,} entities are in one fact only. The system "
            "that judges that fact has never seen the entity, so its score is a guess."
        )
    return tuple(said)


def _unseen(found: Findings) -> list[str]:
    """Return a sentence on errors that a promise does not cover, where there is a promise."""
    least = found.settings.thresholds.least_called
    missed = [row for row in found.test.families if row.called_wrong < least]
    if not found.verdict.reliable or not missed:
        return []
    names = ", ".join(
        f"{row.family} (of {row.planted:,} planted ones {row.called_wrong:.0%} were called wrong)"
        for row in missed
    )
    return [
        "The count is of errors like those that the calibration was shown. Of families that were "
        f"left out of it most errors would be overlooked: {names}. So may be errors of a kind that "
        "nobody thought of."
    ]


def _suspects(found: Findings, planted: Tensor | None) -> tuple[FactRow, ...]:
    """Return the rows of the suspects; facts known to be planted are marked."""
    graph = found.crossfit.folds.graph
    marked = is_planted(found, planted)[found.suspect_rows]
    rows = []
    for place, row in enumerate(found.suspects.to_pylist()):
        evidence = Evidence()
        if place < len(found.suspect_evidence):
            explanation = found.suspect_evidence[place]
            # What would fit better is a correction, and goes where corrections do.
            better = better_alternatives(explanation, graph) if found.corrects else []
            evidence = sentences(explanation, better)
        mark = "planted" if marked[place] else ""
        rows.append(_row(row, evidence, correction=found.corrections[place], mark=mark))
    return tuple(rows)


def _missing(found: Findings) -> tuple[FactRow, ...]:
    """Return the rows of the missing facts."""
    graph = found.crossfit.folds.graph
    given = [sentences(one, better_alternatives(one, graph)) for one in found.missing_evidence]
    given += [Evidence()] * (len(found.missing) - len(given))
    return tuple(
        _row(row, evidence) for row, evidence in zip(found.missing.to_pylist(), given, strict=True)
    )


def _row(row: dict[str, Any], evidence: Evidence, **more: Any) -> FactRow:
    known = row["probability"] is not None
    probability = Estimate(row["probability"], row["low"], row["high"]) if known else None
    head, relation, tail = (row[name] for name in FACT)
    return FactRow(head, relation, tail, probability, row["score"], evidence=evidence, **more)


def sentences(found: Explanation, better: list[Alternative]) -> Evidence:
    """Put an explanation, and the alternatives that fit better, into short sentences."""
    relation = found.name(found.fact[1])
    supporting = [*found.said("for")]
    for item in found.supporting:
        way = (
            " and ".join(f"({', '.join(map(found.name, fact))})" for fact in item.ways[0])
            if item.ways
            else ""
        )
        supporting.append(
            f"{item.rule}: holds in {item.support:,} of {item.body_count:,} cases"
            + (f"; here by {way}" if way else "")
        )
    supporting += [
        f"{found.name(s.entity)}, much like the {s.side}, also has {relation}: "
        f"{', '.join(map(found.name, s.values[:3]))}"
        for s in found.similar
        if s.agrees
    ]
    supporting += [
        f"{BY_PATH}{path.words(found.name)} (weight {path.weight:.2f})"
        for path in found.paths[:PATHS]
    ]
    usual = [
        f"{found.name(u.entity)} is the {u.side} of {u.count:,} of {u.relation_count:,} other "
        f"facts of {relation}, and in {u.degree:,} other facts altogether"
        for u in found.usage
    ]
    usual += [
        f"{found.name(end_of(found.fact, side))} ranks {rank:,.10g} as the {side}, among the "
        "entities that are not stored there"
        for side, rank in found.ranks.items()
    ]
    # What is stored already fits, but corrects nothing.
    fitting = [
        f"{item.side} {found.name(end_of(item.fact, item.side))}"
        for item in better
        if not item.collected
    ]
    against = (*found.said("against"), *(item.text for item in found.contradicting))
    return Evidence(tuple(supporting), against, tuple(usual), tuple(fitting))


def is_planted(found: Findings, planted: Tensor | None) -> Bools:
    """Tell which of the judged collected facts [n] are known to be planted."""
    if planted is None:
        return np.zeros(len(found.collected.facts), dtype=bool)
    known = TripleIndex(planted, found.graph.num_entities, found.graph.num_relations)
    return known.contains(found.collected.facts).numpy()


def planted_check(found: Findings, planted: Tensor) -> PlantedCheck:
    """Count the planted facts among the suspects."""
    wrong = is_planted(found, planted)
    hits = int(wrong[found.suspect_rows].sum())
    return PlantedCheck(int(wrong.sum()), hits, len(found.suspect_rows))


def reliability(found: Findings, planted: Tensor) -> Reliability:
    """Return how often facts of about the same probability are true, where that is known."""
    from scipy.stats import beta

    wrong = is_planted(found, planted)
    curve = reliability_curve(found.collected.probability, ~wrong, bins=BINS, by="width")
    tail = (1 - INTERVAL) / 2
    bins = []
    for row in curve.to_pylist():
        true = round(row["share_true"] * row["count"])
        # The ends of Jeffreys' interval; a share of 0 or 1 is an end itself.
        low, high = beta.ppf([tail, 1 - tail], true + 0.5, row["count"] - true + 0.5)
        low, high = (0.0 if true == 0 else low), (1.0 if true == row["count"] else high)
        observed = Estimate(row["share_true"], float(low), float(high))
        bins.append(ReliabilityBin(row["mean_probability"], observed, row["count"]))
    return Reliability(
        tuple(bins),
        f"Known here: {int(wrong.sum()):,} of the {len(wrong):,} facts were planted and are wrong; "
        "the others count as true.",
    )


def _yield(found: Findings, planted: Tensor | None) -> tuple[YieldPoint, ...]:
    """Return expected wrong facts against facts reviewed, up to the budget."""
    rows = found.suspect_rows
    if not len(rows) or not found.verdict.reliable:
        return ()
    steps = np.unique(np.round(np.linspace(1, len(rows), 25)).astype(np.int64))
    level = found.settings.thresholds.level
    expected = [wrong_among(found.collected, rows[:step], level) for step in steps]
    real = np.cumsum(is_planted(found, planted)[rows])
    return tuple(
        YieldPoint(int(step), Estimate(*count), None if planted is None else float(real[step - 1]))
        for step, count in zip(steps, expected, strict=True)
    )


def collection_model(found: Findings) -> CollectionModel:
    """Fit how the chance of being collected depends on how frequent the names are."""
    graph = found.crossfit.folds.graph
    pool = torch.cat([pool.facts for pool in found.crossfit.pools.values()])
    sizes = graph.num_entities, graph.num_relations
    return CollectionModel.fit(graph.facts, pool, *sizes, seed=found.settings.seed)


def _collection(found: Findings) -> tuple[Coefficient, ...]:
    model = collection_model(found)
    return tuple(
        Coefficient(
            name,
            Estimate(float(weight)),
            f"twice as many: odds of being stored times {float(np.exp(change)):.2f}",
        )
        for name, weight, change in zip(
            model.features, model.weights, model.per_doubling, strict=True
        )
    )
