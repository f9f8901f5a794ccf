"""The optimiser that the settings ask for, or one per group of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from npugraph.peers import ALONE
from npugraph.settings import TrainSettings
from npugraph.training.batch_loss import Training
from npugraph.training.rowwise import RowwiseAdagrad

KINDS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adagrad": torch.optim.Adagrad,
    "rowwise-adagrad": RowwiseAdagrad,
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
}
# Tables that an optimiser keeps beside each of weights; rowwise-adagrad keeps a number per row.
STATES = {"adagrad": 1, "adam": 2, "sgd": 0}


def make_optimizer(training: Training, settings: TrainSettings) -> torch.optim.Optimizer:
    """Return the optimiser that the settings ask for.

    A group of the training may name another one, and a step size of its own.
    """
    groups = training.parameter_groups()
    graphs = settings.cuda_graph and training.system.device.type == "cuda"

    def make(kind: str, params: list[dict[str, Any]]) -> torch.optim.Optimizer:
        options: dict[str, Any] = {}
        if kind == "adam":
            options = {"capturable": graphs, "fused": True}
        if kind == "rowwise-adagrad":
            share = training.system.share
            options = {"seed": settings.seed, "peers": share.peers if share.blocks else ALONE}
        return KINDS[kind](params, lr=settings.learning_rate, **options)

    named = [group.pop("optimizer", settings.optimizer) for group in groups]
    if len(set(named)) == 1:
        optimizer = make(named[0], groups)
    else:
        optimizer = OnePerGroup(
            [make(kind, [group]) for kind, group in zip(named, groups, strict=True)]
        )
    for group in optimizer.param_groups:
        # What it starts from follows from the settings.
        group["initial_lr"] = group["lr"]
    return optimizer


def state_bytes(training: Training, settings: TrainSettings) -> int:
    """Return how many bytes the optimiser will keep."""

    def kept(kind: str, weight: Tensor) -> int:
        if kind == "rowwise-adagrad":
            return 4 * len(weight) if weight.dim() else 4
        return STATES[kind] * weight.numel() * weight.element_size()

    return sum(
        kept(group.get("optimizer", settings.optimizer), weight)
        for group in training.parameter_groups()
        for weight in group["params"]
    )


class OnePerGroup(torch.optim.Optimizer):
    """Several optimisers, each with one group of parameters, as one: one step, one state."""

    def __init__(self, parts: list[torch.optim.Optimizer]) -> None:
        """Put the optimisers together; their groups and states are this one's from now on."""
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})
        for part in parts:
            self.state.update(part.state)
        self._share()

    def _share(self) -> None:
        for part, group in zip(self.parts, self.param_groups, strict=True):
            part.param_groups = [group]
            part.state = self.state

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step of each."""
        for part in self.parts:
            part.step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of all."""
        super().load_state_dict(state_dict)
        self._share()
