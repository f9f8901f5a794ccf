"""Kinds that look for what is plausible: near-duplicates of an entity, hard answers.

All start from the profile of an entity: the (end, relation, other end) of its stored facts.

``near-duplicate``: an end is replaced by one of the entities with the most similar profile (cosine;
an item of the profile counts 1 / sqrt(entities that have it), and not at all where more than
``COMMON`` have it).

``hard``: an end is replaced by one of the best-ranked answers that are not stored. Whoever has a
trained system gives it as a ``Ranker``. The protocol has none and trains none: there the table of
entities by profile items is rebuilt from its ``RANK`` largest singular values (P. Cremonesi et
al., Performance of recommender algorithms on top-N recommendation tasks, RecSys 2010), which
scores every entity of the role. It shares no parameter with any system that is judged by it.

``crowded``: a question gets several such answers at once, the best-ranked first, as from a system
that lists candidates where one answer is right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from npugraph.data.corrupt.kinds import HEAD, TAIL
from npugraph.data.corrupt.replace import Change, Roles, chances, draw_ends, put
from npugraph.graph import TripleIndex, flip

# Candidates that are looked at per fact, and how many of the unstored among them one is drawn of.
LISTED, FIRST = 10, 3
# Items of a profile that more entities have say nothing, and would cost their square.
COMMON = 1000
# Singular values that the stand-in of a trained system keeps, at most one per four entities: with
# all of them it would know what is stored by heart, and nothing else.
RANK = 32
# Entities of a role that are ranked; where it has more, the most frequent.
MOST = 2000
# Entities that are compared with all others at once; cells of a table of scores.
CHUNK, TABLE = 256, 2**22
# (known entities [n], relation, end, entities [m]) to scores [n, m] of these at that end.
Score: TypeAlias = Callable[[Tensor, int, int, Tensor], Tensor]


def choose(
    facts: Tensor, end: Tensor, listed: Tensor, index: TripleIndex, chance: Tensor
) -> Tensor:
    """Put one of the first listed entities that make a new fact into each fact.

    Args:
        facts: int64 [n, 3].
        end: which end is replaced [n].
        listed: entities for it [n, k], best first; -1 for none.
        index: what is stored.
        chance: numbers in [0, 1) [n], which of the first ``FIRST`` it is.

    Returns:
        The facts [n, 3]; one without any such entity stays as it was.
    """
    count, width = listed.shape
    made = put(
        facts.repeat_interleave(width, 0),
        end.repeat_interleave(width),
        listed.flatten().clamp(min=0),
    )
    # An entity beside itself would give the error away.
    fresh = ~(index.contains(made) | (made[:, HEAD] == made[:, TAIL])).view(count, width)
    fresh &= listed >= 0
    rank = torch.cumsum(fresh, 1)
    wanted = 1 + (chance * rank[:, -1].clamp(max=FIRST)).long()
    hit = fresh & (rank == wanted.unsqueeze(1))
    chosen = listed.gather(1, hit.int().argmax(1, keepdim=True)).squeeze(1)
    return torch.where(hit.any(1, keepdim=True), put(facts, end, chosen.clamp(min=0)), facts)


def near_duplicate(stored: Tensor, index: TripleIndex) -> Change:
    """An end is replaced by one of the entities that are most similar to it."""
    profiles = Profiles(stored, index.num_entities, index.num_relations)

    def change(facts: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        end = draw_ends(len(facts), rng)
        chance = chances(len(facts), rng)
        entity, place = torch.unique(facts[torch.arange(len(facts)), end], return_inverse=True)
        listed = profiles.nearest(entity)[place]
        return choose(facts, end, listed, index, chance), end

    return change


def hard(index: TripleIndex, ranker: Ranker) -> Change:
    """An end is replaced by one of the best-ranked answers that are not stored."""

    def change(facts: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        end = draw_ends(len(facts), rng)
        chance = chances(len(facts), rng)
        return choose(facts, end, _listed(facts, end, ranker), index, chance), end

    return change


def _listed(facts: Tensor, end: Tensor, ranker: Ranker) -> Tensor:
    """Return the best answers for an end [n] of each fact [n, 3] that are not stored: see best."""
    listed = facts.new_full((len(facts), LISTED), -1)
    for one in (HEAD, TAIL):
        listed[end == one] = ranker.best(facts[end == one], one)
    return listed


def repeated(facts: Tensor, ranker: Ranker, rng: torch.Generator) -> Tensor:
    """Draw some of the facts [n, 3], and repeat each 2 to 9 times, few of them so often: [n, 3].

    Every question has the same chance, whether it has one stored answer or many.
    """
    if not len(facts):
        return facts
    chance = torch.cumsum(_by_question(facts, ranker).sum(1), 0)
    drawn = torch.searchsorted(chance, chances(len(facts), rng) * chance[-1])
    times = (2 * (LISTED / 2) ** chances(len(facts), rng)).long()
    rows = drawn.clamp(max=len(facts) - 1).repeat_interleave(times)[: len(facts)]
    return facts[rows]


def _by_question(facts: Tensor, ranker: Ranker) -> Tensor:
    """Return 1 / the number of facts with the same question, for tail and head: [n, 2].

    Both columns have the same sum over all stored facts.
    """
    shares = []
    for end in (TAIL, HEAD):
        index = ranker.answers[end]
        questions = len(torch.unique_consecutive(index.keys // index.num_entities))
        count = index.count_tails(facts[:, TAIL - end], facts[:, 1]).clamp(min=1)
        shares.append(1 / count.double() / max(questions, 1))
    return torch.stack(shares, 1)


def crowded(ranker: Ranker) -> Change:
    """The same end of a fact that stands several times in a row is replaced by its best answers.

    The first of them gets the best-ranked answer that is not stored, the second the next, ...
    """

    def change(facts: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        own, question, count = torch.unique_consecutive(
            facts, return_inverse=True, return_counts=True, dim=0
        )
        share = _by_question(own, ranker)
        end = torch.where(chances(len(own), rng) * share.sum(1) < share[:, 0], TAIL, HEAD)
        listed = _listed(own, end, ranker)
        place = torch.arange(len(facts)) - (torch.cumsum(count, 0) - count)[question]
        chosen = listed[question, place.clamp(max=LISTED - 1)]
        has = (chosen >= 0) & (place < LISTED)
        end = end[question]
        return torch.where(has.unsqueeze(1), put(facts, end, chosen.clamp(min=0)), facts), end

    return change


class Profiles:
    """What the facts say of each entity, as rows of a sparse matrix."""

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int) -> None:
        """Look through facts [n, 3]."""
        from scipy import sparse

        # An item of a head is (its question's relation, tail), of a tail (relation + R, head).
        turned = flip(facts) + torch.tensor([0, num_relations, 0])
        both = torch.cat([facts, turned])
        items, column = torch.unique(both[:, 1] * num_entities + both[:, 2], return_inverse=True)
        ones = np.ones(len(both), dtype=np.float64)
        shape = (num_entities, len(items))
        self.table = sparse.csr_matrix((ones, (both[:, 0].numpy(), column.numpy())), shape=shape)
        self.table.data[:] = 1.0
        self.items, self.sizes = items, (num_entities, num_relations)

    def places(self, relation: int, end: int, other: Tensor) -> Tensor:
        """Return the columns of the items (relation, other entity [k] at that end): [k]."""
        num_entities, num_relations = self.sizes
        kind = relation + (num_relations if end == HEAD else 0)
        return torch.searchsorted(self.items, kind * num_entities + other)

    def nearest(self, entity: Tensor) -> Tensor:
        """Return the most similar other entities of each [q], most similar first, -1 for none."""
        weighted = self._weighted()
        listed = np.full((len(entity), LISTED), -1, dtype=np.int64)
        for first in range(0, len(entity), CHUNK):
            own = entity[first : first + CHUNK].numpy()
            near = (weighted[own] @ weighted.T).tocsr()
            for row, one in enumerate(own):
                part = slice(near.indptr[row], near.indptr[row + 1])
                found, value = near.indices[part], near.data[part]
                found, value = found[found != one], value[found != one]
                # Rounding must not order what is equally similar: then the id decides.
                best = np.lexsort((found, -value.round(9)))[:LISTED]
                listed[first + row, : len(best)] = found[best]
        return torch.from_numpy(listed)

    def _weighted(self) -> Any:
        """Return the rows as unit vectors, rare items counting more."""
        from scipy import sparse

        count = np.asarray(self.table.sum(0)).ravel()
        weight = np.where(count <= COMMON, 1 / np.sqrt(np.maximum(count, 1)), 0)
        rows = self.table @ sparse.diags(weight)
        rows.eliminate_zeros()
        length = np.sqrt(np.asarray(rows.multiply(rows).sum(1)).ravel())
        return (sparse.diags(1 / np.maximum(length, 1e-12)) @ rows).tocsr()


class Ranker:
    """Ranks the answers of a question among the entities that are seen in that role."""

    def __init__(self, stored: Tensor, index: TripleIndex, score: Score) -> None:
        """Take the roles of stored facts [n, 3]; ``score`` says how good their entities are."""
        self.roles = Roles(stored, index.num_entities, index.num_relations)
        self.score = score
        sizes = index.num_entities, index.num_relations
        self.answers = {TAIL: index, HEAD: TripleIndex(flip(index.facts()), *sizes)}

    def best(self, facts: Tensor, end: int) -> Tensor:
        """Return the best answers for an end of facts [n, 3] that are not stored, best first.

        int64 [n, LISTED]; -1 where there are fewer. No entity is an answer to itself.
        """
        listed = facts.new_full((len(facts), LISTED), -1)
        for relation in torch.unique(facts[:, 1]).tolist():
            role = self.roles.frequent(end, relation, MOST)
            mine = torch.nonzero(facts[:, 1] == relation).squeeze(1)
            for rows in torch.split(mine, max(1, TABLE // max(len(role), 1))):
                if len(role):
                    listed[rows] = self._best(facts[rows, TAIL - end], relation, end, role)
        return listed

    def _best(self, known: Tensor, relation: int, end: int, role: Tensor) -> Tensor:
        """The same for questions of one relation, by their known entities [n]."""
        listed = known.new_full((len(known), LISTED), -1)
        score = self.score(known, relation, end, role)
        row, answer = self.answers[end].tails(known, torch.full_like(known, relation))
        place = torch.searchsorted(role, answer).clamp(max=len(role) - 1)
        here = role[place] == answer
        score[row[here], place[here]] = -torch.inf
        score.masked_fill_(known.unsqueeze(1) == role, -torch.inf)
        value, place = score.topk(min(LISTED, len(role)), 1)
        listed[:, : place.shape[1]] = torch.where(torch.isfinite(value), role[place], -1)
        return listed


def spectral(stored: Tensor, index: TripleIndex, seed: int) -> Ranker:
    """Return a ranker by the largest singular values of the profiles of stored facts [n, 3]."""
    from sklearn.utils.extmath import randomized_svd

    profiles = Profiles(stored, index.num_entities, index.num_relations)
    rank = max(1, min(RANK, index.num_entities // 4))
    left, value, right = randomized_svd(profiles.table, rank, random_state=seed % 2**32)
    rows, columns = torch.from_numpy(left * value), torch.from_numpy(right.T.copy())

    def score(known: Tensor, relation: int, end: int, role: Tensor) -> Tensor:
        return rows[known] @ columns[profiles.places(relation, end, role)].T

    return Ranker(stored, index, score)
