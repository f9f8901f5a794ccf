"""Cards and pages: what a reviewer may see of facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from npugraph.arrays import Ints
from npugraph.review.cards import Card, Name, Neighbour
from npugraph.review.learning import Judged
from npugraph.review.material import Bools, Material
from npugraph.review.queue import Selector, grouped
from npugraph.review.records import Facet, Group, Grouping, Order, Page
from npugraph.review.serving import Serving
from npugraph.review.tally import STATES, Tally

# Neighbours of each end of a fact that a card shows.
NEIGHBOURS = 8


class Showing:
    """Makes cards of facts, as one reviewer may see them now."""

    def __init__(
        self, material: Material, tally: Tally, selector: Selector, serving: Serving
    ) -> None:
        """Show the facts of an audit; tally and serving change."""
        self._material, self._tally = material, tally
        self._selector, self._serving = selector, serving

    def card(self, number: int, reviewer: str, judged: Judged, group: str = "") -> Card:
        """Return a fact without evidence; blind where it was served so and is not answered."""
        material = self._material
        head, relation, tail = material.shown_names(number)
        served = self._serving.of(reviewer, number)
        answers = self._tally.by_fact.get(number, {})
        card = Card(
            number,
            head,
            relation,
            tail,
            stored=bool(material.stored[number]),
            state=STATES[self._tally.state[number]],
            why=served.why if served else "",
            source=material.sources[material.source[number]] if material.sources else "",
            group=group,
        )
        if served is not None and served.blind and reviewer not in answers:
            # That others have judged it would say something, too.
            return replace(card, blind=True, state="open")
        probability, low, high = judged.shown(number)
        return replace(
            card,
            place=int(judged.place[number]) + 1,
            probability=probability,
            low=low,
            high=high,
            correction=material.corrections.get(number),
            issues=tuple(rows[number] for rows in material.issues.values() if number in rows),
            answers=tuple(sorted(answers.values(), key=lambda row: row.id)),
        )

    def neighbours(self, number: int) -> tuple[Neighbour, ...]:
        """Return stored facts at either end of a fact."""
        head, _, tail = self._material.facts[number].tolist()
        found: dict[int, Neighbour] = {}
        for entity in (head, tail):
            near = self._material.at(entity)
            near = near[(near != number) & ~np.isin(near, list(found))]
            for one in near[:NEIGHBOURS].tolist():
                names = self._material.shown_names(one)
                found[one] = Neighbour(one, *names, STATES[self._tally.state[one]])
        return tuple(found.values())

    def page(
        self,
        passing: Bools,
        reviewer: str,
        judged: Judged,
        order: Order,
        group_by: Grouping,
        part: slice,
    ) -> Page:
        """Return a part of the facts that pass filters, bool [n]."""
        rows = in_order(judged, passing, order)
        groups: dict[int, Group] = {}
        codes = np.zeros(0, dtype=np.int64)
        if group_by:
            codes = self._selector.group_codes(group_by)
            counts = np.bincount(codes[rows], minlength=1)
            material, shown = self._material, grouped(rows, codes[rows])[part]
            words = material.relations if group_by == "relation" else material.entities
            for code in codes[shown].tolist():
                groups[code] = Group(material.name(words.label(code)), int(counts[code]))
        else:
            shown = rows[part]
        cards = []
        for number in shown.tolist():
            group = groups[int(codes[number])].name.name if groups else ""
            cards.append(self.card(number, reviewer, judged, group))
        end = part.start + len(shown)
        more = str(end) if end < len(rows) else ""
        return Page(tuple(cards), len(rows), more, tuple(groups.values()))

    def search(
        self, words: Literal["entities", "relations"], text: str, counts: Ints, limit: int
    ) -> tuple[Facet, ...]:
        """Find names by a part; those that fit best come first, then the more frequent ones."""
        vocabulary = getattr(self._material, words)
        found = np.flatnonzero(self._selector.holding(words, text))
        # Of very many the most frequent ones are looked at.
        found = found[np.argsort(-counts[found], kind="stable")[: 20 * limit]]
        names = [(self._material.name(vocabulary.label(i)), int(counts[i])) for i in found.tolist()]
        folded = text.casefold()
        names.sort(key=lambda item: (_fit(item[0], folded), -item[1]))
        return tuple(Facet(name.name, name.shown, count) for name, count in names[:limit])


def in_order(judged: Judged, passing: Bools, order: Order) -> Ints:
    """Return the facts that pass, in an order."""
    rows = judged.order(order)
    return rows[passing[rows]]


def _fit(name: Name, folded: str) -> int:
    shown = name.shown.casefold()
    if folded in (shown, name.name.casefold()):
        return 0
    return 1 if shown.startswith(folded) else 2
