"""TransR: a relation is a step in a space of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from npugraph.encoders import Lookup
from npugraph.graph import KnowledgeGraph
from npugraph.model import System
from npugraph.objectives import Objective
from npugraph.recipes.base import Choices, LogRange, Recipe
from npugraph.recipes.common import MarginSettings, make_tables, margin_parts
from npugraph.samplers import Sampler
from npugraph.scorers import TransE, TransR
from npugraph.settings import setting
from npugraph.training.batch_loss import PlainTraining, Sides, Training


@dataclass(frozen=True)
class TransRSettings(MarginSettings):
    """Settings of transr. Published: d=200, otherwise as transe.

    Memory and work grow with d squared: a matrix [d, d] a relation, applied to every candidate.
    """

    d: int = setting(64, "numbers per entity and relation", low=1)
    margin: float = setting(4.0, "how much closer a fact must be than a candidate", low=0)
    warm_start: bool = setting(True, "begin with one epoch of TransE")
    warm_start_rate: float = setting(0.5, "step size of that epoch", low=0)
    epochs: int = setting(100, "passes over the training facts", low=1)


class WarmStarted(PlainTraining):
    """Takes over the tables of TransE, trained for one epoch, before its first epoch."""

    def __init__(
        self,
        system: System,
        sampler: Sampler,
        objective: Objective,
        train: KnowledgeGraph,
        *,
        sides: Sides,
        first: Callable[[], PlainTraining] | None,
        batch_size: int,
        rate: float,
    ) -> None:
        """``first`` makes the training of TransE; None: start from the tables as they are."""
        super().__init__(system, sampler, objective, train, sides=sides)
        self.first = first
        self.batch_size = batch_size
        self.rate = rate

    def begin_epoch(self, epoch: int, rng: torch.Generator) -> bool:
        """Before the first epoch, train TransE by plain gradient descent and copy its tables."""
        if epoch != 1 or self.first is None:
            return False
        device = self.facts.device
        first = self.first().to(device)
        optimizer = torch.optim.SGD(first.parameters(), lr=self.rate)
        order = torch.randperm(len(self.facts), generator=rng, device=device)
        for rows in torch.split(order, self.batch_size):
            optimizer.zero_grad()
            first.loss(rows, rng).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        entities, relations = (table.detach() for table in first.system.encoder())
        own_entities, own_relations = self.system.encoder()
        with torch.no_grad():
            own_entities.copy_(entities)
            own_relations[:, : relations.shape[1]].copy_(relations)
        return False


def with_identity(relations: Tensor) -> Tensor:
    """Append the matrix of the identity to each relation: [R, d] to [R, d + d * d]."""
    identity = torch.eye(relations.shape[1]).flatten().expand(len(relations), -1)
    return torch.cat([relations, identity], 1)


def build(settings: TransRSettings, train: KnowledgeGraph) -> Training:
    """Put TransR, uniform candidates, the margin loss and the start from TransE together."""

    def transe() -> PlainTraining:
        tables = make_tables(settings, train)
        parts = margin_parts(settings, TransE(settings.p, normalize=True), tables, train)
        return PlainTraining(*parts, train, sides=settings.sides)

    start = make_tables(settings, train)
    tables = Lookup(start.entities.detach(), with_identity(start.relations.detach()))
    return WarmStarted(
        *margin_parts(settings, TransR(settings.p), tables, train),
        train,
        sides=settings.sides,
        first=transe if settings.warm_start else None,
        batch_size=settings.batch_size,
        rate=settings.warm_start_rate,
    )


TRANSR = Recipe(
    name="transr",
    summary="TransR started from TransE, uniform candidates, margin loss.",
    source="Lin et al.: Learning Entity and Relation Embeddings for KG Completion (2015)",
    settings=TransRSettings,
    build=build,
    parts={
        "encoder": "one vector an entity, one vector and one matrix a relation",
        "scorer": "TransR",
        "sampler": "drawn evenly",
        "objective": "margin loss",
    },
    space={
        "learning_rate": LogRange(0.1, 3.0),
        "margin": Choices((1.0, 2.0, 4.0, 8.0)),
        "p": Choices((1, 2)),
        "d": Choices((32, 64, 100)),
        "negatives": Choices((1, 10, 25)),
    },
)
