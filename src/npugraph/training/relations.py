"""A second question beside that for an entity: which relation holds between the two ends."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from npugraph.model import System, look_up, wide
from npugraph.objectives.reduce import fact_mean
from npugraph.scorers import ComplEx
from npugraph.training.batch_loss import PlainTraining


class RelationTraining(PlainTraining):
    """Asks for the relation of every fact as well (Chen et al. 2021); for ComplEx.

    ``-log softmax`` of the fact's relation among all R, and with twins of its twin among theirs,
    from tail to head. It is added to the loss by its weight.
    """

    def __init__(self, relation_weight: float, system: System, *args: Any, **options: Any) -> None:
        """Train a system of ComplEx; what follows the system is as for PlainTraining."""
        super().__init__(system, *args, **options)
        assert isinstance(system.scorer, ComplEx)
        self.relation_weight = relation_weight
        self.scorer = system.scorer

    def step_bytes(self, batch_size: int, device: torch.device) -> int:
        """Add the scores of all relations, with their gradients."""
        scores = 2 * 3 * 4 * batch_size * self.system.num_relations
        return super().step_bytes(batch_size, device) + scores

    def loss(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Return the mean over the facts of the batch of both questions."""
        return super().loss(rows, rng) + self.relation_weight * self._relations(rows)

    def _relations(self, rows: Tensor) -> Tensor:
        system = self.system
        head, relation, tail = self.facts[rows].unbind(1)
        entities, relations = system.encoder()
        sparse = system.has_sparse_steps(entities.device)
        first, last = look_up(entities, [head, tail], sparse)
        asked = [(first, last), (last, first)] if system.reciprocal else [(first, last)]
        tables = wide(relations).split(system.num_relations)
        parts = [
            self.scorer.score_relations(*ends, table)
            for ends, table in zip(asked, tables, strict=True)
        ]
        weight = None if self.weight is None else self.weight[rows]
        losses = [
            fact_mean(nn.functional.cross_entropy(scores, relation, reduction="none"), weight)
            for scores in system.share.peers.sums(parts)
        ]
        return torch.stack(losses).mean()
