"""One number for wrong facts of several kinds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from npugraph.errors import DataError
from npugraph.metrics import auroc
from npugraph.recipes.path.credibility import (
    Credibility,
    constant,
    fit_credibility,
    log_odds,
    values_of,
)
from npugraph.recipes.path.judged import Judged


def drawn(count: int, raw: float, share: float, seed: int) -> Judged:
    """Return facts with a level of their score, and one of their share among the answers."""
    rng = torch.Generator().manual_seed(seed)

    def around(level: float) -> Tensor:
        return (torch.randn(count, generator=rng) + level).repeat(2, 1)

    return Judged(around(raw), around(share), torch.zeros(2, count))


def joined(*parts: Judged) -> Judged:
    values = zip(*((part.raw, part.among_all, part.among_new) for part in parts), strict=True)
    return Judged(*(torch.cat(value, 1) for value in values))


@pytest.mark.parametrize("wrong", [(-4.0, 0.0), (0.0, -4.0)], ids=["random", "plausible"])
def test_it_finds_wrong_facts_of_either_kind(wrong: tuple[float, float]) -> None:
    """Each kind is told by one of the values, and the other value of it is as of true facts."""
    kinds = [drawn(2000, -4, 0, 1), drawn(2000, 0, -4, 2)]
    stored = joined(drawn(1920, 0, 0, 3), drawn(80, *wrong, 4))
    found = fit_credibility(stored, kinds)
    assert found is not None
    true = np.arange(2000) < 1920
    assert auroc(true, found(stored)) > 0.98
    assert (found.weights >= 0).all()
    assert found.weights[0, 0] > 5 * found.weights[0, 1]
    assert found.weights[1, 1] > 5 * found.weights[1, 0]


def test_it_is_the_ratio_to_all_kinds_together() -> None:
    weights = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    made = Credibility(weights, np.array([0.5, -1.0]), np.array([0.3, 0.7]))
    judged = Judged(*(torch.tensor([[a], [a]]) for a in (1.0, -2.0, 7.0)))
    expected = -np.log(0.3 * np.exp(-1.5) + 0.7 * np.exp(5.0))
    assert made(judged) == pytest.approx([expected])


def test_thinned_graphs_are_heard_where_they_tell() -> None:
    """On thinned graphs one kind is seen, and on the whole one another."""
    plain = [drawn(2000, 0, 0, 1), drawn(2000, 0, -4, 2)]
    thinned = [drawn(2000, -4, 0, 3), drawn(2000, 0, 0, 4)]
    kinds = [replace(a, thinned=b) for a, b in zip(plain, thinned, strict=True)]
    stored = replace(drawn(2000, 0, 0, 5), thinned=drawn(2000, 0, 0, 6))
    found = fit_credibility(stored, kinds)
    assert found is not None
    both = [values_of(plain[0]), values_of(thinned[0])]
    assert np.array_equal(values_of(kinds[0]), np.hstack(both))
    assert (found.weights.argmax(1) == [3, 1]).all()
    assert found(kinds[0]).mean() < found(stored).mean() - 3
    assert found(kinds[1]).mean() < found(stored).mean() - 3


@pytest.mark.parametrize("place", [0, 1])
def test_a_kind_that_shows_counts_most(place: int) -> None:
    kinds = [drawn(2000, -4, 0, 1), drawn(2000, 0, -4, 2)]
    wrong = drawn(80, *((-4, 0), (0, -4))[place], 4)
    found = fit_credibility(joined(drawn(1920, 0, 0, 3), wrong), kinds)
    assert found is not None
    assert found.counts[place] > 0.8
    assert found.counts.sum() == pytest.approx(1)


@pytest.mark.parametrize("gap", [0.0, 0.5, 1.0])
def test_a_kind_amid_stored_facts_takes_nothing_from_one_that_shows(gap: float) -> None:
    """Nothing of the second kind is stored, and it looks much like what is."""
    kinds = [drawn(2000, -2.5, 0, 1), drawn(2000, 0, -gap, 2)]
    stored = joined(drawn(1920, 0, 0, 3), drawn(80, -2.5, 0, 4))
    found = fit_credibility(stored, kinds)
    assert found is not None
    assert found.counts[0] > 0.95


def test_a_kind_amid_stored_facts_takes_nothing_though_it_looks_like_one_that_shows() -> None:
    kinds = [drawn(2000, -2.5, 0, 1), drawn(2000, -1, 0, 2)]
    stored = joined(drawn(1760, 0, 0, 3), drawn(240, -2.5, 0, 4))
    found = fit_credibility(stored, kinds)
    assert found is not None
    assert found.counts[0] > 0.95


def test_a_score_that_is_no_number_is_refused_in_a_sentence() -> None:
    stored = drawn(200, 0, 0, 3)
    stored.raw[0, 7] = float("nan")
    with pytest.raises(DataError, match=r"score\[7\] is nan; remove or replace"):
        fit_credibility(stored, [drawn(200, -4, 0, 1)])


def test_where_nothing_shows_all_kinds_count() -> None:
    kinds = [drawn(2000, -6, 0, 1), drawn(2000, 0, -6, 2)]
    found = fit_credibility(drawn(2000, 0, 0, 3), kinds)
    assert found is not None
    assert found.counts == pytest.approx([0.5, 0.5], abs=0.1)


def test_a_constant_balances_both_sorts() -> None:
    rng = np.random.default_rng(0)
    high, low = rng.normal(2, 1, 500), rng.normal(-1, 1, 900)
    c = constant(high, low)
    chance = [np.mean(1 / (1 + np.exp(-(part + c)))) for part in (high, low)]
    assert sum(chance) == pytest.approx(1)


def test_too_few_facts_say_nothing() -> None:
    assert fit_credibility(drawn(500, 0, 0, 1), [drawn(20, -4, 0, 2)]) is None


def test_weights_find_what_tells_facts_apart_and_are_never_negative() -> None:
    rng = np.random.default_rng(0)
    high, low = rng.normal(1, 1, (4000, 1)), rng.normal(0, 1, (2000, 1))
    weights = log_odds(np.hstack([high, 0 * high, -high]), np.hstack([low, 0 * low, -low]))
    # Two normal densities of the same width: their log ratio has slope 1.
    assert weights[0] == pytest.approx(1, abs=0.1)
    assert weights[1:].tolist() == [0, 0]


def test_weights_are_finite_where_facts_can_be_told_apart_entirely() -> None:
    weights = log_odds(np.full((5, 1), 2.0), np.full((5, 1), 1.0))
    assert 1 < weights[0] < 1e4
