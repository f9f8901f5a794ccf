"""The nPU objective and its ablation against the paper's sums, whatever the switches say."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from torch import Tensor

from npu_literal import (
    SCORES,
    SWITCHES,
    Switches,
    collected_posterior,
    fact_objective,
    literal_gradients,
    literal_terms,
    name_of,
    phi,
    random_heads,
    star,
    uncollected_posterior,
    with_gradients,
)
from npugraph.errors import SettingsError
from npugraph.recipes.npugraph.objective import Heads, NoisyPU, WithoutPU
from npugraph.recipes.npugraph.posterior import Posterior

KINDS = ("margin", "pairwise", "pointwise")
CLOSED = [s for s in SWITCHES if s.estimate == "closed"]
every_switch = pytest.mark.parametrize("s", SWITCHES, ids=name_of)
every_closed = pytest.mark.parametrize("s", CLOSED, ids=name_of)
every_mask = pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])


def objective(s: Switches) -> NoisyPU:
    posterior = Posterior(s.reading, s.beta, s.alpha, s.unlabeled_form)
    return NoisyPU(posterior, s.estimate, s.kl_weight, s.reg_weight)


def gradients(loss: Tensor, heads: Heads) -> dict[str, Tensor]:
    leaves = [getattr(heads, name) for name in SCORES]
    found = torch.autograd.grad(loss, leaves, materialize_grads=True)
    return dict(zip(SCORES, found, strict=True))


def corners(size: float, dtype: torch.dtype) -> Iterator[Heads]:
    """Yield batches of one fact and one uncollected one, every score at +-size or 0."""
    for values in product((-size, 0.0, size), repeat=4):
        scores = torch.tensor(values, dtype=dtype)
        shapes = ((1,), (1,), (1, 1), (1, 1))
        parts = (part.view(shape) for part, shape in zip(scores, shapes, strict=True))
        yield Heads(*parts, torch.ones(1, 1, dtype=dtype))


@every_switch
@every_mask
def test_every_term_is_the_papers_sum(s: Switches, masked: bool) -> None:
    heads = random_heads(masked=masked)
    expected = literal_terms(heads, s)
    found = objective(s).terms(heads)
    for name in ("triple", "kl", "reg"):
        assert found[name].item() == pytest.approx(float(getattr(expected, name)), abs=1e-12), name


@every_closed
def test_the_closed_total_is_the_weighted_sum(s: Switches) -> None:
    heads = random_heads(seed=1)
    assert objective(s)(heads).item() == pytest.approx(
        float(literal_terms(heads, s).total), abs=1e-12
    )


@pytest.mark.parametrize("s", [s for s in SWITCHES if s.estimate == "em"], ids=name_of)
def test_the_em_total_is_the_likelihood_and_its_kl_is_none(s: Switches) -> None:
    heads = random_heads(seed=2)
    expected = literal_terms(heads, s)
    assert objective(s)(heads).item() == pytest.approx(float(expected.triple), abs=1e-12)
    assert objective(s).terms(heads)["kl"].item() == pytest.approx(0, abs=1e-12)


@every_switch
@every_mask
def test_gradients_are_those_of_the_whole_objective_with_w_held(s: Switches, masked: bool) -> None:
    """In em as well: what its total leaves out, KL and L1, has no gradient at W = W~."""
    heads = random_heads(facts=3, count=2, seed=3, masked=masked)
    expected = literal_gradients(heads, s)
    leaves = with_gradients(heads)
    found = gradients(objective(s)(leaves), leaves)
    for name in SCORES:
        torch.testing.assert_close(found[name], expected[name], atol=1e-9, rtol=1e-8)


@every_closed
@every_mask
def test_closed_gradients_are_those_of_the_minimum_over_w(s: Switches, masked: bool) -> None:
    """W moves along here: at its optimum that makes no difference, so the slopes agree."""
    heads = with_gradients(random_heads(seed=4, masked=masked))
    model = objective(s)

    def loss(*scores: Tensor) -> Tensor:
        return model(Heads(*scores, heads.weight))

    assert torch.autograd.gradcheck(loss, [getattr(heads, name) for name in SCORES])


@dataclass(frozen=True)
class Fixed:
    """A posterior that does not follow the scores."""

    reading: Literal["exception", "printed"]
    collected: Tensor
    uncollected: Tensor

    def collected_class(self, psi1: Tensor, psi0: Tensor) -> Tensor:
        return self.collected

    def uncollected_class(self, psi1: Tensor, psi0: Tensor) -> Tensor:
        return self.uncollected


@pytest.mark.parametrize("reading", ["exception", "printed"])
def test_em_gradients_at_a_given_posterior(reading: Literal["exception", "printed"]) -> None:
    heads, other = with_gradients(random_heads(seed=5)), random_heads(seed=6)
    model = NoisyPU(Fixed(reading, other.collected1, other.uncollected1), "em")

    def loss(*scores: Tensor) -> Tensor:
        return model(Heads(*scores, heads.weight))

    assert torch.autograd.gradcheck(loss, [getattr(heads, name) for name in SCORES])


@pytest.mark.parametrize("reading", ["exception", "printed"])
def test_em_climbs_the_marginal_likelihood_of_collected_facts(
    reading: Literal["exception", "printed"],
) -> None:
    """Fisher's identity: with w = w~ the slope is that of log(p phi1 + (1 - p) phi0)."""
    heads = with_gradients(replace(random_heads(seed=7), weight=torch.zeros(4, 3).double()))
    s = Switches(reading=reading)
    share = s.beta if reading == "printed" else 1 - s.beta
    phi1, phi0 = torch.sigmoid(heads.collected1), torch.sigmoid(heads.collected0)
    marginal = gradients(-torch.log(share * phi1 + (1 - share) * phi0).mean(), heads)
    found = gradients(objective(s)(heads), heads)
    for name in ("collected1", "collected0"):
        torch.testing.assert_close(found[name], marginal[name], atol=1e-12, rtol=1e-10)


def single(psi1: float, psi0: float, other1: float, other0: float) -> Heads:
    collected = (torch.tensor([value], dtype=torch.float64) for value in (psi1, psi0))
    uncollected = (torch.tensor([[value]], dtype=torch.float64) for value in (other1, other0))
    return Heads(*collected, *uncollected, torch.ones(1, 1, dtype=torch.float64))


@every_closed
@pytest.mark.parametrize("seed", range(3))
def test_the_closed_weight_minimises_a_facts_objective(s: Switches, seed: int) -> None:
    heads = random_heads(facts=1, count=1, seed=20 + seed)
    psi1, psi0, other1, other0 = (Decimal(getattr(heads, name).item()) for name in SCORES)
    both = objective(s).terms(heads)["reg"].item()
    # With the uncollected fact out of the sums, ||W|| is the collected fact's weight alone.
    alone = objective(s).terms(replace(heads, weight=torch.zeros(1, 1).double()))["reg"].item()
    facts = {
        alone: (collected_posterior(psi1, psi0, s), phi(psi1), phi(psi0)),
        both - alone: (
            uncollected_posterior(other1, other0, s),
            star(psi1, other1, s),
            star(psi0, other0, s),
        ),
    }
    for weight, fact in facts.items():

        def value(w: float, fact: tuple[Decimal, Decimal, Decimal] = fact) -> float:
            return float(fact_objective(Decimal(w), *fact, s))

        best = minimize_scalar(value, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
        assert weight == pytest.approx(best.x, abs=1e-6)
        scan = [value((step + 0.5) / 500) for step in range(500)]
        assert value(weight) <= min(scan)


@settings(max_examples=15)
@given(
    s=st.sampled_from(CLOSED),
    seed=st.integers(0, 50),
    others=st.lists(st.floats(0.001, 0.999), min_size=6, max_size=6),
)
def test_no_other_weights_are_better(s: Switches, seed: int, others: list[float]) -> None:
    heads = random_heads(facts=2, count=2, seed=seed)
    values = [Decimal(value) for value in others]
    weights = (values[:2], [values[2:4], values[4:]])
    assert objective(s)(heads).item() <= float(literal_terms(heads, s, weights).total) + 1e-12


@every_switch
def test_a_fact_without_uncollected_ones_counts_for_itself_alone(s: Switches) -> None:
    heads = with_gradients(random_heads(seed=8, masked=True))
    away = heads.weight == 0
    moved = {
        name: torch.where(away, 7.0 - getattr(heads, name), getattr(heads, name)).detach()
        for name in ("uncollected1", "uncollected0")
    }
    for name, term in objective(s).terms(heads).items():
        assert term.item() == objective(s).terms(replace(heads, **moved))[name].item()
    found = gradients(objective(s)(heads), heads)
    assert found["collected0"].abs().min() > 0
    assert not found["uncollected1"][away].any()
    assert not found["uncollected0"][away].any()
    assert found["uncollected0"][~away].abs().min() > 0


@every_switch
def test_a_batch_without_any_uncollected_fact_is_fine(s: Switches) -> None:
    heads = replace(random_heads(seed=9), weight=torch.zeros(4, 3, dtype=torch.float64))
    expected, found = literal_terms(heads, s), objective(s).terms(heads)
    for name in ("triple", "kl", "reg"):
        assert found[name].item() == pytest.approx(float(getattr(expected, name)), abs=1e-12)


@every_switch
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_extreme_scores_give_finite_losses_and_gradients(s: Switches, dtype: torch.dtype) -> None:
    model = objective(s)
    for batch in corners(1e4, dtype):
        heads = with_gradients(batch)
        terms = model.terms(heads)
        assert all(term.isfinite() for term in terms.values())
        loss = model(heads)
        assert loss.isfinite()
        assert all(slope.isfinite().all() for slope in gradients(loss, heads).values())


@pytest.mark.parametrize("s", [s for s in SWITCHES if s.reg_weight == 1.0], ids=name_of)
def test_large_scores_give_the_right_terms(s: Switches) -> None:
    for heads in corners(60.0, torch.float64):
        # A gap of 120 is 10^-52: this many digits keep 1 - phi, which a float has lost long before.
        with decimal.localcontext(prec=90):
            expected = literal_terms(heads, s)
        found = objective(s).terms(heads)
        for name in ("triple", "kl", "reg"):
            literal = float(getattr(expected, name))
            assert found[name].item() == pytest.approx(literal, abs=1e-9, rel=1e-9), name


@pytest.mark.parametrize("s", [s for s in SWITCHES if s.estimate == "closed"], ids=name_of)
def test_a_row_that_repeats_its_own_fact_is_finite(s: Switches) -> None:
    """Such a row has no gap at all, and nothing to gain from either class."""
    heads = single(0.3, -0.2, 0.3, -0.2)
    loss = objective(s)(replace(heads, weight=torch.zeros(1, 1, dtype=torch.float64)))
    assert loss.isfinite()


def test_no_regulariser_at_all_is_finite_or_refused() -> None:
    s = Switches(estimate="closed", kl_weight=0.0, reg_weight=0.0)
    heads = single(0.3, -0.2, 0.3, -0.2)
    try:
        model = objective(s)
    except SettingsError:
        return
    loss = model(replace(heads, weight=torch.zeros(1, 1, dtype=torch.float64)))
    assert loss.isfinite()


@pytest.mark.parametrize(("reading", "sign"), [("exception", 1), ("printed", -1)])
@pytest.mark.parametrize("estimate", ["em", "closed"])
def test_the_exception_reading_pushes_uncollected_facts_below_collected_ones(
    reading: str, sign: int, estimate: str
) -> None:
    """The constraint phi^u(s^l) < phi^u(s^u) means psi(s^l) > psi(s^u); the print says else."""
    # KL sees the uncollected scores too; a small weight leaves the pairwise part in charge.
    s = Switches(reading=reading, estimate=estimate, kl_weight=0.05)
    heads = with_gradients(random_heads(seed=10, scale=0.1))
    slope = gradients(objective(s)(heads), heads)["uncollected0"]
    assert (sign * slope > 0).all()


def literal_ranking(kind: str, heads: Heads, margin: float) -> float:
    """Return the loss that takes collected for true, on psi0, by a loop over pairs."""
    sigmoid = lambda x: float(phi(Decimal(x)))  # noqa: E731
    log = lambda x: float(Decimal(x).ln())  # noqa: E731
    positive, negative = heads.collected0.tolist(), heads.uncollected0.tolist()
    there = heads.weight.tolist()
    pairs = [(i, k) for i, row in enumerate(there) for k, kept in enumerate(row) if kept]
    total = 0.0
    for i, k in pairs:
        gap = positive[i] - negative[i][k]
        if kind == "margin":
            total += max(0.0, margin - gap) / len(pairs)
        elif kind == "pairwise":
            total += -log(sigmoid(gap)) / len(pairs)
        else:
            total += -log(1 - sigmoid(negative[i][k])) / len(pairs)
    if kind == "pointwise":
        total += sum(-log(sigmoid(value)) for value in positive) / len(positive)
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("margin", [0.0, 1.0, 2.5])
@every_mask
def test_the_losses_without_pu_are_their_formulas(kind: str, margin: float, masked: bool) -> None:
    heads = random_heads(seed=11, masked=masked)
    found = WithoutPU(kind, margin)(heads).item()
    assert found == pytest.approx(literal_ranking(kind, heads, margin), abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@every_mask
def test_gradients_of_the_losses_without_pu(kind: str, masked: bool) -> None:
    heads = with_gradients(random_heads(seed=12, masked=masked))

    def loss(positive: Tensor, negative: Tensor) -> Tensor:
        changed = replace(heads, collected0=positive, uncollected0=negative)
        return WithoutPU(kind)(changed)

    assert torch.autograd.gradcheck(loss, [heads.collected0, heads.uncollected0])
    slopes = gradients(WithoutPU(kind)(heads), heads)
    assert not slopes["collected1"].any()
    assert not slopes["uncollected1"].any()
    assert not slopes["uncollected0"][heads.weight == 0].any()
    # Down the slope, collected facts rise and uncollected ones sink.
    assert slopes["collected0"].max() <= 0 <= slopes["uncollected0"].min()
    assert slopes["collected0"].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_losses_without_pu_are_finite_at_extreme_scores(kind: str, dtype: torch.dtype) -> None:
    for batch in corners(1e4, dtype):
        heads = with_gradients(batch)
        loss = WithoutPU(kind)(heads)
        assert loss.isfinite()
        assert all(slope.isfinite().all() for slope in gradients(loss, heads).values())
