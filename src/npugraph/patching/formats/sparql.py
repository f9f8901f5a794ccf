"""Decisions as a SPARQL UPDATE."""

from __future__ import annotations

from collections.abc import Sequence

from npugraph.data.io.iris import NAMES
from npugraph.patching.formats.common import Text, changes, divided, written_term
from npugraph.patching.patch import Decision, Fact


def sparql_update(decisions: Sequence[Decision], base: str = NAMES, *, rdf: bool = True) -> Text:
    """Return an update that removes and adds what was decided.

    Args:
        decisions: what was decided.
        base: before names that are no IRIs.
        rdf: whether names are terms of RDF: ``_:x`` is a blank node then, and ``"x"`` a literal.

    >>> from npugraph.patching.patch import Decision, Fact
    >>> print(sparql_update([Decision("remove", Fact("a:b", "a:c", "a:d"))]).text, end="")
    DELETE DATA {
      <a:b> <a:c> <a:d> .
    } ;
    """
    out, into = changes(decisions)

    def fits(fact: Fact) -> bool:
        return not (rdf and any(name.startswith("_:") for name in fact))

    why = "a blank node has no name outside of its file."
    gone, lost = divided(out, fits, why)
    new, more = divided(into, fits, why)
    parts = [
        f"{word} DATA {{\n" + "".join(f"  {_line(fact, base, rdf)}\n" for fact in facts) + "} ;\n"
        for word, facts in (("DELETE", gone), ("INSERT", new))
        if facts
    ]
    return Text("".join(parts), (*lost, *more))


def _line(fact: Fact, base: str, rdf: bool) -> str:
    return " ".join([*(written_term(name, base, rdf=rdf) for name in fact), "."])
