"""How a batch of questions becomes a loss: their own facts are hidden while they are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from npugraph.graph import KnowledgeGraph
from npugraph.recipes.path.known import both_ways, question_numbers
from npugraph.recipes.path.model import NOT_THERE, PathModel
from npugraph.seeds import generator
from npugraph.training.batch_loss import Training

Schedule = Literal["constant", "linear"]


def of_epoch(epoch: int, count: int, whole: int, a_pass: Callable[[int], Tensor]) -> Tensor:
    """Return the items of an epoch (from 1) that goes on where the last one ended.

    Args:
        epoch: its number.
        count: items per epoch.
        whole: items per pass.
        a_pass: returns the items [whole, ...] of a pass by its number, from 0.

    >>> of_epoch(2, 3, 4, lambda number: torch.arange(4) + 10 * number).tolist()
    [3, 10, 11]
    """
    begin = (epoch - 1) * count
    first, last = begin // whole, (begin + count - 1) // whole
    passes = torch.cat([a_pass(number) for number in range(first, last + 1)])
    return passes[begin - first * whole :][:count]


@dataclass(frozen=True)
class Asked:
    """The questions of a batch, each with some of its facts.

    Attributes:
        items: rows of the facts in both directions, int64 [b, answers].
        there: False where an item has no further fact, bool [b, answers].
        start, query: the questions, int64 [b] each.
        answer: the facts' own answers, int64 [b, answers].
        known: which entities are stored answers, bool [b, E].
    """

    items: Tensor
    there: Tensor
    start: Tensor
    query: Tensor
    answer: Tensor
    known: Tensor

    def softmax(self, scores: Tensor) -> Tensor:
        """Return ``-log(e^s / (e^s + sum of e^s' over new s'))`` of each fact: [b, answers]."""
        others = scores.masked_fill(self.known, NOT_THERE).logsumexp(1, keepdim=True)
        return softplus(others - scores.gather(1, self.answer))


class PathTraining(Training):
    """Asks every stored fact in both directions, against all entities but its other answers.

    Facts with the same question may share it: an item is a question with at most ``answers`` of
    its facts. A pass goes over every item once, in a seeded order that is drawn anew for each
    pass; an epoch goes on where the last one ended, over ``epoch_share`` of the items.

    While a batch is asked, the edges of its own facts are hidden; for ``hide_pair_share`` of
    the facts, all edges between the two ends; and of the other edges a share of ``edge_dropout``.
    """

    by_questions = True
    memory_settings: tuple[str, ...] = ("batch_size", "d", "layers")
    system: PathModel
    pair: Tensor
    asked: Tensor
    items: Tensor

    def __init__(
        self,
        system: PathModel,
        train: KnowledgeGraph,
        *,
        answers: int = 1,
        epoch_share: float = 1.0,
        hide_pair_share: float = 0.0,
        edge_dropout: float = 0.0,
        schedule: Schedule = "linear",
        seed: int = 0,
    ) -> None:
        """Train on the distinct facts of a graph."""
        super().__init__(system, system.stored.facts())
        if system.nodes:
            self.memory_settings = (*self.memory_settings, "nodes")
        elif system.reached_only:
            self.memory_way_out = (
                ", or set reached_only=false and nodes=1000: only the best nodes of a layer pass on"
            )
        else:
            self.memory_way_out = (
                ", or set nodes=1000: only the best nodes of a layer pass on; for a sparse graph "
                "on a CPU set reached_only=true"
            )
        self.answers = answers
        self.hide_pair_share = hide_pair_share
        self.edge_dropout = edge_dropout
        self.schedule = schedule
        self.seed = seed
        pair = torch.searchsorted(system.pairs, system.pair_of(self.facts))
        self.register_buffer("pair", pair, persistent=False)
        asked = both_ways(self.facts, train.num_relations)
        self.register_buffer("asked", asked, persistent=False)
        first = self._pass(0)
        self.per_epoch = max(1, round(epoch_share * len(first)))
        self.register_buffer("items", first[: self.per_epoch].clone(), persistent=False)
        counts = system.known.count(*asked[first[:, 0], :2].unbind(1))
        # The most answers that a batch of so many items can have; it stays on the CPU.
        self.most_answers = counts.sort(descending=True).values.cumsum(0).tolist()

    def num_items(self) -> int:
        """Return how many questions one epoch asks."""
        return self.per_epoch

    def step_bytes(self, batch_size: int, device: torch.device) -> int:
        """Return about how many bytes a step takes: what all layers keep for their gradients.

        Where ranks share the questions, each has the layers of its own and the scores of all.
        """
        own = -(-batch_size // self.system.share.peers.size)
        scores = self.system.score_bytes() * (batch_size - own)
        return self.system.step_bytes(own, device) + scores

    def step_share(self, done: float) -> float:
        """Let the step size fall in a straight line to 0, or stay as it is."""
        return 1.0 - done if self.schedule == "linear" else 1.0

    def _pass(self, number: int) -> Tensor:
        """Return the items of a pass: int64 [items, answers], rows of ``asked``, -1 for none."""
        asked = self.asked.cpu()
        rng = generator(self.seed, "pass", number)
        order = torch.randperm(len(asked), generator=rng)
        question = question_numbers(asked, self.system.num_relations)[order]
        by_question = torch.argsort(question, stable=True)
        order, question = order[by_question], question[by_question]
        _, count = torch.unique_consecutive(question, return_counts=True)
        within = torch.arange(len(order)) - (count.cumsum(0) - count).repeat_interleave(count)
        column = within % self.answers
        row = (column == 0).long().cumsum(0) - 1
        items = torch.full((int(row[-1]) + 1, self.answers), -1)
        items[row, column] = order
        return items[torch.randperm(len(items), generator=rng)]

    def begin_epoch(self, epoch: int, rng: torch.Generator) -> bool:
        """Take the next items; those of an epoch follow from its number alone."""
        self.items.copy_(of_epoch(epoch, self.per_epoch, len(self.most_answers), self._pass))
        return False

    def loss(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Return the mean over the facts of ``-log(e^s / (e^s + sum of e^s' over new s'))``."""
        asked = self.ask(rows)
        scores = self.system(asked.start, asked.query, self.weights(asked.items, rng))
        return (asked.softmax(scores) * asked.there).sum() / asked.there.sum()

    def follow(self, first: PathTraining) -> None:
        """Believe of the stored facts what another training does; here all count in full."""

    def answer_weights(self) -> Tensor | None:
        """Return how much every stored fact [n] counts as an answer; None: all the same."""
        return None

    def ask(self, rows: Tensor) -> Asked:
        """Return the questions of a batch, given as numbers [b] of items."""
        items = self.items[rows]
        there = items >= 0
        items = torch.where(there, items, items[:, :1])
        start, query = self.asked[items[:, 0], :2].unbind(1)
        # On a GPU nothing waits for the number of answers; on a CPU it is there at once.
        most = self.most_answers[len(rows) - 1] if rows.is_cuda else None
        known = self.system.known.mask(start, query, most)
        return Asked(items, there, start, query, self.asked[items, 2], known)

    def weights(self, items: Tensor, rng: torch.Generator) -> Tensor:
        """Return the weight of every edge while these items [b, answers] are asked."""
        own = items.flatten() % len(self.facts)
        hidden = torch.zeros(len(self.pair), dtype=torch.bool, device=own.device)
        if self.hide_pair_share > 0:
            chosen = torch.rand(len(own), generator=rng, device=own.device) < self.hide_pair_share
            none = len(self.system.pairs)
            # The last number is for pairs that no stored fact links; they stay.
            pairs = torch.zeros(none + 2, dtype=torch.bool, device=own.device)
            pairs.index_fill_(0, torch.where(chosen, self.pair[own], none), True)
            hidden = pairs[self.pair]
        hidden.index_fill_(0, own, True)
        weight = self.system.edge_weights(~hidden)
        if self.edge_dropout > 0:
            kept = torch.rand(len(weight), generator=rng, device=own.device) >= self.edge_dropout
            weight = weight * kept
        return weight
