from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from npugraph.fitting import fit
from npugraph.metrics import auroc, ece
from npugraph.recipes.path.model import Judged, PathModel
from npugraph.recipes.path.posterior import fit_posterior, log_odds, posterior_of, values_of
from recipe_cases import CASES, groups


def judged(score: Tensor) -> Judged:
    """Return facts [n] of which one value says something, one nothing, and one is turned round."""
    both = score.repeat(2, 1)
    return Judged(both, torch.zeros_like(both), -both)


def drawn(true: int, false: int, seed: int) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.cat([torch.randn(true, generator=rng) + 4, torch.randn(false, generator=rng)])


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


@pytest.mark.parametrize("beta", [0.8, 0.96])
def test_probabilities_are_those_of_the_mixture(beta: float) -> None:
    count = 6000
    true = round(beta * count)
    labels = np.arange(count) < true
    stored, others = judged(drawn(true, count - true, 1)), judged(drawn(0, count, 2))
    relation = torch.zeros(count, dtype=torch.int64)
    found = fit_posterior(stored, others, relation, relation)
    assert found is not None
    assert found.priors.beta.value == pytest.approx(beta, abs=0.02)
    probability = found.if_stored(stored)
    assert 0 <= probability.min() <= probability.max() <= 1
    assert ece(probability, labels) < 0.02
    order = np.argsort(values_of(stored)[:, 0])
    assert (np.diff(probability[order]) >= 0).all()
    # Of the others none is true, and few of them are taken to be.
    assert found.if_not_stored(others).mean() < 0.02


def test_too_few_facts_say_nothing() -> None:
    many, few = judged(drawn(200, 0, 1)), judged(drawn(0, 20, 2))
    relations = torch.zeros(200, dtype=torch.int64), torch.zeros(20, dtype=torch.int64)
    assert fit_posterior(many, few, *relations) is None
    assert fit_posterior(few, many, *relations[::-1]) is None
    empty = judged(torch.zeros(0))
    assert fit_posterior(empty, empty, relations[1][:0], relations[1][:0]) is None


# --- of a model


@pytest.fixture(scope="module")
def trained() -> tuple[PathModel, Tensor]:
    """A model of a graph with thirty wrong facts, and which of its stored facts are wrong."""
    splits = groups()
    rng = torch.Generator().manual_seed(3)
    ends = torch.randint(40, (60, 2), generator=rng)
    made = torch.stack([ends[:, 0], torch.randint(4, (60,), generator=rng), ends[:, 1]], 1)
    known = splits.train.with_facts(splits.all_facts()).index()
    wrong = made[~known.contains(made)].unique(dim=0)[:30]
    train = splits.train.with_facts(torch.cat([splits.train.facts, wrong]))
    training = CASES["path"].settings(epochs=4)
    system = fit({"train": train, "valid": splits.valid}, "path", training).system
    assert isinstance(system, PathModel)
    planted = train.with_facts(wrong).index().contains(system.stored.facts())
    assert int(planted.sum()) == len(wrong)
    return system, planted


def test_wrong_facts_get_low_probabilities_without_folds(trained: tuple[PathModel, Tensor]) -> None:
    system, planted = trained
    found = posterior_of(system)
    assert found is not None
    probability = found.if_stored(system.judge(system.stored.facts()))
    assert auroc(~planted.numpy(), probability) > 0.9
    assert probability[planted.numpy()].mean() < 0.5 < probability[~planted.numpy()].mean()


def test_the_posterior_follows_from_the_seed(trained: tuple[PathModel, Tensor]) -> None:
    system, _ = trained
    facts = system.judge(system.stored.facts())
    one, same, other = (posterior_of(system, seed=seed, most=200) for seed in (1, 1, 2))
    assert one is not None
    assert same is not None
    assert other is not None
    assert len(one.calibration.score) == 200
    assert np.array_equal(one.if_stored(facts), same.if_stored(facts))
    assert not np.array_equal(one.weights, other.weights)


def test_a_corruption_is_asked_of_the_graph_that_its_fact_is_asked_of(
    trained: tuple[PathModel, Tensor],
) -> None:
    system, _ = trained
    facts = system.stored.facts()[::9]
    places = system.stored.places(facts)
    alone, beside = system.judge(facts), system.judge(facts, beside=places)
    assert torch.equal(alone.among_new, beside.among_new)
    # The same question and the same group: one softmax holds both answers.
    other = facts.clone()
    other[:, 2] = (other[:, 2] + 1) % system.num_entities
    found = system.judge(other, ("tail",), beside=places)
    start, query = facts[:1, 0], facts[:1, 1]
    group = next(hidden for hidden, _ in system._by_group(places[:1]))
    scores = system(start, query, system.weights_without(group))
    torch.testing.assert_close(found.raw[0, 0], scores[0, other[0, 2]])
    assert not torch.equal(found.raw[0], system.judge(other, ("tail",)).raw[0])
