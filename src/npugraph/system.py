"""Systems: an encoder and scores together, and what the loop needs to train them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from npugraph.encoders import Encoder
from npugraph.graph import SIDES, Side
from npugraph.objectives import Objective, Scored
from npugraph.samplers import Sampler
from npugraph.scorers import Scorer


class Model(nn.Module, ABC):
    """Scores facts by id: an encoder makes representations, a subclass compares them."""

    def __init__(self, encoder: Encoder, num_entities: int, num_relations: int) -> None:
        """Keep the encoder and the sizes."""
        super().__init__()
        self.encoder = encoder
        self.num_entities = num_entities
        self.num_relations = num_relations
        self._frozen: tuple[Tensor, Tensor] | None = None

    @property
    def device(self) -> torch.device:
        """The device the parameters are on."""
        return next(self.parameters()).device

    def train(self, mode: bool = True) -> Self:
        """Switch between training and evaluation; what was represented before is forgotten."""
        self._frozen = None
        return super().train(mode)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load weights; what was represented before is forgotten."""
        self._frozen = None
        return super().load_state_dict(*args, **kwargs)

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        # Behind .to(), .half() and the like: the tables move, so must what was made of them.
        self._frozen = None
        super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        return self

    def represent(self) -> tuple[Tensor, Tensor]:
        """Return all entities and relations; in evaluation mode they are computed once."""
        if self._frozen is not None:
            return self._frozen
        entities, relations = self.encoder()
        if not self.training:
            self._frozen = entities, relations
        return entities, relations

    @abstractmethod
    def score(self, facts: Tensor) -> Tensor:
        """Score facts [n, 3]: [n], without gradients; higher is more plausible."""

    @abstractmethod
    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing ``side`` of queries [q]: [q, E]."""


class System(Model):
    """One score a fact.

    With ``reciprocal`` every relation r has a twin r + R for the other direction, and a head is
    asked for as the tail of the twin: (?, r, t) becomes (t, r + R, ?).
    """

    def __init__(
        self,
        encoder: Encoder,
        scorer: Scorer,
        num_entities: int,
        num_relations: int,
        reciprocal: bool = False,
    ) -> None:
        """Put the parts together; the encoder must know 2R relations if ``reciprocal``."""
        super().__init__(encoder, num_entities, num_relations)
        self.scorer = scorer
        self.reciprocal = reciprocal

    @torch.no_grad()
    def score(self, facts: Tensor) -> Tensor:
        """Score facts [n, 3]: [n]. With reciprocal relations, the mean of both directions."""
        entities, relations = self.represent()
        head, relation, tail = facts.unbind(-1)
        ends = embedding(head, entities), embedding(tail, entities)
        forward = self.scorer.score(ends[0], embedding(relation, relations), ends[1])
        if not self.reciprocal:
            return forward
        twin = embedding(relation + self.num_relations, relations)
        return (forward + self.scorer.score(ends[1], twin, ends[0])) / 2

    @torch.no_grad()
    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing ``side`` of queries [q]: [q, E]."""
        entities, relations = self.represent()
        relation, side = self._direct(relation, side)
        query = embedding(known, entities), embedding(relation, relations)
        scores = self.scorer.score_all(*query, entities, side)
        # Half precision ties where it must not; float64 stays what it is.
        return scores.float() if scores.dtype.itemsize < 4 else scores

    def _direct(self, relation: Tensor, side: Side) -> tuple[Tensor, Side]:
        """Turn a question for a head into one for a tail where relations have twins."""
        if self.reciprocal and side == "head":
            return relation + self.num_relations, "tail"
        return relation, side

    def scored(self, facts: Tensor, side: Side, candidates: Tensor | None) -> Scored:
        """Score one side of a batch [b, 3] for training: against candidates or every entity."""
        entities, relations = self.encoder()
        known, target = (facts[:, 0], facts[:, 2]) if side == "tail" else (facts[:, 2], facts[:, 0])
        relation, asked = self._direct(facts[:, 1], side)
        # embedding(), not indexing: its backward does not serialise on repeated ids.
        known_vector = embedding(known, entities)
        relation_vector = embedding(relation, relations)
        target_vector = embedding(target, entities)
        if candidates is None:
            scores = self.scorer.score_all(known_vector, relation_vector, entities, asked)
        else:
            columns = torch.cat([target.unsqueeze(1), candidates], dim=1)
            ends = (known_vector.unsqueeze(1), embedding(columns, entities))
            head, tail = ends if asked == "tail" else ends[::-1]
            scores = self.scorer.score(head, relation_vector.unsqueeze(1), tail)
            target = torch.zeros_like(target)
        vectors = (known_vector, relation_vector, target_vector)
        return Scored(scores, target, tuple(self.scorer.factors(v) for v in vectors))


class Training(ABC):
    """What the loop trains: a system, and how a batch of facts becomes a loss."""

    system: Model
    facts: Tensor

    def to(self, device: torch.device) -> None:
        """Move the system and the facts to a device."""
        self.system.to(device)
        self.facts = self.facts.to(device)

    @abstractmethod
    def loss(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Return the loss of a batch, given as numbers [b] of training facts."""

    def begin_epoch(self, epoch: int, rng: torch.Generator) -> bool:
        """Prepare epoch ``epoch`` (from 1); tell whether the loss works on other tensors now."""
        return False

    def health(self) -> dict[str, float | bool]:
        """Return what the log should say about the state of the system after an epoch."""
        return {}


class PlainTraining(Training):
    """One score a fact: sampler and objective on both sides of each batch."""

    system: System

    def __init__(
        self, system: System, sampler: Sampler, objective: Objective, facts: Tensor
    ) -> None:
        """Train ``system`` on facts [n, 3]."""
        self.system = system
        self.sampler = sampler
        self.objective = objective
        self.facts = facts

    def loss(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Return the mean over both sides."""
        facts = self.facts[rows]
        losses = [
            self.objective(
                self.system.scored(facts, side, self.sampler.candidates(facts, side, rng))
            )
            for side in SIDES
        ]
        return torch.stack(losses).mean()
