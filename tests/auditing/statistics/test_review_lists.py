"""Measures and lists of suspect and missing facts, against slow transcriptions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from npugraph.auditing.statistics.review_lists import (
    find_missing_facts,
    find_suspect_facts,
    threshold_for_precision,
)
from npugraph.errors import DataError, SettingsError
from npugraph.metrics import auroc, average_precision, precision_recall_at

tied = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
labelled = st.lists(st.tuples(st.booleans(), tied), min_size=1, max_size=30)
chances = st.lists(tied, max_size=30)


@given(labelled)
def test_measures_agree_with_scikit_learn(rows: list[tuple[bool, float]]) -> None:
    label, score = [a for a, _ in rows], [b for _, b in rows]
    if any(label):
        expected = average_precision_score(label, score)
        assert average_precision(label, score) == pytest.approx(expected)
    else:
        assert np.isnan(average_precision(label, score))
    if any(label) and not all(label):
        assert auroc(label, score) == pytest.approx(roc_auc_score(label, score))
    else:
        assert np.isnan(auroc(label, score))


@given(labelled, st.integers(0, 40))
def test_precision_and_recall_at_a_budget(rows: list[tuple[bool, float]], budget: int) -> None:
    label, score = [a for a, _ in rows], [b for _, b in rows]
    # sorted() is stable: ties stay in row order.
    chosen = sorted(range(len(rows)), key=lambda i: -score[i])[:budget]
    found = sum(label[i] for i in chosen)
    precision, recall = precision_recall_at(label, score, budget)
    assert precision == pytest.approx(found / len(chosen) if chosen else np.nan, nan_ok=True)
    assert recall == pytest.approx(found / sum(label) if any(label) else np.nan, nan_ok=True)


@given(chances, st.sampled_from([0.0, 0.3, 0.5, 0.75, 1.0]))
def test_the_threshold_is_the_largest_that_keeps_the_precision(
    probability: list[float], target: float
) -> None:
    fits = [
        t for t in probability if np.mean([1 - p for p in probability if p <= t]) >= target - 1e-9
    ]
    expected = max(fits) if fits else np.nan
    assert threshold_for_precision(probability, target) == pytest.approx(expected, nan_ok=True)


def test_the_threshold_itself_is_in_the_list() -> None:
    # 1 - (1 - p) is not p: a threshold computed so would lose the facts that lie on it.
    probability = np.random.default_rng(0).random(1000)
    threshold = threshold_for_precision(probability, 0.8)
    assert threshold in probability
    listed = find_suspect_facts(pa.table({"x": probability}), probability, target_precision=0.8)
    assert (probability <= threshold).sum() == len(listed)


@given(
    st.lists(st.tuples(tied, st.integers(0, 2), st.booleans()), max_size=20),
    st.none() | st.integers(0, 25),
    st.none() | st.sampled_from([0.0, 0.4, 0.8]),
)
def test_suspects_are_sorted_cut_and_complete(rows, budget, target) -> None:
    probability = [p for p, _, _ in rows]
    score = [float(s) for _, s, _ in rows]
    protected = np.array([x for _, _, x in rows], dtype=bool)
    facts = pa.table({"head": [f"e{i}" for i in range(len(rows))]})
    listed = find_suspect_facts(
        facts,
        probability,
        score=score,
        budget=budget,
        target_precision=target,
        protected=protected,
    )
    order = sorted(range(len(rows)), key=lambda i: (probability[i], score[i], i))
    order = [i for i in order if not protected[i]]
    if target is not None:
        sizes = [
            k
            for k in range(1, len(order) + 1)
            if np.mean([1 - probability[i] for i in order[:k]]) >= target - 1e-9
            and (k == len(order) or probability[order[k]] != probability[order[k - 1]])
        ]
        order = order[: max(sizes, default=0)]
    order = order[:budget]
    assert listed["row"].to_pylist() == order
    assert listed["head"].to_pylist() == [f"e{i}" for i in order]
    assert listed["rank"].to_pylist() == list(range(1, len(order) + 1))
    assert listed["probability"].to_pylist() == [probability[i] for i in order]
    wrong = np.cumsum([1 - probability[i] for i in order])
    np.testing.assert_allclose(listed["expected_wrong"].to_numpy(), wrong)
    np.testing.assert_allclose(
        listed["expected_precision"].to_numpy(), wrong / np.arange(1, len(order) + 1)
    )


@given(st.lists(st.tuples(tied, st.integers(0, 2)), max_size=20), st.none() | st.integers(0, 9))
def test_missing_facts_are_the_mirror_of_suspects(rows, budget) -> None:
    probability = np.array([p for p, _ in rows])
    score = np.array([float(s) for _, s in rows])
    facts = pa.table({"head": pa.array(range(len(rows)), pa.int64())})
    missing = find_missing_facts(facts, probability, score=score, budget=budget)
    order = sorted(range(len(rows)), key=lambda i: (-probability[i], -score[i], i))[:budget]
    assert missing["row"].to_pylist() == order
    assert missing.column_names == [
        "head",
        "rank",
        "row",
        "probability",
        "expected_true",
        "expected_precision",
    ]
    np.testing.assert_allclose(missing["expected_true"].to_numpy(), np.cumsum(probability[order]))


def test_tiny_probabilities_are_told_apart() -> None:
    # 1 - p is 1 for both; the order must still go by p.
    facts = pa.table({"head": ["a", "b"]})
    assert find_suspect_facts(facts, [1e-18, 1e-20])["head"].to_pylist() == ["b", "a"]


def test_input_columns_of_any_type_are_kept() -> None:
    facts = pa.table({"head": ["a", "b"], "confidence": [0.5, None], "tags": [["x"], []]})
    listed = find_suspect_facts(facts, [0.9, 0.1])
    assert listed.select(facts.column_names).schema == facts.schema
    assert listed["tags"].to_pylist() == [[], ["x"]]
    missing = find_missing_facts(facts, [0.9, 0.1], excluded=np.array([True, False]))
    assert missing["head"].to_pylist() == ["b"]


def test_mistakes_are_sentences() -> None:
    facts = pa.table({"head": ["a", "b"]})
    with pytest.raises(DataError, match="probability must hold one value for each of the 2"):
        find_suspect_facts(facts, [0.5])
    with pytest.raises(DataError, match="score must hold one value"):
        find_suspect_facts(facts, [0.5, 0.5], score=[1.0])
    with pytest.raises(DataError, match="mask of facts to leave out must hold one value"):
        find_suspect_facts(facts, [0.5, 0.5], protected=np.array([True]))
    with pytest.raises(DataError, match="must be bool, not int64"):
        find_suspect_facts(facts, [0.5, 0.5], protected=np.array([1, 0]))
    with pytest.raises(DataError, match=r"probability\[1\] is nan"):
        find_missing_facts(facts, [0.5, np.nan])
    with pytest.raises(DataError, match=r"probability\[0\] is 1.5"):
        find_missing_facts(facts, [1.5, 0.0])
    with pytest.raises(DataError, match="already have a column 'probability'"):
        find_suspect_facts(facts.append_column("probability", pa.array([1, 2])), [0.5, 0.5])
    with pytest.raises(SettingsError, match="budget=-1"):
        find_suspect_facts(facts, [0.5, 0.5], budget=-1)
    with pytest.raises(SettingsError, match="target precision is 2"):
        find_suspect_facts(facts, [0.5, 0.5], target_precision=2)
    with pytest.raises(DataError, match="same length"):
        average_precision([True], [0.5, 0.5])
