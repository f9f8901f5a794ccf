"""A step's questions scored together, and shared candidates checked from their own side."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from npugraph.encoders import Lookup
from npugraph.graph import SIDES, KnowledgeGraph, Side, TripleIndex, Vocabulary
from npugraph.model import FEW_ROWS, Question, System, look_up
from npugraph.objectives import Margin, Objective, Scored, SelfAdversarial
from npugraph.samplers import Candidates, Shared, Uniform
from npugraph.samplers.uniform import collected
from npugraph.scorers import DistMult, Scorer
from npugraph.training.batch_loss import PlainTraining
from scorer_cases import FACTS, NUM_ENTITIES, NUM_RELATIONS, tables


class Counted(Lookup):
    """Counts its passes and remembers what was hidden."""

    hidden: list[Tensor | None]

    def forward(self, hidden_facts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        self.__dict__.setdefault("hidden", []).append(hidden_facts)
        return super().forward(hidden_facts)


def make_system(scorer: Scorer) -> System:
    return System(Counted(*tables(scorer)), scorer, NUM_ENTITIES, NUM_RELATIONS)


def questions() -> list[Question]:
    rng = torch.Generator().manual_seed(4)
    own = torch.randint(NUM_ENTITIES, (len(FACTS), 3), generator=rng)
    shared = torch.randint(NUM_ENTITIES, (1, 5), generator=rng)
    counts = torch.rand(len(FACTS), 5, generator=rng) > 0.3
    return [
        Question(FACTS, "tail", Candidates(own)),
        Question(FACTS, "head", None),
        Question(FACTS, "head", Candidates(shared, counts)),
    ]


def total(scored: list[Scored]) -> Tensor:
    return torch.stack([one.scores.square().sum() for one in scored]).sum()


def test_together_is_the_same_as_one_by_one(scorer: Scorer) -> None:
    system, other = make_system(scorer), make_system(scorer)
    together = system.scored_together(questions())
    alone = [other.scored(q.facts, q.side, q.candidates) for q in questions()]
    for one, two in zip(together, alone, strict=True):
        torch.testing.assert_close(one.scores, two.scores)
        assert torch.equal(one.target, two.target)
        assert (one.counts is None) == (two.counts is None)
        assert one.counts is None or torch.equal(one.counts, two.counts)
        assert all(torch.equal(a, b) for a, b in zip(one.factors, two.factors, strict=True))
    total(together).backward()
    total(alone).backward()
    for mine, theirs in zip(system.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_the_encoder_runs_once_and_factors_can_be_spared() -> None:
    system = make_system(DistMult())
    hidden = torch.tensor([0, 1])
    scored = system.scored_together(questions(), hidden, factors=False)
    assert [one.factors for one in scored] == [()] * 3
    assert isinstance(system.encoder, Counted)
    assert len(system.encoder.hidden) == 1
    assert system.encoder.hidden[0] is hidden


class Seen(Objective):
    """Remembers how many factors it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.factors: list[int] = []

    def forward(self, scored: Scored) -> Tensor:
        self.factors.append(len(scored.factors))
        return scored.scores.sum()


def graph() -> KnowledgeGraph:
    entities = Vocabulary([f"e{i}" for i in range(NUM_ENTITIES)])
    return KnowledgeGraph(entities, Vocabulary([f"r{i}" for i in range(NUM_RELATIONS)]), FACTS)


def test_a_batch_is_hidden_as_a_whole_and_unknown_objectives_see_factors() -> None:
    system, objective = make_system(DistMult()), Seen()
    sampler = Uniform(FACTS, NUM_ENTITIES, NUM_RELATIONS, 3)
    training = PlainTraining(system, sampler, objective, graph(), sides="halves")
    rows = torch.arange(len(FACTS))
    training.loss(rows, torch.Generator().manual_seed(0))
    assert objective.factors == [3, 3]
    assert isinstance(system.encoder, Counted)
    (hidden,) = system.encoder.hidden
    assert hidden is not None
    assert torch.equal(hidden, rows)


@pytest.mark.parametrize(
    ("objective", "needed"),
    [(Margin(1.0), False), (SelfAdversarial(1.0), False), (SelfAdversarial(1.0, 0.1), True)],
)
def test_objectives_say_whether_they_read_the_factors(objective: Objective, needed: bool) -> None:
    assert objective.uses_factors is needed


@pytest.mark.parametrize("length", [0, 3, FEW_ROWS, FEW_ROWS + 1])
def test_rows_are_looked_up_with_their_gradient(length: int) -> None:
    rng = torch.Generator().manual_seed(length)
    table = torch.randn(6, 2, generator=rng, dtype=torch.float64, requires_grad=True)
    lists = [torch.randint(6, shape, generator=rng) for shape in ((2, 3), (length,), (1,))]
    found = look_up(table, lists)
    for ids, rows in zip(lists, found, strict=True):
        assert rows.shape == (*ids.shape, 2)
        assert torch.equal(rows, table.detach()[ids])
    torch.stack([(place + 1) * rows.sum() for place, rows in enumerate(found)]).sum().backward()
    expected = torch.zeros(6, dtype=torch.float64)
    for place, ids in enumerate(lists):
        expected += (place + 1) * torch.bincount(ids.flatten(), minlength=6)
    assert table.grad is not None
    torch.testing.assert_close(table.grad, expected.unsqueeze(1).expand(6, 2))


def as_tensor(facts: list[tuple[int, int, int]]) -> Tensor:
    return torch.tensor(facts, dtype=torch.int64).view(-1, 3)


fact_lists = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1), st.integers(0, 5)))


@given(fact_lists, fact_lists, st.sampled_from(SIDES), st.integers(2, 8), st.integers(0, 99))
def test_looking_from_the_candidates_finds_the_same_collected_facts(
    known: list[tuple[int, int, int]],
    asked: list[tuple[int, int, int]],
    side: Side,
    share: int,
    seed: int,
) -> None:
    stored, facts = as_tensor(known), as_tensor(asked + known[:3])
    rng = torch.Generator().manual_seed(seed)
    ids, found = Shared(stored, 6, 2, share).draw(facts, side, 4, rng)
    assert ids.shape == (-(-len(facts) // share), 4)
    assert found.shape == (len(facts), 4)
    assert torch.equal(found, collected(TripleIndex(stored, 6, 2), facts, ids, side))
