from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from npugraph.recipes.path.plus import PlusSettings, PlusTraining, build
from npugraph.training.optimizers import OnePerGroup, make_optimizer
from recipe_cases import CASES, groups


def made(count: int = 3, seed: int = 0) -> tuple[list[nn.Parameter], list[Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    weights = [nn.Parameter(torch.randn(4, generator=rng)) for _ in range(2)]
    return weights, [torch.randn(4, generator=rng) for _ in range(count)]


def together(weights: list[nn.Parameter]) -> OnePerGroup:
    first, second = weights
    return OnePerGroup([torch.optim.Adam([first], lr=0.1), torch.optim.Adagrad([second], lr=0.2)])


def descend(optimizer: Any, weights: list[nn.Parameter], targets: list[Tensor]) -> None:
    for target in targets:
        optimizer.zero_grad()
        sum((weight - target).square().sum() for weight in weights).backward()
        optimizer.step()


def test_every_group_is_moved_by_its_own_optimiser() -> None:
    weights, targets = made()
    descend(together(weights), weights, targets)
    alone, _ = made()
    kinds = (torch.optim.Adam, 0.1), (torch.optim.Adagrad, 0.2)
    for weight, (kind, size) in zip(alone, kinds, strict=True):
        descend(kind([weight], lr=size), [weight], targets)
    assert all(torch.equal(a, b) for a, b in zip(weights, alone, strict=True))


def test_its_state_can_be_restored() -> None:
    weights, targets = made()
    optimizer = together(weights)
    descend(optimizer, weights, targets[:2])
    other, _ = made()
    with torch.no_grad():
        for a, b in zip(other, weights, strict=True):
            a.copy_(b)
    again = together(other)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for one, those in ((optimizer, weights), (again, other)):
        descend(one, those, targets[2:])
    assert all(torch.equal(a, b) for a, b in zip(weights, other, strict=True))


def test_a_step_size_set_from_outside_counts() -> None:
    weights, targets = made()
    optimizer = together(weights)
    optimizer.load_state_dict(optimizer.state_dict())
    before = [weight.detach().clone() for weight in weights]
    optimizer.param_groups[1]["lr"] = 0.0
    descend(optimizer, weights, targets)
    assert not torch.equal(weights[0], before[0])
    assert torch.equal(weights[1], before[1])


def test_groups_name_their_optimiser() -> None:
    settings = CASES["npugraph-plus"].settings(learning_rate=0.01, complex_learning_rate=0.3)
    assert isinstance(settings, PlusSettings)
    training: PlusTraining = build(settings, groups().train)
    optimizer = make_optimizer(training, settings)
    assert isinstance(optimizer, OnePerGroup)
    kinds = [type(part) for part in optimizer.parts]
    assert kinds == [torch.optim.Adam, torch.optim.Adagrad]
    assert [group["initial_lr"] for group in optimizer.param_groups] == [0.01, 0.3]
    same = CASES["npugraph-plus"].settings(optimizer="adagrad")
    assert isinstance(make_optimizer(training, same), torch.optim.Adagrad)
