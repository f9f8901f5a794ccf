"""The training of npugraph-path: posterior weights, soft facts, and the nPU objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from npugraph.arrays import first_of_each
from npugraph.data.corrupt import Noise
from npugraph.graph import KnowledgeGraph
from npugraph.recipes.npugraph.objective import Heads, NoisyPU
from npugraph.recipes.path.batch_loss import Asked, PathTraining
from npugraph.recipes.path.known import question_numbers
from npugraph.recipes.path.model import NOT_THERE
from npugraph.recipes.path.npu_model import WeightedPathModel
from npugraph.recipes.path.posterior import PLAUSIBLE, PathPosterior, posterior_of
from npugraph.seeds import number

# Best answers of a question that may become soft facts, and the least probability of one.
PER_QUESTION = 2
LEAST = 0.5
# Tensors of the objective that hold a number per question and entity.
NPU_NUMBERS = 14


@dataclass(frozen=True)
class Refresh:
    """When and of what the posterior is found, and what it is used for.

    Attributes:
        warmup: epochs before the first time.
        every: epochs between two times; 0: once.
        facts: stored facts, and corruptions, that it is fitted to at most; also the questions
            whose best answers may become soft facts.
        kinds: of corruptions that stored facts are compared with.
        judged_share: share of the stored facts that are judged; the others count in full.
        edges: weigh edges by it.
        questions: weigh questions by it.
    """

    warmup: int = 2
    every: int = 0
    facts: int = 10_000
    kinds: tuple[Noise, ...] = PLAUSIBLE
    judged_share: float = 1.0
    edges: bool = True
    questions: bool = False

    def is_due(self, epoch: int) -> bool:
        """Tell whether it is found before an epoch (from 1)."""
        after = epoch - 1 - self.warmup
        return after == 0 or (after > 0 and self.every > 0 and after % self.every == 0)


class WeightedPathTraining(PathTraining):
    """Asks as ``path`` does; after a warm-up the posterior weighs what is stored.

    With an objective, psi1 and psi0 of all new entities are compared with those of the answer;
    an entity counts as much as a softmax of psi0 says, so that the hard ones count (as
    self-training takes them by their posterior). Without one there is the softmax of ``path``.
    """

    system: WeightedPathModel
    pair: Tensor

    def __init__(
        self,
        system: WeightedPathModel,
        train: KnowledgeGraph,
        refresh: Refresh,
        objective: NoisyPU | None = None,
        level_weight: float = 0.0,
        **options: Any,
    ) -> None:
        """Train on the distinct facts of a graph; ``options`` are those of PathTraining.

        ``level_weight`` weighs the mean square of both scores of the stored facts: the objective
        compares scores, and without it their level floats until both sigmoids say nothing.
        """
        super().__init__(system, train, **options)
        self.refresh = refresh
        self.objective = objective
        self.level_weight = level_weight
        self.given = False
        # Loss may be asked for before the first epoch begins.
        self.pair = self._pairs()

    def give(self, probability: Tensor) -> None:
        """Weigh the stored facts [n] by given probabilities from the start, and find none."""
        self.system.believe(probability)
        self.given = True

    def step_bytes(self, batch_size: int, device: torch.device) -> int:
        """Return about how many bytes a step takes: those of the model, and of the objective."""
        found = super().step_bytes(batch_size, device)
        if self.objective is None:
            return found
        return found + 4 * NPU_NUMBERS * batch_size * self.answers * self.system.num_entities

    @torch.no_grad()
    def begin_epoch(self, epoch: int, rng: torch.Generator) -> bool:
        """Take the next items; find the posterior where it is due."""
        wanted = self.refresh.edges or self.refresh.questions or len(self.system.soft) > 0
        if wanted and not self.given and self.refresh.is_due(epoch):
            self._refresh(epoch, rng)
        self.pair = self._pairs()
        return super().begin_epoch(epoch, rng)

    def follow(self, first: PathTraining) -> None:
        """Take over the posterior and the soft facts of another training, and find none."""
        assert isinstance(first, WeightedPathTraining)
        self.given = True
        self.system.believe_as(first.system)

    def answer_weights(self) -> Tensor | None:
        """Return how much every stored fact [n] counts as an answer; None: all the same."""
        weighs = self.refresh.questions and self.objective is None
        return self.system.belief if weighs else None

    def _pairs(self) -> Tensor:
        """Return the number of the pair that each fact of the evidence links: int64 [evidence]."""
        pairs = self.system.pairs
        of_fact = self.system.pair_of(torch.cat([self.facts, self.system.soft]))
        place = torch.searchsorted(pairs, of_fact).clamp(max=len(pairs) - 1)
        return torch.where(pairs[place] == of_fact, place, len(pairs) + 1)

    def _refresh(self, epoch: int, rng: torch.Generator) -> None:
        """Find the posterior, and let the evidence follow from it."""
        system, seed = self.system.eval(), number(self.seed, "refresh", epoch)
        # The same on every rank: the machines may round in other ways.
        found = system.share.peers.same(
            posterior_of(system, kinds=self.refresh.kinds, most=self.refresh.facts, seed=seed)
        )
        if found is None:
            return
        # Both by the same model: new weights would change what it says.
        soft = self._soft_facts(found, rng) if len(system.soft) > 0 else None
        if self.refresh.edges or self.refresh.questions:
            system.believe(self._judged(found, rng))
        if soft is not None:
            system.add_soft(*soft)

    def _judged(self, found: PathPosterior, rng: torch.Generator) -> Tensor:
        """Return the probability of every stored fact [n]; those that are not judged have 1."""
        device, count = self.facts.device, len(self.facts)
        rows = torch.arange(count, device=device)
        if self.refresh.judged_share < 1:
            order = torch.randperm(count, generator=rng, device=device)
            rows = order[: max(1, round(self.refresh.judged_share * count))]
        values = torch.ones(count, dtype=torch.float64, device=device)
        judged = found.if_stored(self.system.judge(self.facts[rows]))
        values[rows] = torch.from_numpy(judged).to(device)
        return values

    def _soft_facts(self, found: PathPosterior, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the most probable new answers of some questions, and their probability."""
        drawn = self._best_answers(rng)
        judged = found.if_not_stored(self.system.judge(drawn))
        probability = torch.from_numpy(judged).to(drawn.device)
        order = torch.argsort(probability, descending=True, stable=True)[: len(self.system.soft)]
        order = order[probability[order] >= LEAST]
        return drawn[order], probability[order]

    def _best_answers(self, rng: torch.Generator) -> Tensor:
        """Return the best answers that are not stored, of a sample of questions: [m, 3]."""
        system, size = self.system, 2 * self.system.num_relations
        questions = torch.unique(question_numbers(self.asked, system.num_relations))
        order = torch.randperm(len(questions), generator=rng, device=questions.device)
        questions = questions[order[: self.refresh.facts]]
        start, query = questions // size, questions % size
        step, count = system.questions_per_pass(), min(PER_QUESTION, system.num_entities)
        weight, made = system.weights_without(start[:0]), []
        for begin, asked in zip(torch.split(start, step), torch.split(query, step), strict=True):
            scores = system(begin, asked, weight)
            best = scores.masked_fill(system.known.mask(begin, asked), NOT_THERE).topk(count)
            repeated = [part.unsqueeze(1).expand(-1, count) for part in (begin, asked)]
            facts = torch.stack([*repeated, best.indices], 2)
            made.append(facts[best.values > NOT_THERE])
        head, relation, tail = torch.cat(made).unbind(1)
        backward = relation >= system.num_relations
        facts = torch.stack(
            [
                torch.where(backward, tail, head),
                torch.where(backward, relation - system.num_relations, relation),
                torch.where(backward, head, tail),
            ],
            1,
        )
        return facts[first_of_each(system.stored.codes(facts))]

    def loss(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Return the mean loss of a batch: of the softmax, or of the objective."""
        asked = self.ask(rows)
        weight = self.weights(asked.items, rng)
        if self.objective is not None:
            return self._npu(self.objective, asked, weight)
        losses = asked.softmax(self.system(asked.start, asked.query, weight))
        share = asked.there.to(losses.dtype)
        weights = self.answer_weights()
        if weights is not None:
            share = share * weights[asked.items % len(self.facts)]
        return (losses * share).sum() / share.sum().clamp(min=1e-6)

    def _npu(self, objective: NoisyPU, asked: Asked, weight: Tensor) -> Tensor:
        """Return the objective of the facts of a batch, each against all new entities."""
        psi1, psi0 = self.system.both(asked.start, asked.query, weight)
        hard = psi0.detach().masked_fill(asked.known, NOT_THERE).softmax(1) * ~asked.known
        own1, own0 = psi1.gather(1, asked.answer), psi0.gather(1, asked.answer)
        if self.answers == 1:
            heads = Heads(own1.squeeze(1), own0.squeeze(1), psi1, psi0, hard)
        else:
            row, column = torch.nonzero(asked.there, as_tuple=True)
            heads = Heads(own1[row, column], own0[row, column], psi1[row], psi0[row], hard[row])
        level = heads.collected1.square() + heads.collected0.square()
        found: Tensor = objective(heads) + self.level_weight * level.mean()
        return found

    def health(self) -> dict[str, float | bool]:
        """Describe what the evidence weighs, once a posterior was found."""
        found: dict[str, float | bool] = {}
        if int(self.system.running.epochs) > 0:
            mean = self.system.running.mean
            found["posterior_mean"] = float(mean.mean())
            found["posterior_spread"] = float(mean.std(unbiased=False))
            found["posterior_below_half"] = float((mean < 0.5).double().mean())
        if len(self.system.soft) > 0:
            found["soft_facts"] = int((self.system.soft_probability > 0).sum())
        return found
