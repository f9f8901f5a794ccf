"""What is particular to each embedding baseline; conformance/ has what all recipes promise."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from npugraph.errors import SettingsError
from npugraph.fitting import fit
from npugraph.ranking.evaluate import evaluate
from npugraph.recipes import RECIPES
from npugraph.recipes.common import subsampling_weight
from npugraph.recipes.puda import PUDA
from npugraph.recipes.random import RANDOM
from npugraph.recipes.transr import TRANSR
from recipe_cases import CASES, LEARN_NOTHING, groups


@pytest.mark.parametrize("name", LEARN_NOTHING)
def test_what_learns_nothing_goes_through_the_same_loop(name: str, tmp_path: Path) -> None:
    settings = CASES[name].settings(epochs=2, clip=1.0)
    fitted = fit(groups(), name, settings, tmp_path / "run")
    assert [record["loss"] for record in fitted.metrics] == [0.0, 0.0]
    assert sum(p.numel() for p in fitted.system.parameters()) == 0


def test_random_scores_are_even_and_follow_the_seed() -> None:
    systems = [
        RANDOM.build(CASES["random"].settings(seed=seed), groups().train).system for seed in (0, 1)
    ]
    facts = torch.cartesian_prod(torch.arange(40), torch.arange(4), torch.arange(40))
    one, other = (system.score(facts).numpy() for system in systems)
    assert one.min() >= 0
    assert one.max() < 1
    counts = np.histogram(one, 20, (0, 1))[0]
    assert abs(counts - 320).max() < 5 * 320**0.5
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.05
    # Neighbouring facts have unlike scores.
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.05


def test_the_inverse_rule_ranks_by_rule_and_then_by_frequency() -> None:
    fitted = fit(groups(), "inverse-rule", CASES["inverse-rule"].settings())
    metrics = evaluate(fitted)["filters"]["clean"]
    assert metrics["mrr"] > 0.6
    train = {tuple(row) for row in groups().train.facts.tolist()}
    back = {0: 1, 1: 0, 2: 3, 3: 2}
    for head, relation, tail in groups().test.facts.tolist():
        scores = fitted.system.score_all(
            torch.tensor([head]), torch.tensor([relation]), "tail"
        ).squeeze(0)
        backed = [e for e in range(40) if (e, back[relation], head) in train]
        assert (scores[tail] > 1e-3) == (tail in backed)
        rest = [e for e in range(40) if e not in backed]
        uses = [sum(f[1] == relation and f[2] == e for f in train) for e in rest]
        order = np.argsort(scores[rest].numpy(), kind="stable")
        assert np.all(np.diff(np.array(uses)[order]) >= 0)
        assert scores[rest].max() < 1e-8


def test_subsampling_weights_are_the_published_counts() -> None:
    facts = [(0, 0, 1), (0, 0, 2), (0, 1, 1), (3, 0, 1), (0, 0, 1)]
    found = subsampling_weight(torch.tensor(facts), 2).tolist()
    for (head, relation, tail), weight in zip(facts, found, strict=True):
        # As published: a dictionary whose entries start at 4 and grow by 1.
        count: dict[tuple[object, ...], int] = {}
        for h, r, t in facts:
            for key in ((h, r), (r, t, "tail")):
                count[key] = count[key] + 1 if key in count else 4
        expected = (count[head, relation] + count[relation, tail, "tail"]) ** -0.5
        assert weight == pytest.approx(expected)


def test_the_generator_is_moved_against_the_loss() -> None:
    training = PUDA.build(CASES["puda"].settings(generator_rate=0.5), groups().train)
    others, raised = training.parameter_groups()
    assert not others.get("maximize", False)
    assert raised["maximize"]
    assert raised["lr"] == 0.5
    names = {name for name, _ in training.sampler.named_parameters()}
    assert names == {"first.weight", "first.bias", "second.weight", "second.bias"}
    rows = torch.arange(64)

    def loss(seed: int = 0) -> torch.Tensor:
        return training.loss(rows, torch.Generator().manual_seed(seed))

    before = loss().item()
    optimizer = torch.optim.Adam([raised], lr=0.01)
    for step in range(30):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
    assert loss().item() > before + 0.01


@pytest.mark.parametrize("link", ["logi", "rect"])
def test_ukge_fits_the_confidences_of_the_graph(link: str) -> None:
    sure = 1 - 0.7 * (groups().train.facts[:, 1] == 1).double()
    train = dataclasses.replace(groups().train, confidence=sure)
    splits = dataclasses.replace(groups(), train=train)
    settings = CASES["ukge"].settings(link=link, epochs=40, learning_rate=0.01)
    system = fit(splits, "ukge", settings).system
    asked = torch.zeros(len(groups().test), dtype=torch.bool)
    found = system.probability(groups().test.facts, asked)
    assert found is not None
    assert 0 <= found.min() <= found.max() <= 1
    low = groups().test.facts[:, 1] == 1
    assert found[low].median() < 0.45 < 0.55 < found[~low].median()


def test_transr_starts_from_one_epoch_of_transe() -> None:
    training = TRANSR.build(CASES["transr"].settings(), groups().train)
    start = [table.detach().clone() for table in training.system.encoder()]
    assert training.begin_epoch(2, torch.Generator().manual_seed(0)) is False
    assert torch.equal(training.system.encoder()[0], start[0])
    training.begin_epoch(1, torch.Generator().manual_seed(0))
    entities, relations = training.system.encoder()
    assert not torch.equal(entities, start[0])
    assert not torch.equal(relations[:, :8], start[1][:, :8])
    assert torch.equal(relations[:, 8:].view(-1, 8, 8), torch.eye(8).expand(4, 8, 8))
    cold = TRANSR.build(CASES["transr"].settings(warm_start=False), groups().train)
    cold.begin_epoch(1, torch.Generator().manual_seed(0))
    assert torch.equal(cold.system.encoder()[0], start[0])


@pytest.mark.parametrize("name", ["transe", "nscaching"])
def test_steps_of_changing_shape_are_not_recorded(name: str) -> None:
    with pytest.raises(SettingsError, match="sides=halves"):
        RECIPES[name].build(CASES[name].settings(cuda_graph=True), groups().train)
    RECIPES[name].build(CASES[name].settings(cuda_graph=True, sides="halves"), groups().train)
