"""nPUGraph's own system: two scores a fact, a posterior, and self-training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from npugraph.encoders import Lookup, NeighbourAttention
from npugraph.graph import Side
from npugraph.model import Model
from npugraph.objectives import power_penalty
from npugraph.recipes.npugraph.heads import TwoHeads
from npugraph.recipes.npugraph.objective import Heads
from npugraph.recipes.npugraph.posterior import Posterior, RunningPosterior, health
from npugraph.samplers import Shared, Uncollected, of_each_fact
from npugraph.training.batch_loss import Training, entity_width

# How many groups the collected facts are scored in, each hidden from the encoder while it is.
GROUPS = 8
# Numbers of the representations that choosing from the pool may hold at once.
POOL_NUMBERS = 2**27
# How many facts are scored at once.
CHUNK = 2**16


class SpeculativeSystem(Model):
    """Scores facts by two heads; ranks by the posterior's plausibility."""

    encoder: NeighbourAttention | Lookup

    def __init__(
        self,
        encoder: NeighbourAttention | Lookup,
        heads: TwoHeads,
        posterior: Posterior,
        running: RunningPosterior,
        num_entities: int,
        num_relations: int,
        one_head: bool = False,
    ) -> None:
        """Put the parts together; ``running`` remembers the posterior of the collected facts.

        With ``one_head`` psi1 counts as 0 for every fact: the plain losses train psi0 alone, and
        a posterior must not listen to a head that was never trained.
        """
        super().__init__(encoder, num_entities, num_relations)
        self.heads = heads
        self.posterior = posterior
        self.running = running
        self.one_head = one_head

    def both(
        self,
        entities: Tensor,
        relations: Tensor,
        facts: Tensor,
        new_tails: Tensor,
        new_heads: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return psi1 and psi0 of facts and of those with an end replaced, by the two heads."""
        psi1, psi0 = self.heads.scores(entities, relations, facts, new_tails, new_heads)
        return (torch.zeros_like(psi0) if self.one_head else psi1), psi0

    def pair(self, facts: Tensor, hidden_facts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return psi1 and psi0 of facts [n, 3]; ``hidden_facts`` are no evidence meanwhile."""
        if hidden_facts is None or isinstance(self.encoder, Lookup):
            entities, relations = self.represent()
        else:
            entities, relations = self.encoder(hidden_facts)
        none = facts.new_empty(len(facts), 0)
        psi1, psi0 = self.both(entities, relations, facts, none, none)
        return psi1.squeeze(1), psi0.squeeze(1)

    @torch.no_grad()
    def score(self, facts: Tensor) -> Tensor:
        """Return the plausibility of facts [n, 3]."""
        return torch.cat(
            [self.posterior.plausibility(*self.pair(part)) for part in torch.split(facts, CHUNK)]
        )

    @torch.no_grad()
    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing side; the exception reading needs one head only."""
        return self._scores(known, relation, side, None)

    @torch.no_grad()
    def score_among(self, known: Tensor, relation: Tensor, side: Side, among: Tensor) -> Tensor:
        """Score the entities ``among`` [k] alone: [q, k]."""
        return self._scores(known, relation, side, among)

    def _scores(self, known: Tensor, relation: Tensor, side: Side, among: Tensor | None) -> Tensor:
        entities, relations = self.represent()
        query = embedding(known, entities), embedding(relation, relations)
        pool = entities if among is None else embedding(among, entities)
        psi0 = self.heads.score_all(*query, pool, side, head=0)
        if self.posterior.reading == "exception":
            return psi0
        psi1 = self.heads.score_all(*query, pool, side, head=1)
        return self.posterior.plausibility(psi1, psi0)

    @torch.no_grad()
    def probability(self, facts: Tensor, collected: Tensor) -> Tensor:
        """Return the probability that facts [n, 3] are true, given which are collected [n].

        Facts that were trained on have the running mean of training, where there is one.
        """
        parts = []
        for rows, mask in zip(
            torch.split(facts, CHUNK), torch.split(collected, CHUNK), strict=True
        ):
            psi1, psi0 = self.pair(rows)
            known = self.running.recall(rows, self.posterior.true_if_collected(psi1, psi0))
            parts.append(torch.where(mask, known, self.posterior.true_if_uncollected(psi1, psi0)))
        return torch.cat(parts)

    @torch.no_grad()
    def collected_probability(self, facts: Tensor) -> Tensor:
        """Return the running mean of training, or what the system says now before there is one."""
        now = self.running.mean if self.running.epochs > 0 else self.judge_collected(facts)[0]
        return self.running.recall(facts, now)

    @torch.no_grad()
    def judge_collected(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Return probability and plausibility [n] of the training facts [n, 3], in their order.

        Facts are scored group by group, and a group is hidden from the encoder while it is
        scored, so that no fact is its own evidence.
        """
        plausibility = torch.empty(len(facts), dtype=torch.float64, device=facts.device)
        probability = torch.empty_like(plausibility)
        rows = torch.arange(len(facts), device=facts.device)
        for group in range(GROUPS):
            mine = rows[rows % GROUPS == group]
            psi1, psi0 = self.pair(facts[mine], hidden_facts=mine)
            probability[mine] = self.posterior.true_if_collected(psi1, psi0)
            plausibility[mine] = self.posterior.plausibility(psi1, psi0).double()
        return probability, plausibility


@dataclass(frozen=True)
class SelfTraining:
    """How uncollected facts are chosen.

    Attributes:
        negatives: K, uncollected facts beside each collected one, half of them a side.
        warmup: epochs with random uncollected facts and first neighbour sets; None: for ever.
        top_share: share of K that is taken from the most probable of a pool, after the warm-up.
        pool: candidates a collected fact and side, as a multiple of K / 2.
        share: collected facts that share their random uncollected ones; 1: each has its own.
    """

    negatives: int = 50
    warmup: int | None = 50
    top_share: float = 0.5
    pool: int = 4
    share: int = 1

    def half(self, side: Side) -> int:
        """Return how many of the K replace that side; an odd one replaces the tail."""
        return (self.negatives + 1) // 2 if side == "tail" else self.negatives // 2


class SpeculativeTraining(Training):
    """Trains a speculative system: random uncollected facts first, then self-training."""

    system: SpeculativeSystem

    def __init__(
        self,
        system: SpeculativeSystem,
        objective: nn.Module,
        facts: Tensor,
        plan: SelfTraining,
        choose_neighbours: bool = True,
        level_weight: float = 0.0,
        penalty: float = 0.0,
    ) -> None:
        """Train on the collected facts [n, 3].

        ``level_weight`` weighs the mean square of the collected facts' scores. The objective
        compares scores, so their level floats: both sigmoids saturate, and the posterior, which
        is made of their ratio, says nothing. The penalty holds the level where they do not.

        ``penalty`` weighs ``|h|^3 + |r|^3 + |t|^3``, averaged over the facts of a batch: without
        it bilinear heads learn the training facts by heart.
        """
        super().__init__(system, facts)
        self.objective = objective
        self.plan = plan
        self.choose_neighbours = choose_neighbours
        self.level_weight = level_weight
        self.penalty = penalty
        sizes = (system.num_entities, system.num_relations)
        self.sampler = Uncollected(facts, *sizes)
        self.shared = None if plan.share == 1 else Shared(facts, *sizes, plan.share)
        self.top: tuple[Tensor, Tensor] | None = None

    def step_bytes(self, batch_size: int, device: torch.device) -> int:
        """The collected facts are judged after every epoch, which takes more than a step."""
        judged = GROUPS * 4 * (len(self.facts) // GROUPS + 1) * entity_width(self.system)
        facts = batch_size * (1 + self.plan.negatives) * entity_width(self.system)
        return self.system.encoder.step_bytes() + max(judged, 4 * facts)

    def loss(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Return the objective of a batch of collected facts, each with K uncollected ones."""
        facts = self.facts[rows]
        new_tails, new_heads = (self._draw(facts, rows, side, rng) for side in ("tail", "head"))
        entities, relations = self.system.encoder(rows)
        psi1, psi0 = self.system.both(entities, relations, facts, new_tails, new_heads)
        weight = torch.cat([new_tails != facts[:, 2:], new_heads != facts[:, :1]], 1)
        loss: Tensor = self.objective(
            Heads(psi1[:, 0], psi0[:, 0], psi1[:, 1:], psi0[:, 1:], weight.to(psi1.dtype))
        )
        loss = loss + self.level_weight * (psi1[:, 0].square() + psi0[:, 0].square()).mean()
        if self.penalty == 0:
            return loss
        head, tail = embedding(facts[:, 0], entities), embedding(facts[:, 2], entities)
        factors = self.system.heads.factors(head, embedding(facts[:, 1], relations), tail)
        return loss + self.penalty * power_penalty(factors, 3)

    def _draw(self, facts: Tensor, rows: Tensor, side: Side, rng: torch.Generator) -> Tensor:
        """Return half of K entities a fact that make uncollected facts, the chosen ones first."""
        count = self.plan.half(side)
        if self.top is None:
            return self._draw_random(facts, side, count, rng)
        chosen = self.top[0 if side == "tail" else 1][rows]
        rest = self._draw_random(facts, side, count - chosen.shape[1], rng)
        return torch.cat([chosen.long(), rest], 1)

    def _draw_random(self, facts: Tensor, side: Side, count: int, rng: torch.Generator) -> Tensor:
        """Draw for each fact or each run of ``share`` facts; its own entity stands for none."""
        if self.shared is None:
            return self.sampler.draw(facts, side, count, rng)
        ids, known = self.shared.draw(facts, side, count, rng)
        own = facts[:, 2:] if side == "tail" else facts[:, :1]
        return torch.where(known, own, of_each_fact(ids, len(facts)))

    @torch.no_grad()
    def begin_epoch(self, epoch: int, rng: torch.Generator) -> bool:
        """After the warm-up, choose neighbours and uncollected facts by their posteriors."""
        if self.plan.warmup is None or epoch <= self.plan.warmup:
            return False
        self.system.eval()
        if self.choose_neighbours and isinstance(self.system.encoder, NeighbourAttention):
            self.system.encoder.choose_neighbours(self._credibility())
            self.system.eval()
        if self.plan.top_share > 0:
            return self._replace_top(self._choose("tail", rng), self._choose("head", rng))
        return False

    def _credibility(self) -> Tensor:
        """Return the running posterior [n], or the latest before the first epoch."""
        running = self.system.running
        return running.mean if running.epochs > 0 else self.judge_collected()[0]

    def _replace_top(self, tails: Tensor, heads: Tensor) -> bool:
        """Keep the chosen entities, in the old tensors if there are any."""
        if self.top is None:
            self.top = (tails, heads)
            return True
        for old, new in zip(self.top, (tails, heads), strict=True):
            old.copy_(new)
        return False

    def _choose(self, side: Side, rng: torch.Generator) -> Tensor:
        """Return, for every collected fact, the most probable uncollected entities of a pool."""
        half = self.plan.half(side)
        keep = round(self.plan.top_share * half)
        entities, relations = self.system.represent()
        chosen = []
        step = max(1, POOL_NUMBERS // (self.plan.pool * half * entities.shape[1]))
        for facts in torch.split(self.facts, step):
            drawn = self.sampler.draw(facts, side, self.plan.pool * half, rng)
            none = drawn[:, :0]
            new_ends = (drawn, none) if side == "tail" else (none, drawn)
            psi1, psi0 = self.system.both(entities, relations, facts, *new_ends)
            value = self.system.posterior.uncollected_class(psi1[:, 1:], psi0[:, 1:])
            chosen.append(drawn.gather(1, value.topk(keep).indices).int())
        return torch.cat(chosen)

    def judge_collected(self) -> tuple[Tensor, Tensor]:
        """Return probability and plausibility [n] of every collected fact."""
        self.system.eval()
        return self.system.judge_collected(self.facts)

    def health(self) -> dict[str, float | bool]:
        """Describe the latest posterior of the collected facts, and add it to the running mean."""
        probability, plausibility = self.judge_collected()
        self.system.running.update(probability)
        return health(probability, plausibility)
