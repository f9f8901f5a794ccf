"""Every scorer with its formula in plain Python, and numbers to try them on."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from npugraph.scorers import MLP, ComplEx, DistMult, RotatE, Scorer, TransE

DIMENSION = 5
# More than 25 entities: from there on torch.cdist may go through a matrix product.
NUM_ENTITIES, NUM_RELATIONS = 70, 6
FACTS = torch.tensor([[0, 0, 3], [4, 5, 4], [69, 2, 0], [0, 0, 8], [12, 3, 3]])

Vector = list[float]


def pairs(vector: Vector) -> list[complex]:
    half = len(vector) // 2
    return [complex(re, im) for re, im in zip(vector[:half], vector[half:], strict=True)]


def distmult(head: Vector, relation: Vector, tail: Vector) -> float:
    return sum(h * r * t for h, r, t in zip(head, relation, tail, strict=True))


def complex_product(head: Vector, relation: Vector, tail: Vector) -> float:
    terms = zip(pairs(head), pairs(relation), pairs(tail), strict=True)
    return sum(h * r * t.conjugate() for h, r, t in terms).real


def translation(p: int) -> Callable[[Vector, Vector, Vector], float]:
    def formula(head: Vector, relation: Vector, tail: Vector) -> float:
        gaps = [abs(h + r - t) for h, r, t in zip(head, relation, tail, strict=True)]
        return -(sum(gap**p for gap in gaps) ** (1 / p))

    return formula


def rotation(gamma: float, p: int) -> Callable[[Vector, Vector, Vector], float]:
    """p = 1 sums the moduli, p = 2 is the Euclidean norm of the whole difference."""

    def formula(head: Vector, relation: Vector, tail: Vector) -> float:
        terms = zip(pairs(head), relation, pairs(tail), strict=True)
        moduli = [abs(h * cmath.exp(1j * angle) - t) for h, angle, t in terms]
        return gamma - sum(modulus**p for modulus in moduli) ** (1 / p)

    return formula


def make_mlp() -> MLP:
    return MLP(DIMENSION, 7, torch.Generator().manual_seed(9))


def perceptron(head: Vector, relation: Vector, tail: Vector) -> float:
    mlp = make_mlp()
    # One row a number of [h ; r ; t], one column a hidden unit.
    first = [*mlp.head.tolist(), *mlp.relation.tolist(), *mlp.tail.tolist()]
    total = mlp.shift.item()
    for unit, (bias, out) in enumerate(zip(mlp.bias.tolist(), mlp.out.tolist(), strict=True)):
        terms = zip([*head, *relation, *tail], first, strict=True)
        total += out * max(0.0, bias + sum(value * row[unit] for value, row in terms))
    return total


@dataclass(frozen=True)
class Case:
    make: Callable[[], Scorer]
    formula: Callable[[Vector, Vector, Vector], float]
    # The score of a perfect fit, where there is one.
    best: float | None = None


CASES = {
    "distmult": Case(DistMult, distmult),
    "complex": Case(ComplEx, complex_product),
    "transe l1": Case(lambda: TransE(p=1), translation(1), best=0.0),
    "transe l2": Case(lambda: TransE(p=2), translation(2), best=0.0),
    "rotate": Case(lambda: RotatE(gamma=6.0), rotation(6.0, 1), best=6.0),
    "rotate l2": Case(lambda: RotatE(gamma=1.0, norm="l2"), rotation(1.0, 2), best=1.0),
    "mlp": Case(make_mlp, perceptron),
}
DISTANCES = {name: case for name, case in CASES.items() if case.best is not None}


def tables(
    scorer: Scorer, dtype: torch.dtype = torch.float64, scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return entities [E, w] and relations [R, v], the same numbers for every dtype.

    The scorer's own parameters, if it has any, are turned into that dtype too.
    """
    scorer.to(dtype)
    rng = torch.Generator().manual_seed(4)
    widths = scorer.entity_width(DIMENSION), scorer.relation_width(DIMENSION)
    sizes = (NUM_ENTITIES, NUM_RELATIONS)
    entities, relations = (
        torch.randn(size, width, generator=rng, dtype=torch.float64) * scale
        for size, width in zip(sizes, widths, strict=True)
    )
    return entities.to(dtype), relations.to(dtype)
