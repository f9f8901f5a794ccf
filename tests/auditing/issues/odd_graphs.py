"""Small graphs that are regular but for what a test adds."""

from __future__ import annotations

import pyarrow as pa

from npugraph.auditing.issues import Issues, find_issues
from npugraph.graph import KnowledgeGraph

Fact = tuple[str, str, str]


def people(count: int = 120) -> list[Fact]:
    """Every person is born in one of ten towns and works for one of ten firms; nothing is odd."""
    rows: list[Fact] = []
    for i in range(count):
        name = f"person {i:03}"
        rows += [
            (name, "born in", f"town {i % 10}"),
            (name, "works for", f"firm {i % 7}"),
            (name, "manager of", f"person {(i * 7 + 1) % count:03}"),
        ]
    rows += [(f"town {i}", "in country", f"land {i % 3}") for i in range(10)]
    rows += [(f"firm {i}", "seat in", f"town {i}") for i in range(7)]
    return rows


def found(rows: list[Fact] | KnowledgeGraph, types: pa.Table | None = None) -> Issues:
    return find_issues(rows, types=types)


def about(issues: Issues, kind: str) -> list[tuple[str | None, ...]]:
    """Return head, relation, tail and other of each occurrence of a kind."""
    columns = ("head", "relation", "tail", "other")
    return [tuple(row[name] for name in columns) for row in issues.of(kind).to_pylist()]
