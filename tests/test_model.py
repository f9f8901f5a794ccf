"""What a system makes of the scores of any scorer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from npugraph.encoders import Lookup
from npugraph.graph import SIDES, Side
from npugraph.model import System
from npugraph.objectives import SoftmaxN3
from npugraph.samplers import Candidates
from npugraph.scorers import DistMult, Scorer
from scorer_cases import FACTS, NUM_ENTITIES, NUM_RELATIONS, tables


def make_system(scorer: Scorer, reciprocal: bool, dtype: torch.dtype = torch.float64) -> System:
    """A system over R relations, or over half of them with the other half as their twins."""
    entities, relations = tables(scorer, dtype)
    twice = torch.cat([relations, relations.flip(0) + 0.5]) if reciprocal else relations
    encoder = Lookup(entities, twice)
    return System(encoder, scorer, NUM_ENTITIES, NUM_RELATIONS, reciprocal=reciprocal)


def ends(facts: Tensor, side: Side) -> tuple[Tensor, Tensor]:
    """Return the known and the missing entities [n]."""
    head, _, tail = facts.unbind(1)
    return (head, tail) if side == "tail" else (tail, head)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("reciprocal", [False, True])
def test_scores_against_candidates_are_columns_of_all_scores(
    scorer: Scorer, side: Side, reciprocal: bool
) -> None:
    system = make_system(scorer, reciprocal)
    rng = torch.Generator().manual_seed(2)
    candidates = torch.randint(NUM_ENTITIES, (len(FACTS), 9), generator=rng)
    all_scored = system.scored(FACTS, side, None)
    some_scored = system.scored(FACTS, side, Candidates(candidates))
    _, missing = ends(FACTS, side)
    assert torch.equal(all_scored.target, missing)
    assert some_scored.target.tolist() == [0] * len(FACTS)
    columns = torch.cat([missing.unsqueeze(1), candidates], dim=1)
    expected = all_scored.scores.gather(1, columns)
    torch.testing.assert_close(some_scored.scores, expected, rtol=1e-9, atol=1e-9)
    for one, other in zip(all_scored.factors, some_scored.factors, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("side", SIDES)
def test_without_twins_both_directions_score_the_fact_itself(scorer: Scorer, side: Side) -> None:
    system = make_system(scorer, reciprocal=False)
    known, missing = ends(FACTS, side)
    scores = system.score_all(known, FACTS[:, 1], side)
    found = scores.gather(1, missing.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(found.double(), system.score(FACTS), rtol=1e-6, atol=1e-6)


def test_a_head_is_asked_for_as_the_tail_of_the_twin(scorer: Scorer) -> None:
    system = make_system(scorer, reciprocal=True)
    entities, relations = system.encoder()
    tail, twin = entities[FACTS[:, 2]], relations[FACTS[:, 1] + NUM_RELATIONS]
    expected = scorer.score_all(tail, twin, entities, "tail").detach()
    found = system.score_all(FACTS[:, 2], FACTS[:, 1], "head").double()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    trained = system.scored(FACTS, "head", None).scores.detach()
    torch.testing.assert_close(trained, expected, rtol=1e-9, atol=1e-9)


def test_a_tail_is_asked_for_with_the_relation_itself(scorer: Scorer) -> None:
    system = make_system(scorer, reciprocal=True)
    entities, relations = system.encoder()
    query = entities[FACTS[:, 0]], relations[FACTS[:, 1]]
    expected = scorer.score_all(*query, entities, "tail").detach()
    found = system.score_all(FACTS[:, 0], FACTS[:, 1], "tail").double()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_with_twins_a_fact_scores_the_mean_of_both_directions(scorer: Scorer) -> None:
    system = make_system(scorer, reciprocal=True)
    entities, relations = system.encoder()
    head, relation, tail = FACTS.unbind(1)
    forward = scorer.score(entities[head], relations[relation], entities[tail])
    twin = relations[relation + NUM_RELATIONS]
    backward = scorer.score(entities[tail], twin, entities[head])
    torch.testing.assert_close(system.score(FACTS), ((forward + backward) / 2).detach())


@pytest.mark.parametrize("side", SIDES)
def test_a_float64_system_scores_in_float64(scorer: Scorer, side: Side) -> None:
    system = make_system(scorer, reciprocal=False)
    known, missing = ends(FACTS, side)
    scores = system.score_all(known, FACTS[:, 1], side)
    found = scores.gather(1, missing.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(found, system.score(FACTS), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("reciprocal", [False, True])
def test_training_reaches_every_table(scorer: Scorer, side: Side, reciprocal: bool) -> None:
    system = make_system(scorer, reciprocal, torch.float32)
    SoftmaxN3(0.01)(system.scored(FACTS, side, None)).backward()
    for parameter in system.encoder.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().sum() > 0


class Doubled(Lookup):
    """An encoder that computes: its output does not change with its tables by itself."""

    def forward(self) -> tuple[Tensor, Tensor]:
        return 2 * self.entities, 2 * self.relations


def evaluated(entities: Tensor, relations: Tensor) -> System:
    encoder = Doubled(entities.clone(), relations.clone())
    return System(encoder, DistMult(), NUM_ENTITIES, NUM_RELATIONS).eval()


# What evaluation mode remembers must not outlive the weights it was computed from.


def test_new_weights_are_seen_in_evaluation_mode() -> None:
    entities, relations = tables(DistMult())
    system, other = evaluated(entities, relations), evaluated(entities.flip(0), relations)
    assert not torch.equal(system.score(FACTS), other.score(FACTS))
    system.load_state_dict(other.state_dict())
    assert torch.equal(system.score(FACTS), other.score(FACTS))


def test_an_evaluated_system_can_change_its_dtype() -> None:
    system = evaluated(*tables(DistMult()))
    exact = system.score(FACTS)
    found = system.to(torch.float32).score(FACTS)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-4)
