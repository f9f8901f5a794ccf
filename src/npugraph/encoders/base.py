"""What an encoder is, and the plainest one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from npugraph.machine import check_table

# Rows of a table of 16 bits that are drawn at once, in 32.
AT_ONCE = 2**16


class Encoder(nn.Module, ABC):
    """Gives representations of all entities [E, w] and of all relations [R, v]."""

    @abstractmethod
    def forward(self, hidden_facts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return (entities [E, w], relations [R, v]).

        Args:
            hidden_facts: numbers [b] of training facts that must not serve as evidence; in
                training these are the facts of the batch. None: all facts may.
        """

    def step_bytes(self) -> int:
        """Return about how many bytes a training step holds in here, to plan memory by."""
        return 0


class Lookup(Encoder):
    """Two tables of free vectors, one row an entity, one row a relation."""

    def __init__(self, entities: Tensor, relations: Tensor) -> None:
        """Start from the given tables."""
        super().__init__()
        self.entities = nn.Parameter(entities)
        self.relations = nn.Parameter(relations)

    @classmethod
    def uniform(
        cls,
        entities: tuple[int, int],
        relations: tuple[int, int],
        limits: tuple[float, float],
        rng: torch.Generator,
    ) -> Lookup:
        """Draw both tables evenly from +-limit, one limit for entities, one for relations."""

        def table(shape: tuple[int, int], limit: float) -> Tensor:
            check_table(shape, torch.float32)
            # In place: a large table must not be there twice.
            return torch.rand(shape, generator=rng).mul_(2).sub_(1).mul_(limit)

        return cls(table(entities, limits[0]), table(relations, limits[1]))

    @classmethod
    def xavier_uniform(
        cls, entities: tuple[int, int], relations: tuple[int, int], rng: torch.Generator
    ) -> Lookup:
        """Draw tables of the given shapes evenly from +-sqrt(6 / (rows + columns))."""
        limits = math.sqrt(6 / sum(entities)), math.sqrt(6 / sum(relations))
        return cls.uniform(entities, relations, limits, rng)

    @classmethod
    def normal(
        cls,
        entities: tuple[int, int],
        relations: tuple[int, int],
        scale: float,
        rng: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> Lookup:
        """Draw both tables, of the given shapes, from a normal distribution of width ``scale``."""

        def table(shape: tuple[int, int]) -> Tensor:
            check_table(shape, dtype)
            if dtype == torch.float32:
                return torch.randn(shape, generator=rng).mul_(scale)
            made = torch.empty(shape, dtype=dtype)
            for part in torch.split(made, AT_ONCE):
                part.copy_(torch.randn(part.shape, generator=rng).mul_(scale))
            return made

        return cls(table(entities), table(relations))

    def forward(self, hidden_facts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the tables themselves; they hold no evidence to hide."""
        return self.entities, self.relations


def xavier_normal(*shape: int, rng: torch.Generator) -> nn.Parameter:
    """Draw a matrix from a normal distribution of variance 2 / (rows + columns)."""
    return nn.Parameter(torch.randn(shape, generator=rng) * (2 / sum(shape[-2:])) ** 0.5)
