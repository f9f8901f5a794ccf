"""Encoders: from ids to representations of every entity and relation."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class Encoder(nn.Module, ABC):
    """Gives representations of all entities [E, w] and of all relations [R, v]."""

    @abstractmethod
    def forward(self) -> tuple[Tensor, Tensor]:
        """Return (entities [E, w], relations [R, v])."""


class Lookup(Encoder):
    """Two tables of free vectors, one row an entity, one row a relation."""

    def __init__(self, entities: Tensor, relations: Tensor) -> None:
        """Start from the given tables."""
        super().__init__()
        self.entities = nn.Parameter(entities)
        self.relations = nn.Parameter(relations)

    @classmethod
    def normal(
        cls,
        entities: tuple[int, int],
        relations: tuple[int, int],
        scale: float,
        rng: torch.Generator,
    ) -> Lookup:
        """Draw both tables, of the given shapes, from a normal distribution of width ``scale``."""
        return cls(
            torch.randn(entities, generator=rng) * scale,
            torch.randn(relations, generator=rng) * scale,
        )

    def forward(self) -> tuple[Tensor, Tensor]:
        """Return the tables themselves."""
        return self.entities, self.relations
