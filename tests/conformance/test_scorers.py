"""What every scorer promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from npugraph import scorers
from npugraph.errors import NpugraphError
from npugraph.graph import SIDES, Side
from npugraph.kernels import tiles
from npugraph.recipes.npugraph.heads import BilinearHeads, MLPHeads, TwoHeads
from npugraph.scorers import ComplEx, DistMult, RotatE, Scorer, TransE
from npugraph.scorers.distance import unit_length
from scorer_cases import (
    CASES,
    DIMENSION,
    DISTANCES,
    FACTS,
    NUM_ENTITIES,
    NUM_RELATIONS,
    Case,
    make_mlp,
    tables,
)

NUM_QUERIES = 8


def queries(entities: Tensor, relations: Tensor) -> list[Tensor]:
    """Return known [q, w], relation [q, v] and the entities [E, w] to choose from."""
    which = torch.arange(NUM_QUERIES) % len(relations)
    return [entities[:NUM_QUERIES], relations[which], entities]


def score_all(scorer: Scorer, inputs: list[Tensor], side: Side, gradients: bool) -> Tensor:
    """Score every entity, with the graph for gradients or on the fast path without."""
    if gradients:
        scores = scorer.score_all(*with_gradient(*inputs), side)
        assert scores.requires_grad
        return scores.detach()
    with torch.no_grad():
        return scorer.score_all(*inputs, side)


def with_gradient(*tensors: Tensor) -> list[Tensor]:
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


def loop(scorer: Scorer, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
    """Score every entity as the missing side, one call of ``score`` for each."""
    rows = [
        [scorer.score(k, r, e) if side == "tail" else scorer.score(e, r, k) for e in entities]
        for k, r in zip(known, relation, strict=True)
    ]
    return torch.stack([torch.stack(row) for row in rows])


def perfect_fit(entities: Tensor, relations: Tensor) -> list[Tensor]:
    """Return queries where entity i is the known one, and i and i + q are its answers.

    The relation is 0 (no translation, no rotation), so that the fit is exact on both sides.
    """
    entities = entities.clone()
    entities[NUM_QUERIES : 2 * NUM_QUERIES] = entities[:NUM_QUERIES]
    return queries(entities, torch.zeros_like(relations))


def test_every_scorer_is_under_test() -> None:
    defined = {
        kind
        for kind in vars(scorers).values()
        if isinstance(kind, type) and issubclass(kind, Scorer) and kind is not Scorer
    }
    assert defined == {type(case.make()) for case in CASES.values()}


def test_scores_are_those_of_the_formula(case: Case, scorer: Scorer) -> None:
    entities, relations = tables(scorer)
    head, tail, relation = entities[:6], entities[6:12], relations
    rows = zip(head.tolist(), relation.tolist(), tail.tolist(), strict=True)
    expected = [case.formula(*row) for row in rows]
    assert scorer.score(head, relation, tail).tolist() == pytest.approx(expected, rel=1e-12)


def test_broadcasting_equals_pointwise(scorer: Scorer) -> None:
    entities, relations = tables(scorer)
    head, relation, tail = entities[:2], relations[:3], entities[2:6]
    found = scorer.score(head[:, None, None], relation[:, None], tail)
    assert found.shape == (2, 3, 4)
    found = found.detach()
    expected = [[[scorer.score(h, r, t).item() for t in tail] for r in relation] for h in head]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("gradients", [False, True])
def test_score_all_equals_the_loop(scorer: Scorer, side: Side, gradients: bool) -> None:
    inputs = queries(*tables(scorer))
    expected = loop(scorer, *inputs, side).detach()
    found = score_all(scorer, inputs, side, gradients)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("gradients", [False, True])
def test_no_queries_and_no_entities_are_fine(scorer: Scorer, side: Side, gradients: bool) -> None:
    known, relation, entities = queries(*tables(scorer))
    found = score_all(scorer, [known[:0], relation[:0], entities], side, gradients)
    assert found.shape == (0, NUM_ENTITIES)
    found = score_all(scorer, [known, relation, entities[:0]], side, gradients)
    assert found.shape == (NUM_QUERIES, 0)


@pytest.mark.parametrize("side", SIDES)
def test_tiles_change_nothing(scorer: Scorer, side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = queries(*tables(scorer))
    whole = score_all(scorer, inputs, side, gradients=False)
    monkeypatch.setattr(tiles, "TILE_QUERIES", 3)
    monkeypatch.setattr(tiles, "TILE_ENTITIES", 9)
    tiled = score_all(scorer, inputs, side, gradients=False)
    torch.testing.assert_close(tiled, whole, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", DISTANCES)
def test_a_perfect_fit_gets_the_best_score(name: str, side: Side, gradients: bool) -> None:
    scorer = DISTANCES[name].make()
    inputs = perfect_fit(*tables(scorer, torch.float32, scale=100.0))
    found = score_all(scorer, inputs, side, gradients)
    best = torch.full((NUM_QUERIES,), DISTANCES[name].best)
    torch.testing.assert_close(found.diagonal(), best, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.diagonal(NUM_QUERIES), best, rtol=0, atol=1e-9)
    assert found.max() <= best[0] + 1e-9


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", CASES)
def test_no_grad_takes_the_fast_path_for_parameters_too(name: str, side: Side) -> None:
    scorer = CASES[name].make()
    entities, relations = tables(scorer, torch.float32)
    plain = score_all(scorer, queries(entities, relations), side, gradients=False)
    # As System.score_all calls it.
    learned = queries(nn.Parameter(entities), nn.Parameter(relations))
    assert torch.equal(score_all(scorer, learned, side, gradients=False), plain)


def finite_gradients(scorer: Scorer, inputs: list[Tensor], side: Side | None) -> bool:
    """Tell whether scores and gradients are finite; side None means ``score``, pointwise."""
    inputs = with_gradient(*inputs)
    if side is None:
        known, relation, entities = inputs
        scores = scorer.score(known, relation, entities[NUM_QUERIES : 2 * NUM_QUERIES])
    else:
        scores = scorer.score_all(*inputs, side)
    scores.sum().backward()
    gradients = [tensor.grad for tensor in inputs]
    return all(part is not None and part.isfinite().all() for part in (scores, *gradients))


@pytest.mark.parametrize("side", [None, *SIDES])
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-20, 1e-10, 1e6, 1e12])
def test_gradients_are_finite_at_extreme_values(
    scorer: Scorer, scale: float, side: Side | None
) -> None:
    assert finite_gradients(scorer, queries(*tables(scorer, torch.float32, scale)), side)


@pytest.mark.parametrize("side", [None, *SIDES])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_at_coinciding_points(
    scorer: Scorer, side: Side | None, dtype: torch.dtype
) -> None:
    assert finite_gradients(scorer, perfect_fit(*tables(scorer, dtype)), side)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("num_entities", [4, 30])
def test_gradients_of_score_all_are_right(scorer: Scorer, side: Side, num_entities: int) -> None:
    entities, relations = tables(scorer)
    inputs = with_gradient(entities[-2:], relations[:2], entities[:num_entities])
    assert torch.autograd.gradcheck(
        lambda *parts: scorer.score_all(*parts, side), inputs, fast_mode=True
    )


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("groups", [1, 2, 4, 6])
def test_facts_against_candidates_are_score_and_score_all(
    scorer: Scorer, side: Side, groups: int
) -> None:
    """Four groups of seven facts: the last has one fact where the others have two."""
    known, relation, missing, pool = against_inputs(scorer, groups)
    found = scorer.against(known, relation, missing, pool, side)
    ends = (known, missing) if side == "tail" else (missing, known)
    torch.testing.assert_close(found[:, 0], scorer.score(ends[0], relation, ends[1]))
    for place in range(len(known)):
        query = known[place : place + 1], relation[place : place + 1]
        expected = scorer.score_all(*query, pool[place // -(-len(known) // groups)], side)
        torch.testing.assert_close(found[place : place + 1, 1:], expected)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("groups", [2, 4])
def test_gradients_of_facts_against_candidates_are_right(
    scorer: Scorer, side: Side, groups: int
) -> None:
    inputs = with_gradient(*against_inputs(scorer, groups))
    assert torch.autograd.gradcheck(
        lambda *parts: scorer.against(*parts, side), inputs, fast_mode=True
    )


def against_inputs(scorer: Scorer, groups: int) -> list[Tensor]:
    """Return known, relation and missing of facts, and 4 candidates for each run of them.

    There are 6 facts, or 7 where the last run is to be shorter than the others.
    """
    entities, relations = tables(scorer)
    pool = entities[20 : 20 + 4 * groups].view(groups, 4, -1)
    count = 6 if 6 % groups == 0 else 7
    by = torch.arange(count) % 3
    return [entities[:count], relations[by], entities[7 : 7 + count], pool]


def test_gradients_of_score_are_right(scorer: Scorer) -> None:
    entities, relations = tables(scorer)
    inputs = with_gradient(entities[:3], relations[:3], entities[3:6])
    assert torch.autograd.gradcheck(scorer.score, inputs)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("gradients", [False, True])
def test_float32_is_close_to_float64(scorer: Scorer, side: Side, gradients: bool) -> None:
    exact, found = (
        score_all(scorer, queries(*tables(scorer, dtype)), side, gradients)
        for dtype in (torch.float64, torch.float32)
    )
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)


def test_float32_is_close_to_float64_for_single_facts(scorer: Scorer) -> None:
    def scores(dtype: torch.dtype) -> Tensor:
        known, relation, entities = queries(*tables(scorer, dtype))
        return scorer.score(known, relation, entities[-NUM_QUERIES:]).detach()

    exact, found = scores(torch.float64), scores(torch.float32)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", DISTANCES)
def test_distances_far_from_the_origin_keep_their_digits(name: str, gradients: bool) -> None:
    scorer = DISTANCES[name].make()
    entities, relations = tables(scorer, torch.float32)
    # Whole and half numbers: exact in float32, so that only the distance itself can lose digits.
    entities = (2 * entities).round() / 2 + 1000
    inputs = queries(entities, torch.zeros_like(relations))
    exact = score_all(scorer, [part.double() for part in inputs], "tail", gradients=False)
    found = score_all(scorer, inputs, "tail", gradients)
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)


def test_facts_tie_where_every_unit_is_off() -> None:
    mlp = make_mlp()
    with torch.no_grad():
        mlp.bias.fill_(-100.0)
    found = score_all(mlp, queries(*tables(mlp, torch.float32)), "tail", gradients=False)
    assert torch.equal(found, mlp.shift.detach().expand_as(found))


@pytest.mark.parametrize(
    "make", [lambda: TransE(p=3), lambda: RotatE(norm="L2")], ids=["TransE", "RotatE"]
)
def test_an_unknown_norm_is_refused(make: Callable[[], Scorer]) -> None:
    with pytest.raises((NpugraphError, ValueError)):
        make()


def test_factors_are_finite_moduli(scorer: Scorer) -> None:
    entities, _ = tables(scorer)
    entities = torch.cat([entities, torch.zeros_like(entities[:1])]).requires_grad_()
    factors = scorer.factors(entities)
    assert (factors >= 0).all()
    (factors**3).sum().backward()
    assert entities.grad is not None
    assert entities.grad.isfinite().all()
    assert entities.grad[-1].abs().max() == 0


def test_the_factors_of_complex_numbers_are_their_moduli() -> None:
    numbers = [3 + 4j, -5 + 0j, 0 - 2j]
    halves = torch.tensor([[z.real for z in numbers] + [z.imag for z in numbers]])
    assert ComplEx().factors(halves)[0].tolist() == pytest.approx([abs(z) for z in numbers])


# --- two heads

HEADS: dict[str, Callable[[], TwoHeads]] = {
    "mlp": lambda: MLPHeads(DIMENSION, 7, rng=torch.Generator().manual_seed(9)),
    "distmult": lambda: BilinearHeads(DistMult()),
    "complex": lambda: BilinearHeads(ComplEx()),
}


@pytest.mark.parametrize("name", HEADS)
def test_both_heads_score_a_batch_as_they_score_all_entities(name: str) -> None:
    heads = HEADS[name]().double()
    with torch.no_grad():
        # Unlike for the two heads, so that a mix-up shows.
        for place, parameter in enumerate(heads.parameters()):
            parameter += 0.1 * (1 + place) + torch.arange(parameter.numel()).view_as(parameter) / 9
    rng = torch.Generator().manual_seed(5)

    def table(size: int, width: int) -> Tensor:
        return torch.randn(size, width, generator=rng, dtype=torch.float64)

    entities = table(NUM_ENTITIES, heads.entity_width(DIMENSION))
    relations = table(NUM_RELATIONS, heads.relation_width(DIMENSION))
    tails, others = (torch.randint(NUM_ENTITIES, (len(FACTS), k), generator=rng) for k in (4, 4))
    found = heads.scores(entities, relations, FACTS, tails, others)
    head, relation, tail = FACTS.unbind(1)
    for scores, number in zip(found, (1, 0), strict=True):
        with torch.no_grad():
            by_tail, by_head = (
                heads.score_all(entities[known], relations[relation], entities, side, number)
                for known, side in ((head, "tail"), (tail, "head"))
            )
        expected = torch.cat(
            [by_tail.gather(1, tail[:, None]), by_tail.gather(1, tails), by_head.gather(1, others)],
            dim=1,
        )
        torch.testing.assert_close(scores.detach(), expected, rtol=1e-10, atol=1e-10)
    assert not torch.allclose(*found)


@pytest.mark.parametrize("scale", [0.0, 1e-13, 1e-5, 1.0, 1e6])
def test_unit_length_is_that_of_torch(scale: float) -> None:
    vectors = torch.randn(4, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    grad = torch.randn(4, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours, theirs = with_gradient(vectors * scale, vectors * scale)
    found, expected = unit_length(ours), torch.nn.functional.normalize(theirs, dim=-1)
    found.backward(grad)
    expected.backward(grad)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)
