"""Systems: an encoder and scores together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from npugraph.encoders import Encoder
from npugraph.graph import Side, flip
from npugraph.objectives import Scored
from npugraph.samplers import Candidates
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

    def score_among(self, known: Tensor, relation: Tensor, side: Side, among: Tensor) -> Tensor:
        """Score the entities ``among`` [k] as the missing ``side`` of queries [q]: [q, k]."""
        return self.score_all(known, relation, side)[:, among]

    def score_as(self, facts: Tensor, side: Side) -> Tensor:
        """Score facts [n, 3] as answers to the question for their ``side``: [n].

        It is the entry of ``score_all`` that belongs to the fact.
        """
        return self.score(facts)

    def probability(self, facts: Tensor, collected: Tensor) -> Tensor | None:
        """Return the probability that facts [n, 3] are true, given which are collected [n].

        None: this system estimates none.
        """
        return None


# How a score becomes a probability: by the sigmoid, or cut to [0, 1].
Link = Literal["sigmoid", "clip"]


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
        link: Link | None = None,
    ) -> None:
        """Put the parts together; the encoder must know 2R relations if ``reciprocal``.

        ``link`` says how scores are probabilities, where the objective makes them so.
        """
        super().__init__(encoder, num_entities, num_relations)
        self.scorer = scorer
        self.reciprocal = reciprocal
        self.link = link

    @torch.no_grad()
    def score(self, facts: Tensor) -> Tensor:
        """Score facts [n, 3]: [n]. With reciprocal relations, the mean of both directions."""
        forward = self.score_as(facts, "tail")
        if not self.reciprocal:
            return forward
        return (forward + self.score_as(facts, "head")) / 2

    @torch.no_grad()
    def score_as(self, facts: Tensor, side: Side) -> Tensor:
        """Score facts by the relation itself, or by its twin where there is one: [n]."""
        entities, relations = self.represent()
        head, relation, tail = (facts if side == "tail" else flip(facts)).unbind(-1)
        relation, asked = self._direct(relation, side)
        ends = embedding(head, entities), embedding(tail, entities)
        first, last = ends if asked == "tail" else ends[::-1]
        return self.scorer.score(first, embedding(relation, relations), last)

    @torch.no_grad()
    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing ``side`` of queries [q]: [q, E]."""
        return self._scores(known, relation, side, None)

    @torch.no_grad()
    def score_among(self, known: Tensor, relation: Tensor, side: Side, among: Tensor) -> Tensor:
        """Score the entities ``among`` [k] alone: [q, k]."""
        return self._scores(known, relation, side, among)

    def _scores(self, known: Tensor, relation: Tensor, side: Side, among: Tensor | None) -> Tensor:
        entities, relations = self.represent()
        relation, side = self._direct(relation, side)
        query = embedding(known, entities), embedding(relation, relations)
        pool = entities if among is None else embedding(among, entities)
        scores = self.scorer.score_all(*query, pool, side)
        # Half precision ties where it must not; float64 stays what it is.
        return scores.float() if scores.dtype.itemsize < 4 else scores

    def probability(self, facts: Tensor, collected: Tensor) -> Tensor | None:
        """Return the scores of facts [n, 3] through the link, or None without one."""
        if self.link is None:
            return None
        scores = self.score(facts)
        return torch.sigmoid(scores) if self.link == "sigmoid" else scores.clamp(0.0, 1.0)

    def _direct(self, relation: Tensor, side: Side) -> tuple[Tensor, Side]:
        """Turn a question for a head into one for a tail where relations have twins."""
        if self.reciprocal and side == "head":
            return relation + self.num_relations, "tail"
        return relation, side

    def scored(
        self,
        facts: Tensor,
        side: Side,
        candidates: Candidates | None,
        hidden_facts: Tensor | None = None,
    ) -> Scored:
        """Score one side of a batch [b, 3] for training: against candidates or every entity."""
        entities, relations = self.encoder(hidden_facts)
        known, target = (facts[:, 0], facts[:, 2]) if side == "tail" else (facts[:, 2], facts[:, 0])
        relation, asked = self._direct(facts[:, 1], side)
        # embedding(), not indexing: its backward does not serialise on repeated ids.
        known_vector = embedding(known, entities)
        relation_vector = embedding(relation, relations)
        target_vector = embedding(target, entities)
        counts = None
        if candidates is None:
            scores = self.scorer.score_all(known_vector, relation_vector, entities, asked)
        else:
            ends = (known_vector, target_vector)
            head, tail = ends if asked == "tail" else ends[::-1]
            positive = self.scorer.score(head, relation_vector, tail).unsqueeze(1)
            groups = len(candidates.ids)
            given = known_vector.view(groups, -1, known_vector.shape[1])
            by = relation_vector.view(groups, -1, relation_vector.shape[1])
            pool = embedding(candidates.ids, entities)
            if candidates.vectors is not None:
                pool = torch.cat([pool, candidates.vectors], 1)
            negative = self.scorer.score_all(given, by, pool, asked).view(len(facts), -1)
            scores = torch.cat([positive, negative], 1)
            target = torch.zeros_like(target)
            if candidates.counts is not None:
                counts = nn.functional.pad(candidates.counts, (1, 0), value=True)
        vectors = (known_vector, relation_vector, target_vector)
        return Scored(scores, target, tuple(self.scorer.factors(v) for v in vectors), counts)

    def train_scores(self, known: Tensor, relation: Tensor) -> Tensor:
        """Score every entity as the tail of queries [q], with gradients: [q, E].

        ``relation`` may be a twin, r + R.
        """
        entities, relations = self.encoder()
        query = embedding(known, entities), embedding(relation, relations)
        return self.scorer.score_all(*query, entities, "tail")
