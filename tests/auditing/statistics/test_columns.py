"""What columns say: nothing where they go with nothing, much where errors come from one source."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from npugraph.auditing.statistics.columns import (
    LIMIT,
    PARTS,
    apply_ratio,
    column_ratio,
    numeric_groups,
)
from npugraph.errors import DataError
from npugraph.metrics import auroc

Floats = NDArray[np.float64]


def suspicion(count: int, rng: np.random.Generator) -> tuple[NDArray[np.bool_], Floats]:
    """Which facts are wrong, a tenth, and a calibrated but weak probability of it."""
    noise = rng.normal(size=count)
    wrong = rng.random(count) < 0.1
    score = noise + 1.5 * wrong
    odds = 0.1 / 0.9 * np.exp(1.5 * score - 1.5**2 / 2)
    return wrong, odds / (1 + odds)


def test_a_column_that_goes_with_nothing_changes_next_to_nothing() -> None:
    rng = np.random.default_rng(0)
    largest = []
    for _ in range(20):
        _, probability = suspicion(3000, rng)
        column = rng.integers(0, 15, 3000)
        ratio, effects = column_ratio(probability, rng.integers(0, 4, 3000), {"any": column})
        largest.append(float(np.abs(np.log(ratio)).max()))
        assert effects["any"].groups == 15
    assert np.median(largest) < 0.1
    assert max(largest) < 0.5


def test_a_source_of_errors_makes_its_facts_more_suspicious() -> None:
    rng = np.random.default_rng(1)
    wrong, probability = suspicion(5000, rng)
    source = rng.integers(1, 20, 5000)
    source[wrong & (rng.random(5000) < 0.6)] = 0
    relation = rng.integers(0, 4, 5000)
    ratio, effects = column_ratio(probability, relation, {"source": source})
    assert ratio[source == 0].min() > 3
    assert ratio[source != 0].max() < 1.1
    assert effects["source"].highest > 0.1 > 0 > effects["source"].lowest
    changed = 1 - apply_ratio(1 - probability, ratio)
    assert auroc(wrong, changed) > auroc(wrong, probability) + 0.05
    # The probabilities still are what they say.
    assert changed.mean() == pytest.approx(wrong.mean(), abs=0.02)


def test_what_is_usual_for_a_relation_is_not_held_against_a_source() -> None:
    rng = np.random.default_rng(2)
    relation = rng.integers(0, 2, 4000)
    # Facts of relation 1 are hard to foresee, and source 1 has nothing else.
    probability = np.clip(np.where(relation == 1, 0.3, 0.05) + rng.normal(0, 0.02, 4000), 0, 1)
    ratio, _ = column_ratio(probability, relation, {"source": relation})
    assert np.abs(np.log(ratio)).max() < 0.1


def test_a_fact_does_not_speak_against_itself() -> None:
    probability = np.full(200, 0.1)
    probability[0] = 0.9
    # Of two facts of a group, the other one is heeded.
    group = np.arange(200) // 2
    ratio, _ = column_ratio(probability, np.zeros(200, dtype=int), {"pair": group})
    assert ratio[0] <= 1
    assert ratio[1] >= ratio[0]


def test_higher_confidence_never_speaks_against_a_fact() -> None:
    rng = np.random.default_rng(3)
    wrong, probability = suspicion(4000, rng)
    # It goes the wrong way round: nothing is made of it.
    confidence = np.where(wrong, rng.beta(6, 2, 4000), rng.beta(2, 6, 4000))
    group = numeric_groups(confidence)
    relation = np.zeros(4000, dtype=int)
    ratio, _ = column_ratio(probability, relation, {"confidence": group}, ("confidence",))
    assert np.abs(np.log(ratio)).max() < 0.15
    free, _ = column_ratio(probability, relation, {"confidence": group})
    assert np.abs(np.log(free)).max() > 1
    right, _ = column_ratio(probability, relation, {"c": numeric_groups(-confidence)}, ("c",))
    order = np.argsort(-confidence, kind="stable")
    assert (np.diff(right[order]) <= 1e-9).all()


def test_a_column_that_repeats_another_adds_little() -> None:
    rng = np.random.default_rng(4)
    wrong, probability = suspicion(5000, rng)
    source = rng.integers(1, 10, 5000)
    source[wrong & (rng.random(5000) < 0.5)] = 0
    relation = np.zeros(5000, dtype=int)
    once, _ = column_ratio(probability, relation, {"a": source})
    twice, _ = column_ratio(probability, relation, {"a": source, "b": source})
    assert np.abs(np.log(twice / once)).max() < 0.1


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(-1, 3), st.integers(0, 2)), max_size=40),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_factors_are_bounded_and_finite(rows: list[tuple[float, int, int]], falling: bool) -> None:
    wrong, group, relation = (np.array([row[k] for row in rows]) for k in range(3))
    ratio, _ = column_ratio(
        wrong.astype(float),
        relation.astype(int),
        {"c": group.astype(int)},
        ("c",) if falling else (),
    )
    assert ratio.shape == (len(rows),)
    assert ((ratio >= 1 / LIMIT) & (ratio <= LIMIT)).all()
    changed = apply_ratio(1 - wrong.astype(float), ratio)
    assert ((changed >= 0) & (changed <= 1)).all()


def test_facts_that_are_wrong_for_certain_are_told_apart_by_a_column() -> None:
    changed = apply_ratio(np.zeros(3), np.array([0.1, 1.0, 10.0]))
    assert (np.diff(changed) < 0).all()
    assert changed.max() < 1e-4


def test_numbers_are_cut_into_parts_of_equal_size() -> None:
    group = numeric_groups(np.random.default_rng(0).normal(size=1000))
    assert np.bincount(group).tolist() == [100] * PARTS
    assert numeric_groups(np.array([1.0, 1.0])).tolist() == [0, 0]
    assert numeric_groups(np.array([np.nan, np.nan])).tolist() == [-1, -1]


def test_columns_of_another_length_are_refused() -> None:
    with pytest.raises(DataError, match="wrong and c must have the same length"):
        column_ratio(np.zeros(3), np.zeros(3, dtype=int), {"c": np.zeros(2, dtype=int)})
