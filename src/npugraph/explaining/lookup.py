"""From the names a person types to a fact; a name that is unknown is answered with similar ones."""

from __future__ import annotations

import difflib

import pyarrow.compute as pc
import torch
from torch import Tensor

from npugraph.errors import UnknownNameError
from npugraph.graph import KnowledgeGraph, Vocabulary
from npugraph.names import shorten

# Names that are suggested at most.
SUGGESTED = 3
# Comparing letter by letter takes a second with so many names; beyond, only contained ones count.
COMPARED = 100_000


def fact_ids(graph: KnowledgeGraph, fact: tuple[str, str, str]) -> Tensor:
    """Return the ids [3] of a fact of names.

    >>> from npugraph.data.datasets import load
    >>> fact_ids(load("world"), ("south korea", "borders", "China"))
    Traceback (most recent call last):
    npugraph.errors.UnknownNameError: No entity is called 'south korea' in this graph. Did you mean
    'South Korea', 'South Korean Won' or 'North Korea'?
    """
    head, relation, tail = fact
    parts = ((graph.entities, head), (graph.relations, relation), (graph.entities, tail))
    return torch.tensor([_id(words, name) for words, name in parts])


def _id(words: Vocabulary, name: str) -> int:
    if name in words:
        return words.id(name)
    found = [repr(shorten(one)) for one in similar_names(words, name)]
    listed = " or ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))
    hint = f" Did you mean {listed}?" if found else ""
    raise UnknownNameError(f"No {words.kind} is called {shorten(name)!r} in this graph.{hint}")


def similar_names(words: Vocabulary, name: str) -> list[str]:
    """Return names that hold this one, or that it resembles, whatever their case; at most three."""
    holding = pc.match_substring(words.labels, name, ignore_case=True) if name else None
    contained = [] if holding is None else words.labels.filter(holding).to_pylist()
    close: list[str] = []
    if len(words) <= COMPARED and len(name) <= COMPARED:
        by_folded = {label.casefold(): label for label in words.labels.to_pylist()}
        matches = difflib.get_close_matches(name.casefold(), by_folded, SUGGESTED, 0.6)
        close = [by_folded[match] for match in matches]
    # The shortest of those that hold the name are nearest to it.
    return list(dict.fromkeys([*close[:1], *sorted(contained, key=len), *close]))[:SUGGESTED]
