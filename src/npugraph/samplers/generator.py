"""Candidates that are no entity: vectors made by a trained generator."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from npugraph.graph import Side
from npugraph.samplers.base import Candidates, Sampler


class Generated(Sampler):
    """Another sampler's candidates and ``count`` generated ones (PUDA, Tang et al. 2022).

        vector = tanh(W2 dropout(leaky_relu(W1 z + b1)) + b2),   z ~ Normal(0, 1)^width

    with width / 8 hidden units. The vectors stand in the place of the missing entity. Training
    moves the parameters here against the loss (see ``maximize`` of the torch optimisers).
    """

    def __init__(
        self,
        drawn: Sampler,
        width: int,
        count: int,
        rng: torch.Generator,
        dropout: float = 0.5,
    ) -> None:
        """Generate ``count`` vectors of ``width`` numbers beside the candidates of ``drawn``."""
        super().__init__()
        self.drawn = drawn
        self.width = width
        self.count = count
        self.dropout = dropout
        self.first = _linear(width, max(1, width // 8), rng)
        self.second = _linear(max(1, width // 8), width, rng)

    def generator_parameters(self) -> list[nn.Parameter]:
        """Return what is trained against the loss."""
        return [*self.first.parameters(), *self.second.parameters()]

    def generate(self, groups: int, rng: torch.Generator) -> Tensor:
        """Return vectors [groups, count, width]."""
        weight = self.first.weight
        shape = (groups, self.count, self.width)
        noise = torch.randn(shape, generator=rng, device=weight.device, dtype=weight.dtype)
        hidden = functional.leaky_relu(self.first(noise))
        # Not nn.Dropout: its draws come from the global stream.
        chance = torch.rand(hidden.shape, generator=rng, device=hidden.device)
        hidden = hidden * (chance >= self.dropout) / (1 - self.dropout)
        return torch.tanh(self.second(hidden))

    def looked_up(self, facts: int) -> int | None:
        """Those that are drawn, and those that are made, which weigh as much."""
        drawn = self.drawn.looked_up(facts)
        return None if drawn is None else drawn + facts * self.count

    def candidates(
        self, facts: Tensor, rows: Tensor, side: Side, rng: torch.Generator
    ) -> Candidates | None:
        """Draw and generate for one side of a batch; generated candidates always count."""
        drawn = self.drawn.candidates(facts, rows, side, rng)
        if drawn is None:
            raise TypeError("Generated candidates cannot stand beside every entity.")
        counts = drawn.counts
        if counts is not None:
            counts = functional.pad(counts, (0, self.count), value=True)
        return Candidates(drawn.ids, counts, self.generate(len(drawn.ids), rng))


def _linear(wide: int, high: int, rng: torch.Generator) -> nn.Linear:
    """Return a linear layer with torch's usual start, drawn from ``rng``."""
    # Made on no device first, so that nothing is drawn from the global stream.
    layer = nn.Linear(wide, high, device="meta").to_empty(device="cpu")
    limit = 1 / math.sqrt(wide)
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            parameter.uniform_(-limit, limit, generator=rng)
    return layer
