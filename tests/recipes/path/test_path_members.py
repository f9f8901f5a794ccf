"""Several models of paths as one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from npugraph.errors import SettingsError
from npugraph.fitting import Fitted, fit, on_graph
from npugraph.graph import SIDES
from npugraph.peers import Peers
from npugraph.recipes import get_recipe
from npugraph.recipes.path import npu_training
from npugraph.recipes.path.members import MembersTraining, PathMembers
from npugraph.recipes.path.model import PathModel
from npugraph.recipes.path.npu_model import WeightedPathModel
from npugraph.recipes.path.plus import PlusModel
from npugraph.recipes.path.posterior import PathPosterior, posterior_of
from npugraph.settings import TrainSettings
from npugraph.training.memory import plan_memory
from npugraph.training.run_folder import Run
from npugraph.training.split import split
from npugraph.training.warm import Start
from recipe_cases import CASES, groups

MEMBERS = 3
# Nothing is drawn in a step, so a member's steps are those of a training of its own.
NOTHING_DRAWN = {"edge_dropout": 0.0, "hide_pair_share": 0.0}


def settings(recipe: str = "path", **changes: Any) -> TrainSettings:
    return CASES[recipe].settings(**{"members": MEMBERS, **changes})


def training(**changes: Any) -> MembersTraining:
    made = get_recipe("path").build(settings(**changes), groups().train)
    assert isinstance(made, MembersTraining)
    return made


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    return fit(groups(), "path", settings())


def members_of(fitted: Fitted) -> PathMembers:
    assert isinstance(fitted.system, PathMembers)
    assert len(fitted.system.each()) == MEMBERS
    return fitted.system


def weights_of(system: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in system.state_dict().items()}


def test_the_first_member_is_trained_as_it_is_alone() -> None:
    last: list[dict[str, Tensor]] = []

    def keep(system: torch.nn.Module) -> dict[str, Any]:
        part = system.each()[0] if isinstance(system, PathMembers) else system
        last.append(weights_of(part))
        return {}

    fit(groups(), "path", settings(**NOTHING_DRAWN), judge=keep)
    among = last[-1]
    fit(groups(), "path", settings(**NOTHING_DRAWN, members=1), judge=keep)
    assert among.keys() == last[-1].keys()
    assert all(torch.equal(among[name], last[-1][name]) for name in among)


def test_members_differ_in_their_weights_and_in_the_order_of_questions() -> None:
    made = training()
    first, *others = made.each()
    for other in others:
        assert other.num_items() == first.num_items()
        assert not torch.equal(other.items, first.items)
        assert not torch.equal(other.system.answer, first.system.answer)
        # Each asks the same questions in a whole pass.
        assert torch.equal(_asked(other), _asked(first))


def _asked(part: Any) -> Tensor:
    items: Tensor = part._pass(0)
    return items[items >= 0].sort().values


def test_every_value_is_the_mean_of_the_members(fitted: Fitted) -> None:
    system = members_of(fitted).eval()
    known, relation = torch.arange(12), torch.arange(12) % 4
    facts = torch.cat([groups().train.facts[:7], groups().test.facts[:5]])
    for side in SIDES:
        each = [member.score_all(known, relation, side) for member in system.each()]
        found = system.score_all(known, relation, side)
        torch.testing.assert_close(found, sum(each) / MEMBERS)
        logs = sum(scores.log_softmax(1) for scores in each) / MEMBERS
        torch.testing.assert_close(system.log_all(known, relation, side), logs)
    judged = [member.judge(facts) for member in system.each()]
    found = system.judge(facts)
    for name in ("raw", "among_all", "among_new"):
        mean = sum(getattr(one, name) for one in judged) / MEMBERS
        torch.testing.assert_close(getattr(found, name), mean)
    thorough = [member.judge_thoroughly(facts).thinned for member in system.each()]
    thinned = system.judge_thoroughly(facts).thinned
    assert thinned is not None
    torch.testing.assert_close(thinned.raw, sum(one.raw for one in thorough) / MEMBERS)
    assert found.thinned is None


def test_a_fact_that_is_asked_about_is_hidden_from_all(fitted: Fitted) -> None:
    system, fact = members_of(fitted).eval(), groups().train.facts[3]
    known, relation = fact[:1], fact[1:2]
    without = system.score_all_without(fact)(known, relation, "tail")
    each = [m.score_all_without(fact)(known, relation, "tail") for m in system.each()]
    torch.testing.assert_close(without, sum(each) / MEMBERS)
    assert not torch.allclose(without, system.score_all(known, relation, "tail"))


def test_stored_facts_have_a_probability_and_strongest_paths(fitted: Fitted) -> None:
    system, facts = members_of(fitted).eval(), groups().train.facts
    found = system.probability(facts, torch.ones(len(facts), dtype=torch.bool))
    assert bool(((found >= 0) & (found <= 1)).all())
    paths = system.strongest_paths(facts[0], 3)
    assert paths
    assert paths == system.each()[0].strongest_paths(facts[0], 3)


def test_another_graph_is_for_all_members(fitted: Fitted) -> None:
    whole = replace(groups().whole(), part=None)
    moved = on_graph(fitted, whole).system
    assert isinstance(moved, PathMembers)
    assert len(whole.index()) > len(members_of(fitted).stored)
    assert [len(member.stored) for member in moved.each()] == [len(whole.index())] * MEMBERS
    assert moved.stored is moved.each()[0].stored
    old = weights_of(members_of(fitted))
    assert all(torch.equal(old[name], value) for name, value in weights_of(moved).items())


def test_the_loss_is_the_sum() -> None:
    made, rows = training(**NOTHING_DRAWN), torch.arange(9)
    made.eval()
    loss = made.loss(rows, torch.Generator().manual_seed(0))
    each = [part.loss(rows, torch.Generator().manual_seed(0)) for part in made.each()]
    torch.testing.assert_close(loss, torch.stack(each).sum())


def test_memory_is_that_of_all_members() -> None:
    device = torch.device("cpu")
    one, all_three = (
        get_recipe("path").build(s, groups().train) for s in (settings(members=1), settings())
    )
    assert all_three.step_bytes(8, device) == MEMBERS * one.step_bytes(8, device)
    assert "members" in all_three.memory_settings
    plans = [plan_memory(made, settings(), 100, device) for made in (one, all_three)]
    assert plans[1].weights == MEMBERS * plans[0].weights


def test_plus_takes_members_as_its_paths() -> None:
    made = fit(groups(), "npugraph-plus", settings("npugraph-plus")).system
    assert isinstance(made, PlusModel)
    assert isinstance(made.path, PathMembers)
    facts = groups().test.facts[:6]
    known = facts[:, 0], facts[:, 1]
    scores = made.score_all(*known, "tail").gather(1, facts[:, 2:]).squeeze(1)
    new = ~made.path.stored.contains(facts)
    assert bool(new.any())
    torch.testing.assert_close(made.score_as(facts, "tail")[new], scores[new])


def test_weighed_members_believe_what_the_first_has_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case, asked = settings("npugraph-path", warmup=2, soft_facts=0.2), []

    def counted(model: WeightedPathModel, **options: Any) -> PathPosterior | None:
        asked.append(model)
        return posterior_of(model, **options)

    monkeypatch.setattr(npu_training, "posterior_of", counted)
    made = fit(groups(), "npugraph-path", case)
    assert isinstance(made.system, PathMembers)
    first, *others = made.system.each()
    assert isinstance(first, WeightedPathModel)
    assert asked == [first]
    assert int(first.running.epochs) == 1
    assert float(first.belief.std()) > 0
    for other in others:
        assert isinstance(other, WeightedPathModel)
        assert torch.equal(other.weight, first.weight)
        assert torch.equal(other.soft, first.soft)
        assert torch.equal(other.edges.fact, first.edges.fact)
        assert not torch.equal(other.answer, first.answer)
    assert "posterior_mean" in made.metrics[-1]


def test_a_training_starts_from_another_one_with_members(tmp_path: Path) -> None:
    fitted = fit(groups(), "path", settings(epochs=1), out=tmp_path / "first")
    start = Start(Run.open(tmp_path / "first"), trains=False)
    made = fit(groups(), "path", settings(epochs=1), start=start)
    old, new = weights_of(members_of(fitted)), weights_of(made.system)
    assert old.keys() == new.keys()
    assert all(torch.equal(old[name], new[name]) for name in old)


def test_ranks_are_refused() -> None:
    with pytest.raises(SettingsError, match="members=1"):
        split(training(), settings(), Peers(0, 2))


def test_one_member_is_the_plain_model() -> None:
    made = get_recipe("path").build(settings(members=1), groups().train)
    assert type(made.system) is PathModel
