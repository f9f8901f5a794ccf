"""Chance: scores that know nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from npugraph.encoders import Lookup
from npugraph.graph import KnowledgeGraph, Side
from npugraph.model import Model
from npugraph.recipes.base import Recipe
from npugraph.seeds import number
from npugraph.settings import TrainSettings, setting
from npugraph.training.batch_loss import NoTraining, Training


@dataclass(frozen=True)
class RandomSettings(TrainSettings):
    """Settings of random; one epoch, as there is nothing to learn."""

    epochs: int = setting(1, "passes over the training facts", low=1)


class RandomSystem(Model):
    """Scores that are even in [0, 1): a hash of the fact and the seed.

    A fact has the same score however it is asked for, on every device.
    """

    def __init__(self, num_entities: int, num_relations: int, seed: int) -> None:
        """Score the facts of a graph of this size by chance."""
        # Vectors of width 0: there is nothing to learn, but a device and a state to save.
        tables = Lookup(torch.zeros(num_entities, 0), torch.zeros(num_relations, 0))
        super().__init__(tables, num_entities, num_relations)
        self.key = number(seed, "random")

    def score(self, facts: Tensor) -> Tensor:
        """Score facts [..., 3]: float64 [...]."""
        return self._hash(*facts.unbind(-1))

    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing ``side`` of queries [q]: [q, E]."""
        entities = torch.arange(self.num_entities, device=known.device)
        given, by = known.unsqueeze(1), relation.unsqueeze(1)
        head, tail = (given, entities) if side == "tail" else (entities, given)
        return self._hash(head, by, tail)

    def _hash(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Return numbers spread evenly over [0, 1); what is broadcast is mixed once."""
        mixed = _mix(_mix(_mix(head ^ self.key) ^ relation) ^ tail)
        return _shift(mixed, 11).double() / 2**53


def _mix(value: Tensor) -> Tensor:
    """Return a well mixed int64 of each int64 (splitmix64); products wrap around."""
    value = value + -0x61C8864680B583EB
    value = (value ^ _shift(value, 30)) * -0x40A7B892E31B1A47
    value = (value ^ _shift(value, 27)) * -0x6B2FB644ECCEEE15
    return value ^ _shift(value, 31)


def _shift(value: Tensor, bits: int) -> Tensor:
    """Shift right without sign."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def build(settings: RandomSettings, train: KnowledgeGraph) -> Training:
    """Make the system; nothing is trained."""
    system = RandomSystem(train.num_entities, train.num_relations, settings.seed)
    return NoTraining(system, train.facts)


RANDOM = Recipe(
    name="random",
    summary="Chance: every fact has a random score.",
    source="none",
    settings=RandomSettings,
    build=build,
    parts={"scorer": "a hash of the fact and the seed"},
)
