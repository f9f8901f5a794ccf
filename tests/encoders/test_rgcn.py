"""R-GCN against its formula by loops, what it must not see, and that it learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from npugraph.data.datasets import load
from npugraph.encoders import RGCN, Lookup, rgcn
from npugraph.encoders.sparse import DistinctFacts, Groups, PairedEdges
from npugraph.errors import SettingsError
from npugraph.fitting import fit
from npugraph.ranking.ranks import rank
from npugraph.recipes import RECIPES
from npugraph.recipes.rgcn import RGCN as RECIPE
from npugraph.recipes.rgcn import RGCNSettings

NUM_ENTITIES, NUM_RELATIONS, WIDTH = 7, 2, 4
# Entity 6 is in no fact; 0 has two neighbours by relation 0; (3, 1, 3) is a loop.
FACTS = [(1, 0, 0), (2, 0, 0), (0, 1, 3), (3, 1, 3), (4, 0, 3), (5, 1, 0), (4, 1, 0)]


def encoder(
    facts: list[tuple[int, int, int]] = FACTS, layers: int = 2, dropout: float = 0.0
) -> RGCN:
    rng = torch.Generator().manual_seed(3)
    tables = Lookup.normal((NUM_ENTITIES, WIDTH), (NUM_RELATIONS, WIDTH), 1.0, rng)
    rows = torch.tensor(facts, dtype=torch.int64).view(-1, 3)
    made = RGCN(rows, tables, NUM_RELATIONS, layers=layers, bases=3, dropout=dropout, rng=rng)
    for layer in made.layers:
        torch.nn.init.normal_(layer.bias, generator=rng)
    return made.double()


def literal(made: RGCN, facts: list[tuple[int, int, int]]) -> Tensor:
    """The formula, entity by entity and relation by relation, over a set of facts."""
    edges = {(h, r, t) for h, r, t in facts} | {(t, r + NUM_RELATIONS, h) for h, r, t in facts}
    vectors = made.tables.entities
    for place, layer in enumerate(made.layers):
        vectors = torch.relu(vectors) if place else vectors
        rows = []
        for entity in range(NUM_ENTITIES):
            out = vectors[entity] @ layer.own + layer.bias
            for relation in range(2 * NUM_RELATIONS):
                senders = [u for u, r, e in edges if (r, e) == (relation, entity)]
                coefficients = layer.coefficients[relation]
                matrix = sum(a * v for a, v in zip(coefficients, layer.bases, strict=True))
                for sender in senders:
                    out = out + vectors[sender] @ matrix / len(senders)
            rows.append(out)
        vectors = torch.stack(rows)
    return vectors


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_it_is_the_formula(layers: int) -> None:
    made = encoder(layers=layers)
    entities, relations = made()
    torch.testing.assert_close(entities, literal(made, FACTS), rtol=1e-10, atol=1e-12)
    assert relations is made.tables.relations


@pytest.mark.parametrize("hidden", [[0], [2, 3], [4, 4], list(range(len(FACTS)))])
def test_hidden_facts_are_as_good_as_missing_ones_in_both_directions(hidden: list[int]) -> None:
    made = encoder()
    left = [fact for place, fact in enumerate(FACTS) if place not in hidden]
    found = made(torch.tensor(hidden))[0]
    torch.testing.assert_close(found, literal(made, left), rtol=1e-10, atol=1e-12)
    assert (found - made()[0]).abs().max() > 1e-6


def test_nothing_hidden_is_the_whole_graph() -> None:
    made = encoder()
    assert torch.equal(made(torch.empty(0, dtype=torch.int64))[0], made()[0])


def test_repeated_rows_count_once_and_are_hidden_together() -> None:
    twice = [*FACTS, FACTS[1], FACTS[1]]
    torch.testing.assert_close(encoder(twice)()[0], encoder()()[0])
    hidden = encoder(twice)(torch.tensor([1]))[0]
    torch.testing.assert_close(hidden, encoder()(torch.tensor([1]))[0])


def test_a_graph_without_facts_is_fine() -> None:
    made = encoder([])
    entities = made()[0]
    torch.testing.assert_close(entities, literal(made, []), rtol=1e-10, atol=1e-12)
    entities.sum().backward()
    assert made.tables.entities.grad.isfinite().all()


@pytest.mark.parametrize("tile", [1, 4, 512])
@pytest.mark.parametrize("hidden", [None, [0, 4]])
def test_gradients(tile: int, hidden: list[int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rgcn, "CPU_TILE", tile)
    made = encoder()
    names = [name for name, _ in made.named_parameters()]
    rows = None if hidden is None else torch.tensor(hidden)

    def outputs(*values: Tensor) -> Tensor:
        parameters = dict(zip(names, values, strict=True))
        return torch.func.functional_call(made, parameters, (rows,))[0]

    values = [parameter.detach().clone().requires_grad_() for parameter in made.parameters()]
    assert torch.autograd.gradcheck(outputs, values, fast_mode=True)


def test_dropout_is_for_training_alone_and_between_layers() -> None:
    made = encoder(dropout=0.5).eval()
    torch.testing.assert_close(made()[0], literal(made, FACTS), rtol=1e-10, atol=1e-12)
    made.train()
    assert not torch.equal(made()[0], made()[0])
    single = encoder(layers=1, dropout=0.5).train()
    assert torch.equal(single()[0], single()[0])


class Shapes(TorchDispatchMode):
    """Remembers the shape of every tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[int, ...]] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        out = function(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, Tensor):
                self.seen.add(tuple(tensor.shape))
        return out


def test_no_tensor_has_a_row_an_edge() -> None:
    """Five entities receive by one relation: 205 pairs both ways where there are 400 edges."""
    facts = [(10 + i, 0, i % 5) for i in range(200)]
    rng = torch.Generator().manual_seed(0)
    tables = Lookup.normal((210, WIDTH), (1, WIDTH), 1.0, rng)
    made = RGCN(torch.tensor(facts), tables, 1, layers=2, bases=2, rng=rng)
    pairs = made.edges.num_pairs
    assert pairs == 205
    with Shapes() as shapes:
        made(torch.arange(3))[0].sum().backward()
    wide = {shape for shape in shapes.seen if len(shape) > 1 and shape[0] > max(pairs, 210)}
    assert not wide
    assert (pairs, WIDTH) in shapes.seen


@pytest.mark.parametrize("options", [{"layers": 0}, {"bases": 0}])
def test_a_convolution_of_nothing_is_refused(options: dict[str, int]) -> None:
    tables = Lookup(torch.ones(2, 3), torch.ones(1, 3))
    with pytest.raises(SettingsError, match="must be 1 or more"):
        RGCN(torch.tensor([[0, 0, 1]]), tables, 1, rng=torch.Generator(), **options)


# --- the sparse sums below it


@given(st.lists(st.integers(0, 4), max_size=12))
def test_groups_add_up_what_they_take(index: list[int]) -> None:
    groups = Groups(torch.tensor(index, dtype=torch.int64), 5)
    rows = torch.arange(2 * len(index), dtype=torch.float64).view(-1, 2).requires_grad_()
    expected = torch.zeros(5, 2, dtype=torch.float64)
    for group, row in zip(index, rows.detach(), strict=True):
        expected[group] += row
    assert torch.equal(groups.add_up(rows), expected)
    table = torch.arange(10, dtype=torch.float64).view(5, 2).requires_grad_()
    assert torch.equal(groups.take(table), table[groups.index])
    # Each is the transpose of the other: <take(x), y> = <x, add_up(y)>.
    left, right = (groups.take(table) * rows).sum(), (table * groups.add_up(rows)).sum()
    assert left.item() == pytest.approx(right.item())
    for value in (left, right):
        found = torch.autograd.grad(value, (table, rows))
        assert torch.equal(found[0], expected)
        assert torch.equal(found[1], table.detach()[groups.index])


facts_strategy = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4)))


@given(facts_strategy)
def test_pairs_gather_what_their_edges_bring(facts: list[tuple[int, int, int]]) -> None:
    rows = torch.tensor(facts, dtype=torch.int64).view(-1, 3)
    edges = PairedEdges(rows, torch.arange(len(rows)), 5, 3)
    vectors = torch.arange(10, dtype=torch.float64).view(5, 2) + 1
    weight = torch.arange(len(rows), dtype=torch.float64) + 0.5
    found = edges.gather(vectors, weight[edges.edge_fact])
    pairs = sorted({(e, r) for _, r, e in facts})
    assert found.shape == (len(pairs), 2)
    assert list(zip(edges.entity.index.tolist(), edges.relation.index.tolist(), strict=True)) == (
        pairs
    )
    for row, (entity, relation) in zip(found, pairs, strict=True):
        mine = [i for i, (_, r, e) in enumerate(facts) if (e, r) == (entity, relation)]
        expected = sum((i + 0.5) * vectors[facts[i][0]] for i in mine)
        torch.testing.assert_close(row, expected)


def test_distinct_facts_know_their_rows() -> None:
    rows = DistinctFacts(torch.tensor([[2, 0, 1], [0, 0, 1], [2, 0, 1]]))
    assert rows.facts.tolist() == [[0, 0, 1], [2, 0, 1]]
    assert rows.visible(torch.tensor([0]), torch.float32).tolist() == [1.0, 0.0]
    assert rows.visible(None, torch.float64).tolist() == [1.0, 1.0]


# --- the recipe


def test_it_learns_umls(data_root: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "rgcn", RECIPE)
    splits = load("umls").split()
    settings = RGCNSettings(d=40, epochs=4, batch_size=512, validate_every=4, device="cpu")
    fitted = fit(splits, "rgcn", settings)
    sizes = splits.num_entities, splits.num_relations
    known = {"all": splits.all_facts()}
    ranks = rank(fitted.system.score_all, splits.test.facts, *sizes, known)
    assert ranks.metrics("all")["mrr"] > 0.4
    probability = fitted.system.probability(splits.test.facts, torch.ones(1))
    assert probability is not None
    assert probability.median() > 0.5
