"""Objectives are their formulas."""

from __future__ import annotations

import math

import pytest
import torch

from npugraph.objectives import Scored, SoftmaxN3


@pytest.mark.parametrize("n3", [0.0, 0.05])
def test_softmax_with_n3_is_the_formula(n3: float) -> None:
    rng = torch.Generator().manual_seed(1)
    scores = torch.randn(4, 7, generator=rng)
    target = torch.tensor([0, 6, 3, 3])
    factors = tuple(torch.rand(4, 3, generator=rng) for _ in range(3))
    expected = 0.0
    for row in range(4):
        weights = [math.exp(score) for score in scores[row].tolist()]
        expected -= math.log(weights[int(target[row])] / sum(weights)) / 4
        cubes = [abs(value) ** 3 for part in factors for value in part[row].tolist()]
        expected += n3 * sum(cubes) / 4
    found = SoftmaxN3(n3)(Scored(scores, target, factors))
    assert found.shape == ()
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_softmax_does_not_overflow() -> None:
    scores = torch.tensor([[1e30, -1e30], [3e4, 2e4]], requires_grad=True)
    loss = SoftmaxN3(0.0)(Scored(scores, torch.tensor([0, 0]), ()))
    loss.backward()
    assert loss.item() == 0
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
