"""Which alternatives to a fact fit better; they are evidence, not yet a correction."""

from __future__ import annotations

from npugraph.explaining import Alternative, Explanation
from npugraph.graph import KnowledgeGraph


def better_alternatives(found: Explanation, graph: KnowledgeGraph) -> list[Alternative]:
    """Return the alternatives that score higher and make sense, best first.

    Such an entity stands in this relation elsewhere, on the same side, and is not the other end.
    """
    head, relation, tail = found.ids
    mine = graph.facts[graph.facts[:, 1] == relation]
    better = []
    for item in found.alternatives:
        column, other = (0, tail) if item.side == "head" else (2, head)
        entity = graph.entities.id(item.fact[column])
        if item.gain > 0 and entity != other and bool((mine[:, column] == entity).any()):
            better.append(item)
    return sorted(better, key=lambda item: -item.gain)


def end_of(fact: tuple[str, str, str], side: str) -> str:
    """Return the name at one side of a fact."""
    return fact[0 if side == "head" else 2]
