"""Bilinear scores: linear in each of head, relation and tail."""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph.arrays import in_runs
from npugraph.graph import Side
from npugraph.kernels import products
from npugraph.peers import Peers
from npugraph.scorers.base import Scorer


class DistMult(Scorer):
    """``sum_k h_k r_k t_k`` (Yang et al. 2015)."""

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score facts."""
        return (head * relation * tail).sum(-1)

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity; both sides are the same, the form is symmetric."""
        return products(known * relation, entities)

    def against(
        self, known: Tensor, relation: Tensor, missing: Tensor, pool: Tensor, side: Side
    ) -> Tensor:
        """Score facts and candidates: known and relation are multiplied once."""
        return products_against(known * relation, missing, pool)

    def part(self, peers: Peers) -> Scorer:
        """The same: it is a sum over dimensions."""
        return self


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
        return (multiply(head, relation) * tail).sum(-1)

    def score_all(self, known: Tensor, relation: Tensor, entities: Tensor, side: Side) -> Tensor:
        """Score every entity: Re(h r conj t) is linear in each argument, so one product."""
        query = multiply(known, relation, backwards=side == "head")
        return products(query, entities)

    def against(
        self, known: Tensor, relation: Tensor, missing: Tensor, pool: Tensor, side: Side
    ) -> Tensor:
        """Score facts and candidates: known and relation are multiplied once."""
        query = multiply(known, relation, backwards=side == "head")
        return products_against(query, missing, pool)

    def part(self, peers: Peers) -> Scorer:
        """The same: it is a sum over dimensions."""
        return self

    def factors(self, representation: Tensor) -> Tensor:
        """Return the modulus of each complex number."""
        real, imaginary = representation.chunk(2, -1)
        # The tiny term keeps the gradient of the root finite at 0.
        return (real.square() + imaginary.square() + 1e-30).sqrt()


def multiply(x: Tensor, y: Tensor, backwards: bool = False) -> Tensor:
    """Multiply complex vectors in two halves: x y, or x conj(y)."""
    a, b = x.chunk(2, -1)
    c, d = y.chunk(2, -1)
    if backwards:
        return torch.cat([a * c + b * d, b * c - a * d], -1)
    return torch.cat([a * c - b * d, a * d + b * c], -1)


def products_against(query: Tensor, missing: Tensor, pool: Tensor) -> Tensor:
    """Return the products of queries [b, w] with their own rows [b, w] and pools [g, k, w].

    >>> products_against(torch.ones(1, 2), torch.ones(1, 2), torch.zeros(1, 1, 2)).tolist()
    [[2.0, 0.0]]
    """
    own = (query * missing).sum(1, keepdim=True)
    return torch.cat([own, in_runs(products, [query], pool)], 1)
