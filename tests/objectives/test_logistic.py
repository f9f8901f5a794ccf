"""The logistic objectives are their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from npugraph.errors import SettingsError
from npugraph.objectives import Logistic, Scored, SmoothedLogistic


def entropy(score: float, label: float) -> float:
    chance = 1 / (1 + math.exp(-score))
    return -label * math.log(chance) - (1 - label) * math.log(1 - chance)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_logistic_is_the_formula(weighted: bool, l2: float) -> None:
    rng = torch.Generator().manual_seed(1)
    scores = torch.randn(3, 4, generator=rng, dtype=torch.float64)
    target = torch.tensor([0, 2, 3])
    counts = torch.tensor(
        [[True, True, False, True], [True, True, True, True], [False, False, False, True]]
    )
    weight = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64) if weighted else None
    factors = tuple(torch.rand(3, 2, generator=rng, dtype=torch.float64) for _ in range(3))
    share = [1 / 8, 2 / 8, 5 / 8] if weighted else [1 / 3] * 3
    expected = 0.0
    for row in range(3):
        columns = [c for c in range(4) if counts[row, c]]
        parts = [entropy(scores[row, c].item(), float(c == target[row])) for c in columns]
        expected += share[row] * sum(parts) / len(columns)
    for part in factors:
        expected += l2 * sum(x * x for row in part.tolist() for x in row) / part.numel()
    found = Logistic(l2)(Scored(scores, target, factors, counts, weight))
    assert found.item() == pytest.approx(expected, rel=1e-9)


def test_without_counts_every_column_counts() -> None:
    scores = torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64)
    found = Logistic()(Scored(scores, torch.tensor([1]), ()))
    expected = (entropy(0.5, 0) + entropy(-1.0, 1) + entropy(2.0, 0)) / 3
    assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_extreme_scores_leave_finite_losses_and_gradients(dtype: torch.dtype) -> None:
    scores = torch.tensor([[1e4, -1e4], [-1e4, 1e4]], dtype=dtype, requires_grad=True)
    plain = Logistic()(Scored(scores, torch.tensor([0, 0]), ()))
    smoothed = SmoothedLogistic()(scores, torch.eye(2, dtype=dtype))
    assert plain.dtype == smoothed.dtype == torch.float32
    (plain + smoothed).backward()
    assert plain.item() == pytest.approx(5e3, rel=1e-2)
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


@given(st.floats(0, 0.99), st.integers(1, 6))
def test_smoothed_labels(smoothing: float, entities: int) -> None:
    rng = torch.Generator().manual_seed(entities)
    scores = torch.randn(3, entities, generator=rng, dtype=torch.float64)
    labels = torch.randint(2, (3, entities), generator=rng).double()
    floor = 1 / entities if smoothing else 0.0
    expected = 0.0
    for score, label in zip(scores.flatten().tolist(), labels.flatten().tolist(), strict=True):
        expected += entropy(score, (1 - smoothing) * label + floor) / scores.numel()
    assert SmoothedLogistic(smoothing)(scores, labels).item() == pytest.approx(expected, rel=1e-9)


def test_half_precision_keeps_the_floor_under_labels() -> None:
    scores, labels = torch.zeros(1, 5000, dtype=torch.bfloat16), torch.zeros(1, 5000)
    labels[0, 0] = 1
    scores.requires_grad_()
    SmoothedLogistic(0.1)(scores, labels.bfloat16()).backward()
    single = torch.zeros(1, 5000, requires_grad=True)
    SmoothedLogistic(0.1)(single, labels).backward()
    torch.testing.assert_close(scores.grad.float(), single.grad, rtol=1e-2, atol=0)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, float("nan")])
def test_smoothing_that_makes_no_sense_is_refused(smoothing: float) -> None:
    with pytest.raises(SettingsError, match="smoothing="):
        SmoothedLogistic(smoothing)
