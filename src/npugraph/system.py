"""A system: encoder and scorer together, with the sampler and the objective that train them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from npugraph.encoders import Encoder
from npugraph.objectives import Objective, Scored
from npugraph.samplers import Sampler
from npugraph.scorers import SIDES, Scorer, Side


class System(nn.Module):
    """Scores facts by id: an encoder makes representations, a scorer compares them.

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
        super().__init__()
        self.encoder = encoder
        self.scorer = scorer
        self.num_entities = num_entities
        self.num_relations = num_relations
        self.reciprocal = reciprocal

    @property
    def device(self) -> torch.device:
        """The device the parameters are on."""
        return next(self.parameters()).device

    @torch.no_grad()
    def score(self, facts: Tensor) -> Tensor:
        """Score facts [n, 3]: [n]. With reciprocal relations, the mean of both directions."""
        entities, relations = self.encoder()
        head, relation, tail = facts.unbind(-1)
        forward = self.scorer.score(
            embedding(head, entities), embedding(relation, relations), embedding(tail, entities)
        )
        if not self.reciprocal:
            return forward
        twin = embedding(relation + self.num_relations, relations)
        backward = self.scorer.score(embedding(tail, entities), twin, embedding(head, entities))
        return (forward + backward) / 2

    @torch.no_grad()
    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing ``side`` of queries [q]: [q, E]."""
        entities, relations = self.encoder()
        relation, side = self._direct(relation, side)
        query = embedding(known, entities), embedding(relation, relations)
        return self.scorer.score_all(*query, entities, side).float()

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


@dataclass(frozen=True)
class Parts:
    """Everything a recipe puts together: what to train, on what, and towards what."""

    system: System
    sampler: Sampler
    objective: Objective

    def loss(self, facts: Tensor, rng: torch.Generator) -> Tensor:
        """Return the loss of a batch [b, 3]: the mean over both sides."""
        losses = [
            self.objective(
                self.system.scored(facts, side, self.sampler.candidates(facts, side, rng))
            )
            for side in SIDES
        ]
        return torch.stack(losses).mean()
