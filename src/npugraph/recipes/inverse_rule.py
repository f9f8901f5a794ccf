"""Inverse rules: r1(x, y) => r2(y, x), mined once; a strong reference that learns nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from npugraph.encoders import Lookup
from npugraph.graph import KnowledgeGraph, Side
from npugraph.model import Model
from npugraph.recipes.base import Choices, Recipe, Whole
from npugraph.rules import RuleSet, mine
from npugraph.settings import TrainSettings, setting
from npugraph.training.batch_loss import NoTraining, Training

# Frequencies decide only between equal rules: they add at most this to a bound in [0, 1].
TIE = 1e-9


@dataclass(frozen=True)
class InverseRuleSettings(TrainSettings):
    """Settings of inverse-rule; one epoch, as the rules are mined when the system is built."""

    min_support: int = setting(2, "facts that must follow a rule", low=1)
    subsumption: bool = setting(False, "also use rules r1(x, y) => r2(x, y)")
    epochs: int = setting(1, "passes over the training facts", low=1)


class RuleSystem(Model):
    """Scores a fact by its best rule, then by how often the relation has that entity there.

    A rule counts with the lower end of Wilson's interval of its confidence, without the fact
    itself. A score is that bound plus up to 1e-9 for the frequency of (relation, entity) among
    the training facts. The frequency is that of the entity asked for; facts are scored as asked
    for their tail.
    """

    frequency: Tensor

    def __init__(self, rules: RuleSet, facts: Tensor) -> None:
        """Apply rules to facts and queries over the entities and relations of ``facts`` [n, 3]."""
        entities, relations = rules.edges.num_entities, rules.edges.num_relations
        # Vectors of width 0: there is nothing to learn, but a device and a state to save.
        tables = Lookup(torch.zeros(entities, 0), torch.zeros(relations, 0))
        super().__init__(tables, entities, relations)
        self.rules = rules
        self.facts_count = max(len(facts), 1)
        # Sorted keys of the (side, relation, entity) of the facts: as many numbers as facts.
        keys = torch.cat([self._key(facts[:, 1], facts[:, k], k == 0) for k in (2, 0)])
        self.register_buffer("frequency", keys.sort().values, persistent=False)

    def _key(self, relation: Tensor, entity: Tensor, head: bool) -> Tensor:
        return (relation + head * self.num_relations) * self.num_entities + entity

    def _tie(self, relation: Tensor, entity: Tensor, side: Side) -> Tensor:
        """Return TIE * count(relation, entity) / number of facts, elementwise."""
        key = self._key(relation, entity, side == "head")
        first, last = (
            torch.searchsorted(self.frequency, key, right=right) for right in (False, True)
        )
        return TIE * (last - first).double() / self.facts_count

    @torch.no_grad()
    def score(self, facts: Tensor) -> Tensor:
        """Score facts [n, 3] as answers to the question for their tail: float64 [n]."""
        return self.score_as(facts, "tail")

    @torch.no_grad()
    def score_as(self, facts: Tensor, side: Side) -> Tensor:
        """Score facts [n, 3] as answers to the question for their ``side``: float64 [n]."""
        bound = torch.from_numpy(self.rules.judge(facts.cpu()).best_lower).to(facts.device)
        return bound + self._tie(facts[:, 1], facts[:, 2 if side == "tail" else 0], side)

    @torch.no_grad()
    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing ``side`` of queries [q]: float64 [q, E]."""
        found = self.rules.score_entities(known, relation, side).toarray()
        entities = torch.arange(self.num_entities, device=known.device)
        tie = self._tie(relation.unsqueeze(1), entities, side)
        return torch.from_numpy(found).to(known.device) + tie


def build(settings: InverseRuleSettings, train: KnowledgeGraph) -> Training:
    """Mine the rules from the training facts; nothing is trained."""
    rules = mine(
        train.facts,
        train.num_entities,
        train.num_relations,
        compositions=False,
        min_support=settings.min_support,
        min_lower=0.0,
    )
    if not settings.subsumption:
        keep = np.flatnonzero(rules.body[:, 0] >= train.num_relations)
        parts = {name: getattr(rules, name)[keep] for name in ("body", "head")}
        counts = {name: getattr(rules, name)[keep] for name in ("support", "body_count")}
        rules = replace(rules, **parts, **counts)
    return NoTraining(RuleSystem(rules, train.facts), train.facts)


INVERSE_RULE = Recipe(
    name="inverse-rule",
    summary="Mined inverse and symmetric rules, then the frequency of the entity.",
    source="none; a rule r1(x, y) => r2(y, x) is what most of FB15k and WN18 follows",
    settings=InverseRuleSettings,
    build=build,
    parts={"scorer": "lower bound of the best rule's confidence, then the entity's frequency"},
    space={"min_support": Whole(1, 10), "subsumption": Choices((False, True))},
)
