"""The self-test and the verdict, on made facts whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npugraph.auditing.statistics.evidence import fit_truth_model
from npugraph.auditing.statistics.low_end import LowEnd
from npugraph.auditing.statistics.self_test import CleanTest, SelfTest, run_self_test
from npugraph.auditing.statistics.verdict import (
    ANSWERS,
    BY_COLUMNS,
    CANNOT_JUDGE,
    LISTED,
    ORDER,
    RELIABLE,
    SOURCE,
    Verdict,
    count_interval,
    judge_relations,
    judge_trust,
    not_taken_yet,
)
from npugraph.calibration.class_priors import Interval
from verdict_samples import FAMILIES, made


def promise_of(model, rows: np.ndarray) -> Interval:
    value, low, high = (p[rows] for p in model.probability(model.stack.collected, collected=True))
    return count_interval(1 - value, 1 - high, 1 - low, 0.9)


@pytest.mark.parametrize("chance", [0.0, 1.1336050e-9, 0.3, 1.0])
@pytest.mark.parametrize("count", [1, 7, 1000])
def test_a_count_lies_in_its_interval_however_small(chance: float, count: int) -> None:
    value = np.full(count, chance)
    found = count_interval(value, value, value, 0.9)
    assert 0 <= found.low <= found.value <= found.high <= count


def test_each_family_is_judged_without_its_pools() -> None:
    collected, _, pools, planted = made(0.05)
    model = fit_truth_model(collected, pools)
    test = run_self_test(model, collected, pools, planted, FAMILIES)
    assert [row.family for row in test.families] == ["arbitrary", "plausible"]
    assert [row.planted for row in test.families] == [40, 40]
    assert all(row.auroc > 0.9 for row in test.families)
    assert test.planted == 80
    assert 0.5 < test.at_low_end < min(2, test.at_low_end_high)
    assert run_self_test(model, collected, pools, {}, FAMILIES) == SelfTest()


def test_a_count_is_promised_and_kept_where_wrong_facts_are_plain() -> None:
    collected, wrong, pools, planted = made(0.05)
    model = fit_truth_model(collected, pools)
    test = run_self_test(model, collected, pools, planted, FAMILIES)
    first = np.argsort(model.stack.collected)[:100]
    promise = promise_of(model, first)
    verdict = judge_trust(test, model, promise)
    assert verdict.level == RELIABLE
    assert promise.low <= wrong[first].sum() <= promise.high


def test_nothing_is_promised_where_errors_come_many_per_entity() -> None:
    collected, _, pools, planted = made(0.05)
    model = fit_truth_model(collected, pools)
    test = run_self_test(model, collected, pools, planted, FAMILIES)
    promise = Interval(90.0, 80.0, 100.0)
    assert judge_trust(test, model, promise).level == RELIABLE
    verdict = judge_trust(test, model, promise, clustered=True)
    assert verdict.level == ORDER
    assert "many per entity" in verdict.why
    # Answers tell all the same.
    assert judge_trust(test, model, promise, clustered=True, answered=True).level == RELIABLE


def test_columns_alone_make_no_promise() -> None:
    collected, _, pools, planted = made(0.05)
    model = fit_truth_model(collected, pools)
    test = run_self_test(model, collected, pools, planted, FAMILIES)
    promise = Interval(90.0, 80.0, 100.0)
    assert judge_trust(test, model, promise).level == RELIABLE
    verdict = judge_trust(test, model, promise, by_columns=True)
    assert (verdict.level, verdict.why) == (ORDER, BY_COLUMNS)
    # A doubt of its own comes first, and answers tell all the same.
    wide = judge_trust(test, model, Interval(60.0, 35.0, 100.0), by_columns=True)
    assert "cannot be told" in wide.why
    assert judge_trust(test, model, promise, by_columns=True, answered=True).level == RELIABLE


def test_nothing_is_advised_that_was_done() -> None:
    verdict = Verdict(ORDER, "Why.", (ANSWERS, SOURCE))
    assert not_taken_yet(verdict, columns=False, lacking="") == verdict
    assert not_taken_yet(verdict, columns=True, lacking="").helps == (ANSWERS,)
    said = not_taken_yet(verdict, columns=False, lacking="Four are too few.")
    assert (said.level, said.why) == (ORDER, "Why. Four are too few.")
    assert said.helps == (LISTED, SOURCE)
    sure = Verdict(RELIABLE, "All is well.")
    assert not_taken_yet(sure, columns=True, lacking="Four are too few.") == sure


def test_a_clean_part_that_is_called_right_is_told_with_the_promise() -> None:
    collected, _, pools, planted = made(0.05)
    model = fit_truth_model(collected, pools)
    test = run_self_test(model, collected, pools, planted, FAMILIES)
    told = replace(test, clean=CleanTest(200, 1, 1.5, False))
    verdict = judge_trust(told, model, Interval(90.0, 80.0, 100.0))
    assert verdict.level == RELIABLE
    assert verdict.why.endswith("1 would be called wrong (about 1.5 by the probabilities).")


def test_nothing_is_promised_where_nothing_is_wrong() -> None:
    collected, _, pools, planted = made(0.0)
    model = fit_truth_model(collected, pools)
    test = run_self_test(model, collected, pools, planted, FAMILIES)
    first = np.argsort(model.stack.collected)[:100]
    verdict = judge_trust(test, model, promise_of(model, first))
    assert verdict.level == ORDER
    assert verdict.helps


def test_a_graph_that_tells_nothing_cannot_be_judged() -> None:
    collected, _, pools, planted = made(0.05, spread=60.0)
    model = fit_truth_model(collected, pools)
    test = run_self_test(model, collected, pools, planted, FAMILIES)
    verdict = judge_trust(test, model, Interval(90.0, 80.0, 100.0))
    assert verdict.level == CANNOT_JUDGE
    assert "hardly told" in verdict.why


@pytest.mark.parametrize(
    ("test", "low", "promise", "why"),
    [
        (SelfTest((), 10, 0.99), (0.05, 0.05), (90, 80, 100), "Only 10 facts"),
        (SelfTest((), 100, 0.8), (0.05, 0.05), (90, 80, 100), "Too many stored facts"),
        (SelfTest((), 100, 0.99, 0.2, 0.4), (0.05, 0.05), (90, 80, 100), "do not lie"),
        (SelfTest((), 100, 0.99), (0.05, 0.01), (90, 80, 100), "well known"),
        (
            SelfTest((), 100, 0.99, clean=CleanTest(200, 12, 1.5, True)),
            (0.05, 0.05),
            (90, 80, 100),
            "Of the 200 facts that are known to be right 12 would be called wrong",
        ),
        (SelfTest((), 100, 0.99), (0.05, 0.05), (60, 35, 100), "cannot be told"),
    ],
)
def test_every_doubt_has_its_sentence(
    test: SelfTest, low: tuple[float, float], promise: tuple[int, int, int], why: str
) -> None:
    collected, _, pools, _ = made(0.05)
    model = replace(
        fit_truth_model(collected, pools), low_end=LowEnd(low[0], low[0], low[1], 0.01, test.auroc)
    )
    verdict = judge_trust(test, model, Interval(*map(float, promise)))
    assert verdict.level == ORDER
    assert why in verdict.why


def test_few_planted_facts_elsewhere_are_no_reason_for_doubt() -> None:
    collected, _, pools, _ = made(0.05)
    model = fit_truth_model(collected, pools)
    unclear = SelfTest((), 100, 0.99, 0.45, 0.8)
    assert judge_trust(unclear, model, Interval(90.0, 80.0, 100.0)).level == RELIABLE


def test_a_count_is_promised_where_hardly_fewer_may_be_found() -> None:
    collected, _, pools, _ = made(0.05)
    model, test = fit_truth_model(collected, pools), SelfTest((), 100, 0.99)
    assert judge_trust(test, model, Interval(60.0, 40.0, 100.0)).level == RELIABLE
    assert judge_trust(test, model, Interval(60.0, 38.0, 70.0)).level == ORDER


def test_answers_decide_where_they_set_the_probabilities() -> None:
    collected, _, pools, _ = made(0.05)
    model = fit_truth_model(collected, pools)
    firm, wide = Interval(40.0, 30.0, 50.0), Interval(40.0, 10.0, 80.0)
    assert judge_trust(SelfTest(), model, firm, answered=True).level == RELIABLE
    assert judge_trust(SelfTest(), model, wide, answered=True).level == ORDER
    assert judge_trust(SelfTest(), model, firm, answered=True, refuted=True).level == ORDER


def test_no_relation_is_judged_better_than_all() -> None:
    collected, _, pools, _ = made(0.05)
    model = fit_truth_model(collected, pools)
    pool = model.stack.pools["random"], pools["random"].relation
    found = judge_relations(model, collected.relation, pool, RELIABLE)
    assert found == dict.fromkeys(range(3), RELIABLE)
    assert set(judge_relations(model, collected.relation, pool, ORDER).values()) == {ORDER}
    # One of which the scores tell nothing.
    mixed = np.where(pool[1] == 0, model.stack.collected[: len(pool[0])], pool[0])
    assert judge_relations(model, collected.relation, (mixed, pool[1]), RELIABLE)[0] == CANNOT_JUDGE
