"""The self-test in figures: the envelope of the share, the reliability curve, a clean part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npugraph.auditing.statistics.envelope import most_wrong
from npugraph.auditing.statistics.evidence import fit_truth_model, leave_out
from npugraph.auditing.statistics.self_test import check_clean, run_self_test
from verdict_samples import FAMILIES, draw, made


@settings(max_examples=20, deadline=None)
@given(
    share=st.floats(0.01, 0.3),
    plain=st.floats(0, 1),
    apart=st.floats(1, 8),
    seed=st.integers(0, 2**20),
)
def test_the_envelope_holds_the_share_whatever_the_kinds(
    share: float, plain: float, apart: float, seed: int
) -> None:
    """Errors of two kinds, one of them among true facts: no share is ruled out that is there.

    But for chance, at a level of 90%: of twenty draws fourteen must hold it.
    """
    rng = np.random.default_rng(seed)
    count, held = 4000, 0
    for _ in range(20):
        wrong = rng.random(count) < share
        own = np.where(rng.random(count) < plain, 0.0, apart)
        score = rng.normal(size=count) + np.where(wrong, own, 8.0)
        kinds = {"plain": rng.normal(0, 1, 2000), "plausible": rng.normal(apart, 1, 60)}
        held += most_wrong(score, kinds) >= wrong.mean() * 0.95
    assert held >= 14


def test_plain_errors_alone_leave_little_room() -> None:
    rng = np.random.default_rng(0)
    score = np.append(rng.normal(0, 1, 100), rng.normal(8, 1, 1900))
    found = most_wrong(score, {"plain": rng.normal(0, 1, 2000)})
    assert 0.05 <= found < 0.08
    assert most_wrong(score, {"alike": rng.normal(8, 1, 2000)}) > 0.5


def test_a_family_left_out_of_the_profile_is_as_if_it_were_never_drawn() -> None:
    collected, _, pools, _ = made(0.05)
    model = fit_truth_model(collected, pools)
    left = leave_out(model, ("typed",), collected, pools)
    again = fit_truth_model(collected, {"random": pools["random"]})
    assert set(left.profile.share) == {"random"}
    assert left.profile.share["random"] == pytest.approx(again.profile.share["random"], rel=0.1)
    assert set(left.stack.pools) == {"random"}


def test_the_curve_lies_on_the_diagonal_where_wrong_facts_are_like_planted_ones() -> None:
    collected, wrong, pools, planted = made(0.08)
    rng = np.random.default_rng(1)
    planted["random"] = draw(np.repeat("random", 400), rng)
    model = fit_truth_model(collected, pools)
    test = run_self_test(model, collected, pools, planted, FAMILIES)
    assert sum(point.facts for point in test.curve) == len(wrong)
    for point in test.curve:
        assert 0 <= point.low <= point.true <= point.high <= 1
        if point.facts > 30:
            assert point.low - 0.05 <= point.probability <= point.high + 0.05
    assert test.most_wrong >= wrong.mean()


def test_the_curve_falls_off_where_true_facts_are_taken_for_wrong_ones() -> None:
    """Stored facts that are hard to know lie at the low end, and the planted ones do not."""
    collected, _, pools, planted = made(0.08)
    model = fit_truth_model(collected, pools)
    planted["random"] = draw(np.repeat("true", 400), np.random.default_rng(1))
    first = run_self_test(model, collected, pools, planted, FAMILIES).curve[0]
    assert first.probability < 0.2
    assert first.low > 0.5


def test_a_clean_part_refutes_probabilities_that_call_it_wrong() -> None:
    probability = np.append(np.full(50, 0.1), np.full(950, 0.99))
    high = np.minimum(probability + 0.05, 1.0)
    # Of the 50 that are called wrong about 7 may be true: less than one in a hundred true facts.
    clean = np.zeros(1000, dtype=bool)
    clean[100:300] = True
    found = check_clean(probability, high, clean)
    assert found is not None
    assert (found.facts, found.called_wrong, found.refutes) == (200, 0, False)
    assert found.expected == pytest.approx(200 * 7.5 / high.sum(), rel=0.01)
    clean[:10] = True
    found = check_clean(probability, high, clean)
    assert found is not None
    assert (found.called_wrong, found.refutes) == (10, True)
    assert check_clean(probability, high, np.arange(1000) < 19) is None
