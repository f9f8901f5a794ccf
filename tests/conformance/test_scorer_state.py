"""Scorers with parameters: drawn from the given generator alone, and restored as they were."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from conformance.test_scorers import HEADS
from npugraph.graph import SIDES, Side
from npugraph.recipes.npugraph import heads
from npugraph.recipes.npugraph.heads import TwoHeads
from npugraph.scorers import Scorer
from scorer_cases import CASES, tables

MAKES: dict[str, Callable[[], nn.Module]] = {name: case.make for name, case in CASES.items()}
MAKES |= {f"heads, {name}": make for name, make in HEADS.items()}
every_make = pytest.mark.parametrize("name", MAKES)


def scores(module: nn.Module, side: Side) -> Tensor:
    """Score every entity for some queries, by the second head where there are two."""
    module.eval()
    heads = {"head": 0} if isinstance(module, TwoHeads) else {}
    entities, relations = tables(module)  # type: ignore[arg-type]
    with torch.no_grad():
        found: Tensor = module.score_all(entities[:3], relations[:3], entities, side, **heads)
    return found


def test_every_pair_of_heads_is_under_test() -> None:
    defined = {
        kind
        for kind in vars(heads).values()
        if isinstance(kind, type) and issubclass(kind, TwoHeads) and kind is not TwoHeads
    }
    assert defined == {type(make()) for make in HEADS.values()}
    assert not any(issubclass(kind, Scorer) for kind in defined)


@every_make
@pytest.mark.parametrize("side", SIDES)
def test_the_same_generator_gives_the_same_scorer(name: str, side: Side) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, other = MAKES[name](), MAKES[name]()
    left, right, again = scores(one, side), scores(other, side), scores(one, side)
    assert torch.equal(left, right)
    assert torch.equal(left, again)
    # Neither building nor scoring draws from the global stream.
    assert torch.equal(torch.get_rng_state(), before)


@every_make
@pytest.mark.parametrize("side", SIDES)
def test_its_state_can_be_restored(name: str, side: Side) -> None:
    one, other = MAKES[name](), MAKES[name]()
    with torch.no_grad():
        for parameter in one.parameters():
            parameter += torch.arange(1, parameter.numel() + 1).view_as(parameter) / 10
    changed = scores(one, side)
    if list(one.parameters()):
        assert not torch.equal(changed, scores(other, side))
    other.load_state_dict({key: value.clone() for key, value in one.state_dict().items()})
    assert torch.equal(changed, scores(other, side))
