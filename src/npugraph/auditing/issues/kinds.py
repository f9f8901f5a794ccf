"""Entities of another kind than those that stand in the same place.

Kinds are given (entity, type), are stored as rdf:type, or are learned: an entity's kind is what
it is head and tail of elsewhere, its roles.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from npugraph.arrays import Ints
from npugraph.auditing.issues.facts import Facts, listed, regular, strong
from npugraph.auditing.issues.literals import Bools
from npugraph.graph import Side
from npugraph.rules import wilson_lower

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
# A type that this share of the entities in one place has is usual there, and roles go together
# where this share of the entities with one has the other (lower ends of Wilson's interval).
USUAL, TOGETHER = 0.02, 0.1
# Roles that never go together are strong evidence: the regularity may be weaker than elsewhere.
FIT = {"kept": 0.95, "sure": 0.9}
# An entity's kind is known where it is in this many other facts.
KNOWN = 2


class Roles:
    """Who stands where: role r is the head of relation r, role r + R its tail.

    Attributes:
        counts: int64 [E, 2R], sparse: in how many facts an entity has a role.
    """

    def __init__(self, facts: Facts) -> None:
        """Count the roles; values and types are no entities and have none."""
        self.facts, self.num_relations = facts, facts.num_relations
        tailed = ~(facts.valued | is_type(facts))[facts.relation]
        rows = np.concatenate([facts.head, facts.tail[tailed]])
        columns = np.concatenate([facts.relation, facts.relation[tailed] + self.num_relations])
        shape = facts.graph.num_entities, 2 * self.num_relations
        ones = np.ones(len(rows), np.int64)
        self.counts = sparse.csr_array((ones, (rows, columns)), shape=shape)
        self.counts.sum_duplicates()

    def __iter__(self) -> Iterator[tuple[int, Side, Ints]]:
        """Yield each role that anybody has: its number, its side and its entities."""
        by_role = self.counts.tocsc()
        for role in np.flatnonzero(np.diff(by_role.indptr)).tolist():
            entities = by_role.indices[by_role.indptr[role] : by_role.indptr[role + 1]]
            side: Side = "head" if role < self.num_relations else "tail"
            yield role, side, np.sort(entities).astype(np.int64)

    def name(self, role: int) -> str:
        """Write a role."""
        relation = self.facts.short(self.facts.graph.relations.label(role % self.num_relations))
        return f"{'head' if role < self.num_relations else 'tail'} of {relation}"

    def first_fact(self, role: int, side: Side, entities: Ints) -> Ints:
        """Return the fact of each entity [k] in a role that was stored first: places [k]."""
        facts = self.facts
        rows = np.flatnonzero(facts.relation == role % self.num_relations)
        rows = rows[np.argsort(facts.first[rows], kind="stable")]
        ends, first = np.unique(facts.end(side)[rows], return_index=True)
        return rows[first[np.searchsorted(ends, entities)]]


def is_type(facts: Facts) -> Bools:
    """Tell which relations [R] are rdf:type."""
    same = pc.equal(facts.graph.relations.labels, RDF_TYPE)
    return np.asarray(same.to_numpy(zero_copy_only=False))


def type_conflicts(facts: Facts) -> pa.Table:
    """Return entities of another kind than nearly all that stand in the same place.

    Types are those the user gives, or the facts of rdf:type; where there are none, kinds are
    learned from the roles.
    """
    roles = Roles(facts)
    given = known_types(facts)
    tables = _by_types(roles, *given) if given is not None else _by_roles(roles)
    return pa.concat_tables([listed("type", [], []), *tables])


def known_types(facts: Facts) -> tuple[sparse.csr_array, pa.Array] | None:
    """Return which entity is of which type, bool [E, T], and the types' names."""
    labels, types = facts.graph.entities.labels, facts.told.types
    if types is None:
        typed = is_type(facts)[facts.relation]
        rows, names = facts.head[typed], labels.take(pa.array(facts.tail[typed]))
    else:
        found = pc.index_in(types["entity"], value_set=labels).combine_chunks()
        kept = pc.is_valid(found)
        rows = found.filter(kept).to_numpy().astype(np.int64)
        names = types["type"].combine_chunks().filter(kept)
    if not len(rows):
        return None
    encoded = pa.array(names, pa.string()).dictionary_encode()
    cells = (rows, encoded.indices.to_numpy())
    shape = (len(labels), len(encoded.dictionary))
    matrix = sparse.csr_array((np.ones(len(rows), np.int64), cells), shape=shape)
    return (matrix > 0).astype(np.int64), encoded.dictionary


def _by_types(roles: Roles, types: sparse.csr_array, names: pa.Array) -> Iterator[pa.Table]:
    facts = roles.facts
    typed = np.diff(types.indptr) > 0
    for role, side, everyone in roles:
        entities = everyone[typed[everyone]]
        if len(entities) < 2:
            continue
        own = types[entities]
        usual = wilson_lower(own.sum(axis=0), len(entities)) >= USUAL
        keeps = own @ usual.astype(np.int64) > 0
        score = float(regular(int(keeps.sum()), len(entities) - 1))
        odd = np.flatnonzero(~keeps)
        if not len(odd) or not strong(int(keeps.sum()), len(entities) - 1):
            continue
        shown = [
            _listing(facts, names, own.indices[own.indptr[k] : own.indptr[k + 1]]) for k in odd
        ]
        most = np.argsort(-own.sum(axis=0), kind="stable")[: min(3, int(usual.sum()))]
        expected = _listing(facts, names, most)
        rows = roles.first_fact(role, side, entities[odd])
        sentences = [
            f"{facts.short(facts.entity(int(entity)))} is {kinds}; {int(keeps.sum()):,} of the "
            f"{len(entities) - 1:,} other {side}s are of a usual type ({expected})."
            for entity, kinds in zip(entities[odd], shown, strict=True)
        ]
        scores = [score] * len(rows)
        yield listed("type", scores, sentences, **facts.names(rows), other=[*shown])


def _listing(facts: Facts, names: pa.Array, places: Ints) -> str:
    return ", ".join(facts.short(names[int(place)].as_py()) for place in places[:3])


def _by_roles(roles: Roles) -> Iterator[pa.Table]:
    facts, has = roles.facts, (roles.counts > 0).astype(np.int64).tocsr()
    together = compatible(has)
    degree = np.asarray(roles.counts.sum(axis=1)).ravel()
    for role, side, everyone in roles:
        own = np.asarray(roles.counts[everyone][:, [role]].todense()).ravel()
        known = degree[everyone] - own >= KNOWN
        entities, own = everyone[known], own[known]
        if len(entities) < 2:
            continue
        fits = together[[role]].toarray()[0] > 0
        fits[role] = False
        keeps = has[entities] @ fits.astype(np.int64) > 0
        score = float(regular(int(keeps.sum()), len(entities) - 1))
        # Who stands there more than once is no stranger.
        odd = entities[~keeps & (own == 1)]
        if not len(odd) or not strong(int(keeps.sum()), len(entities) - 1, **FIT):
            continue
        rows = roles.first_fact(role, side, odd)
        shown = [_other_roles(roles, int(entity), role) for entity in odd]
        sentences = [
            f"{facts.short(facts.entity(int(entity)))} is {elsewhere}; {int(keeps.sum()):,} of the "
            f"{len(entities) - 1:,} other {side}s that are known from other facts fit in here."
            for entity, elsewhere in zip(odd, shown, strict=True)
        ]
        yield listed("type", [score] * len(rows), sentences, **facts.names(rows), other=shown)


def compatible(has: sparse.csr_array) -> sparse.csr_array:
    """Tell which roles [2R, 2R] go together: one is usual with the other, or a third with both."""
    shared = (has.T @ has).tocoo()
    left, right = shared.coords
    count: Ints = shared.data
    size = shared.diagonal()
    usual = (
        np.maximum(wilson_lower(count, size[left]), wilson_lower(count, size[right])) >= TOGETHER
    )
    ones = np.ones(int(usual.sum()), np.int64)
    direct = sparse.csr_array((ones, (left[usual], right[usual])), shape=shared.shape)
    return (direct @ direct).tocsr()


def _other_roles(roles: Roles, entity: int, role: int) -> str:
    row = roles.counts[[entity]].tocoo()
    order = np.argsort(-row.data, kind="stable")
    found = [int(one) for one in row.coords[1][order] if one != role]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return ", ".join(roles.name(one) for one in found[:3]) + more
