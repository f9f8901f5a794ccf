"""The speculative system: one story from both scores, and self-training that picks the best."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from npu_literal import chosen_neighbours, generator, literal_neighbours
from npugraph.encoders import Lookup, NeighbourAttention
from npugraph.errors import SettingsError
from npugraph.graph import SIDES, KnowledgeGraph, Side
from npugraph.recipes import get_recipe
from npugraph.recipes.npugraph import model as speculative
from npugraph.recipes.npugraph.heads import BilinearHeads, MLPHeads, TwoHeads
from npugraph.recipes.npugraph.model import SelfTraining, SpeculativeSystem, SpeculativeTraining
from npugraph.recipes.npugraph.objective import Heads, NoisyPU, WithoutPU
from npugraph.recipes.npugraph.posterior import Posterior, RunningPosterior
from npugraph.samplers import Uncollected
from npugraph.scorers import ComplEx
from npugraph.settings import make_settings

NUM_ENTITIES, NUM_RELATIONS, WIDTH, CAP = 9, 2, 4, 3
READINGS = ("exception", "printed")
every_reading = pytest.mark.parametrize("reading", READINGS)


def some_facts() -> Tensor:
    """Return 30 different facts in a random order; (0, 1, ?) has every tail there is."""
    everything = list(product(range(NUM_ENTITIES), range(NUM_RELATIONS), range(NUM_ENTITIES)))
    full = [fact for fact in everything if fact[:2] == (0, 1)]
    rest = torch.tensor([fact for fact in everything if fact[:2] != (0, 1)])
    chosen = rest[torch.randperm(len(rest), generator=generator(1))[: 30 - len(full)]]
    facts = torch.cat([torch.tensor(full), chosen])
    return facts[torch.randperm(len(facts), generator=generator(2))]


FACTS = some_facts()
COLLECTED = {tuple(fact) for fact in FACTS.tolist()}
EVERYTHING = torch.cartesian_prod(
    torch.arange(NUM_ENTITIES), torch.arange(NUM_RELATIONS), torch.arange(NUM_ENTITIES)
)


def make_system(
    reading: str = "exception", encoder: str = "attention", heads: str = "mlp", seed: int = 3
) -> SpeculativeSystem:
    rng = generator(seed)
    made: TwoHeads = BilinearHeads(ComplEx())
    if heads == "mlp":
        made = MLPHeads(WIDTH, 6, rng=rng)
    widths = made.entity_width(WIDTH), made.relation_width(WIDTH)
    tables = Lookup.normal((NUM_ENTITIES, widths[0]), (2 * NUM_RELATIONS, widths[1]), 1.0, rng)
    chosen: Lookup | NeighbourAttention = tables
    if encoder == "attention":
        chosen = NeighbourAttention(FACTS, tables, NUM_RELATIONS, cap=CAP, rng=rng)
    # Priors far from 0 and 1, so that no probability rounds to either.
    posterior = Posterior(reading, 0.7, 0.2, "literal" if reading == "exception" else "phi")
    running = RunningPosterior(FACTS, NUM_ENTITIES, NUM_RELATIONS, momentum=0.9)
    return SpeculativeSystem(chosen, made, posterior, running, NUM_ENTITIES, NUM_RELATIONS)


class Recorder(nn.Module):
    """A sampler that remembers what it drew for each side."""

    def __init__(self, sampler: Uncollected) -> None:
        super().__init__()
        self.sampler = sampler
        self.drawn: dict[Side, list[Tensor]] = defaultdict(list)

    def draw(self, facts: Tensor, side: Side, count: int, rng: torch.Generator) -> Tensor:
        drawn = self.sampler.draw(facts, side, count, rng)
        self.drawn[side].append(drawn)
        return drawn


class Captured(nn.Module):
    """An objective that remembers the scores that it was given."""

    def __init__(self, objective: nn.Module) -> None:
        super().__init__()
        self.objective = objective
        self.heads: list[Heads] = []

    def forward(self, heads: Heads) -> Tensor:
        self.heads.append(heads)
        loss: Tensor = self.objective(heads)
        return loss


def make_training(
    plan: SelfTraining, system: SpeculativeSystem | None = None, **options: Any
) -> tuple[SpeculativeTraining, Recorder]:
    system = system or make_system()
    training = SpeculativeTraining(system, NoisyPU(system.posterior), FACTS, plan, **options)
    recorder = Recorder(training.sampler)
    training.sampler = recorder  # type: ignore[assignment]
    return training, recorder


def edges(training: SpeculativeTraining) -> list[set[tuple[int, int, int]]]:
    assert isinstance(training.system.encoder, NeighbourAttention)
    return chosen_neighbours(training.system.encoder)


def snapshot(training: SpeculativeTraining) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in training.system.state_dict().items()}


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


every_system = pytest.mark.parametrize(
    ("reading", "encoder", "heads"),
    [(r, *parts) for r in READINGS for parts in (("attention", "mlp"), ("none", "complex"))],
)


@every_system
@pytest.mark.parametrize("side", SIDES)
def test_score_all_is_score_of_every_entity(
    reading: str, encoder: str, heads: str, side: Side
) -> None:
    system = make_system(reading, encoder, heads).double().eval()
    known = EVERYTHING[:, 0] if side == "tail" else EVERYTHING[:, 2]
    column = EVERYTHING[:, 2:] if side == "tail" else EVERYTHING[:, :1]
    found = system.score_all(known, EVERYTHING[:, 1], side)
    assert found.shape == (len(EVERYTHING), NUM_ENTITIES)
    expected = system.score(EVERYTHING)
    torch.testing.assert_close(found.gather(1, column).squeeze(1), expected, rtol=1e-10, atol=1e-11)
    assert not found.requires_grad
    assert not expected.requires_grad


@every_system
def test_score_and_probability_are_made_of_the_same_two_scores(
    reading: str, encoder: str, heads: str
) -> None:
    system = make_system(reading, encoder, heads).double().eval()
    collected = torch.tensor([tuple(fact) in COLLECTED for fact in EVERYTHING.tolist()])
    found = system.probability(EVERYTHING, collected)
    scores = system.score(EVERYTHING)
    entities, relations = system.encoder()
    for place, (head, relation, tail) in enumerate(EVERYTHING.tolist()):
        known, asked = entities[head : head + 1], relations[relation : relation + 1]
        psi1, psi0 = (
            system.heads.score_all(known, asked, entities, "tail", number)[0, tail]
            for number in (1, 0)
        )
        posterior = system.posterior
        true = posterior.true_if_collected if collected[place] else posterior.true_if_uncollected
        assert found[place].item() == pytest.approx(true(psi1, psi0).item(), abs=1e-10)
        expected = posterior.plausibility(psi1, psi0).item()
        assert scores[place].item() == pytest.approx(expected, abs=1e-10)
    assert found.min() >= 0
    assert found.max() <= 1
    assert not found.requires_grad


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    system = make_system().eval()
    collected = torch.arange(len(EVERYTHING)) % 3 == 0
    whole = system.score(EVERYTHING), system.probability(EVERYTHING, collected)
    monkeypatch.setattr(speculative, "CHUNK", 7)
    parts = system.score(EVERYTHING), system.probability(EVERYTHING, collected)
    for found, expected in zip(parts, whole, strict=True):
        torch.testing.assert_close(found, expected)
    assert system.score(EVERYTHING[:0]).shape == (0,)
    assert system.probability(EVERYTHING[:0], collected[:0]).shape == (0,)


@pytest.mark.parametrize("groups", [1, 8, 50])
@every_reading
def test_a_collected_fact_is_judged_without_its_group(
    reading: str, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speculative, "GROUPS", groups)
    training, _ = make_training(SelfTraining(), make_system(reading))
    probability, plausibility = training.judge_collected()
    system = training.system
    for number in range(len(FACTS)):
        group = torch.tensor([n for n in range(len(FACTS)) if n % groups == number % groups])
        entities, relations = system.encoder(group)
        psi1, psi0 = (
            psi[0, 0]
            for psi in system.heads.scores(
                entities, relations, FACTS[number : number + 1], *[FACTS[:1, :0]] * 2
            )
        )
        expected = system.posterior.true_if_collected(psi1, psi0).item()
        assert probability[number].item() == pytest.approx(expected, abs=1e-5)
        expected = system.posterior.plausibility(psi1, psi0).item()
        assert plausibility[number].item() == pytest.approx(expected, abs=1e-4)
    assert not probability.requires_grad


def test_the_health_of_a_system_is_that_of_its_collected_facts() -> None:
    training, _ = make_training(SelfTraining())
    probability, _ = training.judge_collected()
    assert training.health()["posterior_mean"] == pytest.approx(probability.mean().item())


def shaken(training: SpeculativeTraining) -> Tensor:
    """Take stock, then move the weights as an epoch would; return the posterior before that."""
    before = training.judge_collected()[0]
    training.health()
    with torch.no_grad():
        for parameter in training.system.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator(5))
    return before


def test_taking_stock_adds_the_epoch_to_the_running_mean() -> None:
    training, _ = make_training(SelfTraining())
    first = shaken(training)
    second = training.judge_collected()[0]
    assert not torch.allclose(first, second)
    # The description is of the latest epoch, so that classes that change places show at once.
    assert training.health()["posterior_mean"] == pytest.approx(second.mean().item())
    torch.testing.assert_close(training.system.running.mean, (first + second) / 2)


def test_collected_facts_have_the_running_mean_and_others_the_latest_posterior() -> None:
    training, _ = make_training(SelfTraining())
    first, system = shaken(training), training.system.eval()
    asked = torch.cat([FACTS, EVERYTHING])
    collected = torch.cat([torch.ones(len(FACTS)), torch.zeros(len(EVERYTHING))]).bool()
    found = system.probability(asked, collected)
    torch.testing.assert_close(found[: len(FACTS)], first)
    expected = system.posterior.true_if_uncollected(*system.pair(EVERYTHING))
    torch.testing.assert_close(found[len(FACTS) :], expected)


def test_neighbours_are_chosen_by_the_running_mean() -> None:
    training, _ = make_training(SelfTraining(8, 0, 0.0, 3))
    first = shaken(training)
    rows = [tuple(fact) for fact in FACTS.tolist()]
    training.begin_epoch(2, generator())
    literal = literal_neighbours(rows, NUM_ENTITIES, NUM_RELATIONS, first.tolist(), CAP)
    assert edges(training) == [set(mine) for mine in literal]
    latest = training.judge_collected()[0].tolist()
    literal = literal_neighbours(rows, NUM_ENTITIES, NUM_RELATIONS, latest, CAP)
    assert edges(training) != [set(mine) for mine in literal]


def test_a_float64_system_judges_its_collected_facts() -> None:
    training, _ = make_training(SelfTraining(), make_system().double())
    probability, _ = training.judge_collected()
    assert probability.dtype == torch.float64


def test_training_goes_on_under_autocast() -> None:
    training, _ = make_training(SelfTraining(8, 0, 0.5, 3))
    plain = training.loss(torch.arange(10), generator()).item()
    with torch.autocast("cpu", torch.bfloat16):
        loss = training.loss(torch.arange(10), generator())
        loss.backward()
        training.begin_epoch(1, generator())
        described = training.health()
        scores = training.system.eval().score_all(FACTS[:, 0], FACTS[:, 1], "tail")
    assert loss.item() == pytest.approx(plain, rel=0.05)
    assert 0 < described["posterior_mean"] < 1
    assert scores.isfinite().all()


@pytest.mark.parametrize(("warmup", "epoch"), [(5, 1), (5, 5), (None, 1000)])
def test_nothing_changes_before_the_warmup_is_over(warmup: int | None, epoch: int) -> None:
    training, recorder = make_training(SelfTraining(8, warmup, 0.5, 3))
    before, rng = snapshot(training), generator(4)
    state = rng.get_state()
    training.begin_epoch(epoch, rng)
    assert same(snapshot(training), before)
    assert training.top is None
    assert not recorder.drawn
    assert torch.equal(rng.get_state(), state)


@every_reading
def test_after_the_warmup_neighbours_are_the_most_probable_facts(reading: str) -> None:
    training, _ = make_training(SelfTraining(8, 5, 0.5, 3), make_system(reading))
    probability = training.judge_collected()[0].tolist()
    before = edges(training)
    training.begin_epoch(6, generator())
    rows = [tuple(fact) for fact in FACTS.tolist()]
    expected = literal_neighbours(rows, NUM_ENTITIES, NUM_RELATIONS, probability, CAP)
    assert edges(training) == [set(mine) for mine in expected]
    assert edges(training) != before


def test_the_exception_reading_keeps_the_facts_of_lowest_class_posterior() -> None:
    training, _ = make_training(SelfTraining(8, 0, 0.0, 3))
    system = training.system.eval()
    # One group a fact, by hand: w~l is read off the two scores, not off the probability.
    weight = []
    for number in range(len(FACTS)):
        group = torch.tensor([n for n in range(len(FACTS)) if n % 8 == number % 8])
        psi = system.pair(FACTS[number : number + 1], hidden_facts=group)
        weight.append(system.posterior.collected_class(*psi).item())
    training.begin_epoch(1, generator())
    for entity, mine in enumerate(edges(training)):
        numbers = [n for n, (h, _, t) in enumerate(FACTS.tolist()) if entity in (h, t)]
        left_out = set(numbers) - {number for _, _, number in mine}
        worst = max(weight[number] for _, _, number in mine)
        assert all(weight[number] >= worst for number in left_out)


def test_what_was_represented_follows_the_new_neighbours() -> None:
    training, _ = make_training(SelfTraining(8, 0, 0.5, 3))
    system = training.system.eval()
    before = system.score(EVERYTHING)
    training.begin_epoch(1, generator())
    after = system.score(EVERYTHING)
    assert not torch.allclose(before, after)
    entities, relations = system.encoder()
    psi1, psi0 = (
        psi[:, 0]
        for psi in system.heads.scores(
            entities, relations, EVERYTHING, EVERYTHING[:, :0], EVERYTHING[:, :0]
        )
    )
    torch.testing.assert_close(after, system.posterior.plausibility(psi1, psi0))


def test_each_half_of_self_training_can_be_switched_off() -> None:
    training, _ = make_training(SelfTraining(8, 0, 0.5, 3), choose_neighbours=False)
    before = edges(training)
    training.begin_epoch(1, generator())
    assert edges(training) == before
    assert training.top is not None
    training, _ = make_training(SelfTraining(8, 0, 0.0, 3))
    training.begin_epoch(1, generator())
    assert edges(training) != before
    assert training.top is None


@every_reading
@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("epochs", [1, 2])
def test_the_most_probable_uncollected_facts_of_the_pool_are_chosen(
    reading: str, share: float, epochs: int
) -> None:
    training, recorder = make_training(SelfTraining(8, 0, share, 3), make_system(reading))
    for epoch in range(1, epochs + 1):
        recorder.drawn.clear()
        training.begin_epoch(epoch, generator(4 + epoch))
    assert training.top is not None
    for side, chosen in zip(("tail", "head"), training.top, strict=True):
        pool = torch.cat(recorder.drawn[side])
        assert pool.shape == (len(FACTS), 12)
        assert chosen.shape == (len(FACTS), round(share * 4))
        for row, (fact, entities, picked) in enumerate(
            zip(FACTS.tolist(), pool.tolist(), chosen.tolist(), strict=True)
        ):
            if fact[:2] == [0, 1] and side == "tail":
                assert set(picked) == {fact[2]}, row
                continue

            def judged(
                candidates: list[int], fact: list[int] = fact, side: str = side
            ) -> tuple[list[tuple[int, ...]], list[float]]:
                facts = [
                    (fact[0], fact[1], entity) if side == "tail" else (entity, *fact[1:])
                    for entity in candidates
                ]
                uncollected = torch.zeros(len(facts), dtype=torch.bool)
                values = training.system.probability(torch.tensor(facts), uncollected)
                return facts, sorted(values.tolist(), reverse=True)

            facts, values = judged(picked)
            assert not COLLECTED & set(facts)
            assert values == pytest.approx(judged(entities)[1][: len(picked)], abs=1e-6)


def test_the_generator_of_the_epoch_decides_the_choice() -> None:
    tops = []
    for seed in (6, 6, 7):
        training, _ = make_training(SelfTraining(8, 0, 0.5, 3))
        training.begin_epoch(1, generator(seed))
        tops.append(torch.cat(training.top or (), 1))
    assert torch.equal(tops[0], tops[1])
    assert not torch.equal(tops[0], tops[2])


@every_reading
@pytest.mark.parametrize("share", [None, 0.5, 1.0], ids=["warm-up", "mixed", "top only"])
def test_the_loss_scores_each_fact_beside_its_uncollected_ones(
    reading: str, share: float | None
) -> None:
    """The batch is hidden from the encoder; rows in any order meet their own chosen entities."""
    plan = SelfTraining(8, None if share is None else 0, share or 0.0, 3)
    training, recorder = make_training(plan, make_system(reading))
    training.begin_epoch(1, generator(8))
    recorder.drawn.clear()
    training.objective = captured = Captured(training.objective)
    full = (FACTS[:, :2] == torch.tensor([0, 1])).all(1)
    # Five facts in no order, and one that has no uncollected tail.
    rows = torch.cat([(~full).nonzero()[[17, 3, 12, 4, 11], 0], full.nonzero()[0]])
    training.system.train()
    loss = training.loss(rows, generator(9))
    heads = captured.heads[0]
    assert loss.item() == pytest.approx(captured.objective(heads).item())
    top = training.top or (FACTS[:, :0], FACTS[:, :0])
    tails, others = (
        torch.cat([chosen[rows].long(), *recorder.drawn[side]], 1)
        for side, chosen in zip(("tail", "head"), top, strict=True)
    )
    assert tails.shape == others.shape == (len(rows), 4)
    entities, relations = training.system.encoder(rows)
    facts = FACTS[rows]
    psi1, psi0 = training.system.heads.scores(entities, relations, facts, tails, others)
    torch.testing.assert_close(heads.collected1, psi1[:, 0])
    torch.testing.assert_close(heads.collected0, psi0[:, 0])
    torch.testing.assert_close(heads.uncollected1, psi1[:, 1:])
    torch.testing.assert_close(heads.uncollected0, psi0[:, 1:])
    for row, (head, relation, tail) in enumerate(facts.tolist()):
        made = [(head, relation, end) for end in tails[row].tolist()]
        made += [(end, relation, tail) for end in others[row].tolist()]
        assert heads.weight[row].tolist() == [float(fact not in COLLECTED) for fact in made]
    assert heads.weight[-1, :4].tolist() == [0, 0, 0, 0]
    assert heads.weight[:-1].all()


@pytest.mark.parametrize("heads", ["mlp", "complex"])
def test_the_penalty_is_the_mean_of_cubes(heads: str) -> None:
    system = make_system(encoder="none", heads=heads)
    rows = torch.arange(7)
    without, weighed = (
        make_training(SelfTraining(4, None), system, penalty=weight)[0].loss(rows, generator(5))
        for weight in (0.0, 0.3)
    )
    entities, relations = (table.tolist() for table in system.encoder())
    total = 0.0
    for h, r, t in FACTS[rows].tolist():
        for vector in (entities[h], relations[r], entities[t]):
            # A relation of two bilinear heads is two complex vectors, one after the other.
            half = WIDTH if heads == "complex" else 0
            if not half:
                total += sum(abs(x) ** 3 for x in vector)
                continue
            for first in range(0, len(vector), 2 * half):
                pairs = zip(
                    vector[first : first + half],
                    vector[first + half : first + 2 * half],
                    strict=True,
                )
                total += sum(abs(complex(*pair)) ** 3 for pair in pairs)
    assert (weighed - without).item() == pytest.approx(0.3 * total / len(rows), rel=1e-5)


def test_the_gradient_reaches_every_parameter() -> None:
    training, _ = make_training(SelfTraining(8, 0, 0.5, 3))
    training.begin_epoch(1, generator())
    training.system.train()
    training.loss(torch.arange(10), generator()).backward()
    for name, parameter in training.system.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


WITHOUT_PU = ["margin", "pairwise", "pointwise"]


def without_pu(graph: KnowledgeGraph, objective: str, reading: str) -> SpeculativeTraining:
    recipe = get_recipe("npugraph")
    options = {"reading": reading, "objective": objective, "d": 8, "negatives": 4, "dropout": 0.0}
    training = recipe.build(make_settings(recipe.settings, options), graph)
    assert isinstance(training, SpeculativeTraining)
    return training


@pytest.mark.parametrize("objective", WITHOUT_PU)
def test_plain_losses_have_no_printed_reading(objective: str, toy_graph: KnowledgeGraph) -> None:
    with pytest.raises(SettingsError, match="exception"):
        without_pu(toy_graph, objective, "printed")


@pytest.mark.parametrize("objective", WITHOUT_PU)
def test_training_without_pu_ranks_collected_facts_above_others(
    objective: str, toy_graph: KnowledgeGraph
) -> None:
    training = without_pu(toy_graph, objective, "exception")
    assert isinstance(training.objective, WithoutPU)
    optimizer = torch.optim.Adam(training.system.parameters(), lr=0.02)
    rows, rng = torch.arange(len(toy_graph)), generator()
    for _ in range(60):
        optimizer.zero_grad()
        training.loss(rows, rng).backward()
        optimizer.step()
    known = {tuple(fact) for fact in toy_graph.facts.tolist()}
    everything = torch.cartesian_prod(torch.arange(5), torch.arange(2), torch.arange(5))
    collected = torch.tensor([tuple(fact) in known for fact in everything.tolist()])
    scores = training.system.eval().score(everything)
    assert scores[collected].mean() > scores[~collected].mean()
