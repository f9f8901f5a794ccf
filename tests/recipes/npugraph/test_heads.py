"""The two heads: a batch is scored as its facts are, one by one; tiles change nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from npu_literal import generator
from npugraph.graph import SIDES, Side
from npugraph.kernels import gathered_perceptron, perceptron_scores, reference, tiles
from npugraph.recipes.npugraph.heads import BilinearHeads, MLPHeads, TwoHeads
from npugraph.scorers import ComplEx, DistMult, Scorer

DIMENSION, HIDDEN, NUM_ENTITIES, NUM_RELATIONS = 4, 5, 9, 3
# Entities and relations repeat, and fact 3 is a loop.
FACTS = torch.tensor([(0, 0, 1), (2, 1, 0), (0, 2, 8), (3, 1, 3), (2, 1, 0)])
TAILS = torch.tensor([(1, 1, 7), (3, 4, 5), (8, 0, 2), (3, 6, 6), (4, 4, 4)])
# As many heads as tails is usual, not needed.
HEADS = torch.tensor([(4, 0), (2, 2), (1, 8), (5, 3), (7, 6)])
NONE = FACTS[:, :0]
Score = Callable[[Tensor, Tensor, Tensor], Tensor]


def mlp_heads(dropout: float = 0.0) -> MLPHeads:
    return MLPHeads(DIMENSION, HIDDEN, dropout=dropout, rng=generator(1))


KINDS: dict[str, Callable[[], TwoHeads]] = {
    "mlp": mlp_heads,
    "distmult": lambda: BilinearHeads(DistMult()),
    "complex": lambda: BilinearHeads(ComplEx()),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind: str) -> tuple[TwoHeads, Tensor, Tensor]:
    """Return heads whose shifts differ from 0 and each other, and entities and relations."""
    heads, rng = KINDS[kind]().double(), generator(2)
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter += torch.randn(parameter.shape, generator=rng)
    entities = torch.randn(NUM_ENTITIES, heads.entity_width(DIMENSION), generator=rng).double()
    relations = torch.randn(NUM_RELATIONS, heads.relation_width(DIMENSION), generator=rng).double()
    return heads, entities, relations


def single(heads: TwoHeads, number: int) -> Score:
    """Return the score of one fact by one head, from representations [width]."""
    if isinstance(heads, MLPHeads):
        return (heads.psi0, heads.psi1)[number].score
    assert isinstance(heads, BilinearHeads)
    scorer: Scorer = heads.scorer

    def score(head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """The first half of a relation is psi1's, the second psi0's; so are the shifts."""
        half = len(relation) // 2
        part = relation[:half] if number == 1 else relation[half:]
        return scorer.score(head, part, tail) + heads.shift[1 - number]

    return score


@every_kind
@pytest.mark.parametrize("tile", [1, 37, 2**18])
def test_a_batch_is_scored_fact_by_fact(
    kind: str, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "TILE_HIDDEN", tile)
    heads, entities, relations = make(kind)
    found = heads.scores(entities, relations, FACTS, TAILS, HEADS)
    for scores, number in zip(found, (1, 0), strict=True):
        score = single(heads, number)
        expected = []
        for (head, relation, tail), tails, others in zip(
            FACTS.tolist(), TAILS.tolist(), HEADS.tolist(), strict=True
        ):
            facts = [
                (head, tail),
                *((head, end) for end in tails),
                *((end, tail) for end in others),
            ]
            expected.append(
                [score(entities[h], relations[relation], entities[t]).item() for h, t in facts]
            )
        wanted = torch.tensor(expected, dtype=torch.float64)
        torch.testing.assert_close(scores.detach(), wanted, rtol=1e-10, atol=1e-12)
    assert not torch.allclose(*found)


@every_kind
@pytest.mark.parametrize(("tails", "heads_"), [(NONE, NONE), (TAILS, NONE), (NONE, HEADS)])
def test_a_side_without_corruptions_leaves_the_others_as_they_are(
    kind: str, tails: Tensor, heads_: Tensor
) -> None:
    heads, entities, relations = make(kind)
    whole = heads.scores(entities, relations, FACTS, TAILS, HEADS)
    part = heads.scores(entities, relations, FACTS, tails, heads_)
    columns = [0]
    columns += range(1, 4) if tails is TAILS else []
    columns += range(4, 6) if heads_ is HEADS else []
    for scores, expected in zip(part, whole, strict=True):
        torch.testing.assert_close(scores, expected[:, columns], rtol=1e-12, atol=1e-12)


@every_kind
def test_no_facts_are_fine(kind: str) -> None:
    heads, entities, relations = make(kind)
    for scores in heads.scores(entities, relations, FACTS[:0], TAILS[:0], HEADS[:0]):
        assert scores.shape == (0, 6)


@every_kind
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("number", [1, 0])
@pytest.mark.parametrize("gradients", [False, True])
def test_score_all_equals_the_loop(kind: str, side: Side, number: int, gradients: bool) -> None:
    heads, entities, relations = make(kind)
    known, relation = FACTS[:, 0], FACTS[:, 1]
    with torch.set_grad_enabled(gradients):
        found = heads.score_all(entities[known], relations[relation], entities, side, number)
    score = single(heads, number)
    for row, (one, r) in enumerate(zip(known.tolist(), relation.tolist(), strict=True)):
        for other in range(NUM_ENTITIES):
            head, tail = (one, other) if side == "tail" else (other, one)
            expected = score(entities[head], relations[r], entities[tail]).item()
            assert found[row, other].item() == pytest.approx(expected, rel=1e-10, abs=1e-12)


@every_kind
@pytest.mark.parametrize("tile", [1, 2**18])
def test_gradients_of_a_batch_reach_tables_and_parameters(
    kind: str, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "TILE_HIDDEN", tile)
    heads, entities, relations = make(kind)
    names = [name for name, _ in heads.named_parameters()]
    values = [parameter.detach().clone() for parameter in heads.parameters()]

    def outputs(entities: Tensor, relations: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        bound = _Scores(heads)
        parameters = {f"heads.{name}": v for name, v in zip(names, values, strict=True)}
        facts = (entities, relations, FACTS[:2], TAILS[:2], HEADS[:2])
        return torch.func.functional_call(bound, parameters, facts)

    inputs = [tensor.requires_grad_() for tensor in (entities, relations, *values)]
    assert torch.autograd.gradcheck(outputs, inputs)


class _Scores(torch.nn.Module):
    """Makes ``scores`` the forward function, for functional_call."""

    def __init__(self, heads: TwoHeads) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        return self.heads.scores(*inputs)


def perceptron_inputs(rows: int = 4, count: int = 3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return base, table, ids (with repeats) and weight."""
    rng = generator(3)
    base, weight = torch.randn(2, rows, HIDDEN, generator=rng, dtype=torch.float64)
    table = torch.randn(NUM_ENTITIES, HIDDEN, generator=rng, dtype=torch.float64)
    ids = torch.randint(NUM_ENTITIES, (rows, count), generator=rng)
    ids[0] = ids[0, 0]
    return base, table, ids, weight


# One row a tile, two rows a tile with one left over, everything at once.
TILES = [1, 2 * (3 * HIDDEN + 1), 2**18]


@pytest.mark.parametrize("tile", TILES)
def test_the_gathered_perceptron_is_its_formula(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "TILE_HIDDEN", tile)
    base, table, ids, weight = perceptron_inputs(rows=5)
    found = gathered_perceptron(base, table, ids, weight)
    for i, row in enumerate(ids.tolist()):
        for k, entity in enumerate(row):
            terms = zip(base[i].tolist(), table[entity].tolist(), weight[i].tolist(), strict=True)
            expected = sum(w * max(0.0, b + t) for b, t, w in terms)
            assert found[i, k].item() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("tile", TILES)
def test_gradients_of_the_gathered_perceptron(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "TILE_HIDDEN", tile)
    base, table, ids, weight = perceptron_inputs(rows=5)

    def outputs(base: Tensor, table: Tensor, weight: Tensor) -> Tensor:
        return gathered_perceptron(base, table, ids, weight)

    assert torch.autograd.gradcheck(outputs, [x.requires_grad_() for x in (base, table, weight)])


@pytest.mark.parametrize("wanted", [0, 1, 3])
def test_one_input_alone_can_want_a_gradient(wanted: int) -> None:
    inputs = list(perceptron_inputs())
    inputs[wanted].requires_grad_()
    base, table, ids, weight = inputs
    plain = (torch.relu(base.unsqueeze(1) + table[ids]) * weight.unsqueeze(1)).sum(-1)
    # A gradient that is no contiguous tensor of its own: expanded, as a sum makes it.
    found, expected = (
        torch.autograd.grad(scores.sum(), inputs[wanted])[0]
        for scores in (gathered_perceptron(*inputs), plain)
    )
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_unit_at_its_kink_has_no_slope() -> None:
    base = torch.zeros(1, HIDDEN, dtype=torch.float64, requires_grad=True)
    table = torch.zeros(1, HIDDEN, dtype=torch.float64, requires_grad=True)
    ids, weight = torch.zeros(1, 2, dtype=torch.int64), torch.ones(1, HIDDEN).double()
    gathered_perceptron(base, table, ids, weight).sum().backward()
    assert not base.grad.any()
    assert not table.grad.any()


@pytest.mark.parametrize("sizes", [(1, 1), (2, 4), (64, 4096)])
@pytest.mark.parametrize("gradients", [False, True])
def test_perceptron_scores_are_their_formula(
    sizes: tuple[int, int], gradients: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "TILE_QUERIES", sizes[0])
    monkeypatch.setattr(tiles, "TILE_ENTITIES", sizes[1])
    query, table, _, weight = perceptron_inputs(rows=5)
    found = perceptron_scores(query.requires_grad_(gradients), table, weight[0])
    for q in range(len(query)):
        for e in range(len(table)):
            terms = zip(query[q].tolist(), table[e].tolist(), weight[0].tolist(), strict=True)
            expected = sum(w * max(0.0, a + b) for a, b, w in terms)
            assert found[q, e].item() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert found.requires_grad is gradients


def test_perceptron_scores_have_a_gradient_for_the_weight_alone() -> None:
    query, table, _, weight = perceptron_inputs()
    assert perceptron_scores(query, table, weight[0].requires_grad_()).requires_grad


def test_hidden_dropout_is_one_mask_a_fact_and_for_training_alone() -> None:
    heads = mlp_heads(dropout=0.5).double()
    rng = generator(4)
    entities = torch.randn(NUM_ENTITIES, DIMENSION, generator=rng).double()
    relations = torch.randn(NUM_RELATIONS, DIMENSION, generator=rng).double()
    # Every "corruption" is the fact itself, and every fact is the same one.
    facts = FACTS[:1].expand(40, 3)
    inputs = (entities, relations, facts, facts[:, 2:].expand(40, 3), facts[:, :1].expand(40, 2))
    torch.manual_seed(0)
    for scores in heads.train().scores(*inputs):
        torch.testing.assert_close(scores, scores[:, :1].expand(40, 6), rtol=0, atol=1e-12)
        assert len(scores[:, 0].unique()) > 1
    plain = mlp_heads().double().scores(*inputs)
    for scores, expected in zip(heads.eval().scores(*inputs), plain, strict=True):
        torch.testing.assert_close(scores, expected, rtol=0, atol=1e-12)


def test_a_batch_is_scored_under_autocast_as_well() -> None:
    heads, entities, relations = make("mlp")
    heads, entities, relations = heads.float(), entities.float(), relations.float()
    expected = heads.scores(entities, relations, FACTS, TAILS, HEADS)
    with torch.autocast("cpu", torch.bfloat16):
        found = heads.scores(entities, relations, FACTS, TAILS, HEADS)
    for scores, close in zip(found, expected, strict=True):
        torch.testing.assert_close(scores.float(), close, rtol=0.1, atol=0.3)
    sum(scores.sum() for scores in found).backward()
    assert all(parameter.grad.isfinite().all() for parameter in heads.parameters())
