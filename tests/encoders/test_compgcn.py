"""CompGCN against its formula by loops, what it must not see, and that it learns."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy

from npugraph.data.datasets import bundled, load
from npugraph.encoders import CompGCN, Lookup
from npugraph.encoders.compgcn import Composition
from npugraph.errors import SettingsError
from npugraph.fitting import fit
from npugraph.fitting import load as load_run
from npugraph.graph import KnowledgeGraph
from npugraph.ranking.ranks import rank
from npugraph.recipes import RECIPES
from npugraph.recipes.compgcn import COMPGCN, CompGCNSettings
from npugraph.training.batch_loss import QueryTraining

NUM_ENTITIES, NUM_RELATIONS, FIRST, WIDTH = 7, 2, 5, 6
# Entity 6 is in no fact; 0 has two neighbours by relation 0; 5 only sends; (3, 1, 3) is a loop.
FACTS = [(1, 0, 0), (2, 0, 0), (0, 1, 3), (3, 1, 3), (4, 0, 3), (5, 1, 0), (4, 1, 0)]
COMPOSITIONS: list[Composition] = ["sub", "mult", "corr"]
Facts = list[tuple[int, int, int]]


def encoder(
    composition: Composition,
    facts: Facts = FACTS,
    layers: int = 1,
    bias: bool = False,
    dropout: float = 0.0,
    hidden_dropout: float = 0.0,
) -> CompGCN:
    rng = torch.Generator().manual_seed(3)
    tables = Lookup.normal((NUM_ENTITIES, FIRST), (2 * NUM_RELATIONS, FIRST), 1.0, rng)
    made = CompGCN(
        torch.tensor(facts, dtype=torch.int64).view(-1, 3),
        tables,
        NUM_RELATIONS,
        width=WIDTH,
        layers=layers,
        composition=composition,
        dropout=dropout,
        hidden_dropout=hidden_dropout,
        entity_bias=bias,
        rng=rng,
    )
    for layer in made.layers:
        norm = layer.norm
        for numbers in (norm.running_mean, norm.running_var, norm.weight.data, norm.bias.data):
            numbers.copy_(torch.rand(numbers.shape, generator=rng) + 0.5)
    return made.double().eval()


def phi(composition: Composition, x: Tensor, z: Tensor) -> Tensor:
    if composition == "sub":
        return x - z
    if composition == "mult":
        return x * z
    d = len(x)
    return torch.stack([sum(x[i] * z[(i + k) % d] for i in range(d)) for k in range(d)])


def literal(made: CompGCN, composition: Composition, facts: Facts) -> tuple[Tensor, Tensor]:
    """The formula, message by message, over a set of facts."""
    there = sorted(set(facts))
    back = [(t, r + NUM_RELATIONS, h) for h, r, t in there]
    x, z = made.tables.entities, made.tables.relations
    for layer in made.layers:
        rows = []
        for entity in range(NUM_ENTITIES):
            total = phi(composition, x[entity], layer.loop_relation[0]) @ layer.loop
            for edges, matrix in zip((there, back), layer.direction, strict=True):
                received = sum(e == entity for _, _, e in edges)
                for sender, relation, _ in [edge for edge in edges if edge[2] == entity]:
                    sent = sum(u == sender for u, _, _ in edges)
                    message = phi(composition, x[sender], z[relation]) @ matrix
                    total = total + message / (received * sent) ** 0.5
            rows.append(total / 3)
        x = torch.stack(rows)
        norm = layer.norm
        mean, variance = norm.running_mean, norm.running_var
        if made.training:
            mean, variance = x.mean(0), x.var(0, correction=0)
        x = torch.tanh((x - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias)
        z = z @ layer.relation
    return x, z


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("training", [False, True])
def test_it_is_the_formula(composition: Composition, layers: int, training: bool) -> None:
    made = encoder(composition, layers=layers).train(training)
    entities, relations = made()
    expected = literal(made, composition, FACTS)
    assert entities.shape == (NUM_ENTITIES, WIDTH)
    assert relations.shape == (2 * NUM_RELATIONS, WIDTH)
    torch.testing.assert_close(entities, expected[0], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(relations, expected[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("hidden", [[0], [2, 3], [4, 4], list(range(len(FACTS)))])
def test_hidden_facts_are_as_good_as_missing_ones(
    composition: Composition, hidden: list[int]
) -> None:
    made = encoder(composition)
    left = [fact for place, fact in enumerate(FACTS) if place not in hidden]
    found = made(torch.tensor(hidden))[0]
    expected = literal(made, composition, left)[0]
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    assert (found - made()[0]).abs().max() > 1e-6


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_a_graph_without_facts_and_repeated_rows_are_fine(composition: Composition) -> None:
    made = encoder(composition, [])
    torch.testing.assert_close(made()[0], literal(made, composition, [])[0])
    twice = encoder(composition, [*FACTS, FACTS[0]])
    torch.testing.assert_close(twice()[0], encoder(composition)()[0])
    hidden = torch.tensor([0])
    torch.testing.assert_close(twice(hidden)[0], encoder(composition)(hidden)[0])


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("width", [1, 4, 5])
def test_even_and_odd_widths(composition: Composition, width: int) -> None:
    rng = torch.Generator().manual_seed(5)
    tables = Lookup.normal((NUM_ENTITIES, width), (2 * NUM_RELATIONS, width), 1.0, rng)
    facts = torch.tensor(FACTS)
    made = CompGCN(facts, tables, NUM_RELATIONS, width=3, composition=composition, rng=rng)
    made = made.double().eval()
    torch.testing.assert_close(made()[0], literal(made, composition, FACTS)[0])


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("hidden", [None, [0, 4]])
def test_gradients(composition: Composition, hidden: list[int] | None) -> None:
    made = encoder(composition, layers=2, bias=True)
    names = [name for name, _ in made.named_parameters()]
    rows = None if hidden is None else torch.tensor(hidden)

    def outputs(*values: Tensor) -> tuple[Tensor, Tensor]:
        parameters = dict(zip(names, values, strict=True))
        return torch.func.functional_call(made, parameters, (rows,))

    values = [parameter.detach().clone().requires_grad_() for parameter in made.parameters()]
    assert torch.autograd.gradcheck(outputs, values, fast_mode=True)


def test_the_bias_of_an_entity_is_its_last_number() -> None:
    made = encoder("corr", bias=True)
    assert made.bias is not None
    torch.nn.init.normal_(made.bias)
    entities = made()[0]
    assert entities.shape == (NUM_ENTITIES, WIDTH + 1)
    assert torch.equal(entities[:, -1:], made.bias)
    torch.testing.assert_close(entities[:, :-1], encoder("corr")()[0])


@pytest.mark.parametrize("where", ["dropout", "hidden_dropout"])
def test_dropout_is_for_training_alone(where: str) -> None:
    made = encoder("mult", **{where: 0.5})
    torch.testing.assert_close(made()[0], literal(made, "mult", FACTS)[0])
    made.train()
    first, second = made()[0], made()[0]
    assert not torch.equal(first, second)
    assert (first == 0).any().item() is (where == "hidden_dropout")


def test_unknown_compositions_and_no_layers_are_refused() -> None:
    with pytest.raises(SettingsError, match="must be one of sub, mult, corr"):
        encoder("conv")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="layers=0"):
        encoder("sub", layers=0)


# --- the recipe

CONVE = {"width": 40, "height": 5, "filters": 8, "kernel": 3, "epochs": 25}
LEARNS = {
    "conve": CompGCNSettings(**CONVE, batch_size=128, learning_rate=0.01),
    "transe": CompGCNSettings(decoder="transe", gamma=9.0, width=60, epochs=12, learning_rate=0.01),
    "distmult": CompGCNSettings(
        decoder="distmult", composition="mult", width=60, epochs=15, learning_rate=0.01
    ),
}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "compgcn", COMPGCN)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("decoder", LEARNS)
def test_it_learns_umls(decoder: str, data_root: Path) -> None:
    splits = load("umls").split()
    settings = dataclasses.replace(LEARNS[decoder], d=30, validate_every=50, device="cpu")
    fitted = fit(splits, "compgcn", settings)
    sizes = splits.num_entities, splits.num_relations
    known = {"all": splits.all_facts()}
    ranks = rank(fitted.system.score_all, splits.test.facts, *sizes, known)
    assert ranks.metrics("all")["mrr"] > (0.6 if decoder != "distmult" else 0.5)


class StopError(Exception):
    pass


@pytest.mark.usefixtures("registered")
def test_a_stopped_and_resumed_run_equals_an_unbroken_one(tmp_path: Path) -> None:
    """Running statistics are state, too; the last batch of an epoch may be a single query."""
    options = {**CONVE, "epochs": 4, "d": 10, "validate_every": 2, "device": "cpu"}
    queries = COMPGCN.build(CompGCNSettings(**options), bundled().split().train).num_items()
    settings = CompGCNSettings(**options, batch_size=queries - 1)

    def stop(record: dict[str, object]) -> None:
        if record["epoch"] == 3:
            raise StopError

    whole = fit(bundled(), "compgcn", settings, tmp_path / "whole")
    with pytest.raises(StopError):
        fit(bundled(), "compgcn", settings, tmp_path / "cut", report=stop)
    resumed = fit(bundled(), "compgcn", settings, tmp_path / "cut", resume=True)
    again = load_run(tmp_path / "whole", device="cpu")
    expected = whole.system.state_dict()
    for system in (resumed.system, again.system):
        for name, tensor in system.state_dict().items():
            assert torch.equal(tensor, expected[name]), name


def test_the_labels_of_a_batch_are_the_answers_of_its_queries(toy_graph: KnowledgeGraph) -> None:
    training = COMPGCN.build(CompGCNSettings(d=8, width=8, decoder="distmult"), toy_graph)
    assert isinstance(training, QueryTraining)
    known = {(h, r, t) for h, r, t in toy_graph.facts.tolist()}
    known |= {(t, r + toy_graph.num_relations, h) for h, r, t in toy_graph.facts.tolist()}
    rng = torch.Generator().manual_seed(0)
    for size in (1, 7, training.num_items()):
        rows = torch.randperm(training.num_items(), generator=rng)[:size]
        found = training.labels(rows)
        for (head, relation), row in zip(training.queries[rows].tolist(), found, strict=True):
            wanted = {t for h, r, t in known if (h, r) == (head, relation)}
            assert set(row.nonzero().squeeze(1).tolist()) == wanted
            assert set(row.unique().tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_training_starts_from_the_level_of_the_labels(
    smoothing: float, toy_graph: KnowledgeGraph
) -> None:
    settings = CompGCNSettings(
        d=8, width=16, height=4, kernel=3, filters=4, smoothing=smoothing, dropout=0.0
    )
    training = COMPGCN.build(settings, toy_graph)
    assert isinstance(training, QueryTraining)
    labels = training.labels(torch.arange(training.num_items()))
    wanted = (1 - smoothing) * labels.mean(0) + (1 / toy_graph.num_entities if smoothing else 0)
    assert isinstance(training.system.encoder, CompGCN)
    bias = training.system.encoder.bias
    assert bias is not None
    torch.testing.assert_close(bias.squeeze(1).sigmoid(), wanted.clamp(1e-6, 1 - 1e-6))
    with torch.no_grad():
        first = training.loss(torch.arange(training.num_items()), torch.Generator()).item()
    constant = binary_cross_entropy(wanted.expand_as(labels), (labels > 0).float()).item()
    assert first < 1.5 * constant + 0.05
