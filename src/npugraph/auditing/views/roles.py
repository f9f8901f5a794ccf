"""The view ``roles``: counts of who stands where, without any model.

An entity has a role for each end of a relation at which it stands, 2R roles in all. A fact gives
both of its ends a role. How often is each end seen in it? Do its other roles go with it? How often
does the relation lead from entities of the one sort to those of the other? And what else is said of
these two? All is counted in facts that are not of the same fold, or of the same part of it (see
``parts``); the cost is linear in the facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from npugraph.arrays import Floats, Ints
from npugraph.auditing.folds import Folds
from npugraph.auditing.views.base import ViewInputs
from npugraph.auditing.views.parts import ByPart, suited_parts
from npugraph.graph import SIDES, KnowledgeGraph

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Of each end: how often it stands there, also beside what is usual there; how often at the other
# end, and anywhere; how its other roles go with this one: on average, at worst and at best.
OF_END = ("count", "excess", "reverse", "degree", "fit", "fit_low", "fit_high")
# The same for the pair of both ends, whose roles are the relations between them.
OF_PAIR = ("links", "pair_fit", "pair_fit_low", "pair_fit_high")
# How often the relation leads from the sort of the head to that of the tail: counted, beside what
# is expected of both apart, the other way round, and among all relations between these sorts.
OF_SORTS = ("sorts", "sorts_lift", "sorts_reverse", "sorts_share")

# Roles of units that are looked up at once: entities of many roles must not fill the memory.
LOOKED_UP = 2**22


class RolesView:
    """Counts roles in other facts."""

    name = "roles"
    columns = (
        *(f"{column}_{side}" for side in SIDES for column in OF_END),
        *OF_PAIR,
        *OF_SORTS,
        "relation_count",
    )

    def __init__(self, folds: Folds, parts: int = 1, seed: int = 0) -> None:
        """Count when a fold is asked for; each of them is cut into so many parts."""
        self.counts = ByPart(folds, parts, seed, len(self.columns), _count_roles)

    def features(self, facts: Tensor, fold: int, more: Tensor | None = None) -> Tensor:
        """Return the counts of facts [n, 3] in the other facts: float32 [n, f]."""
        return self.counts.features(facts, fold, more)


def roles_view(inputs: ViewInputs) -> RolesView:
    """Make the view; nothing is trained."""
    graph = inputs.folds.graph
    parts = suited_parts(len(graph), graph.num_entities)
    return RolesView(inputs.folds, parts, inputs.settings.seed)


def _count_roles(others: KnowledgeGraph, which: int) -> RoleCounts:
    return RoleCounts(others.facts.numpy(), others.num_entities, others.num_relations)


class RoleCounts:
    """The roles of entities, and of pairs, in some facts."""

    def __init__(self, facts: Ints, num_entities: int, num_relations: int) -> None:
        """Count in facts [n, 3]."""
        self.num_entities, self.num_relations = num_entities, num_relations
        head, relation, tail = facts.T
        unit = np.concatenate([head, tail])
        role = np.concatenate([relation, relation + num_relations])
        self.entities = RoleFit(unit, role, num_entities, 2 * num_relations)
        # A pair is looked at from both of its ends; a link seen from its tail is another role.
        ways = np.concatenate([head * num_entities + tail, tail * num_entities + head])
        self.pairs = np.unique(ways)
        place = np.searchsorted(self.pairs, ways)
        self.linked = RoleFit(place, role, len(self.pairs), 2 * num_relations)
        self.relation_count = np.bincount(relation, minlength=num_relations)
        self.sort = self.entities.most_frequent()
        self.sorts = SortCounts(self.sort[head], relation, self.sort[tail], num_relations)

    def features(self, facts: Ints, more: Floats | None = None) -> NDArray[np.float32]:
        """Return the features of facts [n, 3]: float32 [n, len(RolesView.columns)].

        ``more`` [n, 2] answers to the questions of the tail and of the head count as well.
        """
        head, relation, tail = facts.T
        reverse = relation + self.num_relations
        further = np.zeros((len(facts), 2)) if more is None else more
        parts: list[Floats] = []
        # The answer of the question for a tail is the tail; so it is in all views. An entity has
        # its role at one end as often as the question of the other end has answers.
        for unit, role, other, beside in (
            (tail, reverse, relation, further[:, 1]),
            (head, relation, reverse, further[:, 0]),
        ):
            count = self.entities.count(unit, role) + beside
            parts += [
                np.log1p(count),
                np.log1p(count) - np.log(self.entities.usual[role]),
                np.log1p(self.entities.count(unit, other)),
                np.log1p(self.entities.total[unit] + beside),
                *self.entities.fit(unit, role),
            ]
        way = head * self.num_entities + tail
        place = np.searchsorted(self.pairs, way).clip(max=len(self.pairs) - 1)
        place = np.where(self.pairs[place] == way, place, -1)
        links = np.where(place < 0, 0, self.linked.total[place])
        parts += [np.log1p(links), *self.linked.fit(place, relation)]
        parts += self.sorts.features(self.sort[head], relation, self.sort[tail])
        parts.append(np.log1p(self.relation_count[relation]))
        return np.stack(parts, 1).astype(np.float32)


class RoleFit:
    """How roles go together in units: entities, or pairs of them."""

    def __init__(self, unit: Ints, role: Ints, num_units: int, num_roles: int) -> None:
        """Count roles [m] of units [m]."""
        from scipy.sparse import csr_matrix

        shape = (num_units, num_roles)
        counts = csr_matrix((np.ones(len(unit), np.float32), (unit, role)), shape)
        counts.sum_duplicates()
        self.counts: csr_matrix = counts
        self.count_keys = _keys(counts)
        self.total = np.bincount(unit, minlength=num_units)
        has = counts.copy()
        has.data[:] = 1
        both = (has.T @ has).tocsr()
        both.sort_indices()
        # Sorted keys of the pairs of roles that occur in one unit, and in how many they do.
        self.both_keys, self.both = _keys(both), both.data
        self.units_of = np.asarray(has.sum(0)).ravel()
        # How often a unit that has a role has it, on average. A person has one place of birth and
        # many friends: a second place says more than a second friend.
        times = np.bincount(role, minlength=num_roles)
        self.usual = np.maximum(times / np.maximum(self.units_of, 1), 1)
        self.num_roles = num_roles

    def count(self, unit: Ints, role: Ints) -> Floats:
        """Return how often units [n] have the roles [n]: [n]."""
        return _at(self.count_keys, self.counts.data, unit * self.num_roles + role)

    def most_frequent(self) -> Ints:
        """Return the most frequent role of every unit, -1 where it has none: [units]."""
        counts = self.counts
        unit = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        # The last entry of a unit is its most frequent role; ties go to the rarest one.
        order = np.lexsort((-self.units_of[counts.indices], counts.data, unit))
        sort = np.full(counts.shape[0], -1)
        sort[unit[order]] = counts.indices[order]
        return sort

    def fit(self, unit: Ints, role: Ints) -> tuple[Floats, Floats, Floats]:
        """Return mean, least and largest log-lift of roles [n] with the units' other roles: [n].

        The log-lift of two roles is ``log((units with both + 1) / (expected number + 1))``: 0 where
        nothing is known. So is that of a unit without other roles, or of -1, no unit.
        """
        number, total = np.zeros(len(unit)), np.zeros(len(unit))
        low, high = np.full(len(unit), np.inf), np.full(len(unit), -np.inf)
        for known in self._parts(unit):
            rows = self.counts[unit[known]]
            row = np.repeat(known, np.diff(rows.indptr))
            asked, other = role[row], rows.indices
            kept = asked != other
            row, asked, other = row[kept], asked[kept], other[kept]
            both = _at(self.both_keys, self.both, asked * self.num_roles + other)
            expected = self.units_of[asked] * self.units_of[other] / self.counts.shape[0]
            lift = np.log((both + 1) / (expected + 1))
            np.add.at(number, row, 1)
            np.add.at(total, row, lift)
            np.minimum.at(low, row, lift)
            np.maximum.at(high, row, lift)
        some = number > 0
        return total / np.maximum(number, 1), np.where(some, low, 0), np.where(some, high, 0)

    def _parts(self, unit: Ints) -> list[Ints]:
        """Cut the places of known units [n] so that those of a part have some LOOKED_UP roles."""
        known = np.flatnonzero(unit >= 0)
        roles = np.cumsum(np.diff(self.counts.indptr)[unit[known]])
        cuts = np.searchsorted(
            roles, np.arange(LOOKED_UP, roles[-1] if len(roles) else 0, LOOKED_UP)
        )
        return np.split(known, cuts)


class SortCounts:
    """How often relations lead from one sort of entities to another."""

    def __init__(self, head: Ints, relation: Ints, tail: Ints, num_relations: int) -> None:
        """Count facts by the sort of their head [n], relation [n] and sort of their tail [n]."""
        # Sorts are roles, and -1, none; so all keys are below (2R + 2)^3.
        self.width = 2 * num_relations + 2
        self.relation = np.bincount(relation, minlength=num_relations)
        self.whole = _Tally(self._key(head, relation, tail))
        self.heads = _Tally(self._key(head, relation))
        self.tails = _Tally(self._key(tail, relation))
        self.ends = _Tally(self._key(head, tail))

    def _key(self, *parts: Ints) -> Ints:
        key = np.zeros(len(parts[0]), np.int64)
        for part in parts:
            key = key * self.width + part + 1
        return key

    def features(self, head: Ints, relation: Ints, tail: Ints) -> list[Floats]:
        """Return what OF_SORTS names, [n] each."""
        seen = self.whole(self._key(head, relation, tail))
        heads, tails = self.heads(self._key(head, relation)), self.tails(self._key(tail, relation))
        expected = heads * tails / np.maximum(self.relation[relation], 1)
        return [
            np.log1p(seen),
            np.log((seen + 1) / (expected + 1)),
            np.log1p(self.whole(self._key(tail, relation, head))),
            np.log((seen + 0.5) / (self.ends(self._key(head, tail)) + 1)),
        ]


class _Tally:
    """Counts of keys."""

    def __init__(self, keys: Ints) -> None:
        self.keys, self.counts = np.unique(keys, return_counts=True)

    def __call__(self, keys: Ints) -> Floats:
        return _at(self.keys, self.counts, keys)


def _at(keys: Ints, values: NDArray[Any], wanted: Ints) -> Floats:
    """Return the values [k] of the wanted ones [n] among sorted keys [k], 0 where absent: [n]."""
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0).astype(np.float64)


def _keys(matrix: csr_matrix) -> Ints:
    """Return ``row * columns + column`` of the entries of a sorted sparse matrix."""
    row = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    keys: Ints = row * matrix.shape[1] + matrix.indices
    return keys
