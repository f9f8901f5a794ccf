"""A path model that weighs its evidence: stored facts by their posterior, and soft facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from npugraph.errors import DataError
from npugraph.graph import KnowledgeGraph
from npugraph.kernels.paths import Edges
from npugraph.recipes.npugraph.posterior import RunningPosterior
from npugraph.recipes.path.layers import even, perceptron
from npugraph.recipes.path.model import PathModel
from npugraph.seeds import generator


class SecondHead(nn.Module):
    """psi1, a perceptron on the states like that of psi0, and the levels of both.

    A softmax does not feel the level of scores; the collection probabilities of nPUGraph do.
    """

    def __init__(self, d: int, rng: torch.Generator) -> None:
        """Draw the weights."""
        super().__init__()
        self.state_part = even((2 * d, d), 2 * d, rng)
        self.query_part = even((2 * d, d), 2 * d, rng)
        self.hidden_bias = even((2 * d,), 2 * d, rng)
        self.answer = even((1, 2 * d), 2 * d, rng)
        self.level = nn.Parameter(torch.zeros(2))

    def forward(self, states: Tensor, vectors: Tensor) -> Tensor:
        """Score the states [E, B, d] of questions with vectors [B, d]: [B, E]."""
        weights = (self.state_part, self.query_part, self.hidden_bias, self.answer)
        return perceptron(states, vectors, *weights) + self.level[1]


class WeightedPathModel(PathModel):
    """A path model whose edges weigh as much as their facts are believed.

    Attributes:
        running: the posterior of the stored facts, a mean over the times it was found.
        soft: facts that are not stored and serve as evidence, int64 [soft_facts, 3].
        soft_probability: how much they are believed, [soft_facts]; 0: there is none.
        belief: the posterior of every stored fact, [n]; 1 before one is found.
        weight: what the edges of every stored and every soft fact weigh, [evidence].
        second: psi1, or None where one head is trained.
    """

    soft: Tensor
    soft_probability: Tensor
    belief: Tensor
    weight: Tensor

    def __init__(
        self,
        facts: Tensor,
        num_entities: int,
        num_relations: int,
        *,
        weigh_edges: bool = True,
        two_heads: bool = False,
        soft_facts: int = 0,
        momentum: float = 0.0,
        seed: int = 0,
        **shape: Any,
    ) -> None:
        """Make a model of the paths along facts [n, 3].

        Args:
            facts: what is stored.
            num_entities: E.
            num_relations: R.
            weigh_edges: stored facts weigh what they are believed; if not, 1.
            two_heads: have psi1 as well.
            soft_facts: room for so many soft facts.
            momentum: of the running posterior.
            seed: weights and groups follow from it.
            shape: the other arguments of :class:`PathModel`.
        """
        super().__init__(facts, num_entities, num_relations, seed=seed, **shape)
        self.second = SecondHead(self.d, generator(seed, "second head")) if two_heads else None
        self.weigh_edges = weigh_edges
        stored = self.stored.facts()
        self.running = RunningPosterior(stored, num_entities, num_relations, momentum)
        self.register_buffer("soft", torch.zeros(soft_facts, 3, dtype=torch.int64))
        self.register_buffer("soft_probability", torch.zeros(soft_facts))
        for name in ("belief", "weight"):
            self.register_buffer(name, torch.ones(len(stored)), persistent=False)
        self.register_load_state_dict_post_hook(_take_evidence)  # type: ignore[no-untyped-call]
        self.take_evidence()

    def _like(self, train: KnowledgeGraph, soft_facts: int = 0) -> WeightedPathModel:
        """Return a model of the same shape; on another graph every fact counts in full."""
        return WeightedPathModel(
            train.facts,
            train.num_entities,
            self.num_relations,
            weigh_edges=self.weigh_edges,
            two_heads=self.second is not None,
            soft_facts=soft_facts,
            **self._shape(),
        )

    def along(self, train: KnowledgeGraph) -> WeightedPathModel:
        """Return this model with other facts about its own entities; new ones count in full."""
        made = self._with_weights(self._like(train, len(self.soft)))
        if int(self.running.epochs) > 0:
            place = self.stored.places(made.stored.facts())
            known = self.running.mean[place.clamp(min=0)]
            made.believe(torch.where(place < 0, torch.ones_like(known), known))
        # What is stored there is evidence already.
        used = (self.soft_probability > 0) & ~made.stored.contains(self.soft)
        made.add_soft(self.soft[used], self.soft_probability[used])
        return made

    @property
    def evidence(self) -> int:
        """How many facts have edges, room for soft ones included."""
        return len(self.stored) + len(self.soft)

    def edge_weights(self, keep: Tensor) -> Tensor:
        """Return the weights [edges] where some of the facts are there: bool [evidence]."""
        return (keep * self.weight)[self.edges.fact]

    def believe(self, probability: Tensor) -> None:
        """Take in one more posterior of the stored facts [n], in the order of the index."""
        self.running.update(probability.to(self.running.mean))
        self.take_evidence()

    def believe_as(self, other: WeightedPathModel) -> None:
        """Take over what another model of the same facts believes."""
        self.running.load_state_dict(other.running.state_dict())
        self.soft.copy_(other.soft)
        self.soft_probability.copy_(other.soft_probability)
        self.take_evidence()

    def add_soft(self, facts: Tensor, probability: Tensor) -> None:
        """Let facts [m, 3] serve as evidence in place of the soft ones so far."""
        if len(facts) > len(self.soft):
            raise DataError(f"There is room for {len(self.soft)} soft facts, not {len(facts)}.")
        self.soft.zero_()
        self.soft_probability.zero_()
        self.soft[: len(facts)] = facts.to(self.soft.device)
        self.soft_probability[: len(facts)] = probability.to(self.soft_probability)
        self.take_evidence()

    def take_evidence(self) -> None:
        """Make edges and weights follow from the posterior and the soft facts."""
        stored, device = self.stored.facts().to(self.soft.device), self.soft.device
        ones = torch.ones(len(stored), device=device)
        self.belief = self.running.mean.float() if int(self.running.epochs) > 0 else ones
        of_stored = self.belief if self.weigh_edges else ones
        self.weight = torch.cat([of_stored, self.soft_probability.float()])
        # Room that is not used has no edges, and costs no time.
        used = torch.nonzero(self.soft_probability > 0).squeeze(1)
        number = torch.cat([torch.arange(len(stored), device=device), len(stored) + used])
        facts = torch.cat([stored, self.soft[used]])
        edges = Edges.of(facts, self.num_entities, self.num_relations)
        self.edges = replace(edges, fact=number[edges.fact])

    def both(self, start: Tensor, query: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return psi1 and psi0 of every entity as the answer of questions [B]: [B, E] each."""
        if not self.share.by_questions:
            return self._both(start, query, weight)

        def own(part: slice) -> Tensor:
            return torch.stack(self._both(start[part], query[part], weight), 1)

        psi1, psi0 = self.share.peers.rows(own, len(start)).unbind(1)
        return psi1, psi0

    def _both(self, start: Tensor, query: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        assert self.second is not None
        with torch.autocast(start.device.type, enabled=False):
            vectors = embedding(query, self.represent()[1])
            states = self._states(start, vectors, weight)
            psi0 = self._answers(states, vectors) + self.second.level[0]
            return self.second(states, vectors), psi0

    def _held(self, device: torch.device) -> int:
        """Return how many messages of a question are held at once, all room for soft facts used."""
        held = super()._held(device)
        return held + 2 * len(self.soft) if held else 0

    def step_bytes(self, questions: int, device: torch.device) -> int:
        """Return about how many bytes a step takes, those of the second perceptron included."""
        found = super().step_bytes(questions, device)
        if self.second is None:
            return found
        size = 6 * self.state_dtype(device).itemsize + 4 * self.answer.itemsize
        return found + questions * self.num_entities * self.d * size


def _take_evidence(model: nn.Module, _: object) -> None:
    """Behind load_state_dict: what was loaded may be other evidence."""
    assert isinstance(model, WeightedPathModel)
    model.take_evidence()
