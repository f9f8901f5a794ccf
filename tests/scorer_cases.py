"""Every scorer with its formula in plain Python, and numbers to try them on."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from npugraph.scorers import (
    MLP,
    Affine,
    ComplEx,
    ConvE,
    DistMult,
    RotatE,
    Scorer,
    TransE,
    TransR,
)

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


def of_length_1(head: Vector, relation: Vector, tail: Vector) -> float:
    vectors = ([x / math.hypot(*vector) for x in vector] for vector in (head, relation, tail))
    return translation(1)(*vectors)


def rotation_in_degrees(head: Vector, relation: Vector, tail: Vector) -> float:
    return rotation(6.0, 1)(head, [math.radians(angle) for angle in relation], tail)


def make_affine() -> Affine:
    scorer = Affine(DistMult())
    with torch.no_grad():
        scorer.weight.fill_(-0.75)
        scorer.bias.fill_(2.5)
    return scorer


def affine(head: Vector, relation: Vector, tail: Vector) -> float:
    return -0.75 * distmult(head, relation, tail) + 2.5


def projection(p: int, scaling: str) -> Callable[[Vector, Vector, Vector], float]:
    """The relation is a vector, then the rows of a matrix; k follows from its length."""

    def length(vector: Vector, order: int) -> float:
        return sum(abs(x) ** order for x in vector) ** (1 / order)

    def scaled(vector: Vector) -> Vector:
        size = length(vector, 2 if scaling == "normalize" else p)
        keep = scaling == "none" or (scaling == "clamp" and size < 1)
        return vector if keep else [x / size for x in vector]

    def formula(head: Vector, relation: Vector, tail: Vector) -> float:
        k = len(relation) // (len(head) + 1)
        rows = [relation[k * (1 + i) : k * (2 + i)] for i in range(len(head))]
        start, end = (
            scaled([sum(x * row[j] for x, row in zip(end, rows, strict=True)) for j in range(k)])
            for end in (head, tail)
        )
        shift = scaled(relation[:k]) if scaling == "normalize" else relation[:k]
        return -length([h + r - t for h, r, t in zip(start, shift, end, strict=True)], p)

    return formula


def make_conve(interleave: bool = False) -> ConvE:
    """In evaluation mode, with statistics as training would leave them."""
    rng = torch.Generator().manual_seed(8)
    scorer = ConvE(DIMENSION, 1, filters=3, kernel=2, interleave=interleave, rng=rng)
    for norm in (scorer.input_norm, scorer.feature_norm, scorer.hidden_norm):
        for numbers in (norm.running_mean, norm.running_var, norm.weight.data, norm.bias.data):
            numbers.copy_(torch.rand(numbers.shape, generator=rng) + 0.5)
    return scorer.eval()


def convolution(interleave: bool) -> Callable[[Vector, Vector, Vector], float]:
    """An image of two rows, three filters of 2 x 2, so that a feature map is one row of four."""

    def normed(value: float, norm: torch.nn.Module, channel: int) -> float:
        mean, variance = norm.running_mean[channel].item(), norm.running_var[channel].item()
        scale, shift = norm.weight[channel].item(), norm.bias[channel].item()
        return (value - mean) / math.sqrt(variance + 1e-5) * scale + shift

    def formula(head: Vector, relation: Vector, tail: Vector) -> float:
        scorer = make_conve(interleave)
        numbers = [*head[:DIMENSION], *relation]
        if interleave:
            numbers = [x for pair in zip(head[:DIMENSION], relation, strict=True) for x in pair]
        numbers = [normed(x, scorer.input_norm, 0) for x in numbers]
        image = [numbers[:DIMENSION], numbers[DIMENSION:]]
        features = []
        for channel, kernel in enumerate(scorer.filters[:, 0].tolist()):
            for left in range(DIMENSION - 1):
                places = [(i, j) for i in range(2) for j in range(2)]
                value = sum(image[i][left + j] * kernel[i][j] for i, j in places)
                features.append(max(0.0, normed(value, scorer.feature_norm, channel)))
        total = tail[DIMENSION]
        for unit, (row, shift) in enumerate(
            zip(scorer.weight.tolist(), scorer.shift.tolist(), strict=True)
        ):
            value = shift + sum(w * x for w, x in zip(row, features, strict=True))
            total += tail[unit] * max(0.0, normed(value, scorer.hidden_norm, unit))
        return total

    return formula


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
    "transe of length 1": Case(lambda: TransE(1, normalize=True), of_length_1, best=0.0),
    "rotate": Case(lambda: RotatE(gamma=6.0), rotation(6.0, 1), best=6.0),
    "rotate l2": Case(lambda: RotatE(gamma=1.0, norm="l2"), rotation(1.0, 2), best=1.0),
    "rotate in degrees": Case(
        lambda: RotatE(6.0, unit=math.pi / 180), rotation_in_degrees, best=6.0
    ),
    "mlp": Case(make_mlp, perceptron),
    "affine": Case(make_affine, affine),
    "transr l1": Case(lambda: TransR(1), projection(1, "normalize"), best=0.0),
    "transr l2 clamped": Case(lambda: TransR(2, "clamp", 3), projection(2, "clamp"), best=0.0),
    "transr l1 clamped": Case(lambda: TransR(1, "clamp"), projection(1, "clamp"), best=0.0),
    "transr as it is": Case(lambda: TransR(1, "none", 7), projection(1, "none"), best=0.0),
    "conve": Case(make_conve, convolution(interleave=False)),
    "conve interleaved": Case(lambda: make_conve(True), convolution(interleave=True)),
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
