"""The losses of the embedding baselines are their formulas, with finite gradients everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from npugraph.objectives import (
    ConfidenceMSE,
    Margin,
    Objective,
    PURisk,
    Scored,
    SelfAdversarial,
)


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


def rows(scored: Scored) -> list[tuple[float, list[float]]]:
    """Return, fact by fact, the collected score and the scores of the rivals that count."""
    found = []
    for i, scores in enumerate(scored.scores.tolist()):
        target = int(scored.target[i])
        counts = [True] * len(scores) if scored.counts is None else scored.counts[i].tolist()
        rivals = [s for k, s in enumerate(scores) if k != target and counts[k]]
        found.append((scores[target], rivals))
    return found


def weights(scored: Scored) -> list[float]:
    given_weight = [1.0] * len(scored.scores)
    if scored.weight is not None:
        given_weight = scored.weight.tolist()
    return [w / sum(given_weight) for w in given_weight]


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def penalty(scored: Scored, power: int) -> float:
    total = sum(abs(x) ** power for part in scored.factors for x in part.flatten().tolist())
    return total / len(scored.scores)


def slow_margin(scored: Scored) -> float:
    """Written with distances, as published: mean(max(d+ - d-, -m)) + m."""
    total = 0.0
    for w, (own, rivals) in zip(weights(scored), rows(scored), strict=True):
        total += w * (mean([max(s - own, -2.0) + 2.0 for s in rivals]))
    return total


def shares(rivals: list[float], temperature: float) -> list[float]:
    """Return softmax(temperature * rivals)."""
    top = max(rivals, default=0.0)
    odds = [math.exp(temperature * (s - top)) for s in rivals]
    return [one / sum(odds) for one in odds]


def slow_weighted_margin(scored: Scored) -> float:
    total = 0.0
    for w, (own, rivals) in zip(weights(scored), rows(scored), strict=True):
        pairs = zip(shares(rivals, 0.7), rivals, strict=True)
        total += w * sum(p * max(s - own + 2.0, 0.0) for p, s in pairs)
    return total


def slow_adversarial(scored: Scored) -> float:
    total = 0.0
    for w, (own, rivals) in zip(weights(scored), rows(scored), strict=True):
        pairs = zip(shares(rivals, 0.7), rivals, strict=True)
        against = sum(p * -log_sigmoid(-s) for p, s in pairs)
        total += w * (-log_sigmoid(own) + against) / 2
    return total + 0.03 * penalty(scored, 3)


def slow_logistic(scored: Scored) -> float:
    total = 0.0
    for w, (own, rivals) in zip(weights(scored), rows(scored), strict=True):
        total += w * (-log_sigmoid(own) + mean([-log_sigmoid(-s) for s in rivals])) / 2
    return total


def slow_confidence(link: str) -> Callable[[Scored], float]:
    def formula(scored: Scored) -> float:
        def linked(s: float) -> float:
            return math.exp(log_sigmoid(s)) if link == "sigmoid" else s

        total = 0.0
        wanted = [1.0] * len(scored.scores)
        if scored.confidence is not None:
            wanted = scored.confidence.tolist()
        terms = zip(weights(scored), rows(scored), wanted, strict=True)
        for w, (own, rivals), c in terms:
            total += w * ((linked(own) - c) ** 2 + mean([linked(s) ** 2 for s in rivals]))
        return total + 5e-4 * penalty(scored, 2) / 2

    return formula


def slow_pu(scored: Scored) -> float:
    prior = 0.4
    plus = minus = unlabeled = 0.0
    for w, (own, rivals) in zip(weights(scored), rows(scored), strict=True):
        plus += w * -log_sigmoid(own)
        minus += w * -log_sigmoid(-own)
        unlabeled += w * mean([-log_sigmoid(own - s) for s in rivals])
    if unlabeled > prior * minus:
        return prior * plus - prior * minus + unlabeled
    return prior * plus


CASES: dict[str, tuple[Objective, Callable[[Scored], float]]] = {
    "margin": (Margin(2.0), slow_margin),
    "margin, weighted": (Margin(2.0, 0.7), slow_weighted_margin),
    "adversarial": (SelfAdversarial(0.7, 0.03), slow_adversarial),
    "logistic": (SelfAdversarial(0.0), slow_logistic),
    "confidence, sigmoid": (ConfidenceMSE("sigmoid", 5e-4), slow_confidence("sigmoid")),
    "confidence, clip": (ConfidenceMSE("clip", 5e-4), slow_confidence("clip")),
    "pu": (PURisk(0.4), slow_pu),
}


def make_scored(
    seed: int, b: int, k: int, drawn: bool, masked: bool, extras: bool, shift: float = 0.0
) -> Scored:
    """Random scores [b, 1 + k] in float64; with ``masked`` some columns, or all, do not count."""
    rng = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(b, k + 1, generator=rng, dtype=torch.float64)
    target = torch.zeros(b, dtype=torch.int64)
    if not drawn:
        target = torch.randint(k + 1, (b,), generator=rng)
    scores[torch.arange(b), target] += shift
    counts = None
    if masked:
        counts = torch.rand(b, k + 1, generator=rng) < 0.6
        counts[0] = False
        counts[torch.arange(b), target] = True
    factors = tuple(torch.rand(b, 3, generator=rng, dtype=torch.float64) for _ in range(3))
    weight, confidence = torch.rand(2, b, generator=rng, dtype=torch.float64) + 0.01
    if not extras:
        return Scored(scores, target, factors, counts)
    return Scored(scores, target, factors, counts, weight, confidence)


@pytest.mark.parametrize("name", CASES)
@given(
    seed=st.integers(0, 2**32),
    b=st.integers(1, 5),
    k=st.integers(0, 6),
    drawn=st.booleans(),
    masked=st.booleans(),
    extras=st.booleans(),
    shift=st.sampled_from([0.0, 9.0]),
)
def test_the_loss_is_its_formula(
    name: str, seed: int, b: int, k: int, drawn: bool, masked: bool, extras: bool, shift: float
) -> None:
    objective, slow = CASES[name]
    scored = make_scored(seed, b, k, drawn, masked, extras, shift)
    found = objective(scored)
    assert found.shape == ()
    assert found.item() == pytest.approx(slow(scored), rel=1e-9, abs=1e-12)


def test_both_sides_of_the_pu_switch_are_taken() -> None:
    """Far apart, U is less than what is expected of the true ones among the unlabeled."""
    near, far = (make_scored(3, 4, 5, True, False, False, shift) for shift in (-5.0, 30.0))
    plus = [-0.4 * mean([log_sigmoid(own) for own, _ in rows(s)]) for s in (near, far)]
    risk = PURisk(0.4)
    assert risk(near).item() > plus[0] + 1
    assert risk(far).item() == pytest.approx(plus[1], abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_right(name: str) -> None:
    objective, _ = CASES[name]
    plain = make_scored(5, 4, 5, True, True, True)
    # The chances have no gradient by definition, which numeric differences do not know.
    if isinstance(objective, SelfAdversarial):
        objective = SelfAdversarial(0.0, objective.penalty)
    if isinstance(objective, Margin):
        objective = Margin(objective.margin)

    def loss(scores: Tensor, *factors: Tensor) -> Tensor:
        return objective(replace(plain, scores=scores, factors=factors))

    inputs = [part.clone().requires_grad_() for part in (plain.scores, *plain.factors)]
    assert torch.autograd.gradcheck(loss, inputs)


def test_the_gradient_stops_at_the_chances() -> None:
    scored = make_scored(6, 3, 4, True, False, True)
    scores = scored.scores.clone().requires_grad_()
    SelfAdversarial(0.7)(replace(scored, scores=scores)).backward()
    share = torch.softmax(0.7 * scored.scores[:, 1:], 1)
    weight = scored.weight / scored.weight.sum()
    expected = weight.unsqueeze(1) * share * torch.sigmoid(scored.scores[:, 1:]) / 2
    torch.testing.assert_close(scores.grad[:, 1:], expected)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("own", [-1e4, 0.0, 1e4])
@pytest.mark.parametrize("other", [-1e4, 0.0, 1e4])
@pytest.mark.parametrize("none_counts", [False, True])
def test_gradients_are_finite_at_extreme_scores(
    name: str, own: float, other: float, none_counts: bool
) -> None:
    scores = torch.tensor([[own, other, -other], [own, other, other]], requires_grad=True)
    counts = torch.tensor([[True, not none_counts, not none_counts]] * 2)
    factors = tuple(torch.ones(2, 2) for _ in range(3))
    loss = CASES[name][0](Scored(scores, torch.zeros(2, dtype=torch.int64), factors, counts))
    loss.backward()
    assert loss.isfinite()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    if none_counts:
        assert not scores.grad[:, 1:].any()


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_count_changes_nothing(name: str) -> None:
    objective, _ = CASES[name]
    scored = make_scored(9, 6, 8, True, True, True)
    other = torch.where(scored.counts, scored.scores, torch.full_like(scored.scores, 77.0))
    assert objective(replace(scored, scores=other)).item() == objective(scored).item()


@pytest.mark.parametrize("name", CASES)
def test_half_precision_is_computed_in_single(name: str) -> None:
    objective, _ = CASES[name]
    scored = make_scored(2, 4, 5, True, True, False)
    scored = replace(scored, factors=tuple(part.float() for part in scored.factors))
    half = scored.scores.bfloat16()
    found = objective(replace(scored, scores=half))
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(objective(replace(scored, scores=half.float())).item())
