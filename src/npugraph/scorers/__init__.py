"""Score functions: how plausible is (head, relation, tail), given their representations.

A scorer owns no embedding table. It sees representations and returns scores; higher is more
plausible. Two calls are enough:

- ``score(head, relation, tail)`` broadcasts over leading dimensions, last dimension is width;
- ``score_all(known, relation, entities, side)`` scores every entity as the missing ``side``.

Both give the same numbers up to rounding; the conformance suite checks it for every scorer.
"""

from __future__ import annotations

from npugraph.scorers.affine import Affine
from npugraph.scorers.base import Scorer
from npugraph.scorers.bilinear import ComplEx, DistMult
from npugraph.scorers.conve import ConvE
from npugraph.scorers.distance import RotatE, TransE
from npugraph.scorers.perceptron import MLP
from npugraph.scorers.transr import TransR

__all__ = [
    "MLP",
    "Affine",
    "ComplEx",
    "ConvE",
    "DistMult",
    "RotatE",
    "Scorer",
    "TransE",
    "TransR",
]
