"""The view ``names``: does the name of an entity look like the names in its place?

A name is a set of hashed pieces: its words, its character n-grams, and the prefixes that many
graphs write before a name (``concept:city:``). Digits count as one and the same. For each end of
each relation the pieces of the names that stand there are counted, each entity once. With c of N
entities having piece g there, and a share p of all entities having it, the piece speaks

    log((c + A p) / ((N + A) p))

for the entity, and the mean over its pieces is how well the name fits. An entity is compared with
the others of the place, never with itself, and only facts of other folds are counted. So the view
knows nothing but names: where they are mere numbers, its figures say nothing (``carry`` tells).

Two figures are about both names: how many pieces they share, beside what is usual for the
relation; and how much nearer the tail's name is to what the head's name lets one expect (ridge
regression per relation on the leading directions of the names) than to the relation's usual tail.
"""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.auditing.folds import Folds
from npugraph.auditing.views.base import ViewInputs
from npugraph.data.corrupt import HEAD, TAIL
from npugraph.graph import KnowledgeGraph, Vocabulary, distinct_tails, flip
from npugraph.metrics import auroc
from npugraph.seeds import generator, number

# Places for hashed pieces; characters of a name that are looked at; lengths of n-grams.
SIZE, LONGEST, GRAMS = 2**18, 80, (3, 4)
# A place starts with so many entities that are like all others.
PRIOR = 5.0
# Directions of names, the least facts for a regression of one relation, and its penalty.
WIDTH, LEAST, PENALTY = 16, 30, 10.0
# Names carry something where they tell an entity of a place from any other this often.
TELLING, ASKED = 0.6, 5000

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_PIECES = re.compile(r"[a-z0]+|[^\W\da-z_]+")
_PREFIX = re.compile(r"[:/#_.]")


class NamesView:
    """Compares the names of a fact with the names of other folds' facts."""

    name = "names"
    columns = (
        *(f"{what}_{side}" for side in ("tail", "head") for what in ("fit", "unusual")),
        "shared",
        "shared_unusual",
        "expected",
    )

    def __init__(self, folds: Folds, seed: int) -> None:
        """Cut the names into pieces."""
        self.folds = folds
        self.pieces = cut_names(folds.graph.entities)
        self.vectors = directions(self.pieces, seed)
        self._fitted: tuple[int, Places, Pairs] | None = None

    def features(self, facts: Tensor, fold: int, more: Tensor | None = None) -> Tensor:
        """Return the features of facts [n, 3], by the names of the other folds' facts."""
        if self._fitted is None or self._fitted[0] != fold:
            others = self.folds.others(fold)
            places = Places(self.pieces, others)
            self._fitted = fold, places, Pairs(self.pieces, self.vectors, others)
        _, places, pairs = self._fitted
        columns = [places.fit(facts, end) for end in (TAIL, HEAD)]
        return torch.from_numpy(np.concatenate([*columns, pairs.compare(facts)], 1)).float()


def names_view(inputs: ViewInputs) -> NamesView:
    """Make the view; nothing is trained that takes time."""
    return NamesView(inputs.folds, inputs.settings.seed)


def name_pieces(name: str) -> set[str]:
    """Return the pieces of one name.

    >>> sorted(name_pieces("a:Bonn 53"))
    ['<0>', '<a>', '<bo', '<bon', '<bonn>', '^a:', 'bon', 'bonn', 'nn>', 'onn', 'onn>']
    """
    plain = re.sub(r"\d+", "0", name.lower())[:LONGEST]
    found = {f"^{plain[: at.end()]}" for at in _PREFIX.finditer(plain)}
    for word in _PIECES.findall(plain):
        marked = f"<{word}>"
        found.add(marked)
        for size in GRAMS:
            found.update(marked[at : at + size] for at in range(len(marked) - size + 1))
    return found or {plain}


def cut_names(entities: Vocabulary) -> Any:
    """Return the pieces of all names, as a sparse matrix of ones [E, g], g at most SIZE."""
    from scipy import sparse

    start: list[int] = [0]
    columns: list[int] = []
    for name in entities.labels.to_pylist():
        # Sorted: sums go the same way in every process, whatever order its sets have.
        columns.extend(sorted({crc32(piece.encode()) % SIZE for piece in name_pieces(name)}))
        start.append(len(columns))
    used, place = np.unique(np.array(columns, dtype=np.int64), return_inverse=True)
    shape = (len(entities), len(used))
    return sparse.csr_matrix((np.ones(len(place)), place, start), shape=shape)


class Places:
    """Which pieces the names at each end of each relation have."""

    def __init__(self, pieces: Any, graph: KnowledgeGraph) -> None:
        """Count the pieces [E, g] over the entities of each end of each relation."""
        self.pieces = pieces
        self.length = np.maximum(np.asarray(pieces.sum(1)).ravel(), 1)
        self.share = np.asarray(pieces.sum(0)).ravel() / pieces.shape[0]
        self._empty = np.zeros((pieces.shape[1], 2))
        sizes = graph.num_entities, graph.num_relations
        self.members = {
            TAIL: distinct_tails(graph.facts, *sizes),
            HEAD: distinct_tails(flip(graph.facts), *sizes),
        }

    def fit(self, facts: Tensor, end: int) -> Floats:
        """Return how well an end's name fits [n], and how unusual that is in its place: [n, 2]."""
        out = np.zeros((len(facts), 2))
        relation, entity = facts[:, 1].numpy(), facts[:, end].numpy()
        order = np.argsort(relation, kind="stable")
        entities, start, size = (part.numpy() for part in self.members[end])
        for mine in np.split(order, np.flatnonzero(np.diff(relation[order])) + 1):
            one = relation[mine[0]] if len(mine) else 0
            role = entities[start[one] : start[one] + size[one]]
            if len(role) and len(mine):
                fit = self._fit(np.concatenate([entity[mine], role]), role)
                out[mine, 0], usual = fit[: len(mine)], fit[len(mine) :]
                # A place of few names says little of what is usual: as if one were one off.
                spread = np.sqrt((usual.var() * len(role) + 1) / (len(role) + 1))
                out[mine, 1] = (out[mine, 0] - usual.mean()) / spread
        return out

    def _fit(self, entity: Ints, role: Ints) -> Floats:
        """Return how well the names of entities [n] fit those of a role [k], themselves aside."""
        distinct, place = np.unique(entity, return_inverse=True)
        count = np.asarray(self.pieces[role].sum(0)).ravel()
        seen = np.flatnonzero(count)
        inside = np.isin(distinct, role)
        # What no other has says the same whatever it is; only the rest has to be looked up.
        speaks, nothing = self._empty, np.zeros(2)
        for own in (0, 1):
            nothing[own] = np.log(PRIOR / (len(role) - own + PRIOR))
            speaks[seen, own] = np.log1p((count[seen] - own) / (PRIOR * self.share[seen]))
        said = (self.pieces[distinct] @ speaks) / self.length[distinct][:, None] + nothing
        speaks[seen] = 0
        chosen: Floats = np.where(inside, said[:, 1], said[:, 0])
        return chosen[place]


def directions(pieces: Any, seed: int) -> Floats:
    """Return the leading directions of names, rare pieces counting more: unit rows [E, WIDTH]."""
    from scipy import sparse
    from sklearn.utils.extmath import randomized_svd

    count = np.asarray(pieces.sum(0)).ravel()
    rare = np.log((pieces.shape[0] + 1) / (count + 1))
    weighted = pieces[:, count > 1] @ sparse.diags(rare[count > 1])
    width = min(WIDTH, *weighted.shape)
    if width == 0:  # no two names have anything in common
        return np.zeros((pieces.shape[0], 1))
    left, value, _ = randomized_svd(
        weighted, width, n_iter=2, random_state=number(seed, "names") % 2**32
    )
    vectors: Floats = left * value
    length: Floats = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(length, 1e-9)


class Pairs:
    """How head's and tail's names go together in each relation."""

    def __init__(self, pieces: Any, vectors: Floats, graph: KnowledgeGraph) -> None:
        """Learn what is usual from facts whose names are pieces [E, g] and vectors [E, w]."""
        self.pieces, self.vectors = pieces, vectors
        self.length = np.maximum(np.asarray(pieces.sum(1)).ravel(), 1)
        facts = graph.facts.numpy()
        order = np.argsort(facts[:, 1], kind="stable")
        counts = np.bincount(facts[:, 1], minlength=graph.num_relations)
        self.shared = np.zeros((graph.num_relations, 2))
        self.shared[:, 1] = 1.0
        self.maps: dict[int, tuple[Floats, Floats, Floats]] = {}
        last = 0
        for relation, count in enumerate(counts.tolist()):
            own = facts[order[last : last + count]]
            last += count
            if count:
                value = self._shared(own)
                self.shared[relation] = (
                    value.mean(),
                    np.sqrt((value.var() * count + 1) / (count + 1)),
                )
            if count >= LEAST:
                self.maps[relation] = self._regress(own)

    def compare(self, facts: Tensor) -> Floats:
        """Return the figures about both names of facts [n, 3]: [n, 3]."""
        rows = facts.numpy()
        out = np.zeros((len(rows), 3))
        out[:, 0] = self._shared(rows)
        mean, spread = self.shared[rows[:, 1]].T
        out[:, 1] = (out[:, 0] - mean) / spread
        for relation in np.unique(rows[:, 1]):
            if int(relation) in self.maps:
                mine = np.flatnonzero(rows[:, 1] == relation)
                head, tail, slope = self.maps[int(relation)]
                given, wanted = (self.vectors[rows[mine, end]] for end in (HEAD, TAIL))
                usual = ((wanted - tail) ** 2).sum(1)
                out[mine, 2] = usual - ((wanted - tail - (given - head) @ slope) ** 2).sum(1)
        return out

    def _shared(self, facts: Ints) -> Floats:
        """Return which share of their pieces the two names have in common: [n]."""
        out = np.zeros(len(facts))
        for first in range(0, len(facts), 2**16):
            part = slice(first, first + 2**16)
            head, tail = facts[part, HEAD], facts[part, TAIL]
            both = np.asarray(self.pieces[head].multiply(self.pieces[tail]).sum(1)).ravel()
            out[part] = both / np.minimum(self.length[head], self.length[tail])
        return out

    def _regress(self, facts: Ints) -> tuple[Floats, Floats, Floats]:
        """Return mean head, mean tail and the slope [w, w] of tails on heads."""
        given, wanted = self.vectors[facts[:, HEAD]], self.vectors[facts[:, TAIL]]
        head, tail = given.mean(0), wanted.mean(0)
        given, wanted = given - head, wanted - tail
        gram = given.T @ given + PENALTY * np.eye(given.shape[1])
        return head, tail, np.linalg.solve(gram, given.T @ wanted)


def carry(graph: KnowledgeGraph, seed: int) -> bool:
    """Tell whether the names of a graph carry anything about their places."""
    return tell_places(graph, seed) >= TELLING


def tell_places(graph: KnowledgeGraph, seed: int) -> float:
    """Return how often names tell an entity of a place from any other entity (AUROC).

    Half of the facts say what names are usual; the other half is asked about.
    """
    rng = generator(seed, "names")
    order = torch.randperm(len(graph), generator=rng)
    known, asked = order[: len(graph) // 2], order[len(graph) // 2 :][:ASKED]
    places = Places(cut_names(graph.entities), graph.select(known))
    facts = graph.facts[asked]
    score, label = [], []
    for end in (HEAD, TAIL):
        other = facts.clone()
        other[:, end] = torch.randint(graph.num_entities, (len(facts),), generator=rng)
        for rows, real in ((facts, True), (other, False)):
            score.append(places.fit(rows, end)[:, 0])
            label.append(np.full(len(rows), real))
    return auroc(np.concatenate(label), np.concatenate(score))
