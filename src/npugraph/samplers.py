"""Samplers: which uncollected facts stand beside each collected one in training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor


class Sampler(ABC):
    """Chooses the candidates that a collected fact is compared with."""

    @abstractmethod
    def candidates(
        self, facts: Tensor, side: Literal["head", "tail"], rng: torch.Generator
    ) -> Tensor | None:
        """Return entity ids [b, k] to put in place of ``side``, or None for every entity."""


class AllEntities(Sampler):
    """Every entity is a candidate; nothing is drawn."""

    def candidates(
        self, facts: Tensor, side: Literal["head", "tail"], rng: torch.Generator
    ) -> Tensor | None:
        """Return None: every entity."""
        return None
