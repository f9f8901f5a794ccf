"""Reports to test with: a realistic one over the bundled graph, an empty one, a hostile one."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files

import numpy as np

from npugraph.report import (
    Coefficient,
    Correction,
    Estimate,
    Evidence,
    FactRow,
    GraphSummary,
    Health,
    IssueGroup,
    IssueRow,
    PlantedCheck,
    Provenance,
    RelationHealth,
    Reliability,
    ReliabilityBin,
    ReportData,
    YieldPoint,
    settings_rows,
)
from npugraph.seeds import number
from npugraph.settings import TrainSettings

# Labels that try to become markup, script, layout or a broken TSV.
HOSTILE = (
    "</script><img src=x onerror=\"window.hacked='script'\">",
    "<img src=x onerror=\"window.hacked='img'\">",
    '"><svg onload="window.hacked=\'svg\'">',
    "' onmouseover='window.hacked=1",
    "<!--<script>",
    "]]>{{ 7 * 7 }}{% raw %}",
    "javascript:window.hacked=1",
    "\u202eoverridden\u2028line\u2029end",
    "tab\there\nand a line",
    "",
    "https://example.org/" + "very-long-path-without-a-break" * 12,
    "nobreak" * 700,
    "مدينة القاهرة",
    "東京都渋谷区",
    "Ελλάδα ქართული हिन्दी",
)


def empty_report() -> ReportData:
    return ReportData(
        GraphSummary("nothing", 0, 0, 0),
        Provenance("complex-n3", 0, 5),
        Health(None, "The graph has no facts."),
    )


def hostile_report() -> ReportData:
    rows = tuple(
        FactRow(
            text, HOSTILE[(i + 1) % len(HOSTILE)], HOSTILE[(i + 2) % len(HOSTILE)],
            Estimate(i / len(HOSTILE), 0.0, 1.0), -float(i),
            Correction("tail", HOSTILE[(i + 3) % len(HOSTILE)]),
            Evidence((text,), (text,), (text,), (text,)), mark=text[:40],
        )
        for i, text in enumerate(HOSTILE)
    )  # fmt: skip
    return ReportData(
        GraphSummary(HOSTILE[0], 10, 10, 10),
        Provenance(HOSTILE[1], 0, 5, settings_rows(TrainSettings(device=HOSTILE[0]))),
        Health(
            None, HOSTILE[0], tuple(RelationHealth(t, 5, Estimate(0.1, 0, 0.3)) for t in HOSTILE)
        ),
        rows,
        rows,
        Reliability((ReliabilityBin(0.5, Estimate(0.4, 0.3, 0.5), 9),), HOSTILE[0]),
        collection=tuple(Coefficient(t, Estimate(0.5, -0.1, 1.0), t) for t in HOSTILE),
        warnings=HOSTILE,
        issues=(
            IssueGroup("type", HOSTILE[0], 99, tuple(IssueRow(1, HOSTILE, t) for t in HOSTILE)),
        ),
    )


def world_facts() -> list[tuple[str, str, str]]:
    text = (files("npugraph") / "data" / "bundled" / "world.tsv").read_text(encoding="utf-8")
    rows = [tuple(line.split("\t")[:3]) for line in text.splitlines()[1:]]
    return [(row[0], row[1], row[2]) for row in rows]


def realistic_report(suspects: int = 300, missing: int = 200) -> ReportData:
    """Return a report whose suspects are shuffled facts of the bundled graph."""
    draw = np.random.default_rng(number(0, "report sample"))
    facts = world_facts()
    tails = sorted({tail for _, _, tail in facts})
    wrong = np.sort(1 / (1 + np.exp(draw.normal(-0.4, 2.2, suspects))))[::-1]
    listed = tuple(_suspect(draw, facts, tails, float(1 - w)) for w in wrong)
    true = np.sort(1 / (1 + np.exp(draw.normal(-1.0, 1.5, missing))))[::-1]
    absent = tuple(_missing(draw, facts, tails, float(p)) for p in true)
    found = sum(bool(row.mark) for row in listed)
    counts = Counter(relation for _, relation, _ in facts)
    return ReportData(
        GraphSummary("world", len(facts), 1236, len(counts)),
        Provenance("complex-n3", 0, 5, settings_rows(TrainSettings(epochs=60))),
        Health(Estimate(0.0391, 0.0312, 0.0478), by_relation=_by_relation(draw, counts)),
        listed,
        absent,
        _reliability(draw),
        _yield(listed),
        _coefficients(),
        (
            "Relation “part_of” has 24 facts only: its own share of wrong facts is a guess.",
            "412 entities occur in a single fact; a fact that is the only one of its entity "
            "cannot be judged by a model that never saw it, and gets the average probability.",
        ),
        PlantedCheck(max(found, 190), found, suspects) if suspects else None,
    )


def _suspect(
    draw: np.random.Generator, facts: list[tuple[str, str, str]], tails: list[str], p: float
) -> FactRow:
    head, relation, tail = facts[draw.integers(len(facts))]
    planted = bool(draw.random() > p)
    shown = tails[draw.integers(len(tails))] if planted else tail
    evidence = Evidence(
        (f"{head} and {shown} share 2 neighbours.",) if draw.random() < 0.5 else (),
        (
            f"{tail} is 41 times as plausible as {shown} in this place.",
            f"{head} has 3 other facts with {relation}; none of them is near {shown}.",
        ),
        (f"A head of {relation} has 1.2 tails on average; this one has 4.",),
        (f"({head}, {relation}, {tail})", f"({head}, {relation}, {tails[0]})"),
    )
    fix = Correction("tail", tail) if planted and draw.random() < 0.8 else None
    return FactRow(
        head, relation, shown, _interval(draw, p), float(10 * p - 8 + draw.normal(0, 0.4)), fix,
        evidence, "planted" if planted else "",
    )  # fmt: skip


def _missing(
    draw: np.random.Generator, facts: list[tuple[str, str, str]], tails: list[str], p: float
) -> FactRow:
    head, relation, _ = facts[draw.integers(len(facts))]
    tail = tails[draw.integers(len(tails))]
    evidence = Evidence((f"The reverse fact ({tail}, {relation}, {head}) is stored.",))
    return FactRow(head, relation, tail, _interval(draw, p), 4 + 5 * p, None, evidence)


def _interval(draw: np.random.Generator, p: float) -> Estimate:
    width = float(0.2 * np.sqrt(p * (1 - p)) + 0.01) * float(draw.uniform(0.6, 1.4))
    return Estimate(p, max(p - width, 0.0), min(p + width, 1.0))


def _by_relation(draw: np.random.Generator, counts: Counter[str]) -> tuple[RelationHealth, ...]:
    rows = []
    for relation, facts in counts.items():
        share = float(draw.beta(2, 40))
        width = float(1.6 * np.sqrt(share * (1 - share) / facts))
        wrong = Estimate(share, max(share - width, 0), min(share + width, 1))
        rows.append(RelationHealth(relation, facts, wrong if facts > 30 else None))
    return tuple(rows)


def _reliability(draw: np.random.Generator) -> Reliability:
    bins = []
    for i in range(10):
        mean, n = (i + 0.5) / 10, int(20 + 2500 * ((i + 0.5) / 10) ** 6)
        observed = float(np.clip(mean + draw.normal(0, 0.04), 0.005, 0.995))
        width = float(1.645 * np.sqrt(observed * (1 - observed) / n))
        low, high = max(observed - width, 0), min(observed + width, 1)
        bins.append(ReliabilityBin(mean, Estimate(observed, low, high), n))
    return Reliability(tuple(bins), "Truth: the errors that the demo planted.")


def _yield(rows: tuple[FactRow, ...]) -> tuple[YieldPoint, ...]:
    expected = np.cumsum([1 - row.probability.value for row in rows])
    observed = np.cumsum([bool(row.mark) for row in rows])
    budgets = [b for b in (10, 25, 50, 75, 100, 150, 200, 250, 300, 500, 1000) if b <= len(rows)]
    return tuple(
        YieldPoint(b, Estimate(e := float(expected[b - 1]), 0.85 * e, 1.15 * e), observed[b - 1])
        for b in budgets
    )


def _coefficients() -> tuple[Coefficient, ...]:
    return (
        Coefficient("log degree of head", Estimate(0.82, 0.71, 0.93), "well-known heads"),
        Coefficient("log degree of tail", Estimate(0.64, 0.50, 0.77), "well-known tails"),
        Coefficient("relation is symmetric", Estimate(-0.21, -0.48, 0.06), "one way is stored"),
    )
