"""Which facts, in which order: filters, facets, groups, and the orders that are drawn at random."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from npugraph.arrays import Floats, Ints
from npugraph.graph import Vocabulary
from npugraph.names import shorten
from npugraph.review.learning import Judged
from npugraph.review.material import Bools, Material
from npugraph.review.records import Facet, Facets, Filters, Grouping
from npugraph.review.tally import KNOWN, OPEN, STATES, Tally
from npugraph.seeds import number

# Filters that do not change with the answers are kept, the last few of them.
KEPT = 16
# Values of a facet that are listed.
LISTED = 50
Hashes = NDArray[np.uint64]
_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def even_numbers(material: Material, seed: int, purpose: str) -> Floats:
    """Return a number in (0, 1) for each fact [n] that follows from the seed and its names alone.

    So facts keep their numbers when the graph is audited again.
    """
    key = number(seed, purpose).to_bytes(8, "big")
    ends, middle = (_hashed(words, key) for words in (material.entities, material.relations))
    mixed = np.zeros(len(material), dtype=np.uint64)
    for column, words in enumerate((ends, middle, ends)):
        mixed = _mixed(mixed + words[material.facts[:, column]] + np.uint64(_MIX[0]))
    shifted = np.right_shift(mixed, np.uint64(11)).astype(np.float64)
    return np.asarray((shifted + 0.5) / 2.0**53, dtype=np.float64)


def _hashed(words: Vocabulary, key: bytes) -> Hashes:
    """Return 64 bits for each name of a vocabulary."""
    parts = (
        hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8, key=key).digest()
        for name in words.labels.to_pylist()
    )
    return np.frombuffer(b"".join(parts), dtype=np.uint64)


def _mixed(values: Hashes) -> Hashes:
    """Return numbers [n] whose bits all depend on all bits of the given ones (splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_MIX[1])
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_MIX[2])
    return values ^ (values >> np.uint64(31))


class Selector:
    """Filters over the facts of an audit."""

    def __init__(self, material: Material, tally: Tally, suspects: int) -> None:
        """Look at the facts of an audit and at their states, which change.

        Args:
            material: the facts.
            tally: the answers.
            suspects: how many stored facts count as suspects.
        """
        self._material = material
        self._tally = tally
        self._suspects = suspects
        self._masks: OrderedDict[Filters, Bools | None] = OrderedDict()

    def mask(self, filters: Filters, judged: Judged, reviewer: str = "") -> Bools:
        """Return which facts pass [n]."""
        passing = np.ones(len(self._material), dtype=bool)
        fixed = self._fixed(replace(filters, state="", kind=""))
        if fixed is not None:
            passing &= fixed
        if filters.kind:
            passing &= self.of_kind(filters.kind, judged)
        if filters.state:
            passing &= self.in_state(filters.state, reviewer)
        return passing

    def of_kind(self, kind: str, judged: Judged) -> Bools:
        """Return which facts are of a kind [n]."""
        stored = self._material.stored
        if kind == "missing":
            return ~stored
        if kind == "suspect":
            return stored & (judged.place < self._suspects)
        return stored

    def in_state(self, state: str, reviewer: str) -> Bools:
        """Return which facts are in a state [n]."""
        if state in ("mine", "skipped"):
            tally, mine = self._tally, np.zeros(len(self._material), dtype=bool)
            mine[tally.mine(reviewer) if state == "mine" else tally.put_aside(reviewer)] = True
            return mine
        if state == "answered":
            return np.asarray(~np.isin(self._tally.state, (OPEN, KNOWN)))
        return np.asarray(self._tally.state == STATES.index(state), dtype=bool)

    def _fixed(self, filters: Filters) -> Bools | None:
        """Return what the filters by name let through [n]; None: everything."""
        if filters == Filters():
            return None
        if filters in self._masks:
            self._masks.move_to_end(filters)
            return self._masks[filters]
        material = self._material
        passing = np.ones(len(material), dtype=bool)
        if filters.relation:
            passing &= material.facts[:, 1] == _id(material.relations, filters.relation)
        if filters.entity:
            entity = _id(material.entities, filters.entity)
            passing &= (material.facts[:, 0] == entity) | (material.facts[:, 2] == entity)
        if filters.source:
            known = filters.source in material.sources
            code = material.sources.index(filters.source) if known else -1
            passing &= material.source == code
        if filters.issue:
            mine = np.zeros(len(material), dtype=bool)
            mine[material.issue_facts.get(filters.issue, np.zeros(0, dtype=np.int64))] = True
            passing &= mine
        if filters.text:
            ends, middle = (
                self.holding("entities", filters.text),
                self.holding("relations", filters.text),
            )
            head, relation, tail = material.facts.T
            passing &= ends[head] | middle[relation] | ends[tail]
        self._masks[filters] = passing
        if len(self._masks) > KEPT:
            self._masks.popitem(last=False)
        return passing

    def holding(self, words: Literal["entities", "relations"], text: str) -> Bools:
        """Return which entities, or relations, have a text in their name as given or as shown."""
        vocabulary: Vocabulary = getattr(self._material, words)
        found = pc.match_substring(vocabulary.labels, text, ignore_case=True)
        if self._material.shown:
            shown = self._material.shown_labels(words)
            found = pc.or_(found, pc.match_substring(shown, text, ignore_case=True))
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)

    def facets(self, filters: Filters, judged: Judged, reviewer: str) -> Facets:
        """Return what can be filtered by, and how many facts that leaves."""
        material = self._material

        def without(name: str) -> Bools:
            return self.mask(replace(filters, **{name: ""}), judged, reviewer)  # type: ignore[arg-type]

        relations = np.bincount(material.facts[without("relation"), 1], minlength=1)
        shown = [material.relations.label(i) for i in _most(relations)]
        passing = without("issue")
        issues = {k: int(passing[rows].sum()) for k, rows in material.issue_facts.items()}
        passing = without("kind")
        kinds = {
            kind: int((passing & self.of_kind(kind, judged)).sum())
            for kind in ("suspect", "stored", "missing")
        }
        states = np.bincount(self._tally.state[without("state")], minlength=len(STATES))
        source: tuple[Facet, ...] = ()
        if material.sources:
            counts = np.bincount(material.source[without("source")], minlength=1)
            source = tuple(
                Facet(material.sources[i], shorten(material.sources[i]), int(counts[i]))
                for i in _most(counts)
            )
        return Facets(
            tuple(Facet(kind, kind, count) for kind, count in kinds.items()),
            tuple(
                Facet(name, material.readable(name), int(relations[i]))
                for name, i in zip(shown, _most(relations), strict=True)
            ),
            source,
            tuple(Facet(kind, kind, count) for kind, count in issues.items() if count),
            tuple(Facet(s, s, int(n)) for s, n in zip(STATES, states, strict=True) if n),
        )

    def group_codes(self, grouping: Grouping) -> Ints:
        """Return the group of each fact [n]: its relation, or its head."""
        return self._material.facts[:, 1 if grouping == "relation" else 0]


def _id(words: Vocabulary, name: str) -> int:
    return words.id(name) if name in words else -1


def _most(counts: Ints) -> list[int]:
    """Return the places of the largest counts, zeros left out."""
    order = np.argsort(-counts, kind="stable")[:LISTED]
    return [int(place) for place in order if counts[place]]


def grouped(rows: Ints, codes: Ints) -> Ints:
    """Return rows so that those of a group stand together, groups in the order of their first.

    Args:
        rows: facts in their order [m].
        codes: the group of each of them [m].

    >>> grouped(np.array([9, 8, 7, 6]), np.array([5, 2, 5, 2])).tolist()
    [9, 7, 8, 6]
    """
    if not len(rows):
        return rows
    first = np.full(int(codes.max()) + 1, len(rows))
    first[codes[::-1]] = np.arange(len(rows))[::-1]
    return rows[np.argsort(first[codes], kind="stable")]
