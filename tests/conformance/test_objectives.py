"""What every objective promises, whatever it is given: one score a fact, two, or all labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from npugraph import objectives
from npugraph.objectives import (
    ConfidenceMSE,
    Logistic,
    Margin,
    Objective,
    PURisk,
    Scored,
    SelfAdversarial,
    SmoothedLogistic,
    SoftmaxN3,
)
from npugraph.recipes.npugraph import objective as of_npugraph
from npugraph.recipes.npugraph.objective import Heads, NoisyPU, WithoutPU
from npugraph.recipes.npugraph.posterior import Posterior


def given(objective: nn.Module, scored: Scored) -> Tensor:
    loss: Tensor = objective(scored)
    return loss


def given_heads(objective: nn.Module, scored: Scored) -> Tensor:
    """Give the scores as psi0, and as psi1 other numbers made of them; column 0 is collected."""
    psi0 = scored.scores
    psi1 = 0.3 - 0.7 * psi0
    counts = torch.ones_like(psi0) if scored.counts is None else scored.counts.to(psi0)
    heads = Heads(psi1[:, 0], psi0[:, 0], psi1[:, 1:], psi0[:, 1:], counts[:, 1:])
    loss: Tensor = objective(heads)
    return loss


def given_labels(objective: nn.Module, scored: Scored) -> Tensor:
    labels = torch.zeros_like(scored.scores).scatter_(1, scored.target.unsqueeze(1), 1.0)
    loss: Tensor = objective(scored.scores, labels)
    return loss


@dataclass(frozen=True)
class Case:
    """An objective, and what it can be asked.

    Attributes:
        make: makes it, without a penalty on the factors.
        loss: gives it scores.
        stops: part of it has no gradient by definition, which numeric differences do not know.
        masks: some columns may not count.
        every: any column may be the collected one.
    """

    make: Callable[[], nn.Module]
    loss: Callable[[nn.Module, Scored], Tensor] = given
    stops: bool = False
    masks: bool = True
    every: bool = True


def npu(reading: Any, estimate: Any) -> Callable[[], nn.Module]:
    form = "literal" if reading == "exception" else "phi"
    return lambda: NoisyPU(Posterior(reading, 0.8, 0.1, form), estimate, 0.7, 0.2)


CASES = {
    "softmax": Case(lambda: SoftmaxN3(0.0)),
    "margin": Case(lambda: Margin(2.0)),
    "margin, weighted": Case(lambda: Margin(2.0, 0.7), stops=True),
    "logistic": Case(lambda: Logistic()),
    "adversarial": Case(lambda: SelfAdversarial(0.7), stops=True),
    "adversarial, temperature 0": Case(lambda: SelfAdversarial(0.0)),
    "confidence, sigmoid": Case(lambda: ConfidenceMSE("sigmoid")),
    "confidence, clip": Case(lambda: ConfidenceMSE("clip")),
    "pu": Case(lambda: PURisk(0.4)),
    "smoothed": Case(lambda: SmoothedLogistic(0.1), given_labels, masks=False),
    "npu, em": Case(npu("exception", "em"), given_heads, stops=True, every=False),
    "npu, closed": Case(npu("exception", "closed"), given_heads, every=False),
    "npu, printed": Case(npu("printed", "closed"), given_heads, every=False),
    "without pu, margin": Case(lambda: WithoutPU("margin"), given_heads, every=False),
    "without pu, pairwise": Case(lambda: WithoutPU("pairwise"), given_heads, every=False),
    "without pu, pointwise": Case(lambda: WithoutPU("pointwise"), given_heads, every=False),
}
# They see Scored, with all that may be in it.
SCORED = [name for name, case in CASES.items() if case.loss is given]
PENALISED: dict[str, Objective] = {
    "softmax": SoftmaxN3(0.3),
    "logistic": Logistic(0.3),
    "adversarial": SelfAdversarial(0.7, 0.3),
    "confidence": ConfidenceMSE("sigmoid", 0.3),
}
every_case = pytest.mark.parametrize("name", CASES)
every_mask = pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.masks])
every_scored = pytest.mark.parametrize("name", SCORED)


def some_scores(name: str, extras: bool = False, rows: int = 5, columns: int = 7) -> Scored:
    """Return scores in float64; the second fact has no candidate that counts."""
    rng = torch.Generator().manual_seed(3)
    scores = 2 * torch.randn(rows, columns, generator=rng, dtype=torch.float64)
    target = torch.zeros(rows, dtype=torch.int64)
    if CASES[name].every:
        target = torch.randint(columns, (rows,), generator=rng)
    counts = None
    if CASES[name].masks:
        counts = torch.rand(rows, columns, generator=rng) < 0.6
        counts[1] = False
        counts.scatter_(1, target.unsqueeze(1), True)
    factors = tuple(torch.rand(rows, 3, generator=rng, dtype=torch.float64) for _ in range(3))
    weight, confidence = torch.rand(2, rows, generator=rng, dtype=torch.float64) + 0.1
    scored = Scored(scores, target, factors, counts)
    return replace(scored, weight=weight, confidence=confidence) if extras else scored


def loss_of(name: str, scored: Scored) -> Tensor:
    return CASES[name].loss(CASES[name].make(), scored)


def test_every_objective_is_under_test() -> None:
    defined = {
        kind
        for kind in [*vars(objectives).values(), *vars(of_npugraph).values()]
        if isinstance(kind, type) and issubclass(kind, nn.Module) and kind is not Objective
    }
    assert defined == {type(case.make()) for case in CASES.values()}
    assert {type(CASES[name].make()) for name in SCORED} == {
        kind for kind in defined if issubclass(kind, Objective)
    }


@every_case
@pytest.mark.parametrize("own", [-1e4, 0.0, 1e4])
@pytest.mark.parametrize("other", [-1e4, 0.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_loss_and_gradients_are_finite_at_extreme_scores(
    name: str, own: float, other: float, dtype: torch.dtype
) -> None:
    scores = torch.tensor([[own, other, -other], [own, other, other]], dtype=dtype)
    scores.requires_grad_()
    target = torch.zeros(2, dtype=torch.int64)
    counts = torch.tensor([[True, True, True], [True, False, False]])
    factors = tuple(torch.ones(2, 2) for _ in range(3))
    scored = Scored(scores, target, factors, counts if CASES[name].masks else None)
    loss = loss_of(name, scored)
    loss.backward()
    assert loss.shape == ()
    assert loss.isfinite()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


@every_case
def test_gradients_are_right(name: str) -> None:
    if CASES[name].stops:
        pytest.skip("part of it has no gradient by definition")
    scored = some_scores(name, extras=name in SCORED)

    def loss(scores: Tensor) -> Tensor:
        return loss_of(name, replace(scored, scores=scores))

    assert torch.autograd.gradcheck(loss, scored.scores.clone().requires_grad_())


@pytest.mark.parametrize("name", PENALISED)
def test_gradients_of_the_penalty_are_right(name: str) -> None:
    scored = some_scores("logistic")

    def loss(*factors: Tensor) -> Tensor:
        return given(PENALISED[name], replace(scored, factors=factors))

    factors = [part.clone().requires_grad_() for part in scored.factors]
    assert torch.autograd.gradcheck(loss, factors)
    assert loss(*factors) > given(PENALISED[name], replace(scored, factors=zeros(factors)))


def zeros(factors: list[Tensor]) -> tuple[Tensor, ...]:
    return tuple(torch.zeros_like(part) for part in factors)


@every_scored
def test_who_does_not_use_the_factors_does_not_look_at_them(name: str) -> None:
    """``uses_factors``, where an objective says False, saves making them."""
    scored = some_scores(name)
    objective = CASES[name].make()
    without = replace(scored, factors=())
    if not objective.uses_factors:
        assert given(objective, without) == given(objective, scored)
    for penalised in PENALISED.values():
        assert penalised.uses_factors


@every_case
def test_a_loss_in_float64_is_exact(name: str) -> None:
    """A change far below the digits of single precision is seen."""
    scored = some_scores(name)
    nudged = scored.scores.clone()
    nudged[0, scored.target[0]] -= 1e-9
    before, after = loss_of(name, scored), loss_of(name, replace(scored, scores=nudged))
    assert before.dtype == torch.float64
    assert before != after


@every_mask
@pytest.mark.parametrize("value", [-1e4, 77.0, 1e4])
def test_what_does_not_count_has_no_influence_and_no_gradient(name: str, value: float) -> None:
    scored = some_scores(name, extras=name in SCORED)
    assert scored.counts is not None
    other = scored.scores.masked_fill(~scored.counts, value).requires_grad_()
    loss = loss_of(name, replace(scored, scores=other))
    assert loss.item() == loss_of(name, scored).item()
    loss.backward()
    assert other.grad is not None
    assert not other.grad[~scored.counts].any()
    assert other.grad[0].any()


@every_mask
def test_columns_that_do_not_count_may_as_well_not_be_there(name: str) -> None:
    scored = some_scores(name)
    more = torch.cat([scored.scores, torch.full((5, 3), 50.0, dtype=torch.float64)], 1)
    counts = nn.functional.pad(scored.counts, (0, 3), value=False)
    found = loss_of(name, replace(scored, scores=more, counts=counts))
    torch.testing.assert_close(found, loss_of(name, scored), rtol=1e-12, atol=1e-12)


@every_case
def test_the_order_of_candidates_and_of_facts_changes_nothing(name: str) -> None:
    scored = some_scores(name, extras=name in SCORED)
    columns, rows = torch.tensor([4, 2, 6, 0, 1, 5, 3]), torch.tensor([3, 1, 4, 0, 2])
    if not CASES[name].every:
        columns = torch.tensor([0, 2, 6, 4, 1, 5, 3])
    place = torch.argsort(columns)

    def mixed(values: Tensor | None) -> Tensor | None:
        if values is None:
            return None
        return values[rows][:, columns] if values.dim() == 2 else values[rows]

    other = Scored(
        scored.scores[rows][:, columns],
        place[scored.target[rows]],
        tuple(part[rows] for part in scored.factors),
        mixed(scored.counts),
        mixed(scored.weight),
        mixed(scored.confidence),
    )
    torch.testing.assert_close(loss_of(name, other), loss_of(name, scored), rtol=1e-12, atol=0)


@every_scored
def test_a_weight_is_how_often_a_fact_counts(name: str) -> None:
    scored = some_scores(name, extras=True)
    rows = torch.tensor([0, 0, 0, 1, 3, 3])
    weight = torch.tensor([3.0, 1.0, 0.0, 2.0, 0.0], dtype=torch.float64)
    repeated = Scored(
        scored.scores[rows],
        scored.target[rows],
        tuple(part[rows] for part in scored.factors),
        None if scored.counts is None else scored.counts[rows],
        None,
        None if scored.confidence is None else scored.confidence[rows],
    )
    expected = loss_of(name, repeated)
    for scale in (1.0, 10.0):
        found = loss_of(name, replace(scored, weight=scale * weight))
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    even = replace(scored, weight=torch.full((5,), 0.2, dtype=torch.float64))
    none = loss_of(name, replace(scored, weight=None))
    torch.testing.assert_close(loss_of(name, even), none, rtol=1e-12, atol=0)


@every_case
def test_the_loss_is_a_mean_over_facts(name: str) -> None:
    """Twice the same batch has the loss of one."""
    scored = some_scores(name)
    rows = torch.arange(5).repeat(2)
    twice = Scored(
        scored.scores[rows],
        scored.target[rows],
        tuple(part[rows] for part in scored.factors),
        None if scored.counts is None else scored.counts[rows],
    )
    torch.testing.assert_close(loss_of(name, twice), loss_of(name, scored), rtol=1e-12, atol=0)


@every_case
def test_it_repeats_itself_and_keeps_nothing(name: str) -> None:
    """No draws, no memory: the same scores have the same loss, and there is no state to save."""
    before = torch.get_rng_state()
    scored, objective = some_scores(name), CASES[name].make()
    first = CASES[name].loss(objective, scored)
    CASES[name].loss(objective, replace(scored, scores=scored.scores + 1))
    assert torch.equal(CASES[name].loss(objective, scored), first)
    assert torch.equal(torch.get_rng_state(), before)
    assert not objective.state_dict()
