"""Decisions as commands of QuickStatements, for Wikidata."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npugraph.errors import DataError
from npugraph.patching.formats.common import Text, changes, divided
from npugraph.patching.patch import Decision, Fact

_BEFORE = r"(?:https?://www\.wikidata\.org/(?:entity|wiki|prop/direct|prop)/|wdt?:|p:)?"
_ITEM = re.compile(rf"{_BEFORE}(?:Lexeme:|Property:)?([QPL][1-9][0-9]*)")
_PROPERTY = re.compile(rf"{_BEFORE}(?:Property:)?(P[1-9][0-9]*)")


def quickstatements(decisions: Sequence[Decision]) -> Text:
    r"""Return commands, one per line with tabs: a minus removes a statement.

    >>> from npugraph.patching.patch import Decision, Fact
    >>> fact = Fact("wd:Q64", "wdt:P17", "http://www.wikidata.org/entity/Q38")
    >>> quickstatements([Decision("remove", fact)]).text
    '-Q64\tP17\tQ38\n'
    """
    out, into = changes(decisions)
    gone, lost = divided(out, _fits, "its names are not all ids of Wikidata, such as Q64 and P17.")
    new, more = divided(into, _fits, "its names are not all ids of Wikidata.")
    if decisions and not gone and not new:
        raise DataError(
            f"No decided fact is about Wikidata: {decisions[0].fact} has names that are no ids "
            "such as Q64 and P17; take another format."
        )
    lines = ["-" + _line(fact) for fact in gone] + [_line(fact) for fact in new]
    return Text("".join(lines), (*lost, *more))


def _ids(fact: Fact) -> list[re.Match[str] | None]:
    head, relation, tail = fact
    return [_ITEM.fullmatch(head), _PROPERTY.fullmatch(relation), _ITEM.fullmatch(tail)]


def _fits(fact: Fact) -> bool:
    return all(_ids(fact))


def _line(fact: Fact) -> str:
    return "\t".join(match[1] for match in _ids(fact) if match) + "\n"
