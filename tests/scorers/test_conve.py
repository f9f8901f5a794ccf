"""ConvE in training and in tiles; its formula is in the conformance suite."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from npugraph.errors import SettingsError
from npugraph.graph import SIDES, Side
from npugraph.scorers import ConvE, conve
from scorer_cases import DIMENSION, make_conve, tables


def queries(count: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    """Return known, relation and entities; some relations are asked for more than once."""
    entities, relations = tables(make_conve())
    return entities[:count], relations[torch.arange(count) % 3], entities


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("tile", [1, 3, 70])
def test_tiles_change_nothing(side: Side, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = make_conve().double()
    whole = scorer.score_all(*queries(), side)
    monkeypatch.setattr(conve, "CPU_TILE", tile)
    torch.testing.assert_close(scorer.score_all(*queries(), side), whole, rtol=1e-12, atol=1e-12)


def test_the_network_runs_once_for_each_entity_and_relation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scorer = make_conve().double()
    runs = []
    network = scorer._network
    monkeypatch.setattr(
        scorer, "_network", lambda head, by: runs.append(len(head)) or network(head, by)
    )
    known, relation, entities = queries()
    scorer.score_all(known, relation, entities, "tail")
    assert sum(runs) == len(known)
    runs.clear()
    scorer.score_all(known, relation, entities, "head")
    assert sum(runs) == 3 * len(entities)


@pytest.mark.parametrize("side", SIDES)
def test_groups_of_queries_have_entities_of_their_own(side: Side) -> None:
    scorer = make_conve().double()
    known, relation, entities = queries()
    pool = torch.stack([entities[:20], entities[20:40]])
    shaped = known.view(2, 4, -1), relation.view(2, 4, -1), pool
    found = scorer.score_all(*shaped, side)
    parts = zip(*shaped, strict=True)
    expected = torch.stack([scorer.score_all(*part, side) for part in parts])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_training_goes_by_the_batch_and_evaluation_by_what_was_seen() -> None:
    scorer = make_conve().double()
    still = scorer.score_all(*queries(), "tail")
    before = scorer.hidden_norm.running_mean.clone()
    moving = scorer.train().score_all(*queries(), "tail")
    assert not torch.allclose(still, moving)
    assert not torch.equal(scorer.hidden_norm.running_mean, before)
    # Statistics of the whole batch: the others of a batch change the scores of one.
    fewer = scorer.score_all(*(part[:5] for part in queries()[:2]), queries()[2], "tail")
    assert not torch.allclose(fewer, moving[:5])


def test_a_batch_of_one_goes_by_what_was_seen() -> None:
    known, relation, entities = queries(1)
    scorer = make_conve().double()
    expected = scorer.score_all(known, relation, entities, "tail")
    before = scorer.hidden_norm.running_var.clone()
    found = scorer.train().score_all(known, relation, entities, "tail")
    torch.testing.assert_close(found, expected)
    assert torch.equal(scorer.hidden_norm.running_var, before)


@pytest.mark.parametrize("where", ["input_dropout", "feature_dropout", "hidden_dropout"])
def test_every_dropout_acts_in_training_alone(where: str) -> None:
    scorer = ConvE(DIMENSION, 1, filters=3, kernel=2, **{where: 0.5})
    entities, relations = tables(scorer)
    inputs = entities[:4], relations[:4], entities
    torch.manual_seed(0)
    first, second = (scorer.score_all(*inputs, "tail") for _ in range(2))
    assert not torch.allclose(first, second)
    scorer.eval()
    first, second = (scorer.score_all(*inputs, "tail") for _ in range(2))
    assert torch.equal(first, second)


def test_the_published_shape_fits() -> None:
    scorer = ConvE(200, 10, filters=200, kernel=7)
    assert scorer.weight.shape == (200, 200 * 14 * 14)
    assert scorer.entity_width(200) == 201
    assert scorer.relation_width(200) == 200


def test_the_same_generator_gives_the_same_network() -> None:
    one, other = make_conve().state_dict(), make_conve().state_dict()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.mark.parametrize(
    ("height", "kernel", "message"),
    [(3, 1, "must divide"), (0, 1, "must divide"), (2, 5, "does not fit"), (5, 3, "does not fit")],
)
def test_layouts_that_do_not_fit_are_refused(height: int, kernel: int, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        ConvE(10, height, kernel=kernel)
