"""What a path model says of facts, once or on several graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import torch
from torch import Tensor

from npugraph.graph import SIDES, Side, TripleIndex


@dataclass(frozen=True)
class Judged:
    """What a path model says of facts, one row per side that was asked for: [sides, n] each.

    Attributes:
        raw: the score.
        among_all: logarithm of its share in a softmax over all entities.
        among_new: the same, without the other answers that are stored.
        thinned: all three as the mean over graphs that each lack a third of the facts
            (:mod:`.thinned`); None: it was not asked for.
    """

    raw: Tensor
    among_all: Tensor
    among_new: Tensor
    thinned: Judged | None = None


VALUES = tuple(field.name for field in fields(Judged) if field.name != "thinned")


def mean_of(parts: Sequence[Judged]) -> Judged:
    """Return the mean of what was said of the same facts several times."""
    thinned = [part.thinned for part in parts if part.thinned is not None]
    values = {name: sum(getattr(part, name) for part in parts) / len(parts) for name in VALUES}
    return Judged(**values, thinned=mean_of(thinned) if len(thinned) == len(parts) else None)


class Judge(Protocol):
    """A model that judges facts without themselves."""

    stored: TripleIndex
    num_entities: int
    num_relations: int

    @property
    def device(self) -> torch.device:
        """Where it is."""

    def judge(
        self, facts: Tensor, sides: Sequence[Side] = SIDES, beside: Tensor | None = None
    ) -> Judged:
        """Score facts [n, 3], own edges hidden where stored, as answers for each of ``sides``.

        With ``beside`` [n], numbers of stored facts, a fact is asked of the graph that the stored
        fact of that number is asked of.
        """

    def judge_thoroughly(self, facts: Tensor, beside: Tensor | None = None) -> Judged:
        """Judge both sides, on thinned graphs too where the model is made for it."""
