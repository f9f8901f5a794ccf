"""The figures of an audit, for JSON and the terminal."""

from __future__ import annotations

import dataclasses
from typing import Any

from npugraph.auditing.answers import record
from npugraph.auditing.clusters import Cluster
from npugraph.auditing.columns import heeded
from npugraph.auditing.page import notes, untold_share, warnings
from npugraph.auditing.result import Findings
from npugraph.auditing.statistics.contribution import Contribution
from npugraph.calibration.class_priors import Interval
from npugraph.names import shorten


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def _view_record(one: Contribution) -> dict[str, Any]:
    """Return what a view brings, by kind of wrong facts."""
    auroc = {
        kind: {
            "together": _rounded(value),
            "without": _rounded(one.without.get(kind)),
            "alone": _rounded(one.alone.get(kind)),
        }
        for kind, value in one.together.items()
    }
    return {"view": one.view, "features": one.features, "auroc": auroc}


def _cluster_record(found: Findings, one: Cluster) -> dict[str, Any]:
    """Return which entities stand out at an end, and how many facts each has there."""
    names = [found.graph.entities.label(int(entity)) for entity in one.entities]
    return {"end": one.end, "entities": names, "facts": one.facts.tolist()}


def summary(found: Findings) -> dict[str, Any]:
    """Return the figures of an audit for JSON and the terminal."""
    beta, alpha = found.priors.beta, found.priors.alpha
    share: tuple[float | None, ...] = (None, None, None)
    if found.missing_share is not None and found.missing_verdict.reliable:
        share = found.missing_share
    told = found.verdict.reliable and found.share_told
    names = ("wrong_share", "wrong_share_low", "wrong_share_high")
    wrong = (
        (1 - beta.value, 1 - beta.high, 1 - beta.low) if found.share_told else (None, None, None)
    )
    return {
        "graph": found.name,
        "facts": len(found.graph.index()),
        "verdict": found.verdict.level,
        "verdict_reason": found.verdict.why,
        "verdict_helps": list(found.verdict.helps),
        "missing_verdict": found.missing_verdict.level,
        "missing_verdict_reason": found.missing_verdict.why,
        "relation_verdicts": {
            found.graph.relations.label(number): level
            for number, level in found.relation_verdicts.items()
        },
        "self_test": _self_test(found),
        "recipe": found.settings.recipe,
        "folds": found.settings.folds,
        "seed": found.settings.seed,
        "identifiable": told,
        "reason": "" if told else untold_share(found),
        **dict(zip(names, wrong, strict=True)),
        "alpha": alpha.value if found.verdict.reliable else None,
        "wrong_end": found.told_end,
        "noise_profile": _profile(found),
        "clusters": [_cluster_record(found, one) for one in found.clusters],
        "columns": list(heeded(found.columns)),
        "views": [_view_record(one) for one in found.views],
        "suspects": len(found.suspects),
        "corrections": {
            name: sum(one is not None and one.stored == stored for one in found.corrections)
            for name, stored in (("new", False), ("stored", True))
        },
        **_expected("wrong", found.expected_wrong),
        "quarantined": len(found.quarantine_rows) + len(found.answers.wrong),
        "known_wrong": len(found.answers.wrong),
        "known_right": len(found.answers.right),
        "wrong_share_from": _share_from(found),
        "answers": record(found.answers, found.learned),
        **dict(
            zip(("missing_share", "missing_share_low", "missing_share_high"), share, strict=True)
        ),
        "missing": len(found.missing),
        **_expected("true", found.expected_true),
        "issues": found.issues.counts,
        **({} if found.since is None else {"since": found.since.to_record()}),
        "notes": list(notes(found)),
        "warnings": list(warnings(found)),
    }


def _profile(found: Findings) -> dict[str, float] | None:
    """Return the share of wrong facts of each kind, where shares are told."""
    if not found.verdict.reliable:
        return None
    return {kind: round(share, 5) for kind, share in found.model.profile.share.items()}


def _self_test(found: Findings) -> dict[str, Any]:
    """Return the self-test in figures; its curve is one of probabilities, where these hold."""
    told = dataclasses.asdict(found.test)
    return told if found.verdict.reliable else {**told, "curve": []}


def _share_from(found: Findings) -> str:
    """Return what the share of wrong facts rests on."""
    if found.settings.beta is not None:
        return "given"
    return "audit" if found.learned.share is None else "answers"


def _expected(what: str, count: Interval | None) -> dict[str, float | None]:
    """Return how many facts of a list should be wrong, or true, with the interval."""
    names = (f"expected_{what}", f"expected_{what}_low", f"expected_{what}_high")
    return dict(zip(names, count or (None, None, None), strict=True))


def short_text(found: Findings) -> str:
    """Return one line on an audit."""
    wrong, interval = (
        1 - found.priors.beta.value,
        (1 - found.priors.beta.high, 1 - found.priors.beta.low),
    )
    share = f"{wrong:.1%} wrong ({interval[0]:.1%} to {interval[1]:.1%})"
    if not found.share_told:
        share = f"verdict: {found.verdict.level}"
    return (
        f"Audit of {shorten(found.name)}: {len(found.collected.facts):,} facts, {share}, "
        f"{len(found.suspect_rows):,} suspects, {len(found.missing_rows):,} missing facts"
    )
