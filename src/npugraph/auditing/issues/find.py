"""All checks, one table, and what they found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from npugraph.auditing.issues.directions import both_ways, self_loops
from npugraph.auditing.issues.facts import Facts, one_line, text
from npugraph.auditing.issues.kinds import type_conflicts
from npugraph.auditing.issues.repeats import (
    echoes,
    inverse_relations,
    repeated,
    single_facts,
    twin_relations,
)
from npugraph.auditing.issues.rules import rule_violations
from npugraph.auditing.issues.second import second_heads, second_tails
from npugraph.auditing.issues.shapes import shape_violations
from npugraph.auditing.issues.spelling import spellings
from npugraph.auditing.issues.told import Told
from npugraph.auditing.issues.values import odd_values, out_of_order, second_values
from npugraph.data.sources import GraphLike, load_graph
from npugraph.display import Shown
from npugraph.report import IssueGroup, IssueRow

# Occurrences of a kind that a report shows.
EXAMPLES = 5
# What is said beside a sentence about another fact that this one is at odds with.
BESIDE = "It is listed with another fact; either of the two may be wrong."


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        kind: what its occurrences are called.
        title: what they are, for a heading.
        find: returns them, with the columns of COLUMNS.
        information: whether they are no sign of an error.
        against: whether an occurrence speaks against the fact that it is listed with.
        once: whether a relation that holds the facts of another one again is passed over: it
            would say the same twice.
    """

    kind: str
    title: str
    find: Callable[[Facts], pa.Table]
    information: bool = False
    against: bool = True
    once: bool = False


# In the order in which they are shown.
CHECKS = (
    Check("rule", "Facts that break a rule you gave", rule_violations),
    Check("shape", "What breaks a shape you gave", shape_violations),
    Check("spelling", "Names that differ in form only", spellings, against=False),
    Check("self-loop", "Facts from an entity to itself", self_loops, once=True),
    Check("both-ways", "Both directions of a relation that goes one way", both_ways, once=True),
    Check("second-tail", "A second tail where there is one", second_tails, once=True),
    Check("second-head", "A second head where there is one", second_heads, once=True),
    Check("type", "Entities of another kind", type_conflicts, once=True),
    Check("order", "Values out of order", out_of_order),
    Check("second-value", "A second value where there is one", second_values),
    Check("odd-value", "Values of another sort", odd_values),
    Check("repeat", "Records that repeat another", repeated, against=False),
    Check("single", "Entities in one fact only", single_facts, information=True, against=False),
    Check(
        "inverse",
        "Relations that mirror each other",
        inverse_relations,
        information=True,
        against=False,
    ),
    Check("twin", "Relations with the same facts", twin_relations, information=True, against=False),
)


@dataclass(frozen=True, eq=False, repr=False)
class Issues(Shown):
    """What the checks found.

    Attributes:
        table: the columns of ``issues.tsv``: kind, score, head, relation, tail, other, sentence;
            in the order of CHECKS, the highest score first.
    """

    table: pa.Table

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def counts(self) -> dict[str, int]:
        """How often each kind was found, kinds without any included."""
        found = {
            row["values"]: row["counts"] for row in pc.value_counts(self.table["kind"]).to_pylist()
        }
        return {check.kind: found.get(check.kind, 0) for check in CHECKS}

    def of(self, kind: str) -> pa.Table:
        """Return the occurrences of one kind."""
        return self.table.filter(pc.equal(self.table["kind"], kind))

    def against(self, fact: tuple[str, str, str]) -> tuple[tuple[str, str], ...]:
        """Return what speaks against a fact of names: the kind and the sentence of each.

        Two facts that are at odds are listed once, with the one that is stored later.
        """
        if not len(self.table):
            return ()
        head, relation, tail = map(one_line, fact)
        kinds = [check.kind for check in CHECKS if check.against]
        own = self._where(kind=kinds, head=head, relation=relation, tail=tail)
        whole = one_line(text(fact))
        others = (
            self._where(kind=["second-tail"], head=head, relation=relation, other=tail),
            self._where(kind=["second-head"], other=head, relation=relation, tail=tail),
            self._where(kind=["rule", "both-ways"], relation=relation, other=whole),
        )
        return (
            *((row["kind"], row["sentence"]) for row in own),
            *((row["kind"], f"{row['sentence']} {BESIDE}") for rows in others for row in rows),
        )

    def _where(self, *, kind: list[str], **cells: str) -> list[dict[str, Any]]:
        """Return the occurrences of some kinds with these cells."""
        mask = pc.is_in(self.table["kind"], value_set=pa.array(kind))
        for column, value in cells.items():
            same = pc.fill_null(pc.equal(self.table[column], value), False)
            mask = pc.and_(mask, same)
        rows: list[dict[str, Any]] = self.table.filter(mask).to_pylist()
        return rows

    def first(self, most: int) -> pa.Table:
        """Return at most so many occurrences of each kind."""
        return pa.concat_tables([self.of(check.kind).slice(0, most) for check in CHECKS])

    def groups(self, most: int = EXAMPLES) -> tuple[IssueGroup, ...]:
        """Return the kinds that were found, each with at most so many occurrences."""
        found = []
        for check in CHECKS:
            if count := self.counts[check.kind]:
                first = self.of(check.kind).slice(0, most).to_pylist()
                rows = tuple(IssueRow(row["score"], _about(row), row["sentence"]) for row in first)
                found.append(IssueGroup(check.kind, check.title, count, rows, check.information))
        return tuple(found)

    def shown(self) -> tuple[str, Mapping[str, object]]:
        """Show the counts."""
        return f"Issues: {len(self):,}", {k: n for k, n in self.counts.items() if n}


def _about(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names a row is about: a fact, or the two names that are much the same."""
    names = [row[name] for name in ("head", "relation", "tail", "other") if row[name] is not None]
    return tuple(names[:3]) if row["tail"] is not None else tuple(names)


def find_issues(
    graph: GraphLike, *, types: Any = None, rules: Any = None, shapes: Any = None
) -> Issues:
    """Find what breaks the regularities of a graph; no model is trained.

    Args:
        graph: what load_graph takes.
        types: a file or an Arrow table with the columns entity and type; without it, facts of
            rdf:type, or kinds learned from the graph.
        rules: a TOML file of what must hold of a relation: docs/issues.md.
        shapes: a file of SHACL shapes, in Turtle; needs pySHACL.

    >>> found = find_issues([("Rome", "capital_of", "Italy"), (" Rome", "in", "Italy")])
    >>> found.counts["spelling"], found.table["other"].to_pylist()
    (1, ['Rome'])
    """
    told = Told.read(types, rules, shapes)
    whole = load_graph(graph)
    told.check_entities(whole.entities.labels)
    if whole.label is not None:
        # What is known to be wrong needs no look.
        whole = whole.select(whole.label != 0)
    facts = Facts.of(whole, told)
    said_before = facts.graph.relations.labels.filter(pa.array(echoes(facts)))
    tables = []
    for check in CHECKS:
        table = check.find(facts)
        if check.once:
            table = table.filter(pc.invert(pc.is_in(table["relation"], value_set=said_before)))
        tables.append(table.take(pc.sort_indices(table, [("score", "descending")])))
    return Issues(pa.concat_tables(tables).combine_chunks())
