"""The strongest paths behind an answer, against gradients and against all paths there are."""

from __future__ import annotations

import json
from itertools import combinations, permutations
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import npugraph
from npugraph.cli import app
from npugraph.fitting import Fitted, fit
from npugraph.graph import KnowledgeGraph, Splits, Vocabulary
from npugraph.kernels import paths
from npugraph.kernels.paths import Edges
from npugraph.recipes.path import model as model_file
from npugraph.recipes.path.model import PathModel
from npugraph.recipes.path.strongest import best_paths

N, R = 9, 2
FACTS = torch.tensor(
    [[0, 0, 1], [1, 1, 2], [0, 0, 2], [2, 1, 3], [3, 0, 0], [1, 0, 3], [4, 1, 3], [4, 0, 5]]
    + [[5, 1, 6], [6, 0, 0], [2, 0, 6], [7, 1, 7], [7, 0, 3]]
)


def model(facts: Tensor = FACTS, layers: int = 3) -> PathModel:
    return PathModel(facts, N, R, d=4, layers=layers, seed=3).double().eval()


def gradients(made: PathModel, fact: Tensor, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """The gradient of the score with respect to a weight of its own for each layer's edges."""
    weight = made.weights_without(made.stored.places(fact[None])).double()
    leaves = [weight.clone().requires_grad_() for _ in made.layers]
    turn = iter(leaves)

    def own_weights(
        states: Tensor, relations: Tensor, start: Tensor, query: Tensor, *rest
    ) -> Tensor:  # type: ignore[no-untyped-def]
        return paths.aggregate(states, relations, start, query, next(turn), made.edges)

    with monkeypatch.context() as patch:
        patch.setattr(model_file, "aggregate", lambda *given, **_: own_weights(*given))
        score = made(fact[:1], fact[1:2], weight)[0, fact[2]]
    return torch.stack(torch.autograd.grad(score, leaves))


def test_weights_are_mean_gradients_of_the_best_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model()
    numbers = {edge: i for i, edge in enumerate(zip(*columns(made.edges), strict=True))}
    for fact in FACTS[:6]:
        slopes = gradients(made, fact, monkeypatch)
        found = made.strongest_paths(fact, 4)
        assert found
        for path in found:
            steps = zip(path.facts, path.forward, strict=True)
            edges = [numbers[(h, r, t) if way else (t, r + R, h)] for (h, r, t), way in steps]
            chosen = [sum(slopes[list(at), edges].tolist()) for at in layers_of(len(edges), 3)]
            assert path.weight == pytest.approx(max(chosen) / len(edges), rel=1e-6)


def columns(edges: Edges) -> tuple[list[int], list[int], list[int]]:
    return edges.source.tolist(), edges.relation.tolist(), edges.target.tolist()


def layers_of(length: int, layers: int) -> list[tuple[int, ...]]:
    return list(combinations(range(layers), length))


def all_paths(edges: Edges, shares: Tensor, start: int, end: int) -> list[tuple[float, list[int]]]:
    """Every path that meets no entity twice, with its weight, best first."""
    source, _, target = columns(edges)
    found = []
    for length in range(1, len(shares) + 1):
        for path in permutations(range(len(edges)), length):
            nodes = [start, *(target[e] for e in path)]
            joined = all(source[e] == at for e, at in zip(path, nodes, strict=False))
            if joined and nodes[-1] == end and len(set(nodes)) == len(nodes):
                places = layers_of(length, len(shares))
                best = max(sum(shares[list(at), list(path)].tolist()) for at in places)
                found.append((best / length, list(path)))
    return sorted((one for one in found if one[0] > 0), key=lambda one: (-one[0], len(one[1])))


@pytest.mark.parametrize("seed", range(6))
def test_the_search_finds_the_best_of_all_paths(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    facts = torch.randint(5, (8, 3), generator=rng) % torch.tensor([5, 1, 5])
    edges = Edges.of(facts, 5, 1)
    shares = torch.randn(3, len(edges), generator=rng)
    shares[torch.rand(shares.shape, generator=rng) < 0.2] = -torch.inf
    expected = all_paths(edges, shares.double(), 0, 4)
    found = best_paths(edges, shares, 0, 4, 1000)
    assert [weight for weight, _ in found] == pytest.approx([weight for weight, _ in expected])
    assert sorted(list(path) for _, path in found) == sorted(path for _, path in expected)
    assert best_paths(edges, shares, 0, 4, 2) == found[:2]


def test_of_equal_paths_the_shorter_and_then_the_smaller_comes_first() -> None:
    # Two ways of two edges and one of one edge, all edges alike.
    edges = Edges.of(torch.tensor([[0, 0, 1], [1, 0, 3], [0, 0, 2], [2, 0, 3], [0, 1, 3]]), 4, 2)
    shares = torch.ones(2, len(edges))
    found = best_paths(edges, shares, 0, 3, 5)
    source, _, target = columns(edges)
    ways = [[source[e] for e in path] + [target[path[-1]]] for _, path in found]
    assert ways == [[0, 3], [0, 1, 3], [0, 2, 3]]
    assert [weight for weight, _ in found] == [1.0, 1.0, 1.0]
    assert best_paths(edges, shares, 0, 3, 5) == found


def test_paths_lead_from_head_to_tail_without_the_fact_itself() -> None:
    made = model(layers=4)
    stored = {tuple(fact) for fact in FACTS.tolist()}
    some = 0
    for fact in torch.cat([FACTS, torch.tensor([[0, 1, 5], [8, 0, 1], [2, 0, 2]])]):
        own = tuple(fact.tolist())
        for path in made.strongest_paths(fact, 6):
            assert own not in path.facts
            assert set(path.facts) <= stored
            steps = zip(path.facts, path.forward, strict=True)
            ends = [(h, t) if way else (t, h) for (h, _, t), way in steps]
            nodes = [own[0], *(last for _, last in ends)]
            assert [first for first, _ in ends] == nodes[:-1]
            assert nodes[-1] == own[2]
            assert len(set(nodes)) == len(nodes)
            some += 1
    assert some > 20
    assert made.strongest_paths(torch.tensor([8, 0, 1]), 5) == ()
    assert made.strongest_paths(torch.tensor([2, 0, 2]), 5) == ()


@torch.no_grad()
def test_all_entities_are_scored_without_one_fact() -> None:
    made = model()
    for number, fact in enumerate(FACTS):
        without = model(torch.cat([FACTS[:number], FACTS[number + 1 :]]))
        without.load_state_dict(made.state_dict())
        for side in ("head", "tail"):
            asked = torch.tensor([3, 0]), torch.tensor([1, 0]), side
            found = made.score_all_without(fact)(*asked)
            torch.testing.assert_close(found, without.score_all(*asked))
    new = torch.tensor([0, 1, 8])
    found = made.score_all_without(new)(*asked)
    torch.testing.assert_close(found, made.score_all(*asked))


def families(count: int = 30) -> Splits:
    """Three generations each: grandparent = parent, then parent; people also like some others."""
    rng = torch.Generator().manual_seed(0)
    rows = []
    for i in range(count):
        grand, parent, child = (f"{name}{i:02}" for name in ("grand", "parent", "child"))
        liked = [f"{int(j):02}" for j in torch.randint(count, (2,), generator=rng)]
        rows += [(grand, "parent_of", parent), (parent, "parent_of", child)]
        rows += [(child, "likes", f"child{liked[0]}"), (grand, "likes", f"parent{liked[1]}")]
        rows += [(grand, "grandparent_of", child)]
    entities = Vocabulary.of([name for h, _, t in rows for name in (h, t)], "entity")
    relations = Vocabulary.of([r for _, r, _ in rows], "relation")
    ids = [[entities.id(h), relations.id(r), entities.id(t)] for h, r, t in rows]
    graph = KnowledgeGraph(entities, relations, torch.tensor(ids))
    known = graph.facts[:, 1] == relations.id("grandparent_of")
    held_out = known.nonzero().squeeze(1)[-6:]
    kept = torch.ones(len(ids), dtype=torch.bool).index_fill(0, held_out, False)
    test = graph.with_facts(graph.facts[held_out])
    return Splits("families", graph.with_facts(graph.facts[kept]), test, test)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fitted, Path]:
    folder = tmp_path_factory.mktemp("paths") / "run"
    settings = {"epochs": 15, "layers": 3, "edge_dropout": 0.1, "device": "cpu"}
    return fit(families(), "path", settings, folder), folder


def test_a_planted_rule_is_named_first(run: tuple[Fitted, Path]) -> None:
    fitted, _ = run
    names = fitted.splits.train.relations
    stored = fitted.splits.train.facts
    known = stored[stored[:, 1] == names.id("grandparent_of")]
    asked = torch.cat([fitted.splits.test.facts, known[:6]])
    for fact in asked:
        first, *_ = fitted.system.strongest_paths(fact, 3)
        assert [names.label(r) for _, r, _ in first.facts] == ["parent_of", "parent_of"]
        assert first.forward == (True, True)
        assert first.weight > 0


def test_explain_names_the_paths(run: tuple[Fitted, Path]) -> None:
    fitted, folder = run
    fact = "grand29", "grandparent_of", "child29"
    found = npugraph.explain(fitted, *fact, top=2)
    facts = ("grand29", "parent_of", "parent29"), ("parent29", "parent_of", "child29")
    assert found.paths[0].facts == facts
    words = "grand29 -parent_of-> parent29 -parent_of-> child29"
    assert f"{words} (weight {found.paths[0].weight:.3f})" in found.to_text()
    done = CliRunner().invoke(app, ["explain", str(folder), *fact, "--device", "cpu", "--json"])
    assert json.loads(done.stdout)["paths"][0]["facts"] == [list(one) for one in facts]


def test_a_stored_fact_is_ranked_without_itself(run: tuple[Fitted, Path]) -> None:
    fitted, _ = run
    ids = fitted.splits.train.facts[0]
    found = npugraph.explain(fitted, "grand00", "parent_of", "parent00")
    assert found.stored
    assert found.ids == tuple(ids.tolist())
    expected = fitted.system.score_all_without(ids)(ids[:1], ids[1:2], "tail")[0, ids[2]]
    assert found.scores["tail"] == pytest.approx(float(expected))
