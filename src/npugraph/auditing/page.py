"""Fill the report from an audit."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from npugraph.auditing.out_of_fold import KINDS
from npugraph.explaining import Alternative, CollectionModel, Explanation
from npugraph.graph import KnowledgeGraph
from npugraph.report import (
    Coefficient,
    Correction,
    Estimate,
    Evidence,
    FactRow,
    GraphSummary,
    Health,
    PlantedCheck,
    Provenance,
    RelationHealth,
    ReportData,
    Setting,
    YieldPoint,
    settings_rows,
)

if TYPE_CHECKING:
    from npugraph.auditing.result import Audit, Judgement

# A relation with fewer facts is judged by what other relations taught.
RARE = 20


def report_data(
    audit: Audit,
    planted: PlantedCheck | None = None,
    removed: PlantedCheck | None = None,
    marks: frozenset[tuple[str, str, str]] = frozenset(),
) -> ReportData:
    """Return all that the report shows; ``marks`` are facts to point out as planted."""
    graph = audit.crossfit.folds.graph
    return ReportData(
        graph=GraphSummary(audit.name, len(graph), graph.num_entities, graph.num_relations),
        provenance=Provenance(
            audit.settings.recipe, audit.settings.seed, audit.settings.folds, _settings(audit)
        ),
        health=health(audit),
        suspects=_rows(audit, audit.suspects, audit.collected, True, marks),
        missing=_rows(audit, audit.missing, audit.proposed, False, marks),
        yield_curve=_yield(audit, marks),
        collection=_collection(audit),
        warnings=warnings(audit),
        planted=planted,
        removed=removed,
    )


def _settings(audit: Audit) -> tuple[Setting, ...]:
    """Return the audit's settings, then those of the recipe; what both have is shown once."""
    own = settings_rows(audit.settings)
    names = {row.name for row in own}
    of_recipe = tuple(row for row in settings_rows(audit.training) if row.name not in names)
    tried = tuple(
        Setting("tried " + ", ".join(f"{k}={v}" for k, v in values.items()), f"{mrr:.4f}", "MRR")
        for values, mrr in audit.chosen
    )
    return own + of_recipe + tried


def health(audit: Audit) -> Health:
    """Return the estimated shares of wrong facts, of all and by relation, and of missing ones."""
    beta = audit.priors.beta
    wrong = Estimate(1 - beta.value, 1 - beta.high, 1 - beta.low)
    relation = audit.collected.facts[:, 1].numpy()
    labels = audit.graph.relations
    rows = []
    for number in np.unique(relation):
        mine = relation == number
        value, low, high = (
            float(1 - getattr(audit.collected, name)[mine].mean())
            for name in ("probability", "high", "low")
        )
        estimate = Estimate(value, low, high) if mine.sum() >= RARE else None
        rows.append(RelationHealth(labels.label(int(number)), int(mine.sum()), estimate))
    missing = None if audit.missing_share is None else Estimate(*audit.missing_share)
    if audit.priors.identifiable:
        return Health(wrong, "", tuple(rows), missing, audit.wrong_end)
    unknown = tuple(dataclasses.replace(row, wrong=None) for row in rows)
    return Health(None, audit.priors.reason, unknown, missing)


def warnings(audit: Audit) -> tuple[str, ...]:
    """Return sentences on where the result should not be trusted."""
    found = []
    beta = audit.priors.beta
    if not audit.priors.identifiable:
        found.append(
            f"The share of wrong facts cannot be told from this graph. {audit.priors.reason} "
            f"The probabilities take {1 - beta.value:.1%} wrong facts as a guess; trust their "
            "order, not their level. So nothing is put in quarantine; give beta if you know it."
        )
    elif beta.high - beta.low > 0.05:
        found.append(
            f"The share of wrong facts is only known to lie between {1 - beta.high:.1%} and "
            f"{1 - beta.low:.1%}; probabilities move with it."
        )
    if len(audit.missing) and audit.missing_share is None:
        found.append(
            "Too few held-out facts were found again to tell how many of the "
            f"{len(audit.missing):,} proposed missing facts are true. Trust the order of that "
            "list, not its probabilities; of a graph that lacks nothing, none is true."
        )
    counts = np.bincount(audit.collected.facts[:, 1].numpy())
    rare = int(((counts > 0) & (counts < RARE)).sum())
    if rare:
        found.append(
            f"{rare} of {int((counts > 0).sum())} relations have fewer than {RARE} facts: what is "
            "said of their facts rests on other relations."
        )
    ends = torch.bincount(audit.collected.facts[:, [0, 2]].flatten())
    lonely = int((ends == 1).sum())
    if lonely:
        found.append(
            f"{lonely:,} of {int((ends > 0).sum()):,} entities are in one fact only. The system "
            "that judges that fact has never seen the entity, so its score is a guess."
        )
    return tuple(found)


def _rows(
    audit: Audit,
    table: pa.Table,
    judged: Judgement,
    suspects: bool,
    marks: frozenset[tuple[str, str, str]],
) -> tuple[FactRow, ...]:
    rows: list[FactRow] = []
    graph = audit.crossfit.folds.graph
    for row in table.to_pylist():
        fact = (row["head"], row["relation"], row["tail"])
        evidence, correction = Evidence(), None
        if len(rows) < audit.settings.explained:
            found = audit.explain(judged.facts[row["row"]])
            better = _better(found, graph)
            evidence = sentences(found, better)
            correction = _correction(better) if suspects else None
        probability = Estimate(row["probability"], row["low"], row["high"])
        mark = "planted" if fact in marks else ""
        rows.append(FactRow(*fact, probability, row["score"], correction, evidence, mark))
    return tuple(rows)


def _better(found: Explanation, graph: KnowledgeGraph) -> list[Alternative]:
    """Return the alternatives that score higher and make sense, best first.

    Such an entity stands in this relation elsewhere, on the same side, and is not the other end.
    """
    head, relation, tail = found.ids
    mine = graph.facts[graph.facts[:, 1] == relation]
    better = []
    for item in found.alternatives:
        column, other = (0, tail) if item.side == "head" else (2, head)
        entity = graph.entities.id(item.fact[column])
        if item.gain > 0 and entity != other and bool((mine[:, column] == entity).any()):
            better.append(item)
    return sorted(better, key=lambda item: -item.gain)


def _correction(better: list[Alternative]) -> Correction | None:
    """Return what may be meant instead: the best alternative of a side, if it is a new fact.

    Where the best one of a side is stored, what was meant is there already: nothing to repair.
    """
    repaired: set[str] = set()
    for item in better:
        if not item.collected and item.side not in repaired:
            return Correction(item.side, _end(item.fact, item.side))
        repaired.add(item.side)
    return None


def _end(fact: tuple[str, str, str], side: str) -> str:
    return fact[0 if side == "head" else 2]


def sentences(found: Explanation, better: list[Alternative]) -> Evidence:
    """Put an explanation, and the alternatives that fit better, into short sentences."""
    supporting = []
    for item in found.supporting:
        way = " and ".join(f"({', '.join(fact)})" for fact in item.ways[0]) if item.ways else ""
        supporting.append(
            f"{item.rule}: holds in {item.support:,} of {item.body_count:,} cases"
            + (f"; here by {way}" if way else "")
        )
    supporting += [
        f"{s.entity}, much like the {s.side}, also has {found.fact[1]}: {', '.join(s.values[:3])}"
        for s in found.similar
        if s.agrees
    ]
    usual = [
        f"{u.entity} is the {u.side} of {u.count:,} of {u.relation_count:,} other facts of "
        f"{found.fact[1]}, and in {u.degree:,} other facts altogether"
        for u in found.usage
    ]
    usual += [
        f"{_end(found.fact, side)} ranks {rank:,.10g} as the {side}, among the entities that are "
        "not stored there"
        for side, rank in found.ranks.items()
    ]
    fitting = [
        f"{item.side} {_end(item.fact, item.side)}" + (" (stored)" if item.collected else "")
        for item in better
    ]
    against = tuple(item.text for item in found.contradicting)
    return Evidence(tuple(supporting), against, tuple(usual), tuple(fitting))


def _yield(audit: Audit, marks: frozenset[tuple[str, str, str]]) -> tuple[YieldPoint, ...]:
    """Return expected wrong facts against facts reviewed, up to the budget."""
    table = audit.suspects
    if not len(table):
        return ()
    figures = {name: 1 - table[name].to_numpy() for name in ("probability", "low", "high")}
    wrong = {name: np.cumsum(values) for name, values in figures.items()}
    labels = [table[name].to_pylist() for name in ("head", "relation", "tail")]
    planted = np.cumsum([fact in marks for fact in zip(*labels, strict=True)])
    steps = sorted({round(x) for x in np.linspace(1, len(table), 25)})
    return tuple(
        YieldPoint(
            step,
            Estimate(*(float(wrong[name][step - 1]) for name in ("probability", "high", "low"))),
            float(planted[step - 1]) if marks else None,
        )
        for step in steps
    )


def collection_model(audit: Audit) -> CollectionModel:
    """Fit how the chance of being collected depends on how frequent the names are."""
    graph = audit.crossfit.folds.graph
    pool = torch.cat([audit.crossfit.pools[kind].facts for kind in KINDS])
    sizes = graph.num_entities, graph.num_relations
    return CollectionModel.fit(graph.facts, pool, *sizes, seed=audit.settings.seed)


def _collection(audit: Audit) -> tuple[Coefficient, ...]:
    model = collection_model(audit)
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


def _missing_share(audit: Audit) -> dict[str, float | None]:
    """Return the share of the true facts that are not stored; None where it cannot be told."""
    share = audit.missing_share or (None, None, None)
    names = ("missing_share", "missing_share_low", "missing_share_high")
    return dict(zip(names, share, strict=True))


def summary(audit: Audit) -> dict[str, Any]:
    """Return the figures of an audit for JSON and the terminal."""
    beta, alpha = audit.priors.beta, audit.priors.alpha
    return {
        "graph": audit.name,
        "facts": len(audit.collected.facts),
        "recipe": audit.settings.recipe,
        "folds": audit.settings.folds,
        "seed": audit.settings.seed,
        "identifiable": audit.priors.identifiable,
        "reason": audit.priors.reason,
        "wrong_share": 1 - beta.value,
        "wrong_share_low": 1 - beta.high,
        "wrong_share_high": 1 - beta.low,
        "alpha": alpha.value,
        "wrong_end": audit.wrong_end,
        "noise_profile": {k: round(v, 5) for k, v in audit.profile.share.items()},
        "suspects": len(audit.suspects),
        "expected_wrong": float((1 - audit.suspects["probability"].to_numpy()).sum()),
        "expected_wrong_low": float((1 - audit.suspects["high"].to_numpy()).sum()),
        "expected_wrong_high": float((1 - audit.suspects["low"].to_numpy()).sum()),
        "quarantined": len(audit.quarantine),
        **_missing_share(audit),
        "missing": len(audit.missing),
        "expected_true": float(audit.missing["probability"].to_numpy().sum()),
        "expected_true_low": float(audit.missing["low"].to_numpy().sum()),
        "expected_true_high": float(audit.missing["high"].to_numpy().sum()),
        "warnings": list(warnings(audit)),
    }
