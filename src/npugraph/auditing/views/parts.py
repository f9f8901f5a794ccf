"""Finer folds for views that count: they need no training, so they can hide less at a time.

Where facts are few, what speaks for a fact is often one other fact, such as the same in the other
direction. With five folds a fifth of these are hidden together with the fact that they speak for,
which then looks like an error. So each fold of a sparse graph is cut into parts, and a fact is
judged by all facts but those of its own part. In dense graphs little is hidden that way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.arrays import Floats, Ints
from npugraph.auditing.folds import Folds
from npugraph.graph import KnowledgeGraph
from npugraph.seeds import number
from npugraph.triples import wrapped_key

# With fewer facts per entity, vectors of entities know little; counts and closeness tell more.
SPARSE = 3
# Parts that a fold of such a graph is cut into. With more entities than this it stays whole: what
# is counted is kept for all parts of a fold at once.
PARTS, MOST_CUT = 4, 100_000


class Counted(Protocol):
    """What was counted in some facts."""

    def features(self, facts: Ints, more: Floats | None = None) -> NDArray[np.float32]:
        """Return the features of facts [n, 3]: float32 [n, f]; see View for ``more``."""


# Makes it from the facts that may be known; the number says which part of which fold is hidden.
Count = Callable[[KnowledgeGraph, int], Counted]


def is_sparse(facts: int, entities: int) -> bool:
    """Tell whether a graph of so many distinct facts has few per entity."""
    return facts < SPARSE * entities


def suited_parts(facts: int, entities: int) -> int:
    """Return into how many parts each fold of a graph of so many distinct facts is cut.

    >>> suited_parts(2000, 1000), suited_parts(20_000, 1000)
    (4, 1)
    """
    return PARTS if is_sparse(facts, entities) and entities <= MOST_CUT else 1


class ByPart:
    """Judges each fact by what was counted in all facts but those of its own part."""

    def __init__(self, folds: Folds, parts: int, seed: int, width: int, count: Count) -> None:
        """Cut the folds; ``count`` makes what gives ``width`` features, when it is asked for."""
        self.parts, self.seed, self.width, self.count = parts, seed, width, count
        self.folds = cut_folds(folds, parts, seed)
        self._made: dict[int, Counted] = {}

    def features(self, facts: Tensor, fold: int, more: Tensor | None = None) -> Tensor:
        """Return the features of facts [n, 3], stored or not, of a fold: float32 [n, width]."""
        own = fold * self.parts + part_of(facts, self.folds.graph, self.parts, self.seed)
        found = torch.empty(len(facts), self.width)
        for which in torch.unique(own).tolist():
            mine = own == which
            beside = None if more is None else more[mine].numpy()
            counted = self._counted(which).features(facts[mine].numpy(), beside)
            found[mine] = torch.from_numpy(counted)
        return found

    def _counted(self, which: int) -> Counted:
        """Return what was counted without one part, and forget the parts of other folds."""
        if which not in self._made:
            fold = which // self.parts
            self._made = {k: v for k, v in self._made.items() if k // self.parts == fold}
            self._made[which] = self.count(self.folds.others(which), which)
        return self._made[which]


def cut_folds(folds: Folds, parts: int, seed: int) -> Folds:
    """Cut each fold into parts: part p of fold f becomes the fold ``f * parts + p``."""
    graph, planted = folds.graph, folds.planted
    if planted is not None:
        own = planted.fold * parts + part_of(planted.facts, graph, parts, seed)
        planted = replace(planted, fold=own)
    fold = folds.fold * parts + part_of(graph.facts, graph, parts, seed)
    return replace(folds, fold=fold, count=folds.count * parts, planted=planted)


def part_of(facts: Tensor, graph: KnowledgeGraph, parts: int, seed: int) -> Tensor:
    """Return the part of each fact [n, 3], stored or not, in its fold: int64 [n]."""
    key = wrapped_key(facts, graph.num_entities, graph.num_relations)
    # The product wraps around and so mixes the bits.
    return ((key + number(seed, "parts") % 2**31) * 0x9E3779B97F4A7C1 >> 32) % parts
