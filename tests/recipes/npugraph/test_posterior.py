"""Posteriors against Bayes' rule in many digits, and the description of their health."""

from __future__ import annotations

import decimal
from decimal import Decimal
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from torch import Tensor

from npu_literal import (
    Switches,
    collected_posterior,
    generator,
    name_of,
    phi,
    uncollected_posterior,
)
from npugraph.recipes.npugraph.posterior import Posterior, RunningPosterior, health, logit

SCORES = (-40.0, -3.0, -0.5, 0.0, 1.25, 4.0, 40.0)
CASES = [
    Switches(reading, form, beta=beta, alpha=alpha)
    for reading, form, (beta, alpha) in product(
        ("exception", "printed"), ("literal", "phi"), ((0.96, 0.01), (0.7, 0.3), (0.999, 1e-5))
    )
]
every_case = pytest.mark.parametrize("s", CASES, ids=name_of)


def posterior(s: Switches) -> Posterior:
    return Posterior(s.reading, s.beta, s.alpha, s.unlabeled_form)


def grid(scores: tuple[float, ...] = SCORES) -> tuple[Tensor, Tensor]:
    """Return psi1 and psi0 of every pair of scores."""
    pairs = torch.tensor(list(product(scores, repeat=2)), dtype=torch.float64)
    return pairs[:, 0], pairs[:, 1]


def literal(formula: object, s: Switches) -> Tensor:
    """Return the posterior of class 1 of every pair of scores, from many digits."""
    psi1, psi0 = grid()
    with decimal.localcontext(prec=60):
        values = [
            float(formula(Decimal(one), Decimal(zero), s))  # type: ignore[operator]
            for one, zero in zip(psi1.tolist(), psi0.tolist(), strict=True)
        ]
    return torch.tensor(values, dtype=torch.float64)


@every_case
def test_both_posteriors_are_bayes_rule(s: Switches) -> None:
    found = posterior(s)
    close = {"rtol": 1e-9, "atol": 1e-13}
    expected = literal(collected_posterior, s)
    torch.testing.assert_close(torch.sigmoid(found.collected_class(*grid())), expected, **close)
    expected = literal(uncollected_posterior, s)
    torch.testing.assert_close(torch.sigmoid(found.uncollected_class(*grid())), expected, **close)


@every_case
def test_the_reading_says_which_class_is_true(s: Switches) -> None:
    class1 = literal(collected_posterior, s)
    true = 1 - class1 if s.reading == "exception" else class1
    found = posterior(s)
    close = {"rtol": 0, "atol": 1e-12}
    torch.testing.assert_close(found.true_if_collected(*grid()), true, **close)
    # Among uncollected facts the true ones are class 1 in both readings.
    true = literal(uncollected_posterior, s)
    torch.testing.assert_close(found.true_if_uncollected(*grid()), true, **close)


@every_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_extreme_scores_give_probabilities(s: Switches, dtype: torch.dtype) -> None:
    psi = [scores.to(dtype).requires_grad_() for scores in grid((-1e4, -90.0, 0.0, 90.0, 1e4))]
    for function in (posterior(s).true_if_collected, posterior(s).true_if_uncollected):
        probability = function(*psi)
        # Whatever the scores are: single precision would tie facts that are all but certain.
        assert probability.dtype == torch.float64
        assert ((probability >= 0) & (probability <= 1)).all()
        slopes = torch.autograd.grad(probability.sum(), psi)
        assert all(slope.isfinite().all() for slope in slopes)


@every_case
def test_gradients_of_the_posteriors(s: Switches) -> None:
    psi = [scores.requires_grad_() for scores in grid((-2.0, 0.3, 1.0))]
    for function in (
        posterior(s).collected_class,
        posterior(s).uncollected_class,
        posterior(s).true_if_collected,
        posterior(s).true_if_uncollected,
    ):
        assert torch.autograd.gradcheck(function, psi)


@pytest.mark.parametrize("form", ["literal", "phi"])
@pytest.mark.parametrize("reading", ["exception", "printed"])
def test_without_evidence_the_posterior_is_the_prior(reading: str, form: str) -> None:
    """beta and alpha are shares of true facts, whatever class 1 means."""
    found = Posterior(reading, 0.8, 0.15, form)
    psi = torch.tensor([-2.0, 0.0, 3.0], dtype=torch.float64)
    assert found.true_if_collected(psi, psi).tolist() == pytest.approx([0.8] * 3)
    assert found.true_if_uncollected(psi, psi).tolist() == pytest.approx([0.15] * 3)


def test_entities_are_ranked_by_psi0_or_by_the_log_ratio() -> None:
    psi1, psi0 = grid((-3.0, 0.5, 2.0))
    assert torch.equal(Posterior("exception").plausibility(psi1, psi0), psi0)
    expected = [
        float((phi(Decimal(one)) / phi(Decimal(zero))).ln())
        for one, zero in zip(psi1.tolist(), psi0.tolist(), strict=True)
    ]
    found = Posterior("printed").plausibility(psi1, psi0)
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("reading", ["exception", "printed"])
def test_more_plausible_is_more_probable_where_psi1_is_the_same(reading: str) -> None:
    psi0 = torch.linspace(-4, 4, 9, dtype=torch.float64)
    found = Posterior(reading)
    for psi1 in (-2.0, 0.0, 2.0):
        pair = torch.full_like(psi0, psi1), psi0
        plausibility, probability = found.plausibility(*pair), found.true_if_collected(*pair)
        assert torch.equal(plausibility.argsort(), probability.argsort())


@given(st.floats(1e-6, 1 - 1e-6))
def test_logit_undoes_the_sigmoid(probability: float) -> None:
    assert torch.sigmoid(torch.tensor(logit(probability), dtype=torch.float64)).item() == (
        pytest.approx(probability, rel=1e-9)
    )


def test_health_describes_the_distribution() -> None:
    probability = torch.tensor([0.1, 0.4, 0.5, 0.8, 0.9, 0.9], dtype=torch.float64)
    plausibility = torch.tensor([-2.0, 1.0, 0.0, 3.0, 3.0, 5.0])
    found = health(probability, plausibility)
    values = probability.tolist()
    mean = sum(values) / 6
    spread = (sum((value - mean) ** 2 for value in values) / 6) ** 0.5
    assert found["posterior_mean"] == pytest.approx(mean)
    assert found["posterior_spread"] == pytest.approx(spread)
    # One half itself is not below one half.
    assert found["posterior_below_half"] == pytest.approx(2 / 6)
    expected = spearmanr(values, plausibility.tolist()).statistic
    assert found["posterior_agreement"] == pytest.approx(expected, abs=1e-12)
    assert found["label_switching"] is False


# Few different values, so that ties are common; never all the same.
ranked = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=30).filter(
    lambda rows: all(len(set(column)) > 1 for column in zip(*rows, strict=True))
)


@given(ranked)
def test_agreement_is_spearmans_correlation_and_its_sign_the_flag(
    rows: list[tuple[int, int]],
) -> None:
    left, right = zip(*rows, strict=True)
    expected = spearmanr(left, right).statistic
    found = health(torch.tensor(left) / 4, torch.tensor(right).double())
    assert found["posterior_agreement"] == pytest.approx(expected, abs=1e-9)
    if abs(expected) > 1e-9:
        assert found["label_switching"] is bool(expected < 0)


@pytest.mark.parametrize("reading", ["exception", "printed"])
def test_changed_places_of_the_classes_are_flagged(reading: str) -> None:
    """A posterior that follows the score is well; the same numbers turned round are not."""
    rng = generator(3)
    psi1, psi0 = torch.randn(2, 200, generator=rng)
    found = Posterior(reading)
    probability, plausibility = (
        found.true_if_collected(psi1, psi0),
        found.plausibility(psi1, psi0),
    )
    assert health(probability, plausibility)["label_switching"] is False
    assert health(1 - probability, plausibility)["label_switching"] is True


@pytest.mark.parametrize("count", [1, 5])
def test_a_constant_posterior_shows_no_spread_and_no_flag(count: int) -> None:
    found = health(torch.full((count,), 0.25), torch.arange(count).float())
    assert found["posterior_spread"] == 0
    assert found["posterior_agreement"] == 0
    assert found["posterior_below_half"] == 1
    assert found["label_switching"] is False


# --- the running mean


RUNNING_FACTS = torch.tensor([[0, 0, 1], [2, 1, 0], [0, 0, 1], [1, 1, 1]])


def running(momentum: float, epochs: list[list[float]]) -> RunningPosterior:
    """Return the running posterior of four facts, the first and the third of them the same."""
    made = RunningPosterior(RUNNING_FACTS, 3, 2, momentum)
    for probability in epochs:
        made.update(torch.tensor(probability, dtype=torch.float64))
    return made


def literal_mean(momentum: float, values: list[float]) -> float:
    """Return the mean with the weight of every epoch written out."""
    weights: list[float] = []
    for epoch in range(1, len(values) + 1):
        step = max(1 - momentum, 1 / epoch)
        weights = [weight * (1 - step) for weight in weights] + [step]
    assert sum(weights) == pytest.approx(1)
    return sum(w * v for w, v in zip(weights, values, strict=True))


unit = st.floats(0, 1)


@given(st.lists(st.lists(unit, min_size=4, max_size=4), min_size=1, max_size=25), unit)
def test_the_running_posterior_is_the_weighted_mean_of_the_epochs(
    epochs: list[list[float]], momentum: float
) -> None:
    found = running(momentum, epochs).mean.tolist()
    expected = [literal_mean(momentum, list(column)) for column in zip(*epochs, strict=True)]
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("momentum", "expected"), [(0.0, 0.9), (0.5, 0.6), (1.0, 0.5)])
def test_momentum_goes_from_the_latest_epoch_to_the_mean_of_all(
    momentum: float, expected: float
) -> None:
    # 0.5: half the latest, a quarter of each of the two before, whose plain mean came first.
    found = running(momentum, [[value] * 4 for value in (0.2, 0.4, 0.9)])
    assert found.epochs == 3
    assert found.mean.tolist() == pytest.approx([expected] * 4)


def test_only_collected_facts_are_recalled() -> None:
    asked = torch.tensor([[1, 1, 1], [0, 0, 1], [0, 0, 2], [2, 1, 0]])
    otherwise = torch.tensor([0.01, 0.02, 0.03, 0.04], dtype=torch.float64)
    assert running(0.9, []).recall(asked, otherwise) is otherwise
    found = running(0.9, [[0.1, 0.2, 0.7, 0.4]]).recall(asked, otherwise)
    assert found.tolist() == pytest.approx([0.4, 0.1, 0.03, 0.2])
    nothing = RunningPosterior(RUNNING_FACTS[:0], 3, 2)
    nothing.update(otherwise[:0])
    assert nothing.recall(asked, otherwise) is otherwise


def test_the_running_posterior_is_part_of_the_state() -> None:
    made, fresh = running(0.9, [[0.1, 0.2, 0.3, 0.4]]), running(0.9, [])
    fresh.load_state_dict(made.state_dict())
    for one in (made, fresh):
        one.update(torch.full((4,), 0.8, dtype=torch.float64))
    assert torch.equal(made.mean, fresh.mean)
    assert fresh.epochs == 2
    # What was saved before there was a running mean has none.
    fresh.load_state_dict({})
    assert fresh.epochs == 0
