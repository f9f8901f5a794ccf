"""What the formats for other tools share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from npugraph.data.io.iris import NAMES, to_iri
from npugraph.patching.patch import Decision, Fact


@dataclass(frozen=True)
class Text:
    """What is to be written, and sentences on what could not be expressed."""

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Statement:
    """What the audit or a reviewer says about a fact.

    Attributes:
        fact: the fact, in the cleaned graph or not.
        probability: of being true, by the audit.
        answer: true, false or unsure, by the reviewer.
        reviewer: who said so; empty: the audit.
        time: when, as ISO 8601.
        confidence: the reviewer's.
        note: what the reviewer wrote.
    """

    fact: Fact
    probability: float | None = None
    answer: str = ""
    reviewer: str = ""
    time: str = ""
    confidence: float | None = None
    note: str = ""


def changes(decisions: Sequence[Decision]) -> tuple[list[Fact], list[Fact]]:
    """Return the facts that go and the facts that come, each once."""
    out = [one.fact for one in decisions if one.change != "add"]
    into = [one.new or one.fact for one in decisions if one.change != "remove"]
    return list(dict.fromkeys(out)), list(dict.fromkeys(into))


def divided(
    facts: Iterable[Fact], fits: Callable[[Fact], bool], what: str
) -> tuple[list[Fact], tuple[str, ...]]:
    """Return the facts that a format can express, and a note on the others, which ends ``what``."""
    good: list[Fact] = []
    bad: list[Fact] = []
    for fact in facts:
        (good if fits(fact) else bad).append(fact)
    if not bad:
        return good, ()
    count = "1 fact is" if len(bad) == 1 else f"{len(bad):,} facts are"
    return good, (f"{count} left out, {bad[0]} first: {what}",)


def written_term(name: str, base: str = NAMES, *, rdf: bool = True) -> str:
    """Return a name as SPARQL and N-Triples write it.

    Args:
        name: the name.
        base: before a name that is no IRI.
        rdf: whether names are terms of RDF: ``"x"`` is a literal then.
    """
    return name if rdf and name.startswith('"') else f"<{to_iri(name, base)}>"
