from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from npugraph.graph import SIDES
from npugraph.recipes.path.known import KnownAnswers, both_ways
from npugraph.recipes.path.model import PathModel, QueryVectors
from npugraph.recipes.path.thinned import DRAWS, MOST_FACTS, PARTS, PER_ENTITY, draws_for
from npugraph.seeds import generator
from recipe_cases import groups

FACTS = torch.tensor([[0, 0, 1], [1, 1, 2], [0, 0, 2], [2, 1, 3], [3, 0, 0], [1, 0, 3]])
N, R = 6, 2


def model(facts: Tensor = FACTS, entities: int = N, **options: int) -> PathModel:
    sizes = {"d": 4, "layers": 3, "group_size": 1, "seed": 3, **options}
    return PathModel(facts, entities, R, **sizes).double().eval()


def literal(made: PathModel, start: int, query: int, edges: list[tuple[int, int, int]]) -> Tensor:
    """Score all entities by the formulas alone, one entity and one edge at a time."""
    d = made.d
    asked = made.encoder()[1][query]
    incoming = [[(u, r) for u, r, v in edges if v == node] for node in range(made.num_entities)]
    logs = [math.log(len(found) + 2) for found in incoming]
    mean_log = sum(logs) / len(logs)
    states = [asked if node == start else torch.zeros_like(asked) for node in range(len(incoming))]
    for layer in made.layers:
        along = (layer.edge_weight @ asked + layer.edge_bias).view(-1, d)
        after = []
        for node, found in enumerate(incoming):
            own = asked if node == start else torch.zeros_like(asked)
            messages = torch.stack([own, *(states[u] * along[r] for u, r in found)])
            mean = messages.mean(0)
            spread = (messages.square().mean(0) - mean.square()).clamp_min(1e-6).sqrt()
            gathered = torch.cat([mean, messages.amax(0), messages.amin(0), spread])
            relative = logs[node] / mean_log
            scaled = [gathered, relative * gathered, gathered / max(relative, 1e-2)]
            blocks = layer.feature_weight.view(3, d, 4 * d)
            made_of = sum(block @ part for block, part in zip(blocks, scaled, strict=True))
            made_of = made_of + layer.state_weight @ states[node] + layer.state_bias
            centred = made_of - made_of.mean()
            normed = centred / (centred.square().mean() + 1e-5).sqrt()
            normed = normed * layer.norm_weight + layer.norm_bias
            after.append(states[node] + torch.relu(normed))
        states = after
    first = torch.cat([made.state_part, made.query_part], 1)
    hidden = [torch.relu(first @ torch.cat([state, asked]) + made.hidden_bias) for state in states]
    return torch.stack([(made.answer @ one).squeeze(0) for one in hidden])


@torch.no_grad()
def test_a_thinned_graph_lacks_a_third_of_the_facts_the_judged_one_among_them() -> None:
    made = model(draws=3)
    stored = made.stored.facts()
    start, query, answer = stored[2].tolist()
    scores = []
    for draw in range(3):
        order = torch.randperm(len(stored), generator=generator(0, "thinned", draw)).tolist()
        part = order.index(2) % PARTS
        left = [number for number in range(len(stored)) if number not in order[part::PARTS]]
        assert len(left) == 4
        scores.append(literal(made, start, query, edges_of(stored[left]))[answer])
    found = made.judge_thoroughly(stored)
    torch.testing.assert_close(found.raw, made.judge(stored).raw)
    assert found.thinned is not None
    torch.testing.assert_close(found.thinned.raw[0, 2], sum(scores) / 3)
    assert found.thinned.raw[0, 2] != found.raw[0, 2]


def test_without_draws_nothing_is_thinned() -> None:
    assert model(draws=0).judge_thoroughly(FACTS[:2]).thinned is None


def test_large_or_sparse_graphs_are_thinned_where_it_is_asked_for_alone() -> None:
    assert draws_for(None, MOST_FACTS, 100) == DRAWS
    assert draws_for(None, MOST_FACTS + 1, 100) == 0
    assert draws_for(None, 100 * PER_ENTITY, 100) == DRAWS
    assert draws_for(None, 100 * PER_ENTITY - 1, 100) == 0
    assert draws_for(3, MOST_FACTS + 1, MOST_FACTS) == 3
    assert draws_for(0, 1000, 10) == 0


@torch.no_grad()
def test_facts_of_one_question_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = torch.tensor([[0, 0, tail] for tail in range(1, 6)])
    made = model(facts, group_size=5)
    expected = torch.cat([made.judge(fact[None], ("tail",)).raw for fact in facts], 1)
    asked: list[int] = []
    forward = PathModel.forward

    def counted(self: PathModel, start: Tensor, query: Tensor, weight: Tensor) -> Tensor:
        asked.append(len(start))
        return forward(self, start, query, weight)

    monkeypatch.setattr(PathModel, "forward", counted)
    torch.testing.assert_close(made.judge(facts, ("tail",)).raw, expected)
    assert asked == [1]


def edges_of(facts: Tensor) -> list[tuple[int, int, int]]:
    return [tuple(edge) for edge in both_ways(facts, R).tolist()]


@torch.no_grad()
def test_scores_are_the_formula() -> None:
    made = model()
    for layer in made.layers:
        layer.norm_weight.uniform_(0.5, 1.5)
        layer.norm_bias.uniform_(-0.5, 0.5)
    known, relation = torch.tensor([0, 3, 5]), torch.tensor([0, 1, 0])
    for side in SIDES:
        found = made.score_all(known, relation, side)
        for row, (start, asked) in enumerate(zip(known.tolist(), relation.tolist(), strict=True)):
            query = asked + (R if side == "head" else 0)
            torch.testing.assert_close(found[row], literal(made, start, query, edges_of(FACTS)))


def test_many_questions_are_worked_on_as_few_are() -> None:
    """Blocks are scaled once per node where there are more questions than numbers per state."""
    made = model()
    known, relation = torch.arange(12) % N, torch.arange(12) % (2 * R)
    weight = torch.rand(len(made.edges), generator=torch.Generator().manual_seed(0)).double()
    together = made(known, relation, weight)
    alone = torch.cat([made(known[i : i + 1], relation[i : i + 1], weight) for i in range(12)])
    torch.testing.assert_close(together, alone)
    slopes = [
        torch.autograd.grad(scores.square().sum(), list(made.parameters()))
        for scores in (together, alone)
    ]
    torch.testing.assert_close(*slopes)


@torch.no_grad()
def test_a_stored_fact_is_scored_as_if_it_were_not_stored() -> None:
    made = model()
    for number, fact in enumerate(FACTS):
        rest = torch.cat([FACTS[:number], FACTS[number + 1 :]])
        without = model(rest)
        without.load_state_dict(made.state_dict())
        head, relation, tail = fact.tolist()
        forward = without.score_all(fact[:1], fact[1:2], "tail")[0, tail]
        backward = without.score_all(fact[2:], fact[1:2], "head")[0, head]
        one = fact.unsqueeze(0)
        torch.testing.assert_close(made.score_as(one, "tail")[0], forward)
        torch.testing.assert_close(made.score_as(one, "head")[0], backward)
        torch.testing.assert_close(made.score(one)[0], (forward + backward) / 2)
        stored = made.score_all(fact[:1], fact[1:2], "tail")[0, tail]
        assert stored != forward
        assert relation in (0, 1)


def test_a_score_does_not_depend_on_what_is_scored_beside_it() -> None:
    made = model(group_size=2)
    facts = torch.cat([FACTS, torch.tensor([[0, 1, 5], [4, 0, 4]])])
    together = made.score(facts)
    alone = torch.cat([made.score(fact.unsqueeze(0)) for fact in facts])
    torch.testing.assert_close(together, alone)
    order = torch.tensor([7, 2, 2, 0, 5])
    torch.testing.assert_close(made.score(facts[order]), together[order])


def test_facts_of_a_group_are_hidden_together() -> None:
    whole = model(group_size=len(FACTS))
    empty = whole.weights_without(torch.arange(len(FACTS)))
    assert not empty.any()
    expected = whole(FACTS[:, 0], FACTS[:, 1], empty).gather(1, FACTS[:, 2:]).squeeze(1)
    torch.testing.assert_close(whole.score_as(FACTS, "tail"), expected)


def test_repeated_facts_count_once() -> None:
    once, twice = model(), model(torch.cat([FACTS, FACTS[:3]]))
    assert len(twice.edges) == len(once.edges) == 2 * len(FACTS)
    assert torch.equal(once.score(FACTS), twice.score(FACTS))


def test_logarithms_are_those_of_a_softmax() -> None:
    made = model(group_size=2)
    fact = torch.tensor([[0, 0, 5]])
    judged = made.judge(fact)
    scores = made.score_all(fact[:, 0], fact[:, 1], "tail")
    torch.testing.assert_close(judged.among_all[0], scores.log_softmax(1)[:, 5])
    # The stored answers of (0, 0, ?) are 1 and 2.
    torch.testing.assert_close(judged.among_new[0], scores[:, [0, 3, 4, 5]].log_softmax(1)[:, 3])
    assert torch.equal(judged.raw.mean(0), made.score(fact))
    stored = made.judge(FACTS)
    assert (stored.among_new > stored.among_all - 1e-9).all()
    assert (stored.among_new <= 0).all()


def test_entities_have_no_name() -> None:
    """Other numbers for the entities: the same scores, in their new places."""
    made = model()
    order = torch.randperm(N, generator=torch.Generator().manual_seed(1))
    renamed = torch.stack([order[FACTS[:, 0]], FACTS[:, 1], order[FACTS[:, 2]]], 1)
    other = model(renamed)
    other.load_state_dict(made.state_dict())
    known, relation = torch.arange(N), torch.zeros(N, dtype=torch.int64)
    for side in SIDES:
        scores = made.score_all(known, relation, side)
        torch.testing.assert_close(other.score_all(order, relation, side)[:, order], scores)


def test_its_weights_serve_a_graph_with_other_entities() -> None:
    made = model()
    larger = model(torch.cat([FACTS, torch.tensor([[6, 0, 7], [7, 1, 0]])]), entities=9)
    larger.load_state_dict(made.state_dict())
    scores = larger.score_all(torch.tensor([6]), torch.tensor([1]), "tail")
    assert scores.shape == (1, 9)
    assert scores.isfinite().all()
    assert not any(value.shape[:1] == (N,) for value in made.state_dict().values())


def test_pairs_are_linked_in_either_direction() -> None:
    facts = torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 4], [2, 0, 2], [1, 0, 2]])
    kinds = model().kinds_of(facts)
    assert kinds["linked"].tolist() == [True, True, False, False, True]
    assert torch.equal(kinds["unlinked"], ~kinds["linked"])


def test_many_questions_take_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model()
    known, relation = torch.arange(N), torch.zeros(N, dtype=torch.int64)
    facts = torch.cat([FACTS, torch.tensor([[0, 1, 5], [4, 0, 4], [5, 1, 5]])])
    whole, judged = made.score_all(known, relation, "head"), made.judge(facts)
    monkeypatch.setattr(PathModel, "questions_per_pass", lambda self: 2)
    torch.testing.assert_close(made.score_all(known, relation, "head"), whole)
    torch.testing.assert_close(made.judge(facts).among_new, judged.among_new)


def test_fewer_questions_fit_where_there_are_more_entities() -> None:
    small, large = model(), model(entities=400_000)
    assert small.questions_per_pass() == 256
    assert large.questions_per_pass() == 1


def test_query_vectors_are_all_that_represents() -> None:
    made = model()
    assert isinstance(made.encoder, QueryVectors)
    entities, relations = made.represent()
    assert entities.shape == (N, 0)
    assert relations.shape == (2 * R, 4)


@pytest.mark.parametrize("most", [None, 400])
def test_known_answers_are_the_stored_ones(most: int | None) -> None:
    splits = groups()
    facts = splits.train.facts
    known = KnownAnswers(facts, splits.num_entities, splits.num_relations)
    asked = both_ways(facts, splits.num_relations)
    questions = torch.cat([asked[::9, :2], asked[:3, :2], torch.tensor([[0, 3]])])
    mask = known.mask(*questions.unbind(1), most)
    for row, (start, query) in enumerate(questions.tolist()):
        here = (asked[:, 0] == start) & (asked[:, 1] == query)
        assert torch.equal(mask[row].nonzero().squeeze(1), asked[here, 2].unique())
    assert torch.equal(known.count(*questions.unbind(1)), mask.sum(1))
    assert known.mask(questions[:0, 0], questions[:0, 1]).shape == (0, splits.num_entities)
