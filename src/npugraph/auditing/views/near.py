"""The view ``near``: how close are both ends of a fact along other facts, whatever these say?

Where facts are few, vectors of entities learn little, but an error still joins what lies far apart.
Every entity gets a random vector x of its own; then, with A the links of facts that are
not hidden (see ``parts``) and D the degrees,

    x <- x / 2 + D^-1/2 A D^-1/2 x

a few times. The cosine of two entities after k steps tells how many short walks from both meet,
those through entities that are linked to everything counting less. No walk is enumerated: the cost
is linear in the facts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from npugraph.arrays import Floats, Ints
from npugraph.auditing.folds import Folds
from npugraph.auditing.views.base import ViewInputs
from npugraph.auditing.views.parts import ByPart, suited_parts
from npugraph.graph import KnowledgeGraph
from npugraph.seeds import number

# Numbers per entity, and steps of which each gives a column.
WIDTH, STEPS = 64, 3
Vectors = NDArray[np.float32]


class NearView:
    """Compares where walks from both ends lead, by facts of other folds or parts of them."""

    name = "near"
    columns = tuple(f"within_{2 * step}" for step in range(1, STEPS + 1))

    def __init__(self, folds: Folds, seed: int, parts: int = 1) -> None:
        """Walk when a fold is asked for; each of them is cut into so many parts."""

        def count(others: KnowledgeGraph, which: int) -> Walks:
            facts = others.facts.numpy()
            return Walks(walk(facts, others.num_entities, number(seed, "near", which)))

        self.walks = ByPart(folds, parts, seed, len(self.columns), count)

    def features(self, facts: Tensor, fold: int, more: Tensor | None = None) -> Tensor:
        """Return the cosines of both ends of facts [n, 3] after each step: float32 [n, STEPS]."""
        return self.walks.features(facts, fold, more)


def near_view(inputs: ViewInputs) -> NearView:
    """Make the view; nothing is trained."""
    graph = inputs.folds.graph
    parts = suited_parts(len(graph), graph.num_entities)
    return NearView(inputs.folds, inputs.settings.seed, parts)


class Walks:
    """Where walks from every entity lead."""

    def __init__(self, reached: list[Vectors]) -> None:
        """Keep unit vectors [E, WIDTH] by step."""
        self.reached = reached

    def features(self, facts: Ints, more: Floats | None = None) -> NDArray[np.float32]:
        """Return the cosines of both ends of facts [n, 3] after each step: float32 [n, STEPS]."""
        head, _, tail = facts.T
        return np.stack([np.einsum("ij,ij->i", x[head], x[tail]) for x in self.reached], 1)


def walk(facts: Ints, num_entities: int, seed: int) -> list[Vectors]:
    """Return by step where walks along facts [n, 3] lead: unit vectors [E, WIDTH]."""
    from scipy.sparse import csr_matrix, diags

    head, _, tail = facts.T
    ends = np.concatenate([head, tail]), np.concatenate([tail, head])
    links = csr_matrix((np.ones(2 * len(facts), np.float32), ends), (num_entities, num_entities))
    links.sum_duplicates()
    links.data[:] = 1
    degree = np.maximum(np.diff(links.indptr), 1)
    scale = diags((1 / np.sqrt(degree)).astype(np.float32))
    step = scale @ links @ scale
    rng = np.random.default_rng(seed)
    at = rng.standard_normal((num_entities, WIDTH), dtype=np.float32)
    reached = []
    for _ in range(STEPS):
        at = at / 2 + step @ at
        reached.append(at / np.linalg.norm(at, axis=1, keepdims=True))
    return reached
