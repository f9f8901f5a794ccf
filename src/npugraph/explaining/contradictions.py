"""Regularities of the stored facts that one fact breaks; it never counts as a case itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from npugraph.explaining.case import Case, Tables
from npugraph.explaining.records import Contradicting
from npugraph.graph import Side
from npugraph.rules import RuleSet, wilson_lower

# A regularity needs this many other cases, and this share of them must keep to it.
MIN_CASES = 5
MIN_SHARE = 0.9
# A role is foreign to one side of a relation where fewer of its entities have it than this.
FOREIGN_SHARE = 0.02
# An entity seen more often than this on a side of the relation is no stranger there.
RARE = 1
# A question is crowded where it has at least so many answers, more than this share of the others,
# and these have few on average: a land with many neighbours is nothing odd.
CROWD, FEWER_SHARE, FEW = 3, 0.95, 2
OTHER: dict[Side, Side] = {"head": "tail", "tail": "head"}


def contradictions(tables: Tables, rules: RuleSet, case: Case, top: int) -> list[Contradicting]:
    """Return what speaks against a fact, strongest first, with at most ``top`` facts each."""
    found = [
        *_functional(tables, case, top),
        *_crowded(tables, case, top),
        *_type_mismatch(tables, case),
        *_asymmetric(tables, case),
        *_unconfirmed(tables, rules, case),
    ]
    return sorted(found, key=lambda item: -item.strength)


def _functional(tables: Tables, case: Case, top: int) -> Iterator[Contradicting]:
    """The relation has one value per entity, and this entity has another one."""
    for side, entity, _, column, opposite in case.sides():
        values = opposite[column == entity]
        counts = np.unique(column[column != entity], return_counts=True)[1]
        single = int((counts == 1).sum())
        if len(values) and _regular(single, len(counts)):
            other = OTHER[side]
            yield Contradicting(
                "functional",
                float(wilson_lower(single, len(counts))),
                f"{single:,} of {len(counts):,} other {side}s of "
                f"{tables.readable(tables.labels(case.fact)[1])} have one {other} only, and "
                f"{tables.readable(tables.name(entity))} has another one.",
                tuple(tables.labels(tables.place(case, other, v)) for v in values[:top].tolist()),
            )


def _crowded(tables: Tables, case: Case, top: int) -> Iterator[Contradicting]:
    """The entity has far more values, this one among them, than others of the relation."""
    for side, entity, _, column, opposite in case.sides():
        values = opposite[column == entity]
        counts = np.unique(column[column != entity], return_counts=True)[1]
        own, fewer = len(values) + 1, int((counts <= len(values)).sum())
        if own < CROWD or len(counts) < MIN_CASES or fewer < FEWER_SHARE * len(counts):
            continue
        usual = float(counts.mean())
        if usual <= FEW:
            other = OTHER[side]
            yield Contradicting(
                "crowded",
                float(wilson_lower(fewer, len(counts))),
                f"{tables.readable(tables.name(entity))} has {own:,} {other}s of "
                f"{tables.readable(tables.labels(case.fact)[1])} with this one; {fewer:,} of "
                f"{len(counts):,} other {side}s have fewer, {usual:.1f} on average.",
                tuple(tables.labels(tables.place(case, other, v)) for v in values[:top].tolist()),
            )


def _type_mismatch(tables: Tables, case: Case) -> Iterator[Contradicting]:
    """Entities on this side of the relation are of another kind, judged by their roles."""
    relation, num_relations = case.fact[1], tables.graph.num_relations
    for side, entity, _, column, _ in case.sides():
        own_role = relation if side == "head" else relation + num_relations
        counts = tables.roles_without(case, entity)
        seen = int(counts[own_role])
        counts[own_role] = 0
        roles = np.flatnonzero(counts)
        others = np.unique(column[column != entity])
        if seen > RARE or len(others) < MIN_CASES or not len(roles):
            continue
        share = np.diff((tables.roles[others] > 0).tocsc().indptr)[roles] / len(others)
        foreign = roles[share < FOREIGN_SHARE]
        if 2 * len(foreign) < len(roles):
            continue
        relations = tables.graph.relations
        names = [
            f"{'head' if r < num_relations else 'tail'} of "
            f"{tables.readable(relations.label(r % num_relations))}"
            for r in foreign[np.argsort(-counts[foreign], kind="stable")][:3].tolist()
        ]
        often = "no other fact" if seen == 0 else "one other fact"
        yield Contradicting(
            "type",
            len(foreign) / len(roles),
            f"{tables.readable(tables.name(entity))} is the {side} of {often} of "
            f"{tables.readable(relations.label(relation))}, and "
            f"{len(foreign)} of its {len(roles)} roles ({', '.join(names)}) are those of fewer "
            f"than {FOREIGN_SHARE:.0%} of the {len(others):,} other {side}s.",
            (),
        )


def _asymmetric(tables: Tables, case: Case) -> Iterator[Contradicting]:
    """The relation goes one way only, but the reverse is stored; or it has no loops."""
    head, relation, tail = case.fact
    name = tables.readable(tables.graph.relations.label(relation))
    if head == tail:
        straight = int((case.heads != case.tails).sum())
        if _regular(straight, len(case.heads)):
            yield Contradicting(
                "loop",
                float(wilson_lower(straight, len(case.heads))),
                f"{straight:,} of {len(case.heads):,} other facts of {name} join two different "
                "entities.",
                (),
            )
        return
    reverse = (case.heads == tail) & (case.tails == head)
    others = ~reverse & (case.heads != case.tails)
    heads, tails = case.heads[others], case.tails[others]
    turned = np.stack([tails, np.full_like(heads, relation), heads], axis=1)
    single = len(heads) - int(tables.edges.index.contains(torch.from_numpy(turned)).sum())
    if reverse.any() and _regular(single, len(heads)):
        yield Contradicting(
            "asymmetric",
            float(wilson_lower(single, len(heads))),
            f"{single:,} of {len(heads):,} other facts of {name} are stored one way only, and "
            "the reverse of this one is stored.",
            (tables.labels((tail, relation, head)),),
        )


def _unconfirmed(tables: Tables, rules: RuleSet, case: Case) -> Iterator[Contradicting]:
    """A rule that holds for nearly all other facts of the relation does not fire for this one."""
    total = int((case.heads != case.tails).sum())
    found: set[tuple[int, ...]] = set()
    for number in np.flatnonzero(rules.head == case.fact[1]).tolist():
        rule = rules[number]
        covered = min(rule.support, total)
        atoms = tuple(d % rule.num_relations for d in rule.body)
        # Counts of a sample say nothing of all facts; turned atoms would say the same twice.
        if rule.sampled or atoms in found or not _regular(covered, total):
            continue
        if rules.bodies(case.fact, number, 1):
            continue
        found.add(atoms)
        yield Contradicting(
            "unconfirmed",
            float(wilson_lower(covered, total)),
            f"{covered:,} of {total:,} other facts of "
            f"{tables.readable(tables.labels(case.fact)[1])} follow from "
            f"{rule.describe(tables.graph.relations, tables.readable)}, and this one does not.",
            (),
        )


def _regular(keeping: int, cases: int) -> bool:
    return cases >= MIN_CASES and keeping >= MIN_SHARE * cases
