"""Several models of paths as one: each has a seed of its own, and their mean is the score.

A model of paths has millions of numbers in its relation maps and meets few facts twice, so two
trainings that differ in nothing but their seed err in different places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from npugraph.graph import SIDES, KnowledgeGraph, Side
from npugraph.model import FoundPath, Named
from npugraph.recipes.path.batch_loss import PathTraining
from npugraph.recipes.path.judged import Judged, mean_of
from npugraph.recipes.path.judging import JudgingModel
from npugraph.recipes.path.model import PathModel
from npugraph.training.batch_loss import Training


class PathMembers(JudgingModel):
    """The mean of what several models of paths say, along the same facts."""

    def __init__(self, members: Sequence[PathModel]) -> None:
        """Put the models together."""
        first = members[0]
        super().__init__(None, first.num_entities, first.num_relations)
        self.members = nn.ModuleList(members)
        self.stored = first.stored

    def each(self) -> list[PathModel]:
        """Return the models."""
        return [member for member in self.members if isinstance(member, PathModel)]

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        # Behind .to() and the like: the members' indexes have gone where their weights went.
        super()._apply(*args, **kwargs)
        self.stored = self.each()[0].stored
        return self

    def on_graph(self, train: KnowledgeGraph) -> PathMembers:
        """Return models with the same weights and the facts of another graph as their edges."""
        made = PathMembers([member.on_graph(train) for member in self.each()])
        return made.train(self.training)

    def along(self, train: KnowledgeGraph) -> PathMembers:
        """Return models with other facts about their own entities as their evidence."""
        return PathMembers([member.along(train) for member in self.each()]).train(self.training)

    def regroup(self, order: Tensor) -> None:
        """Hide neighbours in ``order`` [n], the numbers of all stored facts, together."""
        for member in self.each():
            member.regroup(order)

    def rows_by_name(self) -> Mapping[str, Named] | None:
        """Tell it of the weights of every member."""
        found: dict[str, Named] = {}
        for place, member in enumerate(self.each()):
            named = member.rows_by_name()
            if named is None:
                return None
            found |= {f"members.{place}.{name}": kind for name, kind in named.items()}
        return found

    def kinds_of(self, facts: Tensor) -> dict[str, Tensor]:
        """Tell facts whose ends are linked by a stored fact from those whose are not."""
        return self.each()[0].kinds_of(facts)

    @torch.no_grad()
    def score_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing ``side`` of queries [q]: [q, E], the mean."""
        return _mean(member.score_all(known, relation, side) for member in self.each())

    @torch.no_grad()
    def log_all(self, known: Tensor, relation: Tensor, side: Side) -> Tensor:
        """Return the mean of the members' logarithms for queries [q]: [q, E]."""
        return _mean(member.log_all(known, relation, side) for member in self.each())

    def score_all_without(self, fact: Tensor) -> Callable[[Tensor, Tensor, Side], Tensor]:
        """Return ``score_all`` with the own edges of a fact [3] hidden, where it is stored."""
        parts = [member.score_all_without(fact) for member in self.each()]
        return lambda *query: _mean(part(*query) for part in parts)

    def judge(
        self, facts: Tensor, sides: Sequence[Side] = SIDES, beside: Tensor | None = None
    ) -> Judged:
        """Return the mean of what the members say."""
        return mean_of([member.judge(facts, sides, beside) for member in self.each()])

    def judge_thoroughly(self, facts: Tensor, beside: Tensor | None = None) -> Judged:
        """Return the mean of what the members say, thinned graphs apart."""
        return mean_of([member.judge_thoroughly(facts, beside) for member in self.each()])

    def strongest_paths(self, fact: Tensor, k: int) -> tuple[FoundPath, ...]:
        """Return the k heaviest paths behind a fact [3] by the first member."""
        return self.each()[0].strongest_paths(fact, k)


class MembersTraining(Training):
    """Trains several models of paths in every step, each on questions in an order of its own.

    Each is trained as it would be alone, but for what is drawn in a step and for ``clip``, which
    looks at the gradient of all. A posterior of the stored facts is found by the first, for all.
    """

    system: PathMembers

    def __init__(self, parts: Sequence[PathTraining]) -> None:
        """Train the models of several trainings on the same facts."""
        super().__init__(PathMembers([lent(part) for part in parts]), parts[0].facts)
        self.parts = nn.ModuleList(parts)
        self.memory_settings = ("members", *parts[0].memory_settings)
        self.memory_way_out = parts[0].memory_way_out

    def each(self) -> list[PathTraining]:
        """Return the trainings."""
        return [part for part in self.parts if isinstance(part, PathTraining)]

    def num_items(self) -> int:
        """Return how many questions one epoch asks of each member."""
        return self.each()[0].num_items()

    def step_bytes(self, batch_size: int, device: torch.device) -> int:
        """Return what a step of all takes; all are there when gradients are taken."""
        return sum(part.step_bytes(batch_size, device) for part in self.each())

    def step_share(self, done: float) -> float:
        """Return what the members say, all the same."""
        return self.each()[0].step_share(done)

    def begin_epoch(self, epoch: int, rng: torch.Generator) -> bool:
        """Take the next questions of each; what the first believes, all do."""
        first, *others = self.each()
        moved = first.begin_epoch(epoch, rng)
        for part in others:
            part.follow(first)
            moved = part.begin_epoch(epoch, rng) or moved
        return moved

    def loss(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Return the sum of the losses."""
        return torch.stack([part.loss(rows, rng) for part in self.each()]).sum()

    def answer_weights(self) -> Tensor | None:
        """Return what the first says: all believe the same."""
        return self.each()[0].answer_weights()

    def health(self) -> dict[str, float | bool]:
        """Return the mean of what the members say of themselves."""
        found = [part.health() for part in self.each()]
        names = [name for name in found[0] if all(name in one for one in found)]
        return {name: sum(float(one[name]) for one in found) / len(found) for name in names}


def lent(training: Training) -> Any:
    """Return the system of a training, which is from now on in the state of another training."""
    system = training._modules.pop("system")
    training.__dict__["system"] = system
    return system


def _mean(parts: Iterable[Tensor]) -> Tensor:
    # One after the other: scores of all entities are large, and planned for one model.
    count, total = 0, torch.zeros(())
    for part in parts:
        total = part if count == 0 else total + part
        count += 1
    return total / count
