from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from npugraph.fitting import fit
from npugraph.metrics import auroc, ece
from npugraph.recipes.path.credibility import values_of
from npugraph.recipes.path.judged import VALUES, Judged
from npugraph.recipes.path.model import PathModel
from npugraph.recipes.path.posterior import PLAUSIBLE, fit_posterior, posterior_of
from npugraph.recipes.path.thinned import by_group
from recipe_cases import CASES, groups


def judged(score: Tensor) -> Judged:
    """Return facts [n] of which one value says something, one nothing, and one is turned round."""
    both = score.repeat(2, 1)
    return Judged(both, torch.zeros_like(both), -both)


def drawn(true: int, false: int, seed: int) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.cat([torch.randn(true, generator=rng) + 4, torch.randn(false, generator=rng)])


@pytest.mark.parametrize("beta", [0.8, 0.96])
def test_probabilities_are_those_of_the_mixture(beta: float) -> None:
    count = 6000
    true = round(beta * count)
    labels = np.arange(count) < true
    stored, others = judged(drawn(true, count - true, 1)), judged(drawn(0, count, 2))
    relation = torch.zeros(count, dtype=torch.int64)
    found = fit_posterior(stored, [others], relation, [relation])
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
    assert fit_posterior(many, [few], relations[0], [relations[1]]) is None
    assert fit_posterior(few, [many], relations[1], [relations[0]]) is None
    assert fit_posterior(many, [many, few], relations[0], list(relations)) is None
    empty = judged(torch.zeros(0))
    assert fit_posterior(empty, [empty], relations[1][:0], [relations[1][:0]]) is None


def test_the_pool_has_every_kind_as_often_as_it_seems_to_be_there() -> None:
    """One kind is a tenth of the stored facts, the other is not there; one value tells each."""
    count = 4000
    rng = torch.Generator().manual_seed(0)

    def facts(first: float, second: float, number: int) -> Judged:
        values = [torch.randn(number, generator=rng) + level for level in (first, second)]
        return Judged(*(value.repeat(2, 1) for value in (*values, torch.zeros(number))))

    parts = facts(4, 4, count - count // 10), facts(0, 4, count // 10)
    stored = Judged(*(torch.cat([getattr(p, name) for p in parts], 1) for name in VALUES))
    kinds = [facts(0, 4, count), facts(4, 0, count)]
    zeros = torch.zeros(count, dtype=torch.int64)
    found = fit_posterior(stored, kinds, zeros, [zeros, zeros + 1])
    assert found is not None
    assert found.credibility.counts[0] > 0.9
    pool = found.calibration.pool_score
    # All of the first kind, and of the second as few as its share says.
    share = found.credibility.counts[1] / found.credibility.counts[0]
    assert len(pool) == pytest.approx(count * (1 + share), abs=2)
    assert found.priors.beta.value == pytest.approx(0.9, abs=0.02)


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


def test_it_may_be_fitted_to_some_kinds_alone(trained: tuple[PathModel, Tensor]) -> None:
    system, _ = trained
    one, several = posterior_of(system, kinds=PLAUSIBLE), posterior_of(system)
    assert one is not None
    assert several is not None
    assert one.credibility.weights.shape == (1, 3)
    assert several.credibility.weights.shape == (3, 3)
    assert one.credibility.counts.tolist() == [1]


def test_the_posterior_follows_from_the_seed(trained: tuple[PathModel, Tensor]) -> None:
    system, _ = trained
    facts = system.judge(system.stored.facts())
    few = {"kinds": PLAUSIBLE, "most": 200}
    one, same, other = (posterior_of(system, seed=seed, **few) for seed in (1, 1, 2))
    assert one is not None
    assert same is not None
    assert other is not None
    assert len(one.calibration.score) == 200
    assert np.array_equal(one.if_stored(facts), same.if_stored(facts))
    assert not np.array_equal(one.credibility.weights, other.credibility.weights)


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
    groups = by_group(places[:1], system.shuffled, system._groups())
    group = next(hidden for hidden, _ in groups)
    scores = system(start, query, system.weights_without(group))
    torch.testing.assert_close(found.raw[0, 0], scores[0, other[0, 2]])
    assert not torch.equal(found.raw[0], system.judge(other, ("tail",)).raw[0])
