"""A cleaned graph as KGX: files of nodes and of edges, tab-separated, for Biolink's tools."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from npugraph.errors import DataError
from npugraph.patching.patch import Fact

NODES = ("id", "category", "name")
EDGES = (
    "id", "subject", "predicate", "object", "category", "knowledge_level", "agent_type",
    "has_confidence_score",
)  # fmt: skip
# What Biolink calls a fact that people judged, one that they added on the audit's proposal, and
# one of which nobody said where it is from.
JUDGED = ("knowledge_assertion", "manual_agent")
PROPOSED = ("knowledge_assertion", "manual_validation_of_automated_agent")
UNKNOWN = ("not_provided", "not_provided")


def kgx_files(
    facts: Iterable[Fact],
    probability: Mapping[Fact, float],
    judged: Mapping[Fact, tuple[str, str]],
    shown: Callable[[str], str],
) -> tuple[str, str]:
    """Return the texts of the nodes' and the edges' files.

    Args:
        facts: of the cleaned graph; a repeat is written once.
        probability: of being true, by the audit, of the facts of which it is told.
        judged: JUDGED or PROPOSED of the facts that people called true.
        shown: how a name is shown.
    """
    distinct = list(dict.fromkeys(facts))
    names = dict.fromkeys(name for fact in distinct for name in (fact.head, fact.tail))
    nodes = [(name, "biolink:NamedThing", shown(name)) for name in names]
    edges = [
        (
            uuid.uuid5(uuid.NAMESPACE_URL, "\x1f".join(fact)).urn,
            *fact,
            "biolink:Association",
            *judged.get(fact, UNKNOWN),
            repr(probability[fact]) if fact in probability else "",
        )
        for fact in distinct
    ]
    return _table(NODES, nodes), _table(EDGES, edges)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["\t".join(names)]
    for row in rows:
        bad = next((value for value in row if re.search(r"[\t\r\n]", value)), None)
        if bad is not None:
            raise DataError(
                f"{bad!r} holds a tab or a line end, which KGX's TSV cannot; take another format."
            )
        lines.append("\t".join(row))
    return "\n".join(lines) + "\n"
