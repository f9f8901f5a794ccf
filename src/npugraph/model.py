"""Systems: an encoder and scores together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from npugraph.encoders import Encoder, Lookup
from npugraph.errors import SettingsError
from npugraph.graph import KnowledgeGraph, Side, Splits, flip
from npugraph.objectives import Scored
from npugraph.peers import WHOLE, Share
from npugraph.samplers import Candidates
from npugraph.scorers import Scorer
from npugraph.triples import Triple


@dataclass(frozen=True)
class FoundPath:
    """A way along stored facts from the head of a fact to its tail.

    Attributes:
        facts: the facts (head, relation, tail) it goes along, as ids, in order.
        forward: for each, whether it is passed from its head to its tail.
        weight: how much it brings to the score; see the model that found it.
    """

    facts: tuple[Triple, ...]
    forward: tuple[bool, ...]
    weight: float


Sparse = Literal["never", "cpu", "always"]


class Model(nn.Module, ABC):
    """Scores facts by id: an encoder makes representations, a subclass compares them.

    Attributes:
        hides_stored: a fact that the model stores as evidence is scored without itself, so its
            score is not the entry of ``score_all``.
        share: what of the model this process holds, where several hold it together.
        sparse: whether a training step gives gradients of the entities that it looked up alone:
            never, on a CPU, or always.
    """

    encoder: Encoder | None
    hides_stored = False
    share: Share = WHOLE
    sparse: Sparse = "never"

    def __init__(self, encoder: Encoder | None, num_entities: int, num_relations: int) -> None:
        """Keep the encoder and the sizes; a model made of other models has no encoder itself."""
        super().__init__()
        self.encoder = encoder
        self.num_entities = num_entities
        self.num_relations = num_relations
        self._frozen: tuple[Tensor, Tensor] | None = None

    @property
    def device(self) -> torch.device:
        """The device the parameters are on."""
        return next(self.parameters()).device

    def has_sparse_steps(self, device: torch.device) -> bool:
        """Tell whether a training step on a device gives gradients of few rows alone."""
        return self.sparse == "always" or (self.sparse == "cpu" and device.type == "cpu")

    def train(self, mode: bool = True) -> Self:
        """Switch between training and evaluation; what was represented before is forgotten."""
        self._frozen = None
        return super().train(mode)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load weights; what was represented before is forgotten, here and in parts."""
        for part in self.modules():
            if isinstance(part, Model):
                part._frozen = None
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
        assert self.encoder is not None, "a model of models is represented by its parts"
        entities, relations = self.encoder()
        if not self.training:
            self._frozen = entities, relations
        return entities, relations

    def on_graph(self, train: KnowledgeGraph) -> Model:
        """Return this model with the facts of another graph as its evidence; relations stay."""
        raise SettingsError(
            "This system learned a vector for every entity of its own graph, so it knows no other "
            "graph; the recipe path does."
        )

    def along(self, train: KnowledgeGraph) -> Model:
        """Return this model with other facts about its own entities as its evidence."""
        raise SettingsError(
            "What this system knows is in its vectors, so facts that it was not trained on are no "
            "evidence for it; they are for the recipes path, npugraph-path and npugraph-plus."
        )

    def rows_by_name(self) -> Mapping[str, Named] | None:
        """Return which weights have a row, or several, per entity or relation; None: not told.

        Those of relations have a row for each twin, too, where there are twins. A training can
        start from the weights of another graph where this is told.
        """
        return None

    def kinds_of(self, facts: Tensor) -> dict[str, Tensor]:
        """Return masks [n] of facts [n, 3] whose validation figures are logged apart, by name."""
        return {}

    @abstractmethod
    def score(self, facts: Tensor) -> Tensor:
        """Score facts [n, 3]: [n], without gradients; higher is more plausible."""

    @abstractmethod
    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing ``side`` of queries [q]: [q, E]."""

    def score_all_without(self, fact: Tensor) -> Callable[[Tensor, Tensor, Side], Tensor]:
        """Return ``score_all`` as it is where the fact [3] is no evidence, by models that can."""
        return self.score_all

    def strongest_paths(self, fact: Tensor, k: int) -> tuple[FoundPath, ...]:
        """Return the k paths that speak most for a fact [3], by models that judge by paths."""
        return ()

    def score_among(self, known: Tensor, relation: Tensor, side: Side, among: Tensor) -> Tensor:
        """Score the entities ``among`` [k] as the missing ``side`` of queries [q]: [q, k]."""
        return self.score_all(known, relation, side)[:, among]

    def score_as(self, facts: Tensor, side: Side) -> Tensor:
        """Score facts [n, 3] as answers to the question for their ``side``: [n].

        It is the entry of ``score_all`` that belongs to the fact, unless ``hides_stored``.
        """
        return self.score(facts)

    def probability(self, facts: Tensor, collected: Tensor) -> Tensor | None:
        """Return the probability that facts [n, 3] are true, given which are collected [n].

        Not a number: of that fact it cannot be told. None: this system estimates none.
        """
        return None

    def collected_probability(self, facts: Tensor) -> Tensor | None:
        """Return the probability that the training facts [n, 3] are true, in their order: [n].

        No fact is evidence for itself. None: this system has no such estimate, and
        ``probability`` is the best it can say.
        """
        return None


class Trained(Protocol):
    """A model and the graph it was trained on: all that ranking and scoring need."""

    @property
    def system(self) -> Model:
        """The model."""

    @property
    def splits(self) -> Splits:
        """Its graph."""


@dataclass(frozen=True)
class Question:
    """One side of facts [b, 3], asked for among candidates, or among every entity where None."""

    facts: Tensor
    side: Side
    candidates: Candidates | None = None

    def ends(self) -> tuple[Tensor, Tensor]:
        """Return the known and the missing entities, int64 [b] each."""
        head, tail = self.facts[:, 0], self.facts[:, 2]
        return (head, tail) if self.side == "tail" else (tail, head)


# So few rows cost less to copy than a second gradient of even a small table.
FEW_ROWS = 4096


def look_up(table: Tensor, lists: Sequence[Tensor], sparse: bool = False) -> list[Tensor]:
    """Return the rows of a table [n, w] for lists of ids [...]: [..., w] each.

    Rows of a table of 16 bits come in 32. The gradient of every lookup is as large as the table, so
    short lists share one. Joining long ones would cost more: their gradient would be copied. With
    ``sparse`` the gradient holds the rows that were looked up and no others.

    >>> [rows.tolist() for rows in look_up(torch.eye(2), [torch.tensor([1]), torch.tensor([0])])]
    [[[0.0, 1.0]], [[1.0, 0.0]]]
    """
    most = max(len(table), FEW_ROWS)
    short = [ids.flatten() for ids in lists if ids.numel() <= most]
    # embedding(), not indexing: its backward does not serialise on repeated ids.
    joined = embedding(torch.cat(short), table, sparse=sparse) if short else table[:0]
    rows = iter(torch.split(wide(joined), [len(ids) for ids in short]))
    return [
        next(rows).view(*ids.shape, table.shape[1])
        if ids.numel() <= most
        else wide(embedding(ids, table, sparse=sparse))
        for ids in lists
    ]


# What a row of weights belongs to.
Named = Literal["entity", "relation"]


def wide(values: Tensor) -> Tensor:
    """Return numbers of 16 bits in 32, others as they are."""
    return values.float() if values.dtype.itemsize < 4 else values


# Rows of a table of 16 bits that are widened at once.
WIDENED = 2**16


# How a score becomes a probability: by the sigmoid, or cut to [0, 1].
Link = Literal["sigmoid", "clip"]


class System(Model):
    """One score a fact.

    With ``reciprocal`` every relation r has a twin r + R for the other direction, and a head is
    asked for as the tail of the twin: (?, r, t) becomes (t, r + R, ?).
    """

    encoder: Encoder

    def __init__(
        self,
        encoder: Encoder,
        scorer: Scorer,
        num_entities: int,
        num_relations: int,
        reciprocal: bool = False,
        link: Link | None = None,
        sparse: Sparse = "never",
    ) -> None:
        """Put the parts together; the encoder must know 2R relations if ``reciprocal``.

        ``link`` says how scores are probabilities, where the objective makes them so. Sparse steps
        need drawn candidates, and not every optimiser takes them.
        """
        super().__init__(encoder, num_entities, num_relations)
        self.scorer = scorer
        self.reciprocal = reciprocal
        self.link = link
        self.sparse = sparse

    def rows_by_name(self) -> Mapping[str, Named] | None:
        """Tell it of two tables; a subclass or another encoder may keep more than these."""
        if type(self) is not System or type(self.encoder) is not Lookup:
            return None
        return {"encoder.entities": "entity", "encoder.relations": "relation"}

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
        ends = wide(embedding(head, entities)), wide(embedding(tail, entities))
        first, last = ends if asked == "tail" else ends[::-1]
        score = self.scorer.score(first, wide(embedding(relation, relations)), last)
        return self.share.peers.sum(score)

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
        query = wide(embedding(known, entities)), wide(embedding(relation, relations))
        pool = entities if among is None else embedding(among, entities)
        # Some rows at a time: a table of 16 bits must not be there twice.
        pools = [pool] if pool.dtype.itemsize >= 4 else torch.split(pool, WIDENED)
        parts = [self.scorer.score_all(*query, wide(part), side) for part in pools]
        scores = self.share.peers.sum(parts[0] if len(parts) == 1 else torch.cat(parts, 1))
        # Half precision ties where it must not; float64 stays what it is.
        return wide(scores)

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
        return self.scored_together([Question(facts, side, candidates)], hidden_facts)[0]

    def scored_together(
        self,
        questions: Sequence[Question],
        hidden_facts: Tensor | None = None,
        factors: bool = True,
    ) -> list[Scored]:
        """Score all that a training step asks, by one pass of the encoder.

        Args:
            questions: what is asked, at least one question.
            hidden_facts: numbers [b] of training facts that are no evidence meanwhile.
            factors: False leaves the factors empty, for objectives that do not look at them.
        """
        entities, relations = self.encoder(hidden_facts)
        asked = [self._direct(q.facts[:, 1], q.side) for q in questions]
        sparse = self.has_sparse_steps(entities.device)
        few = 4 * sum(len(relation) for relation, _ in asked) <= len(relations)
        by = look_up(relations, [relation for relation, _ in asked], sparse and few)
        pools = [q.candidates.ids for q in questions if q.candidates is not None]
        ends = [ids for q in questions for ids in q.ends()]
        rows = look_up(entities, [*ends, *pools], sparse)
        given, drawn = iter(rows), iter(rows[len(ends) :])
        parts, rest = [], []
        for question, relation, (_, side) in zip(questions, by, asked, strict=True):
            vectors = next(given), relation, next(given)
            if question.candidates is None:
                parts.append(self.scorer.score_all(*vectors[:2], entities, side))
                target, counts = question.ends()[1], None
            else:
                pool, further = next(drawn), question.candidates.vectors
                pool = pool if further is None else torch.cat([pool, further], 1)
                parts.append(self.scorer.against(*vectors, pool, side))
                target = torch.zeros_like(question.facts[:, 0])
                counts = _with_own(question.candidates)
            moduli = tuple(self.scorer.factors(v) for v in vectors) if factors else ()
            rest.append((target, moduli, counts))
        # One exchange for all that a step asks.
        scores = self.share.peers.sums(parts)
        return [Scored(one, *more) for one, more in zip(scores, rest, strict=True)]

    def train_scores(self, known: Tensor, relation: Tensor) -> Tensor:
        """Score every entity as the tail of queries [q], with gradients: [q, E].

        ``relation`` may be a twin, r + R.
        """
        entities, relations = self.encoder()
        query = embedding(known, entities), embedding(relation, relations)
        return self.share.peers.sum(self.scorer.score_all(*query, entities, "tail"))


def _with_own(candidates: Candidates) -> Tensor | None:
    """Tell which columns count, bool [b, 1 + k]; the first is the fact's own entity."""
    if candidates.counts is None:
        return None
    return nn.functional.pad(candidates.counts, (1, 0), value=True)
