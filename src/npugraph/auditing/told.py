"""What an audit tells of single facts: probability, place in the order, what is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.auditing.columns import heeded
from npugraph.auditing.judgement import Judgement
from npugraph.auditing.statistics.columns import ColumnEffect
from npugraph.auditing.statistics.verdict import OF_RELATION, Verdict
from npugraph.explaining import Audited, Place, why_untold

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ToldFacts:
    """The judged facts of one sort, and what may be told of them.

    Attributes:
        judged: their judgement [n].
        stored: whether they are stored; otherwise proposed.
        verdict: on their list.
        told: of which the probability is told [n].
        place: of each in the order, from 1 [n].
        listed: places of the listed ones among them.
        right: facts that are known to be right [m, 3].
        columns: what each column of the input says about them.
        column_odds: by which factor these changed the odds of being wrong [n]; None: not at all.
    """

    judged: Judgement
    stored: bool
    verdict: Verdict
    told: NDArray[np.bool_]
    place: Ints
    listed: Ints
    right: Tensor
    columns: Mapping[str, ColumnEffect]
    column_odds: Floats | None = None

    def find(self, fact: Tensor) -> int | None:
        """Return where a fact [3] stands among them, or None."""
        same = torch.nonzero((self.judged.facts == fact.cpu()).all(1)).flatten().tolist()
        return same[0] if same else None

    def tell(self, at: int) -> Audited:
        """Return what is told of the fact at a place."""
        told: tuple[float | None, ...] = (None, None, None)
        untold = ""
        if self.told[at]:
            ends = (self.judged.probability, self.judged.low, self.judged.high)
            told = tuple(float(values[at]) for values in ends)
        else:
            said = OF_RELATION if self.verdict.reliable else self.verdict
            untold = why_untold(True, said.level, said.why)
        known = True if among(self.judged.facts[at], self.right) else None
        place = Place(int(self.place[at]), len(self.place), self.stored, listed=at in self.listed)
        return Audited(
            told,
            untold,
            None,
            place=place if known is None else None,
            known=known,
            column_odds=None if self.column_odds is None else float(self.column_odds[at]),
            columns=heeded(self.columns),
        )


def among(fact: Tensor, facts: Tensor) -> bool:
    """Tell whether a fact [3] is among facts [n, 3]."""
    return bool((facts == fact.cpu()).all(1).any())
