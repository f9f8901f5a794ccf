"""Entities whose facts stand out, on made scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npugraph.auditing.statistics.clusters import standing_out
from npugraph.auditing.thresholds import TUNED
from npugraph.errors import DataError


def made(
    bad: int, seed: int = 0, entities: int = 100, each: int = 40, relations: int = 5
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return score, relation and entity of facts, and which are wrong: half of the first few's."""
    rng = np.random.default_rng(seed)
    entity = np.repeat(np.arange(entities), each)
    relation = rng.integers(0, relations, len(entity))
    # Some entities are harder to know than others, and so are some relations.
    score = rng.normal(size=len(entity)) + 0.3 * rng.normal(size=entities)[entity] + relation / 2
    wrong = (entity < bad) & (rng.random(len(entity)) < 0.5)
    # Wrong facts support one another: they do not score as low as some true facts do.
    score[entity < bad] -= 2.0
    score[wrong] -= 1.0
    order = rng.permutation(len(entity))
    return score[order], relation[order], entity[order], wrong[order]


@pytest.mark.parametrize("seed", range(4))
def test_entities_with_many_errors_are_named(seed: int) -> None:
    score, relation, entity, _ = made(bad=8, seed=seed)
    found = standing_out(score, relation, entity)
    assert set(found) <= set(range(8))
    assert len(found) >= 6


@pytest.mark.parametrize("seed", range(6))
def test_where_errors_are_spread_nobody_is(seed: int) -> None:
    score, relation, entity, _ = made(bad=0, seed=seed)
    wrong = np.random.default_rng(seed).random(len(score)) < 0.05
    assert len(standing_out(np.where(wrong, score - 5, score), relation, entity)) == 0


def test_the_most_suspicious_come_first_and_names_do_not_matter() -> None:
    score, relation, entity, _ = made(bad=8)
    score[entity == 3] -= 3
    found = standing_out(score, relation, entity)
    assert found[0] == 3
    renamed = standing_out(score, relation, 10_000 - 7 * entity)
    np.testing.assert_array_equal(renamed, 10_000 - 7 * found)


def test_a_relation_that_is_hard_to_know_makes_nobody_stand_out() -> None:
    score, _, entity, _ = made(bad=0)
    hard = entity < 8
    relation = np.where(hard, 1, 0)
    assert len(standing_out(score - 4 * hard, np.zeros_like(relation), entity)) == 8
    assert len(standing_out(score - 4 * hard, relation, entity)) == 0


def test_few_facts_say_nothing() -> None:
    score, relation, entity, _ = made(bad=8)
    assert len(standing_out(score, relation, entity))
    # Those that stand out have a smaller share of all facts than is asked for.
    larger = replace(TUNED, cluster_share=0.2)
    assert len(standing_out(score, relation, entity, larger)) == 0
    # Nobody has enough facts, or too few entities have.
    several = np.arange(len(entity))
    assert len(standing_out(score, relation, several)) == 0
    few = entity < 5
    assert len(standing_out(score[few], relation[few], entity[few])) == 0
    nothing = np.zeros(0)
    assert len(standing_out(nothing, nothing.astype(int), nothing.astype(int))) == 0


def test_lengths_must_agree() -> None:
    with pytest.raises(DataError, match="entity"):
        standing_out(np.zeros(3), np.zeros(3, dtype=int), np.zeros(2, dtype=int))
