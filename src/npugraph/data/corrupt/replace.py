"""Kinds that need nothing but the stored facts: an end, the relation or everything replaced.

A function here takes facts [n, 3] and a generator, and returns as many facts and which of their
ends was replaced [n]: HEAD, TAIL, or -1, no single end. Where nothing can be put in its place a
fact stays as it was; it is stored then, and drops out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from npugraph.data.corrupt.kinds import HEAD, TAIL, Noise
from npugraph.graph import TripleIndex, distinct_tails, flip

Change: TypeAlias = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]
# Two relations have the same signature where the smaller role shares this much with the larger, at
# both ends.
SIGNATURE = 0.5
# A relation with this share of its facts stored both ways is symmetric.
SYMMETRIC = 0.5


class Roles:
    """The entities that are seen at each end of each relation."""

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int) -> None:
        """Look through facts [n, 3]."""
        self.sizes = num_entities, num_relations
        self._facts = facts
        self._heads = distinct_tails(flip(facts), num_entities, num_relations)
        self._tails = distinct_tails(facts, num_entities, num_relations)

    def pick(self, end: int, relation: Tensor, chance: Tensor) -> Tensor:
        """Return one of the entities at an end of each relation [n], by a number in [0, 1): [n]."""
        entities, start, size = self._heads if end == HEAD else self._tails
        return entities[start[relation] + (chance * size[relation]).long()]

    def pick_at(self, end: Tensor, relation: Tensor, of_head: Tensor, of_tail: Tensor) -> Tensor:
        """The same with an end [n] for each, and numbers for the one and the other."""
        heads, tails = self.pick(HEAD, relation, of_head), self.pick(TAIL, relation, of_tail)
        return torch.where(end == HEAD, heads, tails)

    def frequent(self, end: int, relation: int, most: int) -> Tensor:
        """Return the entities at an end of a relation, at most the ``most`` frequent, sorted."""
        entities, start, size = self._heads if end == HEAD else self._tails
        role = entities[start[relation] : start[relation] + size[relation]]
        if len(role) <= most:
            return role
        seen = self._facts[self._facts[:, 1] == relation, end]
        count = torch.bincount(seen, minlength=self.sizes[0])[role]
        return role[torch.argsort(count, descending=True, stable=True)[:most]].sort().values

    def same_signature(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the relations of the same signature: (relations [m], start [R], size [R]).

        Those of relation r are ``relations[start[r] : start[r] + size[r]]``, itself not among them.
        """
        from scipy import sparse

        num_entities, num_relations = self.sizes
        alike = []
        for entities, _, size in (self._heads, self._tails):
            rows = torch.repeat_interleave(torch.arange(num_relations), size)
            ones = np.ones(len(entities), dtype=np.float32)
            shape = (num_relations, num_entities)
            role = sparse.csr_matrix((ones, (rows.numpy(), entities.numpy())), shape=shape)
            shared = (role @ role.T).tocoo()
            smaller = torch.minimum(
                size[torch.from_numpy(shared.row).long()], size[torch.from_numpy(shared.col).long()]
            )
            enough = shared.data >= SIGNATURE * smaller.numpy()
            alike.append(shared.row[enough].astype(np.int64) * num_relations + shared.col[enough])
        left, right = np.divmod(np.intersect1d(*alike), num_relations)
        other = left != right
        size = torch.from_numpy(np.bincount(left[other], minlength=num_relations))
        return torch.from_numpy(right[other]), torch.cumsum(size, 0) - size, size


def any_triples(count: int, num_entities: int, num_relations: int, rng: torch.Generator) -> Tensor:
    """Draw head, relation and tail evenly: int64 [count, 3]."""
    sizes = (num_entities, num_relations, num_entities)
    return torch.stack([torch.randint(n, (count,), generator=rng) for n in sizes], dim=1)


def draw_ends(count: int, rng: torch.Generator) -> Tensor:
    """Draw which end of each fact to replace, HEAD or TAIL: int64 [count]."""
    return TAIL * torch.randint(2, (count,), generator=rng)


def chances(count: int, rng: torch.Generator) -> Tensor:
    """Draw numbers in [0, 1): float64 [count]."""
    return torch.rand(count, generator=rng, dtype=torch.float64)


def put(facts: Tensor, column: Tensor, value: Tensor) -> Tensor:
    """Return facts [n, 3] with one column [n] each replaced by a value [n]."""
    changed = facts.clone()
    changed[torch.arange(len(facts)), column] = value
    return changed


def no_end(facts: Tensor) -> Tensor:
    """Say of facts [n, 3] that no single end was replaced: -1 [n]."""
    return facts.new_full((len(facts),), -1)


def random(index: TripleIndex) -> Change:
    """Head, relation and tail are drawn evenly from the whole space of triples."""

    def change(facts: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        drawn = any_triples(len(facts), index.num_entities, index.num_relations, rng)
        return drawn, no_end(drawn)

    return change


def entity(kind: Noise, roles: Roles) -> Change:
    """An end is replaced by any entity; ``typed``: by one of that role; or always the tail."""

    def change(facts: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        end = draw_ends(len(facts), rng)
        if kind == "wrong-tail":
            end = torch.full_like(end, TAIL)
        chance = chances(len(facts), rng)
        if kind == "typed":
            return put(facts, end, roles.pick_at(end, facts[:, 1], chance, chance)), end
        return put(facts, end, (chance * roles.sizes[0]).long()), end

    return change


def entity_of_pool(kind: Noise, roles: Roles) -> Change:
    """The same by other draws: the audits of the figures in the documents had these."""

    def change(facts: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        value = any_triples(len(facts), *roles.sizes, rng)[:, HEAD]
        end = draw_ends(len(facts), rng)
        if kind == "wrong-tail":
            end = torch.full_like(end, TAIL)
        if kind == "typed":
            of_head, of_tail = chances(len(facts), rng), chances(len(facts), rng)
            value = roles.pick_at(end, facts[:, 1], of_head, of_tail)
        return put(facts, end, value), end

    return change


def swapped(stored: Tensor, index: TripleIndex) -> Change:
    """Head and tail change places, but in relations that hold both ways: they would stay true."""
    both = index.contains(flip(stored)).double()
    count = torch.bincount(stored[:, 1], minlength=index.num_relations).clamp(min=1)
    share = torch.bincount(stored[:, 1], both, minlength=index.num_relations) / count
    symmetric = share >= SYMMETRIC

    def change(facts: Tensor, _: torch.Generator) -> tuple[Tensor, Tensor]:
        stays = symmetric[facts[:, 1]].unsqueeze(1)
        return torch.where(stays, facts, flip(facts)), no_end(facts)

    return change


def relation(num_relations: int) -> Change:
    """The relation is replaced by any other."""

    def change(facts: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        step = 1 + (chances(len(facts), rng) * (num_relations - 1)).long()
        changed = facts.clone()
        changed[:, 1] = (facts[:, 1] + step) % num_relations
        return changed, no_end(facts)

    return change


def relation_typed(roles: Roles) -> Change:
    """The relation is replaced by another of the same signature."""
    others, start, size = roles.same_signature()

    def change(facts: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        own = facts[:, 1]
        place = start[own] + (chances(len(facts), rng) * size[own]).long()
        changed = facts.clone()
        has = size[own] > 0
        changed[has, 1] = others[place[has]]
        return changed, no_end(facts)

    return change


def one_source(roles: Roles) -> Change:
    """The tail is replaced, half of the times by any entity, else by one of that role.

    What makes these errors those of one source is which facts they are made from: ``draw`` gives
    this function the facts of a few heads alone.
    """

    def change(facts: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        end = torch.full((len(facts),), TAIL)
        chance, typed = chances(len(facts), rng), chances(len(facts), rng) < 0.5
        anything = (chance * roles.sizes[0]).long()
        return put(
            facts, end, torch.where(typed, roles.pick(TAIL, facts[:, 1], chance), anything)
        ), end

    return change


def caged(index: TripleIndex) -> Change:
    """Half are any triple; half have one of head, relation and tail replaced, a third each."""

    def change(facts: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        count = len(facts)
        drawn = any_triples(count, index.num_entities, index.num_relations, rng)
        column = torch.randint(3, (count,), generator=rng)
        free = chances(count, rng) < 0.5
        one = put(facts, column, drawn[torch.arange(count), column])
        end = torch.where(free | (column == 1), -1, column)
        return torch.where(free.unsqueeze(1), drawn, one), end

    return change
