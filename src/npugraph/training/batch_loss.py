"""Trainings: how a batch of facts becomes a loss. The loop knows nothing else of a system."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from npugraph.graph import SIDES, KnowledgeGraph, Side, flip, mean_answers
from npugraph.model import Model, Question, System
from npugraph.objectives import Objective, Scored
from npugraph.ranking.ranks import CPU_BUDGET, GPU_BUDGET, Ranks, ScoreAll
from npugraph.samplers import Sampler

Sides = Literal["both", "halves", "bernoulli"]
# The filter of validation: all facts of the training and the validation part.
VALIDATION = "seen"
RankValidation = Callable[[ScoreAll], Ranks]


class Training(nn.Module, ABC):
    """What the loop trains: a system, and how a batch of facts becomes a loss.

    All that a resumed run needs beside the optimiser is in its state: the system's weights, and
    what a sampler or an objective remembers.
    """

    system: Model
    facts: Tensor
    # Whether ranks can share the questions of a step: the system asks them by its ``share``.
    by_questions: bool = False
    # The settings by which a step takes less memory, for whoever has too little.
    memory_settings: tuple[str, ...] = ("batch_size",)
    # Another way out, as the end of a sentence.
    memory_way_out: str = ""

    def __init__(self, system: Model, facts: Tensor) -> None:
        """Train ``system`` on facts [n, 3]."""
        super().__init__()
        self.system = system
        self.register_buffer("facts", facts, persistent=False)

    @abstractmethod
    def loss(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Return the loss of a batch, given as numbers [b] of training items."""

    def num_items(self) -> int:
        """Return how many items an epoch goes over: the facts, unless a training says otherwise."""
        return len(self.facts)

    def step_bytes(self, batch_size: int, device: torch.device) -> int:
        """Return about how many bytes a step holds beside weights, to plan memory by.

        Unless a training says otherwise: the scores of every entity and their gradients.
        """
        encoder = self.system.encoder
        held = 0 if encoder is None else encoder.step_bytes()
        return held + 3 * 4 * batch_size * self.system.num_entities

    def validation_bytes(self, facts: int, device: torch.device) -> int:
        """Return about how many bytes ranking so many validation facts holds beside weights."""
        budget = GPU_BUDGET if device.type == "cuda" else CPU_BUDGET
        one = 8 * self.system.num_entities
        return max(one, min(budget, one * facts))

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return what the optimiser trains, in groups with options of their own.

        Beside what PyTorch knows, ``optimizer`` names another one than that of the settings.
        """
        return [{"params": list(self.parameters())}]

    def step_share(self, done: float) -> float:
        """Return the share of the step size that is left when ``done`` of all steps are taken."""
        return 1.0

    def begin_epoch(self, epoch: int, rng: torch.Generator) -> bool:
        """Prepare epoch ``epoch`` (from 1); tell whether the loss works on other tensors now."""
        return False

    def health(self) -> dict[str, float | bool]:
        """Take stock after an epoch, before it is validated; return what the log should say."""
        return {}

    def validate(self, rank: RankValidation) -> tuple[Ranks, dict[str, float]]:
        """Rank the validation facts by the system; return that, and what else the log should say.

        Whatever of a system is chosen by validation facts is chosen here. ``rank`` ranks them by
        any scores; the filter is called VALIDATION. What the log should say wins over what follows
        from the ranks: the best epoch is that of the largest ``mrr``.
        """
        return rank(self.system.score_all), {}


class PlainTraining(Training):
    """One score a fact: a sampler's candidates and an objective on the sides of each batch.

    ``sides`` says which end of a fact is replaced. ``both``: each end in turn, the loss is the
    mean of the two. ``halves``: the tail in the first half of the batch, the head in the second;
    batches are in random order, so it is either end with equal chance. ``bernoulli``: the head
    with chance tph / (tph + hpt), where tph is the mean number of tails a head has for this
    relation and hpt the reverse (Wang et al. 2014); it makes fewer false negatives.
    """

    system: System
    weight: Tensor | None
    confidence: Tensor | None
    head_chance: Tensor

    def __init__(
        self,
        system: System,
        sampler: Sampler,
        objective: Objective,
        train: KnowledgeGraph,
        *,
        sides: Sides = "both",
        weight: Tensor | None = None,
        use_confidence: bool = False,
    ) -> None:
        """Train ``system`` on a graph; ``weight`` [n] says how much each fact counts."""
        super().__init__(system, train.facts)
        self.sampler = sampler
        self.objective = objective
        self.sides: Sides = sides
        # Most objectives may look at the factors; those that say that they do not spare them.
        self.register_buffer("weight", weight, persistent=False)
        confidence = train.confidence if use_confidence else None
        confidence = None if confidence is None else confidence.float()
        self.register_buffer("confidence", confidence, persistent=False)
        if sides == "bernoulli":
            tails = mean_answers(train.facts, train.num_relations)
            heads = mean_answers(flip(train.facts), train.num_relations)
            chance = (tails / (tails + heads)).nan_to_num(0.5).float()
            self.register_buffer("head_chance", chance, persistent=False)

    def step_bytes(self, batch_size: int, device: torch.device) -> int:
        """Vectors of facts and candidates with what is made of them, or scores of all entities."""
        facts = 2 * batch_size if self.sides == "both" else batch_size
        width = entity_width(self.system)
        drawn = self.sampler.looked_up(facts)
        numbers = 6 * facts * width
        numbers += 3 * facts * self.system.num_entities if drawn is None else 3 * drawn * width
        if drawn is not None and self.system.has_sparse_steps(device):
            # The gradient's rows: as they come, sorted and summed, and what they are moved by.
            numbers += 4 * (2 * facts + drawn) * width
        return self.system.encoder.step_bytes() + 4 * numbers

    def loss(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Return the mean over the facts of the batch and over the sides."""
        parts = list(self._parts(rows, rng))
        questions = []
        for side, part in parts:
            facts = self.facts[part]
            candidates = self.sampler.candidates(facts, part, side, rng)
            questions.append(Question(facts, side, candidates))
        # The batch is hidden as a whole: what is scored in a step is no evidence in it.
        scored = self.system.scored_together(questions, rows, self.objective.uses_factors)
        losses = [
            self._loss(one, part) * len(part) for one, (_, part) in zip(scored, parts, strict=True)
        ]
        return torch.stack(losses).sum() / sum(len(part) for _, part in parts)

    def _parts(self, rows: Tensor, rng: torch.Generator) -> Iterator[tuple[Side, Tensor]]:
        """Yield which facts of the batch have which side replaced."""
        if self.sides == "both":
            yield from ((side, rows) for side in SIDES)
            return
        if self.sides == "halves":
            cut = (len(rows) + 1) // 2
            parts = (rows[:cut], rows[cut:])
        else:
            chance = torch.rand(len(rows), generator=rng, device=rows.device)
            head = chance < self.head_chance[self.facts[rows, 1]]
            parts = (rows[~head], rows[head])
        yield from ((side, part) for side, part in zip(SIDES, parts, strict=True) if len(part))

    def _loss(self, scored: Scored, rows: Tensor) -> Tensor:
        """Return the objective's mean over the facts of one side, numbers [b]."""
        if self.weight is not None:
            scored = replace(scored, weight=self.weight[rows])
        if self.confidence is not None:
            scored = replace(scored, confidence=self.confidence[rows])
        loss: Tensor = self.objective(scored)
        return loss


def entity_width(system: Model) -> int:
    """Return how many numbers the widest table has per entity."""
    tables = (p for p in system.parameters() if p.dim() == 2 and len(p) == system.num_entities)
    return max((table.shape[1] for table in tables), default=0)


class NoTraining(Training):
    """For systems with nothing to train: the loss is 0, and the loop only validates."""

    def step_bytes(self, batch_size: int, device: torch.device) -> int:
        """Nothing."""
        return 0

    def loss(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Return 0, as the sum of parameters that hold no numbers."""
        return torch.stack([parameter.sum() for parameter in self.parameters()]).sum() * 0


class QueryTraining(Training):
    """Every query (known, relation) once an epoch, against every entity, with all its answers.

    The system must have reciprocal relations: a query for a head is one for a tail of the twin.
    """

    system: System
    queries: Tensor
    answers: Tensor
    first: Tensor

    def __init__(self, system: System, objective: nn.Module, train: KnowledgeGraph) -> None:
        """Train on the distinct queries of a graph; ``objective`` maps (scores, labels)."""
        super().__init__(system, train.facts)
        self.objective = objective
        twins = flip(train.facts) + torch.tensor([0, train.num_relations, 0])
        both = torch.unique(torch.cat([train.facts, twins]), dim=0)
        queries, count = torch.unique_consecutive(both[:, :2], dim=0, return_counts=True)
        self.register_buffer("queries", queries, persistent=False)
        self.register_buffer("answers", both[:, 2].contiguous(), persistent=False)
        self.register_buffer("first", nn.functional.pad(count.cumsum(0), (1, 0)), persistent=False)
        # The most answers that so many queries can have: it stays on the CPU, to be asked at once.
        self.most_answers = count.sort(descending=True).values.cumsum(0)

    def num_items(self) -> int:
        """Return the number of queries."""
        return len(self.queries)

    def step_bytes(self, batch_size: int, device: torch.device) -> int:
        """Scores, labels and gradients of every entity, and what the scorer holds."""
        scores = 4 * 4 * batch_size * self.system.num_entities
        held = self.system.encoder.step_bytes() + self.system.scorer.step_bytes(batch_size)
        return held + scores

    def answer_rate(self) -> Tensor:
        """Return the share of the queries that each entity answers: float [E]."""
        return torch.bincount(self.answers, minlength=self.system.num_entities) / len(self.queries)

    def labels(self, rows: Tensor) -> Tensor:
        """Return 1 for each entity that answers a query, else 0: queries [b] to [b, E].

        Batches of one size do the same work, whatever number of answers they have, so that a step
        can be recorded: places beyond the last answer write to a number that is cut off.
        """
        size, device = self.system.num_entities, rows.device
        end = (self.first[rows + 1] - self.first[rows]).cumsum(0)
        place = torch.arange(int(self.most_answers[len(rows) - 1]), device=device)
        query = torch.searchsorted(end, place, right=True)
        here = query < len(rows)
        query = query.clamp(max=len(rows) - 1)
        # The answers of a query end where those of the next begin.
        number = self.first[rows + 1][query] - end[query] + place
        answer = self.answers[number.clamp(max=len(self.answers) - 1)]
        cell = torch.where(here, query * size + answer, len(rows) * size)
        flat = torch.zeros(len(rows) * size + 1, device=device)
        return flat.index_fill_(0, cell, 1.0)[:-1].view(len(rows), size)

    def loss(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Return the objective of the scores [b, E] of queries and their labels [b, E]."""
        scores = self.system.train_scores(*self.queries[rows].unbind(1))
        loss: Tensor = self.objective(scores, self.labels(rows))
        return loss
