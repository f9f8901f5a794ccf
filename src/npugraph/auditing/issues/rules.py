"""Facts that break a rule of the user."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from npugraph.arrays import Ints
from npugraph.auditing.issues.directions import later_reverses
from npugraph.auditing.issues.facts import OTHER, Facts, listed, text
from npugraph.auditing.issues.kinds import known_types
from npugraph.auditing.issues.literals import Values
from npugraph.auditing.issues.second import further
from npugraph.auditing.issues.told import RelationRules
from npugraph.auditing.issues.values import further_values
from npugraph.errors import DataError, nearest
from npugraph.graph import Side
from npugraph.names import shorten

KIND = "rule"


def rule_violations(facts: Facts) -> pa.Table:
    """Return the facts that break a rule of the user; the score is 1."""
    tables = [
        table
        for name, rules in facts.told.rules.items()
        for table in _violations(facts, name, rules)
    ]
    return pa.concat_tables([listed(KIND, [], []), *tables])


def _violations(facts: Facts, name: str, rules: RelationRules) -> Iterator[pa.Table]:
    """Yield the facts and values of one relation that break its rules."""
    known = facts.graph.relations.labels.to_pylist()
    literal = [] if facts.values is None else facts.values.relations.to_pylist()
    place = f"{facts.told.rules_file}, line {rules.line}"
    for relation in (name, rules.not_after or name):
        if relation not in known and relation not in literal:
            hint = nearest(relation, [*known, *literal])
            raise DataError(f"{place}: no relation is called {relation!r} in this graph.{hint}")
    if rules.not_after and not {name, rules.not_after} <= set(literal):
        raise DataError(f"{place}: {name!r} and {rules.not_after!r} must both have values.")
    if name in known:
        yield from _of_facts(facts, known.index(name), rules, place)
    if name in literal and facts.values is not None:
        yield from _of_values(facts, facts.values, literal, name, rules)


def _of_facts(facts: Facts, number: int, rules: RelationRules, place: str) -> Iterator[pa.Table]:
    rows = np.flatnonzero(facts.relation == number)
    ends: tuple[tuple[Side, tuple[str, ...], bool], ...] = (
        ("head", rules.domain, rules.one_head),
        ("tail", rules.range, rules.one_tail and not facts.valued[number]),
    )
    for side, types, one in ends:
        if types:
            yield _of_types(facts, rows, side, types, place)
        if one:
            again, firsts = further(facts, side)
            mine = facts.relation[again] == number
            yield _said(facts, again[mine], f"has one {side} per {OTHER[side]}", firsts[mine])
    if rules.irreflexive:
        yield _said(facts, rows[facts.head[rows] == facts.tail[rows]], "has no self-loops")
    if rules.asymmetric:
        later, back = later_reverses(facts)
        mine = facts.relation[later] == number
        yield _said(facts, later[mine], "goes one way", back[mine])


def _of_values(
    facts: Facts, values: Values, literal: list[str], name: str, rules: RelationRules
) -> Iterator[pa.Table]:
    number = literal.index(name)
    if rules.one_tail:
        again, firsts = further_values(values)
        mine = values.relation[again] == number
        yield _said_of(facts, values, again[mine], firsts[mine], "has one value per entity")
    if rules.not_after:
        yield _after(facts, values, number, literal.index(rules.not_after))


def _of_types(facts: Facts, rows: Ints, side: Side, types: tuple[str, ...], place: str) -> pa.Table:
    """Return the facts whose entity has types, and none of those."""
    given = known_types(facts)
    if given is None:
        raise DataError(
            f"{place}: domain and range need the types of the entities; give them with --types, or "
            "store them as rdf:type."
        )
    matrix, names = given
    labels = names.to_pylist()
    for one in types:
        if one not in labels:
            raise DataError(f"{place}: no entity is of type {one!r}.{nearest(one, labels)}")
    allowed = np.isin(labels, types).astype(np.int64)
    entity = facts.end(side)[rows]
    wrong = (np.diff(matrix.indptr) > 0)[entity] & (matrix[entity] @ allowed == 0)
    found = rows[wrong]
    shown = [
        ", ".join(labels[k] for k in matrix.indices[matrix.indptr[e] : matrix.indptr[e + 1]][:3])
        for e in facts.end(side)[found].tolist()
    ]
    wanted = " or ".join(types)
    names_of = facts.names(found)
    sentences = [
        f"A rule: a {side} of {facts.short(relation)} is {wanted}; {facts.short(name)} is {own}."
        for relation, name, own in zip(
            names_of["relation"].to_pylist(), names_of[side].to_pylist(), shown, strict=True
        )
    ]
    return listed(KIND, np.ones(len(found)), sentences, **names_of, other=shown)


def _said(facts: Facts, rows: Ints, rule: str, others: Ints | None = None) -> pa.Table:
    """Return facts [k] with the rule they break, and the facts they break it with."""
    names = facts.names(rows)
    if others is None:
        sentences = [
            f"A rule: {facts.short(name)} {rule}." for name in names["relation"].to_pylist()
        ]
        return listed(KIND, np.ones(len(rows)), sentences, **names)
    columns = (column.to_pylist() for column in facts.names(others).values())
    return _beside(facts, names, rule, [text(fact) for fact in zip(*columns, strict=True)])


def _said_of(facts: Facts, values: Values, rows: Ints, others: Ints, rule: str) -> pa.Table:
    return _beside(facts, values.names(rows), rule, values.value.take(pa.array(others)).to_pylist())


def _beside(facts: Facts, names: dict[str, pa.Array], rule: str, other: list[str]) -> pa.Table:
    """Return names [k] with the rule they break and what else is stored."""
    sentences = [
        f"A rule: {facts.short(name)} {rule}; also stored: {shorten(stored)}."
        for name, stored in zip(names["relation"].to_pylist(), other, strict=True)
    ]
    return listed(KIND, np.ones(len(other)), sentences, **names, other=other)


def _after(facts: Facts, values: Values, before: int, after: int) -> pa.Table:
    """Return values of one relation that are after all of the entity's values of another."""
    usable = ~np.isnan(values.low)
    last = np.full(len(values.entities), np.nan)
    rows = np.flatnonzero(usable & (values.relation == after))
    np.fmax.at(last, values.entity[rows], values.high[rows])
    mine = np.flatnonzero(usable & (values.relation == before))
    mine = mine[values.low[mine] > last[values.entity[mine]]]
    latest = rows[np.argsort(values.high[rows], kind="stable")]
    of_entity = dict(zip(values.entity[latest].tolist(), latest.tolist(), strict=True))
    others = np.array([of_entity[e] for e in values.entity[mine].tolist()], np.int64)
    return _said_of(
        facts, values, mine, others, f"is not after {facts.short(values.relations[after].as_py())}"
    )
