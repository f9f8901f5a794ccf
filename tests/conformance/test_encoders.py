"""What every encoder promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from npugraph import encoders
from npugraph.encoders import RGCN, CompGCN, Encoder, Lookup, NeighbourAttention

NUM_ENTITIES, NUM_RELATIONS, WIDTH = 8, 2, 4
# Row 3 repeats row 0, 2 leads to itself, 1 and 2 are joined by both relations, 7 is in no fact.
FACTS = torch.tensor(
    [[0, 0, 1], [1, 1, 2], [2, 0, 2], [0, 0, 1], [3, 1, 0], [4, 0, 5], [1, 0, 2], [5, 1, 6]]
)
Make = Callable[[Tensor, int], Encoder]


def tables(rng: torch.Generator) -> Lookup:
    return Lookup.normal((NUM_ENTITIES, WIDTH), (2 * NUM_RELATIONS, WIDTH), 1.0, rng)


def lookup(facts: Tensor, seed: int) -> Encoder:
    return tables(torch.Generator().manual_seed(seed))


def attention(layers: int, cap: int) -> Make:
    def make(facts: Tensor, seed: int) -> Encoder:
        rng = torch.Generator().manual_seed(seed)
        return NeighbourAttention(
            facts, tables(rng), NUM_RELATIONS, layers=layers, cap=cap, dropout=0.5, rng=rng
        )

    return make


def rgcn(layers: int) -> Make:
    def make(facts: Tensor, seed: int) -> Encoder:
        rng = torch.Generator().manual_seed(seed)
        return RGCN(facts, tables(rng), NUM_RELATIONS, layers=layers, bases=2, rng=rng)

    return make


def compgcn(composition: encoders.compgcn.Composition, bias: bool = False) -> Make:
    def make(facts: Tensor, seed: int) -> Encoder:
        rng = torch.Generator().manual_seed(seed)
        options = {"width": 5, "layers": 2, "composition": composition, "entity_bias": bias}
        return CompGCN(facts, tables(rng), NUM_RELATIONS, **options, rng=rng)

    return make


CASES: dict[str, Make] = {
    "lookup": lookup,
    "attention": attention(layers=2, cap=99),
    "attention to some": attention(layers=1, cap=2),
    "rgcn": rgcn(2),
    "rgcn, one layer": rgcn(1),
    "compgcn, sub": compgcn("sub"),
    "compgcn, mult": compgcn("mult", bias=True),
    "compgcn, corr": compgcn("corr"),
}
every_case = pytest.mark.parametrize("name", CASES)
# Of those that attend to some neighbours only, a missing fact makes room for another.
every_evidence = pytest.mark.parametrize("name", [n for n in CASES if n != "attention to some"])


def double(name: str, facts: Tensor = FACTS, seed: int = 0) -> Encoder:
    return CASES[name](facts, seed).double().eval()


def with_weights_of(other: Encoder, encoder: Encoder) -> Encoder:
    """Return an encoder over other facts with the same weights; buffers stay its own."""
    with torch.no_grad():
        for mine, theirs in zip(encoder.parameters(), other.parameters(), strict=True):
            mine.copy_(theirs)
    return encoder


def assert_close(left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> None:
    for one, other in zip(left, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_every_encoder_is_under_test() -> None:
    defined = {
        kind
        for kind in vars(encoders).values()
        if isinstance(kind, type) and issubclass(kind, Encoder) and kind is not Encoder
    }
    assert defined == {type(make(FACTS, 0)) for make in CASES.values()}


@every_case
def test_every_entity_and_relation_is_represented(name: str) -> None:
    entities, relations = CASES[name](FACTS, 0).eval()()
    assert entities.shape[0] == NUM_ENTITIES
    assert relations.shape[0] in (NUM_RELATIONS, 2 * NUM_RELATIONS)
    assert entities.isfinite().all()
    assert relations.isfinite().all()


@every_evidence
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("hidden", [[0], [3], [1, 6], [2], [7, 7], list(range(len(FACTS)))])
def test_a_hidden_fact_is_as_good_as_a_missing_one(
    name: str, hidden: list[int], training: bool
) -> None:
    """A row that repeats a hidden fact is no evidence either."""
    whole = double(name)
    gone = {tuple(FACTS[row].tolist()) for row in hidden}
    left = [fact for fact in FACTS.tolist() if tuple(fact) not in gone]
    less = double(name, torch.tensor(left, dtype=torch.int64).view(-1, 3))
    less = with_weights_of(whole, less)
    for encoder in (whole, less):
        if training:
            without_dropout(encoder)
    assert_close(whole(torch.tensor(hidden)), less())


def without_dropout(encoder: Encoder) -> None:
    """Switch to training, where norms look at the batch, but drop nothing."""
    encoder.train()
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0


@every_case
def test_hiding_nothing_is_the_whole_graph(name: str) -> None:
    encoder = double(name)
    assert_close(encoder(torch.empty(0, dtype=torch.int64)), encoder())


@every_evidence
def test_the_order_of_the_facts_does_not_matter(name: str) -> None:
    order = torch.randperm(len(FACTS), generator=torch.Generator().manual_seed(3))
    encoder = double(name)
    mixed = with_weights_of(encoder, double(name, FACTS[order]))
    assert_close(encoder(), mixed())
    rows = torch.tensor([1, 4])
    assert_close(encoder(order[rows]), mixed(rows))


@every_case
@pytest.mark.parametrize("hidden", [None, [0, 5], list(range(len(FACTS)))])
def test_gradients_are_right_and_reach_every_parameter(name: str, hidden: list[int] | None) -> None:
    encoder = double(name)
    names = [key for key, _ in encoder.named_parameters()]
    rows = None if hidden is None else torch.tensor(hidden)

    def forward(*values: Tensor) -> tuple[Tensor, Tensor]:
        state = dict(zip(names, values, strict=True))
        made: tuple[Tensor, Tensor] = torch.func.functional_call(encoder, state, (rows,))
        return made

    values = [p.detach().clone().requires_grad_() for p in encoder.parameters()]
    assert torch.autograd.gradcheck(forward, values, fast_mode=True)
    if hidden is not None:
        return
    rng = torch.Generator().manual_seed(1)
    made = forward(*values)
    # Not a plain sum: a norm would make it a constant.
    total = sum((x * torch.randn(x.shape, generator=rng, dtype=x.dtype)).sum() for x in made)
    for key, grad in zip(names, torch.autograd.grad(total, values), strict=True):
        assert grad.isfinite().all(), key
        assert grad.any(), key
        if key.endswith("entities"):
            assert grad.abs().sum(1).min() > 0


@every_case
def test_the_same_generator_gives_the_same_encoder(name: str) -> None:
    before = torch.get_rng_state()
    one, other = (CASES[name](FACTS, 5).eval() for _ in range(2))
    left, right, again = one(), other(), one()
    assert all(torch.equal(x, y) for x, y in zip(left, right, strict=True))
    assert all(torch.equal(x, y) for x, y in zip(left, again, strict=True))
    # Neither building nor evaluating draws from the global stream.
    assert torch.equal(torch.get_rng_state(), before)
    third = CASES[name](FACTS, 6).eval()()
    assert not torch.equal(left[0], third[0])


@every_case
def test_float64_works_and_float32_is_close(name: str) -> None:
    single = CASES[name](FACTS, 0).eval()
    rows = torch.tensor([1, 4])
    # Copies: a table that is returned as it is would change with the encoder.
    found = [part.detach().clone() for part in single(rows)]
    exact = single.double()(rows)
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == torch.float32
        assert other.dtype == torch.float64
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


@every_case
def test_its_state_can_be_restored(name: str) -> None:
    """Running statistics and chosen neighbours are state, too."""
    encoder, other = CASES[name](FACTS, 0), CASES[name](FACTS, 1)
    encoder.train()()
    if isinstance(encoder, NeighbourAttention):
        encoder.choose_neighbours(torch.arange(len(FACTS)).float())
    other.load_state_dict(encoder.state_dict())
    left, right = encoder.eval()(), other.eval()()
    assert all(torch.equal(x, y) for x, y in zip(left, right, strict=True))
    other.load_state_dict({k: v.clone() for k, v in CASES[name](FACTS, 1).state_dict().items()})
    assert not torch.equal(left[0], other()[0])


@every_case
def test_a_graph_without_facts_is_fine(name: str) -> None:
    entities, relations = double(name, FACTS[:0])()
    assert entities.isfinite().all()
    (entities.sum() + relations.sum()).backward()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_case
def test_it_moves_to_a_gpu(name: str) -> None:
    encoder = double(name)
    rows = torch.tensor([1, 4])
    expected = encoder(rows)
    found = encoder.to("cuda")(rows.cuda())
    assert_close(expected, (found[0].cpu(), found[1].cpu()))
