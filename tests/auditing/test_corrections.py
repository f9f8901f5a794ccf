"""Corrections: what was meant instead of a suspect, and when anything is proposed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
import torch

from audit_samples import FAST, called_reliable, graph_of
from npugraph.auditing import Audit, AuditSettings, Thresholds, audit
from npugraph.auditing.corrections import (
    CorrectionTest,
    Corrector,
    learn_corrections,
    one_ended,
    single_answers,
)
from npugraph.data.corrupt import HEAD, TAIL

ASKED = AuditSettings(
    folds=3, budget=40, missing=5, explained=0, compared=32, search=False, device="cpu", seed=1
)
TOWNS, REGIONS = 120, 6
# A country where a region belongs: wrong, beside the right region.
WRONG = [(f"town {i}", "in_region", f"country {i % 3}") for i in range(0, 40, 5)]


def towns() -> list[tuple[str, str, str]]:
    """Return towns in one region and one country each, and roads within regions."""
    facts = []
    for i in range(TOWNS):
        facts.append((f"town {i}", "in_region", f"region {i % REGIONS}"))
        facts.append((f"town {i}", "in_country", f"country {i % REGIONS // 2}"))
        facts.append((f"town {i}", "road_to", f"town {(i + REGIONS) % TOWNS}"))
        facts.append((f"town {i}", "road_to", f"town {(i + 2 * REGIONS) % TOWNS}"))
    return facts


def told(found: Audit) -> Audit:
    """Return an audit as if it were reliable, and suspected the wrong facts and some others."""
    told = called_reliable(found)
    facts = found.graph.encode(
        pa.table(dict(zip(("head", "relation", "tail"), zip(*WRONG, strict=True), strict=True)))
    )
    places = found.crossfit.folds.graph.index().places(facts).numpy()
    others = np.setdiff1d(np.arange(0, len(found.collected.facts), 10), places)
    told.__dict__["suspect_rows"] = np.concatenate([places, others])
    return told


@pytest.fixture(scope="module")
def found() -> Audit:
    return told(audit(graph_of([*towns(), *WRONG]), ASKED, FAST))


def meant(found: Audit, place: int) -> tuple[str, str, str] | None:
    """Return the fact that the correction of a suspect makes."""
    fix, row = found.corrections[place], found.suspects.to_pylist()[place]
    if fix is None:
        return None
    return tuple((row | {fix.side: fix.label})[name] for name in ("head", "relation", "tail"))  # type: ignore[return-value]


def with_test(found: Audit, right: float) -> Audit:
    test = CorrectionTest(100, 0.5, right)
    return told(dataclasses.replace(found, corrector=Corrector(found.corrector.trees, test)))


def test_new_facts_are_not_stored_and_stored_ones_are(found: Audit) -> None:
    stored = {*towns(), *WRONG}
    fixes = [(fix, meant(found, i)) for i, fix in enumerate(found.corrections) if fix is not None]
    assert fixes
    for fix, fact in fixes:
        assert (fact in stored) == fix.stored
        assert fact is not None
        assert fact[0] != fact[2]


def test_the_right_fact_beside_a_wrong_one_is_named(found: Audit) -> None:
    named = [
        (fix.stored, meant(found, place))
        for place, fix in enumerate(found.corrections[: len(WRONG)])
        if fix is not None
    ]
    assert len(named) >= 2
    assert all(stored and fact in towns() for stored, fact in named)


def test_the_self_test_decides_whether_anything_is_proposed(found: Audit) -> None:
    assert found.corrects
    assert found.corrector.test.right >= 0.5
    assert 0 < found.corrector.test.proposed <= 1
    assert not any(with_test(found, 0.49).corrections)
    assert any(with_test(found, 0.5).corrections)


def test_errors_of_other_kinds_make_corrections_less_often_right(found: Audit) -> None:
    def learned(weight: dict[str, float]) -> CorrectionTest:
        profile = dataclasses.replace(found.model.profile, weight=weight)
        model = dataclasses.replace(found.model, profile=profile)
        return learn_corrections(found.crossfit, model, found.settings).test

    ones, few = learned({"typed": 1.0}), learned({"one-sided, tail": 0.2, "swapped": 0.6})
    assert ones.tried == few.tried > 20
    assert few.right == pytest.approx(ones.right / 4)
    assert one_ended({}) == 0


def test_without_errors_to_learn_from_nothing_is_proposed(found: Audit) -> None:
    none = dataclasses.replace(found.settings, thresholds=Thresholds(corrected_facts=0))
    learned = learn_corrections(found.crossfit, found.model, none)
    assert learned == Corrector(None, CorrectionTest())
    rows = np.arange(5)
    assert learned.propose(found.crossfit, rows, found.settings) == [None] * 5


def test_the_share_of_questions_with_one_answer() -> None:
    graph = graph_of([("a", "r", "x"), ("a", "r", "y"), ("b", "r", "x"), ("b", "s", "x")])
    single = single_answers(graph)
    # Tails of a and b; heads of x and y.
    assert single[graph.relations.id("r")].tolist() == [0.5, 0.0, 0.5]
    assert torch.equal(single[graph.relations.id("s"), [HEAD, TAIL]], torch.ones(2))
