"""The desk: all that the pages, the API and the commands talk to."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from npugraph.arrays import Floats, Ints
from npugraph.errors import DataError
from npugraph.names import percent
from npugraph.review.cards import Card, Name, Neighbour, Why
from npugraph.review.estimate import Draw, frozen_design
from npugraph.review.evidence import Evidences
from npugraph.review.learning import Judged, Learner
from npugraph.review.material import Bools, Material
from npugraph.review.queue import Selector, even_numbers, grouped
from npugraph.review.records import (
    Agreement,
    AnswerIn,
    DeskSettings,
    Facet,
    Facets,
    Filters,
    Group,
    Grouping,
    Order,
    Page,
    Preview,
    Progress,
    Saved,
    Share,
)
from npugraph.review.store import FILE, Answer, NewAnswer, Store, answers_table
from npugraph.review.tally import DISPUTE, KNOWN, OPEN, RIGHT, STATES, UNSURE, WRONG, Tally
from npugraph.settings import as_settings

# Seconds for which a fact that was served to one reviewer is not served to another.
HELD = 900.0
# Facts of a page, and of a preview.
MOST_ON_PAGE, PREVIEWED = 500, 10
# Facts that one bulk answer may touch.
MOST_AT_ONCE = 10_000
# Neighbours of each end of a fact that a card shows.
NEIGHBOURS = 8


@dataclass(frozen=True)
class _Served:
    """A fact that a reviewer has before them."""

    number: int
    why: Why
    blind: bool
    until: float


class Desk:
    """A review of an audit; threads may share it, and processes may share its folder."""

    def __init__(self, material: Material, store: Store, settings: DeskSettings) -> None:
        """Take an opened audit and its store; use :meth:`open`."""
        self.material = material
        self.store = store
        seed = int(store.begin("seed", str(settings.seed)))
        self.settings = replace(settings, seed=seed)
        self._budget = settings.budget or int(
            material.record.get("settings", {}).get("budget") or 100
        )
        self._lock = threading.RLock()
        self._tally = Tally(material)
        suspects = max(int(material.record.get("suspects") or 0), self._budget)
        self._selector = Selector(material, self._tally, suspects)
        self._learner = Learner(material, budget=self._budget, seed=seed)
        self._judged = Judged.of_audit(material)
        self._version, self._learned_at, self._skips = 0, 0, 0
        self._learning: threading.Thread | None = None
        self._draw = self._make_draw()
        self._second = even_numbers(material, seed, "agreement")
        self._served: dict[str, _Served] = {}
        self._evidence = Evidences(material)
        self._seen = -1
        self._sync()

    def _make_draw(self) -> Draw:
        if self.settings.estimate is None:
            return Draw.evenly(self.material, self.settings.seed)
        seed = frozen_design(self.store, self.material, self.settings.seed)
        return Draw.by_posterior(self.material, seed, self.settings.estimate)

    @classmethod
    def open(
        cls, folder: str | Path, settings: DeskSettings | dict[str, object] | None = None
    ) -> Desk:
        """Open the folder of an audit; its answers are in ``answers.sqlite`` there."""
        material = Material.open(folder)
        asked = as_settings(DeskSettings, settings)
        return cls(material, Store.open(material.folder / FILE), asked)

    def close(self) -> None:
        """Wait for what is being learned, and close the store."""
        self.settle()
        self.store.close()

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    # Answers come in.

    def _sync(self) -> None:
        """Count what other processes have added to the store."""
        version = self.store.version()
        if version == self._seen:
            return
        self._seen = version
        for row in self.store.since(self._tally.last):
            self._tally.add(row)
        for place, reviewer, fact in self.store.skips(self._skips):
            self._skips = place
            number = self.material.number(fact)
            if number >= 0:
                self._tally.skipped.setdefault(reviewer, set()).add(number)
        self._learn_when_due()

    def answer(self, reviewer: str, number: int, given: AnswerIn) -> Saved:
        """Keep an answer; it is safe on the disk when this returns."""
        self._check(number)
        with self._lock:
            self._sync()
            served = self._served.get(reviewer)
            mine = served if served is not None and served.number == number else None
            drawn = mine is not None and mine.why == "random"
            # A dispute about a drawn fact stays one about a drawn fact.
            drawn = drawn or any(
                row.drawn == "random" for row in self._tally.by_fact.get(number, {}).values()
            )
            new = self._new(reviewer, number, given, drawn)
            known = self.store.find(given.key)
            if known is not None:
                return self._repeated(known, new)
            saved = self.store.add(new)
            self._count([saved])
            if mine is not None:
                del self._served[reviewer]
            self._learn_when_due()
            return Saved((saved,), (number,))

    def _new(self, reviewer: str, number: int, given: AnswerIn, drawn: bool) -> NewAnswer:
        head, relation, tail = self.material.names(number)
        probability = self._probability(number)[0]
        fact = {"new_head": head, "new_relation": relation, "new_tail": tail}
        # A part that stays as it is need not be said.
        changed = {
            n: v if (v := getattr(given, n)) and v != old else None for n, old in fact.items()
        }
        return NewAnswer(
            key=given.key,
            head=head,
            relation=relation,
            tail=tail,
            stored=bool(self.material.stored[number]),
            answer=given.answer,
            reviewer=reviewer,
            confidence=given.confidence,
            probability=probability,
            drawn="random" if drawn else "chosen",
            note=given.note,
            **changed,
        )

    def _repeated(self, known: Answer, new: NewAnswer) -> Saved:
        same = (known.reviewer, known.fact, known.answer) == (
            new.reviewer,
            (new.head, new.relation, new.tail),
            new.answer,
        )
        if not same:
            raise DataError(
                f"The key {new.key!r} belongs to another answer; make a new one for every answer."
            )
        return Saved((known,), (self.material.number(known.fact),), repeated=True)

    def _count(self, rows: Sequence[Answer]) -> list[int]:
        return [self._tally.add(row) for row in rows]

    def skip(self, reviewer: str, number: int) -> None:
        """Put a fact aside for this reviewer; others may still get it."""
        self._check(number)
        with self._lock:
            self._sync()
            self.store.skip(reviewer, self.material.names(number))
            self._tally.skipped.setdefault(reviewer, set()).add(number)
            if reviewer in self._served and self._served[reviewer].number == number:
                del self._served[reviewer]

    def undo(self, reviewer: str, key: str) -> Saved | None:
        """Take back what a reviewer said last; None where there is nothing."""
        with self._lock:
            self._sync()
            undone = self.store.undo(reviewer, key)
            numbers = self._count(self.store.since(self._tally.last))
            if not undone:
                return None
            self._served.pop(reviewer, None)
            return Saved(tuple(undone), tuple(numbers))

    def preview(self, reviewer: str, filters: Filters) -> Preview:
        """Tell what answering all facts of some filters would touch."""
        with self._lock:
            self._sync()
            rows, left = self._in_bulk(reviewer, filters)
            cards = tuple(self._card(int(number), reviewer) for number in rows[:PREVIEWED])
            return Preview(len(rows), left, cards)

    def answer_all(
        self, reviewer: str, filters: Filters, given: AnswerIn, count: int | None = None
    ) -> Saved:
        """Give all facts of some filters the same answer, in one step.

        Facts that the reviewer has answered stay as they are.

        Args:
            reviewer: who says so.
            filters: which facts.
            given: the answer.
            count: of the preview; where it is another by now, nothing is kept.
        """
        if given.answer == "correct":
            raise DataError("Facts are corrected one by one, not many at once.")
        with self._lock:
            self._sync()
            rows, _ = self._in_bulk(reviewer, filters)
            known = self.store.find(f"{given.key}/0")
            if known is not None:
                return Saved((known,), (self.material.number(known.fact),), repeated=True)
            if count is not None and count != len(rows):
                raise DataError(
                    f"By now {len(rows):,} facts would be answered, not {count:,}; look at the "
                    "preview again."
                )
            if len(rows) > MOST_AT_ONCE:
                raise DataError(
                    f"{len(rows):,} facts are too many for one answer, {MOST_AT_ONCE:,} are the "
                    "most; narrow the filters."
                )
            new = []
            for place, number in enumerate(rows.tolist()):
                one = replace(given, key=f"{given.key}/{place}")
                new.append(replace(self._new(reviewer, number, one, False), batch=given.key))
            saved = self.store.add_all(new)
            self._count(saved)
            self._learn_when_due()
            return Saved(tuple(saved), tuple(rows.tolist()))

    def _in_bulk(self, reviewer: str, filters: Filters) -> tuple[Ints, int]:
        passing = self._selector.mask(filters, self._judged, reviewer)
        rows = self._ordered(passing, self.settings.order)
        mine = np.zeros(len(self.material), dtype=bool)
        mine[np.array(self._tally.mine(reviewer), dtype=np.int64)] = True
        mine |= self._tally.state == KNOWN
        return rows[~mine[rows]], int(mine[rows].sum())

    # Learning.

    def _learn_when_due(self) -> None:
        every = self.settings.learn_every
        if self._tally.sure // every == self._learned_at // every or self._learning is not None:
            return
        self._learned_at = self._tally.sure
        said, random = self._tally.said(), self._is_random()
        self._learning = threading.Thread(target=self._learn, args=(said, random), daemon=True)
        self._learning.start()

    def _learn(self, said: Floats, random: Bools) -> None:
        judged = self._learner.learn(said, random)
        # The orders are made here, so that no page waits for them.
        judged.order(self.settings.order)
        with self._lock:
            self._judged, self._version = judged, self._version + 1
            self._learning = None
            self._learn_when_due()

    def settle(self) -> None:
        """Wait until everything that is answered is learned from."""
        while (learning := self._learning) is not None:
            learning.join()

    def _drawn(self) -> Ints:
        """Return the facts that were answered as drawn ones."""
        return np.array(
            [
                number
                for number, answers in self._tally.by_fact.items()
                if any(row.drawn == "random" for row in answers.values())
            ],
            dtype=np.int64,
        )

    def _is_random(self) -> Bools:
        reached = np.zeros(len(self.material), dtype=bool)
        reached[self._draw.rows[: self._draw.reached(self._drawn())]] = True
        return reached

    # What to judge next.

    def next(self, reviewer: str, filters: Filters | None = None) -> Card | None:
        """Return what a reviewer should judge now; None where nothing is left.

        The same fact comes again until it is answered or skipped. Without filters, a share of the
        facts is drawn at random, and comes blind.
        """
        asked = filters or Filters()
        with self._lock:
            self._sync()
            served = self._served.get(reviewer)
            if served is not None and not self._still(served, reviewer, asked):
                served = None
            if served is None:
                served = self._choose(reviewer, asked)
            if served is None:
                self._served.pop(reviewer, None)
                return None
            self._served[reviewer] = replace(served, until=time.monotonic() + HELD)
        return self.card(served.number, reviewer)

    def _still(self, served: _Served, reviewer: str, filters: Filters) -> bool:
        if self._tally.answered_by(reviewer, served.number):
            return False
        if served.number in self._tally.skipped.get(reviewer, ()):
            return False
        if filters == Filters():
            return True
        return bool(self._selector.mask(filters, self._judged, reviewer)[served.number])

    def _choose(self, reviewer: str, filters: Filters) -> _Served | None:
        now = time.monotonic()
        taken = {
            one.number for name, one in self._served.items() if name != reviewer and one.until > now
        }
        taken |= self._tally.skipped.get(reviewer, set())
        plain = filters == Filters()
        for why, find in (
            ("dispute", self._next_dispute),
            ("agreement", self._next_agreement),
            ("random", self._next_random),
        ):
            if plain and (number := find(reviewer, taken)) is not None:
                return _Served(number, why, True, 0.0)  # type: ignore[arg-type]
        if self.settings.estimate is not None and plain:
            return None
        passing = self._selector.mask(filters, self._judged, reviewer)
        passing &= (self._tally.state == OPEN) | (self._tally.state == UNSURE)
        order = self._judged.order(self.settings.order)
        found = order[passing[order]]
        for number in found[: len(taken) + len(self._tally.by_fact) + 1].tolist():
            if number not in taken and not self._tally.answered_by(reviewer, number):
                kind: Why = "suspect" if self.material.stored[number] else "missing"
                return _Served(number, kind, False, 0.0)
        return None

    def _next_dispute(self, reviewer: str, taken: set[int]) -> int | None:
        """Return a fact on which others disagree."""
        for number in np.flatnonzero(self._tally.state == DISPUTE).tolist():
            if number not in taken and not self._tally.answered_by(reviewer, number):
                return int(number)
        return None

    def _next_agreement(self, reviewer: str, taken: set[int]) -> int | None:
        """Return a fact that one other reviewer has judged, when one is due."""
        by_fact = self._tally.by_fact
        twice = sum(len(answers) > 1 for answers in by_fact.values())
        if twice + 1 > self.settings.agreement_share * (len(by_fact) + 1):
            return None
        once = [
            number
            for number, answers in by_fact.items()
            if len(answers) == 1 and reviewer not in answers and number not in taken
        ]
        return min(once, key=lambda number: self._second[number], default=None)

    def _next_random(self, reviewer: str, taken: set[int]) -> int | None:
        """Return the next fact that is drawn, when one is due."""
        if self.settings.estimate is None:
            drawn = len(self._drawn())
            if drawn + 1 > self.settings.random_share * (len(self._tally.by_fact) + 1):
                return None
        elif self._enough():
            return None
        state = self._tally.state[self._draw.rows]
        for place in np.flatnonzero(state == OPEN)[: len(taken) + 1].tolist():
            number = int(self._draw.rows[place])
            if number not in taken:
                return number
        return None

    def _enough(self) -> bool:
        reached = self._draw.reached(self._drawn())
        return self._draw.enough(self._tally.said(), reached)

    # Cards and pages.

    def card(self, number: int, reviewer: str) -> Card:
        """Return a fact with its evidence; blind where it was served so and is not answered."""
        self._check(number)
        with self._lock:
            self._sync()
            card = replace(self._card(number, reviewer), neighbours=self._neighbours(number))
        if card.blind:
            return card
        # Outside of the lock: a model may have to be loaded.
        found = self._evidence.of(number)
        return replace(
            card,
            evidence=found.evidence,
            paths=found.paths,
            note=found.note,
        )

    def brief(self, number: int, reviewer: str) -> Card:
        """Return a fact as on a page: without evidence and neighbours, for which nobody looks."""
        self._check(number)
        with self._lock:
            self._sync()
            return self._card(number, reviewer)

    def _card(self, number: int, reviewer: str, group: str = "") -> Card:
        head, relation, tail = self.material.shown_names(number)
        served = self._served.get(reviewer)
        mine = served if served is not None and served.number == number else None
        answers = self._tally.by_fact.get(number, {})
        source = self.material.sources
        card = Card(
            number,
            head,
            relation,
            tail,
            stored=bool(self.material.stored[number]),
            state=STATES[self._tally.state[number]],
            why=mine.why if mine else "",
            source=source[self.material.source[number]] if source else "",
            group=group,
        )
        if mine is not None and mine.blind and reviewer not in answers:
            return replace(card, blind=True, state="open")
        probability, low, high = self._probability(number)
        return replace(
            card,
            place=int(self._judged.place[number]) + 1,
            probability=probability,
            low=low,
            high=high,
            correction=self.material.corrections.get(number),
            issues=tuple(rows[number] for rows in self.material.issues.values() if number in rows),
            answers=tuple(sorted(answers.values(), key=lambda row: row.id)),
        )

    def _probability(self, number: int) -> tuple[float | None, float | None, float | None]:
        """Return the probability and its interval, where they are allowed."""
        judged = self._judged
        if not judged.allowed[0 if self.material.stored[number] else 1]:
            return None, None, None
        value, low, high = (
            float(values[number]) for values in (judged.probability, judged.low, judged.high)
        )
        return value, low, high

    def _neighbours(self, number: int) -> tuple[Neighbour, ...]:
        head, _, tail = self.material.facts[number].tolist()
        found: dict[int, Neighbour] = {}
        for entity in (head, tail):
            near = [n for n in self.material.at(entity).tolist() if n != number and n not in found]
            for one in near[:NEIGHBOURS]:
                names = self.material.shown_names(one)
                found[one] = Neighbour(one, *names, STATES[self._tally.state[one]])
        return tuple(found.values())

    def page(
        self,
        reviewer: str,
        filters: Filters | None = None,
        order: Order | None = None,
        group_by: Grouping = "",
        cursor: str = "",
        size: int = 50,
    ) -> Page:
        """Return some of the facts that pass filters, in an order."""
        start = _start(cursor)
        if not 1 <= size <= MOST_ON_PAGE:
            raise DataError(f"A page has 1 to {MOST_ON_PAGE} facts, not {size}.")
        with self._lock:
            self._sync()
            passing = self._selector.mask(filters or Filters(), self._judged, reviewer)
            rows = self._ordered(passing, order or self.settings.order)
            if not group_by:
                shown = rows[start : start + size]
                cards = tuple(self._card(number, reviewer) for number in shown.tolist())
                groups: tuple[Group, ...] = ()
            else:
                codes = self._selector.group_codes(group_by)
                shown = grouped(rows, codes[rows])[start : start + size]
                counts = np.bincount(codes[rows], minlength=1)
                words = (
                    self.material.relations if group_by == "relation" else self.material.entities
                )
                names = {c: words.label(c) for c in dict.fromkeys(codes[shown].tolist())}
                groups = tuple(
                    Group(self.material.name(name), int(counts[c])) for c, name in names.items()
                )
                cards = tuple(
                    self._card(number, reviewer, names[int(codes[number])])
                    for number in shown.tolist()
                )
        end = start + len(shown)
        return Page(cards, len(rows), str(end) if end < len(rows) else "", groups)

    def _ordered(self, passing: Bools, order: Order) -> Ints:
        rows = self._judged.order(order)
        return rows[passing[rows]]

    def facets(self, reviewer: str, filters: Filters | None = None) -> Facets:
        """Return what can be filtered by, and how many facts that leaves."""
        with self._lock:
            self._sync()
            return self._selector.facets(filters or Filters(), self._judged, reviewer)

    def entities(self, text: str, limit: int = 10) -> tuple[Facet, ...]:
        """Find entities by a part of their name; ``count`` is in how many stored facts each is."""
        first, _ = self.material.around
        return self._search("entities", text, np.diff(first), limit)

    def relations(self, text: str, limit: int = 10) -> tuple[Facet, ...]:
        """Find relations by a part of their name; ``count`` is how many facts each has."""
        relation = self.material.facts[: self.material.num_stored, 1]
        counts = np.bincount(relation, minlength=len(self.material.relations))
        return self._search("relations", text, counts, limit)

    def _search(self, words: str, text: str, counts: Ints, limit: int) -> tuple[Facet, ...]:
        vocabulary = getattr(self.material, words)
        found = np.flatnonzero(self._selector.holding(words, text))
        # Of very many the most frequent ones are looked at.
        found = found[np.argsort(-counts[found], kind="stable")[: 20 * limit]]
        names = [(self.material.name(vocabulary.label(i)), int(counts[i])) for i in found.tolist()]
        folded = text.casefold()
        names.sort(key=lambda item: (_fit(item[0], folded), -item[1]))
        return tuple(Facet(name.name, name.shown, count) for name, count in names[:limit])

    # Figures.

    def estimate(self) -> Share | None:
        """Return the share of wrong facts by those drawn at random; None before the first."""
        with self._lock:
            self._sync()
            return self._share()

    def _share(self) -> Share | None:
        return self._draw.share(self._tally.said(), self._draw.reached(self._drawn()))

    def agreement(self) -> Agreement:
        """Return how far reviewers agree."""
        with self._lock:
            self._sync()
            return self._tally.agreement()

    def progress(self, reviewer: str) -> Progress:
        """Return how far the review is."""
        with self._lock:
            self._sync()
            states = np.bincount(self._tally.state, minlength=len(STATES))
            answered = len(self._tally.by_fact)
            share = self._share()
            every = self.settings.learn_every
            progress = Progress(
                answered=answered,
                mine=len(self._tally.mine(reviewer)),
                right=int(states[RIGHT]),
                wrong=int(states[WRONG]),
                unsure=int(states[UNSURE]),
                disputes=int(states[DISPUTE]),
                budget=self._budget,
                remaining=max(self._budget - answered, 0),
                random=len(self._drawn()),
                share=share,
                learned=self._judged.used,
                until_learning=every - self._tally.sure % every,
                expected=self._expected(every),
                estimate=self.settings.estimate,
                enough=self.settings.estimate is not None and self._enough(),
            )
        return replace(progress, said=_said(progress))

    def _expected(self, count: int) -> float | None:
        """Return how many of the next facts should be wrong or missing, where that may be said."""
        rows = self._ordered(self._tally.state == OPEN, "yield")[:count]
        stored = self.material.stored[rows]
        allowed = np.where(stored, *self._judged.allowed)
        return float(self._judged.gain[rows].sum()) if len(rows) and allowed.all() else None

    def answers(self, reviewer: str = "", after: int = 0, limit: int = 1000) -> tuple[Answer, ...]:
        """Return the answers that hold, by rising number, of one reviewer or of all."""
        rows = [
            row
            for row in self.store.current()
            if row.id > after and (not reviewer or row.reviewer == reviewer)
        ]
        return tuple(rows[:limit])

    def latest(self, reviewer: str = "", limit: int = 5) -> tuple[Answer, ...]:
        """Return what a reviewer, or anybody, said last and did not take back, newest first."""
        return tuple(self.store.latest(reviewer, limit))

    def table(self) -> pa.Table:
        """Return the answers as a table for ``npugraph audit --answers``.

        Facts that the random order has come to are marked as random, however they were answered.
        """
        with self._lock:
            self._sync()
            reached = self._draw.reached(self._drawn())
            chances = self._draw.chances(reached)
            place = self._draw.place
        rows = []
        for row in self.store.current():
            number = self.material.number(row.fact)
            at = int(place[number]) if number >= 0 else -1
            drawn = 0 <= at < reached
            chance = float(chances[at]) if drawn and chances is not None else None
            rows.append(replace(row, drawn="random" if drawn else "chosen", chance=chance))
        return answers_table(rows)

    def _check(self, number: int) -> None:
        if not 0 <= number < len(self.material):
            raise DataError(
                f"There is no fact number {number}; this audit has {len(self.material):,} facts, "
                "numbered from 0."
            )


def _start(cursor: str) -> int:
    if not cursor:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 12:
        raise DataError(f"The cursor {cursor[:20]!r} is none that a page gave.")
    return int(cursor)


def _fit(name: Name, folded: str) -> int:
    shown = name.shown.casefold()
    if folded in (shown, name.name.casefold()):
        return 0
    return 1 if shown.startswith(folded) else 2


def _said(progress: Progress) -> tuple[str, ...]:
    """Put progress into sentences."""
    said = []
    share = progress.share
    if share is None:
        said.append("No fact was drawn at random yet, so the share of wrong facts is not known.")
    else:
        said.append(
            f"{percent(share.value)} of the stored facts are wrong ({percent(share.low)} to "
            f"{percent(share.high)}), by {share.answers:,} facts drawn at random."
        )
    if progress.estimate is not None and progress.enough and share is not None:
        said.append(f"That is as narrow as was asked for; it took {share.answers:,} answers.")
    if progress.learned:
        said.append(f"The probabilities and the order rest on {progress.learned:,} answers.")
    if progress.disputes:
        said.append(f"{progress.disputes:,} facts are in dispute and wait for one more reviewer.")
    return tuple(said)
