"""Score functions: how plausible is (head, relation, tail), given their representations.

A scorer owns no embedding table. It sees representations and returns scores; higher is more
plausible. Two calls are enough:

- ``score(head, relation, tail)`` broadcasts over leading dimensions, last dimension is width;
- ``score_all(known, relation, entities, side)`` scores every entity as the missing ``side``.

Both give the same numbers up to rounding; the conformance suite checks it for every scorer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from npugraph.errors import SettingsError
from npugraph.graph import Side


class Scorer(nn.Module, ABC):
    """A score function over representations of width ``entity_width`` and ``relation_width``."""

    def entity_width(self, dimension: int) -> int:
        """Return how many numbers represent an entity at this dimension."""
        return dimension

    def relation_width(self, dimension: int) -> int:
        """Return how many numbers represent a relation at this dimension."""
        return dimension

    @abstractmethod
    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts: [..., width] each, broadcast against each other, to [...]."""

    @abstractmethod
    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity as the missing side: [q, w], [q, v], [E, w] to [q, E]."""

    def factors(self, representation: Tensor) -> Tensor:
        """Return the moduli that the N3 penalty is taken of: [..., width] to [..., m]."""
        return representation.abs()


class DistMult(Scorer):
    """``sum_k h_k r_k t_k`` (Yang et al. 2015)."""

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        return (head * relation * tail).sum(-1)

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity; both sides are the same, the form is symmetric."""
        return (known * relation) @ entities.T


class ComplEx(Scorer):
    """``Re(sum_k h_k r_k conj(t_k))`` (Trouillon et al. 2016).

    A vector of d complex numbers is stored as two halves, [re_1..re_d, im_1..im_d].
    """

    def entity_width(self, dimension: int) -> int:
        """Two halves."""
        return 2 * dimension

    def relation_width(self, dimension: int) -> int:
        """Two halves."""
        return 2 * dimension

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        return (_rotate(head, relation) * tail).sum(-1)

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity: Re(h r conj t) is linear in each argument, so one product."""
        query = _rotate(known, relation, backwards=side == "head")
        return query @ entities.T

    def factors(self, representation: Tensor) -> Tensor:
        """Return the modulus of each complex number."""
        real, imaginary = representation.chunk(2, -1)
        # The tiny term keeps the gradient of the root finite at 0.
        return (real.square() + imaginary.square() + 1e-30).sqrt()


class TransE(Scorer):
    """``-||h + r - t||_p`` (Bordes et al. 2013), p = 1 or 2, not squared."""

    def __init__(self, p: int = 1) -> None:
        """Choose the norm ``p``: 1 or 2."""
        super().__init__()
        if p not in (1, 2):
            raise SettingsError(f"p={p} must be 1 or 2.")
        self.p = p

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        gap: Tensor = torch.linalg.vector_norm(head + relation - tail, ord=self.p, dim=-1)
        return -gap

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity by its distance to the point where it should be."""
        point = known + relation if side == "tail" else known - relation
        return -distances(point, entities, "l1" if self.p == 1 else "l2")


class RotatE(Scorer):
    """``gamma - sum_k |h_k e^(i theta_k) - t_k|`` (Sun et al. 2019).

    Entities are d complex numbers in two halves as in ComplEx; a relation is d angles.
    ``norm="l2"`` takes the Euclidean norm of the whole difference instead, as PyKEEN does.
    """

    def __init__(self, gamma: float = 0.0, norm: Literal["modulus", "l2"] = "modulus") -> None:
        """Choose the margin ``gamma`` and the norm."""
        super().__init__()
        if norm not in ("modulus", "l2"):
            raise SettingsError(f"norm={norm!r} must be one of modulus, l2.")
        self.gamma = gamma
        self.norm = norm

    def entity_width(self, dimension: int) -> int:
        """Two halves."""
        return 2 * dimension

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        gap = _rotate(head, _unit(relation)) - tail
        if self.norm == "l2":
            length: Tensor = torch.linalg.vector_norm(gap, dim=-1)
            return self.gamma - length
        real, imaginary = gap.chunk(2, -1)
        # The tiny term keeps the gradient of the root finite where the gap is 0.
        return self.gamma - (real.square() + imaginary.square() + 1e-30).sqrt().sum(-1)

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity; a rotation keeps lengths, so a head is found by turning back."""
        point = _rotate(known, _unit(relation), backwards=side == "head")
        return self.gamma - distances(point, entities, self.norm)


def _unit(angle: Tensor) -> Tensor:
    """Return e^(i angle) as two halves: [..., d] to [..., 2d]."""
    return torch.cat([angle.cos(), angle.sin()], -1)


def _rotate(x: Tensor, y: Tensor, backwards: bool = False) -> Tensor:
    """Multiply complex vectors in two halves: x y, or x conj(y)."""
    a, b = x.chunk(2, -1)
    c, d = y.chunk(2, -1)
    if backwards:
        return torch.cat([a * c + b * d, b * c - a * d], -1)
    return torch.cat([a * c - b * d, a * d + b * c], -1)


Norm = Literal["l1", "l2", "modulus"]
# Scores of one tile: small enough that the three buffers stay in a core's own cache.
TILE_QUERIES, TILE_ENTITIES = 64, 4096


def distances(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    """Return all distances between points [q, w] and entities [E, w]: [q, E].

    Every norm is summed directly, coordinate by coordinate. Expanding the square into a matrix
    product would be shorter, but loses the digits that decide close ranks.
    """
    if torch.is_grad_enabled() and (points.requires_grad or entities.requires_grad):
        return _distances_with_gradient(points, entities, norm)
    if norm != "modulus" and points.device.type != "cpu":
        return _cdist(points, entities, norm)
    out = points.new_empty(len(points), len(entities))
    on_cpu = points.device.type == "cpu"
    tile_queries = TILE_QUERIES if on_cpu else max(1, 2**24 // max(len(entities), 1))
    tile_entities = TILE_ENTITIES if on_cpu else len(entities)
    for first in range(0, len(entities), max(tile_entities, 1)):
        columns = entities[first : first + tile_entities].T.contiguous()
        for start in range(0, len(points), tile_queries):
            tile = points[start : start + tile_queries].T.unsqueeze(-1)
            target = out[start : start + tile_queries, first : first + tile_entities]
            target.copy_(_tile(tile, columns, norm))
    return out


def _tile(points: Tensor, columns: Tensor, norm: Norm) -> Tensor:
    """Sum one tile of distances over coordinates: [w, q, 1] and [w, e] to [q, e].

    One coordinate at a time, in place: each pass reads and writes buffers that stay in cache.
    """
    total = points.new_zeros(points.shape[1], columns.shape[1])
    gap = torch.empty_like(total)
    if norm == "modulus":
        half = len(points) // 2
        other = torch.empty_like(total)
        for k in range(half):
            torch.sub(columns[k], points[k], out=gap)
            torch.sub(columns[half + k], points[half + k], out=other)
            total.add_(gap.mul_(gap).addcmul_(other, other).sqrt_())
        return total
    for column, point in zip(columns.unbind(0), points.unbind(0), strict=True):
        torch.sub(column, point, out=gap)
        if norm == "l1":
            total.add_(gap.abs_())
        else:
            total.addcmul_(gap, gap)
    return total if norm == "l1" else total.sqrt_()


def _cdist(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    # Without this mode cdist goes through a matrix product from 26 rows on.
    mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(points, entities, p=1.0 if norm == "l1" else 2.0, compute_mode=mode)


def _distances_with_gradient(points: Tensor, entities: Tensor, norm: Norm) -> Tensor:
    if norm != "modulus":
        return _cdist(points, entities, norm)
    gap = points.unsqueeze(1) - entities
    real, imaginary = gap.chunk(2, -1)
    return (real.square() + imaginary.square() + 1e-30).sqrt().sum(-1)


class MLP(Scorer):
    """``w . relu(W_h h + W_r r + W_t t + b) + c``: a perceptron over [h ; r ; t] (ERMLP).

    The first layer is kept as one block a slot. An entity is then projected once, and a fact
    costs a gather, an addition, an activation and a dot product.
    """

    def __init__(self, width: int, hidden: int, rng: torch.Generator | None = None) -> None:
        """``width`` numbers per entity and relation, ``hidden`` units."""
        super().__init__()
        bound = (3 * width) ** -0.5

        def even(*shape: int, limit: float = bound) -> nn.Parameter:
            return nn.Parameter((torch.rand(shape, generator=rng) * 2 - 1) * limit)

        self.head, self.relation, self.tail = (even(width, hidden) for _ in range(3))
        self.bias = even(hidden)
        self.out = even(hidden, limit=hidden**-0.5)
        self.shift = nn.Parameter(torch.zeros(()))

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        hidden = head @ self.head + (relation @ self.relation + self.bias) + tail @ self.tail
        return torch.relu(hidden) @ self.out + self.shift

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity, tile by tile: no tensor of queries x entities x hidden is made."""
        given, missing = (self.head, self.tail) if side == "tail" else (self.tail, self.head)
        query = known @ given + relation @ self.relation + self.bias
        return perceptron_scores(query, entities @ missing, self.out) + self.shift


def perceptron_scores(query: Tensor, entities: Tensor, weight: Tensor) -> Tensor:
    """Return ``sum_k weight_k relu(query_k + entity_k)``: [q, m], [E, m], [m] to [q, E].

    relu(a + b) = max(a, -b) + b would save a pass a unit, but what it adds and takes away again
    leaves rounding behind: facts on which every unit is off would no longer tie.
    """
    if torch.is_grad_enabled() and any(x.requires_grad for x in (query, entities, weight)):
        return torch.relu(query.unsqueeze(1) + entities) @ weight
    out = query.new_empty(len(query), len(entities))
    on_cpu = query.device.type == "cpu"
    tile_queries = TILE_QUERIES if on_cpu else max(1, 2**24 // max(len(entities), 1))
    tile_entities = TILE_ENTITIES if on_cpu else len(entities)
    weights = weight.tolist()
    for first in range(0, len(entities), max(tile_entities, 1)):
        part = entities[first : first + tile_entities]
        columns = part.T.contiguous()
        for start in range(0, len(query), tile_queries):
            points = query[start : start + tile_queries].T.unsqueeze(-1)
            total = query.new_zeros(points.shape[1], len(part))
            unit = torch.empty_like(total)
            for point, column, factor in zip(points, columns, weights, strict=True):
                torch.add(column, point, out=unit)
                total.add_(unit.relu_(), alpha=factor)
            out[start : start + tile_queries, first : first + tile_entities] = total
    return out


# Numbers a tile of the perceptron's hidden layer: it stays in a core's own cache.
TILE_HIDDEN = 2**18


class _GatheredPerceptron(torch.autograd.Function):
    """``sum_m weight[i, m] relu(base[i, m] + table[ids[i, k], m])`` for i, k, and its gradient.

    The hidden layer [b, k, m] is never stored: it is made tile by tile, and again in the backward
    pass. On the CPU that keeps it in cache; fresh memory of that size costs more than the sums.
    """

    @staticmethod
    def forward(ctx: Any, base: Tensor, table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(base, table, ids, weight)
        out = base.new_empty(ids.shape)
        for rows, hidden in _hidden_tiles(base, table, ids):
            torch.bmm(hidden, weight[rows].unsqueeze(-1), out=out[rows].unsqueeze(-1))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        base, table, ids, weight = ctx.saved_tensors
        grad_base, grad_weight = torch.empty_like(base), torch.empty_like(weight)
        grad_hidden = base.new_empty(*ids.shape, base.shape[1])
        for rows, hidden in _hidden_tiles(base, table, ids):
            part = grad[rows]
            torch.bmm(part.unsqueeze(1), hidden, out=grad_weight[rows].unsqueeze(1))
            # Where the unit is off the hidden value is 0; where it is on, the slope is 1.
            slope = torch.gt(hidden, 0, out=grad_hidden[rows])
            slope.mul_(weight[rows].unsqueeze(1)).mul_(part.unsqueeze(-1))
            torch.sum(slope, 1, out=grad_base[rows])
        flat = grad_hidden.flatten(0, 1)
        if table.device.type == "cpu":
            grad_table = torch.ops.aten.embedding_dense_backward(
                flat, ids.reshape(-1), len(table), -1, False
            )
        else:
            grad_table = torch.zeros_like(table).index_add_(0, ids.reshape(-1), flat)
        return grad_base, grad_table, None, grad_weight


def _hidden_tiles(base: Tensor, table: Tensor, ids: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield (rows, relu(base + table[ids])) tile by tile; the tile is overwritten by the next."""
    count, width = ids.shape[1], base.shape[1]
    step = len(ids) if base.device.type != "cpu" else max(1, TILE_HIDDEN // (count * width + 1))
    tile = base.new_empty(max(1, step) * count, width)
    for start in range(0, len(ids), max(1, step)):
        rows = slice(start, min(start + step, len(ids)))
        wanted = ids[rows].reshape(-1)
        gathered = torch.index_select(table, 0, wanted, out=tile[: len(wanted)])
        hidden = gathered.view(-1, count, width).add_(base[rows].unsqueeze(1)).relu_()
        yield rows, hidden


def gathered_perceptron(base: Tensor, table: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
    """Return ``sum_m weight[i, m] relu(base[i, m] + table[ids[i, k], m])``: [b, k].

    Shapes: base and weight [b, m], table [E, m], ids [b, k].
    """
    if ids.shape[1] == 0:
        return base.new_empty(ids.shape)
    # Under autocast projections come in half precision, biases do not: the tiles need one dtype.
    table, weight = table.to(base.dtype), weight.to(base.dtype)
    scores: Tensor = _GatheredPerceptron.apply(base, table, ids, weight)  # type: ignore[no-untyped-call]
    return scores


class TwoHeads(nn.Module, ABC):
    """Two scores a fact, psi1 and psi0: the collection scores of the two classes."""

    @abstractmethod
    def entity_width(self, dimension: int) -> int:
        """Return how many numbers represent an entity."""

    @abstractmethod
    def relation_width(self, dimension: int) -> int:
        """Return how many numbers represent a relation."""

    @abstractmethod
    def scores(
        self, entities: Tensor, relations: Tensor, facts: Tensor, tails: Tensor, heads: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Score facts [b, 3] and their corruptions: column 0, then tails [b, k], heads [b, k].

        Returns:
            psi1 and psi0, [b, 1 + k + k] each.
        """

    @abstractmethod
    def score_all(
        self, known: Tensor, relation: Tensor, entities: Tensor, side: Side, head: int
    ) -> Tensor:
        """Score every entity as the missing side by psi1 (head 1) or psi0 (head 0): [q, E]."""


class MLPHeads(TwoHeads):
    """Two perceptrons over [h ; r ; t], as in the paper."""

    def __init__(
        self, width: int, hidden: int, dropout: float = 0.0, rng: torch.Generator | None = None
    ) -> None:
        """Make both heads of the same shape; ``dropout`` is on hidden units."""
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.psi1 = MLP(width, hidden, rng)
        self.psi0 = MLP(width, hidden, rng)

    def entity_width(self, dimension: int) -> int:
        """As given."""
        return dimension

    def relation_width(self, dimension: int) -> int:
        """As given."""
        return dimension

    def scores(
        self, entities: Tensor, relations: Tensor, facts: Tensor, tails: Tensor, heads: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Project every entity once for both heads, then gather and add."""
        ends = torch.cat([facts[:, 2:], tails], 1)
        results = []
        for mlp in (self.psi1, self.psi0):
            as_head, as_tail = entities @ mlp.head, entities @ mlp.tail
            middle = embedding(facts[:, 1], relations @ mlp.relation + mlp.bias)
            # One mask a collected fact: it and its corruptions are compared by the same units.
            out = self.dropout(mlp.out.expand(len(facts), -1)).contiguous()
            blocks = (
                gathered_perceptron(embedding(facts[:, 0], as_head) + middle, as_tail, ends, out),
                gathered_perceptron(embedding(facts[:, 2], as_tail) + middle, as_head, heads, out),
            )
            results.append(torch.cat(blocks, 1) + mlp.shift)
        return results[0], results[1]

    def score_all(
        self, known: Tensor, relation: Tensor, entities: Tensor, side: Side, head: int
    ) -> Tensor:
        """Score every entity with one of the two perceptrons."""
        mlp = self.psi1 if head == 1 else self.psi0
        return mlp.score_all(known, relation, entities, side)


class BilinearHeads(TwoHeads):
    """Two bilinear heads: entities are shared, each head has relations and a shift of its own."""

    def __init__(self, scorer: Scorer) -> None:
        """Use ``scorer`` (DistMult or ComplEx) for both heads."""
        super().__init__()
        self.scorer = scorer
        self.shift = nn.Parameter(torch.zeros(2))

    def entity_width(self, dimension: int) -> int:
        """As the scorer's."""
        return self.scorer.entity_width(dimension)

    def relation_width(self, dimension: int) -> int:
        """Two relation vectors side by side: first psi1's, then psi0's."""
        return 2 * self.scorer.relation_width(dimension)

    def scores(
        self, entities: Tensor, relations: Tensor, facts: Tensor, tails: Tensor, heads: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Score with the same entities and either half of the relation."""
        head = embedding(facts[:, :1], entities)
        tail = embedding(facts[:, 2:], entities)
        corrupted_tail, corrupted_head = embedding(tails, entities), embedding(heads, entities)
        results = []
        parts = embedding(facts[:, 1:2], relations).chunk(2, -1)
        for part, shift in zip(parts, self.shift, strict=True):
            blocks = (
                self.scorer.score(head, part, tail),
                self.scorer.score(head, part, corrupted_tail),
                self.scorer.score(corrupted_head, part, tail),
            )
            results.append(torch.cat(blocks, 1) + shift)
        return results[0], results[1]

    def score_all(
        self, known: Tensor, relation: Tensor, entities: Tensor, side: Side, head: int
    ) -> Tensor:
        """Score every entity with one half of the relation."""
        part = relation.chunk(2, -1)[1 - head]
        return self.scorer.score_all(known, part, entities, side) + self.shift[1 - head]
