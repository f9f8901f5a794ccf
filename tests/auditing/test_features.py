"""Features against a slow transcription with loops, and what they must not depend on."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from audit_samples import anonymous, random_facts
from npugraph.auditing import features
from npugraph.auditing.features import FEATURES, Comparer, stored_answers
from npugraph.encoders import Lookup
from npugraph.graph import Side
from npugraph.model import Model, System
from npugraph.scorers import ComplEx, DistMult, TransE

E, R = 23, 4
TRAIN = torch.cat([random_facts(90, E - 2, R - 2, 0), torch.tensor([[3, R - 2, 5]])])
# Also about entities (21, 22) and a relation (3) that no training fact is about.
ASKED = torch.cat(
    [
        random_facts(60, E, R, 1),
        torch.tensor([[22, 0, 21], [3, R - 2, 5], [4, R - 2, 4]]),
        TRAIN[:9],
    ]
)


def make_system(
    scorer: str = "complex", reciprocal: bool = False, dtype: torch.dtype = torch.float32
) -> System:
    rng = torch.Generator().manual_seed(5)
    kinds = {"complex": ComplEx(), "distmult": DistMult(), "transe": TransE()}
    relations = torch.randn(R * (1 + reciprocal), 6, generator=rng, dtype=dtype)
    table = Lookup(torch.randn(E, 6, generator=rng, dtype=dtype), relations)
    return System(table, kinds[scorer], E, R, reciprocal=reciprocal).eval()


def compare(system: Model, size: int = E, train: Tensor = TRAIN) -> Comparer:
    rng = torch.Generator().manual_seed(7)
    return Comparer(system, anonymous(train, E, R), size, rng)


def literal_side(
    fact: list[int], side: Side, system: Model, train: list[list[int]], sample: list[int]
) -> list[float]:
    """The features of one question, one fact at a time; every entity of a role is looked at."""
    head, relation, tail = fact
    known, target = (head, tail) if side == "tail" else (tail, head)
    pairs = [(h, t) if side == "tail" else (t, h) for h, r, t in train if r == relation]
    scores = system.score_all(torch.tensor([known]), torch.tensor([relation]), side)[0].tolist()
    stored = {answer for question, answer in pairs if question == known}
    role = sorted({answer for _, answer in pairs})
    gaps, shares = [], []
    for others in (sample, role):
        kept = [scores[e] for e in others if e not in stored and e != target]
        mean = math.log(sum(math.exp(x) for x in kept) / len(kept)) if kept else 0.0
        gaps.append(scores[target] - mean)
        above = sum(x >= scores[target] for x in kept)
        shares.append(math.log((above + 0.5) / (len(kept) + 1)))
    return [
        scores[target],
        *gaps,
        *shares,
        math.log(1 + sum(question == known for question, _ in pairs)),
        math.log(1 + sum(answer == target for _, answer in pairs)),
        math.log(1 + sum((h == target) + (t == target) for h, _, t in train)),
    ]


def literal(facts: Tensor, system: Model, train: Tensor, sample: Tensor) -> Tensor:
    known, chosen = train.tolist(), sample.tolist()
    return torch.tensor(
        [
            literal_side(fact, "tail", system, known, chosen)
            + literal_side(fact, "head", system, known, chosen)
            + [math.log(1 + sum(r == fact[1] for _, r, _ in known))]
            for fact in facts.tolist()
        ]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("scorer", ["complex", "transe"])
def test_features_equal_the_slow_transcription(
    scorer: str, reciprocal: bool, dtype: torch.dtype
) -> None:
    comparison = compare(make_system(scorer, reciprocal, dtype))
    found = comparison.features(ASKED)
    assert found.shape == (len(ASKED), len(FEATURES))
    assert found.dtype == torch.float32
    expected = literal(ASKED, comparison.system, TRAIN, comparison.any)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_small_sample_of_random_entities_is_a_sample() -> None:
    comparison = compare(make_system(), size=9)
    assert len(comparison.any) == len(set(comparison.any.tolist())) == 9
    found = comparison.features(ASKED)
    expected = literal(ASKED, comparison.system, TRAIN, comparison.any)
    random_only = [
        FEATURES.index(f"{n}_any_{s}") for n in ("gap", "above") for s in ("tail", "head")
    ]
    torch.testing.assert_close(
        found[:, random_only], expected[:, random_only], rtol=1e-4, atol=1e-4
    )


def test_a_small_sample_of_a_role_holds_entities_of_that_role() -> None:
    comparison = compare(make_system(), size=9)
    own = TRAIN[TRAIN[:, 1] == 0]
    sample = comparison._seen(own, 0, "tail")
    assert len(set(sample.tolist())) == 9 < len(own[:, 2].unique())
    assert set(sample.tolist()) <= set(own[:, 2].tolist())
    assert torch.equal(sample, compare(make_system(), size=9)._seen(own, 0, "tail"))
    assert not torch.equal(sample, comparison._seen(own, 0, "head"))


@pytest.mark.parametrize("size", [5, E])
def test_features_of_a_fact_do_not_depend_on_what_else_is_asked(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = make_system(reciprocal=True)
    whole = compare(system, size).features(ASKED)
    comparison = compare(system, size)
    alone = torch.cat([comparison.features(fact.unsqueeze(0)) for fact in ASKED])
    torch.testing.assert_close(alone, whole, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        comparison.features(ASKED.flip(0)), whole.flip(0), rtol=1e-5, atol=1e-5
    )
    monkeypatch.setattr(features, "CHUNK", 3)
    torch.testing.assert_close(comparison.features(ASKED), whole, rtol=1e-5, atol=1e-5)


def test_features_do_not_depend_on_the_order_of_the_training_facts() -> None:
    system = make_system()
    turned = TRAIN[torch.randperm(len(TRAIN), generator=torch.Generator().manual_seed(3))]
    for size in (5, E):
        one, other = (compare(system, size, train).features(ASKED) for train in (TRAIN, turned))
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_further_answers_count_as_stored_ones() -> None:
    """Other tails for (3, 0, ?): in the counts it is as if they were stored."""
    fact, tails = torch.tensor([[3, 0, 5]]), [t for t in range(E) if t not in (3, 5)][:4]
    known = {tuple(row) for row in TRAIN.tolist()}
    further = [(3, 0, tail) for tail in tails if (3, 0, tail) not in known]
    beside = torch.cat([TRAIN, torch.tensor(further)])
    system = make_system()
    more = torch.tensor([[float(len(further)), 0.0]])
    told = compare(system).features(fact, more)[0]
    stored = compare(system, train=beside).features(fact)[0]
    plain = compare(system).features(fact)[0]
    counted = [FEATURES.index(n) for n in ("answers_tail", "role_count_head", "degree_head")]
    torch.testing.assert_close(told[counted], stored[counted])
    assert (told[counted] > plain[counted]).all()
    others = [i for i in range(len(FEATURES)) if i not in counted]
    assert torch.equal(told[others], plain[others])


def test_no_facts_have_no_features() -> None:
    assert compare(make_system()).features(ASKED[:0]).shape == (0, len(FEATURES))


def test_what_is_in_no_training_fact_counts_zero() -> None:
    found = compare(make_system()).features(torch.tensor([[22, R - 1, 21]]))[0]
    named = dict(zip(FEATURES, found.tolist(), strict=True))
    assert all(math.isfinite(value) for value in named.values())
    for side in ("head", "tail"):
        assert (
            named[f"answers_{side}"] == named[f"role_count_{side}"] == named[f"degree_{side}"] == 0
        )
        # Nothing is seen in the role: nothing to compare with.
        assert named[f"gap_role_{side}"] == named[f"score_{side}"]
        assert named[f"above_role_{side}"] == pytest.approx(math.log(0.5))
    assert named["relation_count"] == 0


def test_a_relation_of_one_fact() -> None:
    fact = torch.tensor([[3, R - 2, 5]])
    comparison = compare(make_system())
    named = dict(zip(FEATURES, comparison.features(fact)[0].tolist(), strict=True))
    assert named["relation_count"] == pytest.approx(math.log(2))
    # The only entity of the role is the answer itself, which is no rival.
    assert named["gap_role_tail"] == named["score_tail"]
    other = torch.tensor([[3, R - 2, 6]])
    named = dict(zip(FEATURES, comparison.features(other)[0].tolist(), strict=True))
    # The stored answer 5 is no rival either.
    assert named["above_role_tail"] == pytest.approx(math.log(0.5))


def test_training_mode_and_gradients_are_left_out() -> None:
    system = make_system().train()
    found = compare(system).features(ASKED)
    assert not found.requires_grad
    assert not system.training


def test_ties_count_as_above() -> None:
    system = make_system("distmult")
    with torch.no_grad():
        system.encoder.relations.zero_()
    found = compare(system).features(torch.tensor([[22, R - 1, 21]]))[0]
    named = dict(zip(FEATURES, found.tolist(), strict=True))
    assert named["above_any_tail"] == pytest.approx(math.log((E - 1 + 0.5) / E))
    assert named["gap_any_tail"] == pytest.approx(0, abs=1e-6)


@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 8), st.integers(0, 12))
def test_stored_answers_are_a_lookup(seed: int, count: int, asked: int, listed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    facts = random_facts(count, 12, 1, seed)
    queries = torch.randperm(12, generator=rng)[:asked].sort().values
    # No entities can be listed only where no fact has an answer.
    facts = facts if listed else facts[:0]
    entities = torch.randperm(12, generator=rng)[:listed].sort().values
    pairs = {(h, t) for h, _, t in facts.tolist()}
    expected = [[(q, e) in pairs for e in entities.tolist()] for q in queries.tolist()]
    assert stored_answers(facts, queries, entities).tolist() == expected
