"""The desk: all that the pages, the API and the commands talk to."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from npugraph.arrays import Ints
from npugraph.errors import DataError, UnknownNameError
from npugraph.review.cards import Card
from npugraph.review.estimate import Draw, frozen_seed
from npugraph.review.evidence import Evidences
from npugraph.review.learning import Judged, Learner
from npugraph.review.material import Material
from npugraph.review.progress import progress_now, share_now
from npugraph.review.queue import Selector
from npugraph.review.records import (
    Agreement,
    AnswerIn,
    DeskSettings,
    Facet,
    Facets,
    Filters,
    Grouping,
    Order,
    Page,
    Preview,
    Progress,
    Saved,
    Share,
)
from npugraph.review.serving import Serving
from npugraph.review.showing import Showing, in_order
from npugraph.review.store import (
    FILE,
    Answer,
    NewAnswer,
    Store,
    answers_table,
    check_same,
    taken_key,
)
from npugraph.review.tally import KNOWN, Tally
from npugraph.settings import as_settings

log = logging.getLogger(__name__)
# Facts of a page at most, and of a preview.
MOST_ON_PAGE, PREVIEWED = 500, 10
# Facts that one bulk answer may touch.
MOST_AT_ONCE = 10_000


class Desk:
    """A review of an audit; threads may share it, and processes may share its folder."""

    def __init__(self, material: Material, store: Store, settings: DeskSettings) -> None:
        """Take an opened audit and its store; use :meth:`open`."""
        self.material, self.store = material, store
        # What is drawn must not change once somebody has answered.
        seed = int(store.begin("seed", str(settings.seed)))
        self.settings = settings = replace(settings, seed=seed)
        asked = material.record.get("settings", {})
        self._budget = settings.budget or int(asked.get("budget") or 100)
        self._lock = threading.RLock()
        self._tally = Tally(material)
        suspects = max(int(material.record.get("suspects") or 0), self._budget)
        self._selector = Selector(material, self._tally, suspects)
        self._learner = Learner(material, budget=self._budget, seed=seed)
        self._learning: threading.Thread | None = None
        self._learned_at = 0
        self._judged = Judged.of_audit(material)
        # Made now, so that no page waits for it.
        self._judged.order(settings.order)
        self._draw = self._make_draw()
        self._serving = Serving(material, self._tally, self._selector, self._draw, settings)
        self._showing = Showing(material, self._tally, self._selector, self._serving)
        self._evidence = Evidences(material)
        self._seen, self._skips = -1, 0
        with self._lock:
            self._sync()

    def _make_draw(self) -> Draw:
        # An estimate that was begun stays one: its facts were not drawn evenly.
        if self.settings.estimate is None and self.store.begun("estimate") is None:
            return Draw.of(self.material, self.settings.seed)
        seed = frozen_seed(self.store, self.material, self.settings.seed)
        return Draw.of(self.material, seed, by_strata=True, half_width=self.settings.estimate)

    @classmethod
    def open(
        cls, folder: str | Path, settings: DeskSettings | dict[str, object] | None = None
    ) -> Desk:
        """Open the folder of an audit; its answers are in ``answers.sqlite`` there."""
        asked = as_settings(DeskSettings, settings)
        material = Material.open(folder)
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
        self._count()
        for place, reviewer, fact in self.store.skips(self._skips):
            self._skips = place
            self._tally.skip(reviewer, self.material.number(fact))

    def _count(self) -> None:
        """Count all rows that are new in the store: another process may have added some, too."""
        for row in self.store.since(self._tally.last):
            self._tally.add(row)
        self._learn_when_due()

    def _numbers(self, rows: Iterable[Answer]) -> tuple[int, ...]:
        """Return the numbers of the facts of answers."""
        return tuple(self.material.number(row.fact) for row in rows)

    def answer(self, reviewer: str, number: int, given: AnswerIn) -> Saved:
        """Keep an answer; it is safe on the disk when this returns."""
        self._check(number)
        with self._lock:
            self._sync()
            known = self.store.find(given.key)
            new = self._new(reviewer, number, given)
            if known is not None:
                check_same(known, new)
                return Saved((known,), (number,), repeated=True)
            saved = self.store.add(new)
            self._count()
            self._serving.release(reviewer, number)
            return Saved((saved,), (number,))

    def _new(self, reviewer: str, number: int, given: AnswerIn) -> NewAnswer:
        """Return an answer as it is kept: with the fact, and what the model said of it."""
        head, relation, tail = self.material.names(number)
        served = self._serving.of(reviewer, number)
        # A second answer on a drawn fact is one on a drawn fact.
        drawn = number in self._tally.drawn or (served is not None and served.why == "random")
        return NewAnswer(
            key=given.key,
            head=head,
            relation=relation,
            tail=tail,
            stored=bool(self.material.stored[number]),
            answer=given.answer,
            reviewer=reviewer,
            # A part that stays as it is need not be said.
            new_head=given.new_head if given.new_head != head else None,
            new_relation=given.new_relation if given.new_relation != relation else None,
            new_tail=given.new_tail if given.new_tail != tail else None,
            confidence=given.confidence,
            probability=self._judged.shown(number)[0],
            drawn="random" if drawn else "chosen",
            note=given.note,
        )

    def skip(self, reviewer: str, number: int) -> None:
        """Put a fact aside for this reviewer; others may still get it."""
        self._check(number)
        with self._lock:
            self._sync()
            self.store.skip(reviewer, self.material.names(number))
            self._tally.skip(reviewer, number)
            self._serving.release(reviewer, number)

    def undo(self, reviewer: str, key: str) -> Saved | None:
        """Take back what a reviewer said last, one answer or a bulk; None where there is nothing.

        Args:
            reviewer: whose answer.
            key: new for every undo; sent again, it changes nothing.
        """
        with self._lock:
            self._sync()
            undone = self.store.undo(reviewer, key)
            self._count()
            if not undone:
                return None
            self._serving.release(reviewer)
            return Saved(tuple(undone), self._numbers(undone))

    def preview(self, reviewer: str, filters: Filters) -> Preview:
        """Tell what answering all facts of some filters would touch."""
        with self._lock:
            self._sync()
            rows, left = self._in_bulk(reviewer, filters)
            first = rows[:PREVIEWED].tolist()
            cards = (self._showing.card(number, reviewer, self._judged) for number in first)
            return Preview(len(rows), left, tuple(cards))

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
            known = self.store.batch(reviewer, given.key)
            if known:
                if known[0].answer != given.answer:
                    raise taken_key(given.key)
                return Saved(tuple(known), self._numbers(known), repeated=True)
            rows, _ = self._in_bulk(reviewer, filters)
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
                one = self._new(reviewer, number, replace(given, key=f"{given.key}/{place}"))
                new.append(replace(one, batch=given.key))
            saved = self.store.add_all(new)
            self._count()
            return Saved(tuple(saved), self._numbers(saved))

    def _in_bulk(self, reviewer: str, filters: Filters) -> tuple[Ints, int]:
        """Return the facts that a bulk answer would touch, and how many it would leave."""
        passing = self._selector.mask(filters, self._judged, reviewer)
        done = self._tally.state == KNOWN
        done[self._tally.mine(reviewer)] = True
        rows = in_order(self._judged, passing & ~done, self.settings.order)
        return rows, int((passing & done).sum())

    # Learning.

    def _learn_when_due(self) -> None:
        """Begin to learn, if enough was answered since; to be called with the lock held."""
        every = self.settings.learn_every
        if self._learning is not None or self._tally.sure // every == self._learned_at // every:
            return
        self._learned_at = self._tally.sure
        rows = self._tally.learnable()
        # In estimate mode facts are chosen by what is in the formula: as good as random.
        random = np.isin(rows, self._draw.come_to(self._tally.drawn_facts()))
        said = self._tally.said(rows)
        learning = threading.Thread(target=self._learn, args=(rows, said == 1, random), daemon=True)
        # Only a thread that was started can be waited for; it needs the lock to end.
        learning.start()
        self._learning = learning

    def _learn(self, rows: Ints, wrong: Ints, random: Ints) -> None:
        judged = None
        try:
            judged = self._learner.learn(rows, wrong.astype(bool), random.astype(bool))
            # The order is made here, so that no page waits for it.
            judged.order(self.settings.order)
        except Exception:
            # The review goes on with what was thought before, and learns when it is due again.
            log.exception("The desk could not learn from %d answers.", len(rows))
        finally:
            with self._lock:
                self._judged = judged or self._judged
                self._learning = None
                self._learn_when_due()

    def settle(self) -> None:
        """Wait until what was due to be learned is learned."""
        while True:
            with self._lock:
                learning = self._learning
            if learning is None:
                return
            learning.join()

    @property
    def judged(self) -> Judged:
        """What is thought of all facts now."""
        return self._judged

    # What is asked for.

    def next(self, reviewer: str, filters: Filters | None = None) -> Card | None:
        """Return what a reviewer should judge now; None where nothing is left.

        The same fact comes again until it is answered or skipped. Without filters, a share of the
        facts is drawn at random, and comes blind.
        """
        with self._lock:
            self._sync()
            served = self._serving.next(reviewer, filters or Filters(), self._judged)
        return None if served is None else self.card(served.number, reviewer)

    def card(self, number: int, reviewer: str) -> Card:
        """Return a fact with its evidence; blind where it was served so and is not answered."""
        card = self.brief(number, reviewer)
        card = replace(card, neighbours=self._showing.neighbours(number))
        if card.blind:
            return card
        # Not under the lock: a model may have to be loaded.
        found = self._evidence.of(number)
        return replace(card, evidence=found.evidence, paths=found.paths, note=found.note)

    def brief(self, number: int, reviewer: str) -> Card:
        """Return a fact as on a page: without evidence and neighbours, for which nobody looks."""
        self._check(number)
        with self._lock:
            self._sync()
            return self._showing.card(number, reviewer, self._judged)

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
            return self._showing.page(
                passing,
                reviewer,
                self._judged,
                order or self.settings.order,
                group_by,
                slice(start, start + size),
            )

    def facets(self, reviewer: str, filters: Filters | None = None) -> Facets:
        """Return what can be filtered by, and how many facts that leaves."""
        with self._lock:
            self._sync()
            return self._selector.facets(filters or Filters(), self._judged, reviewer)

    def entities(self, text: str, limit: int = 10) -> tuple[Facet, ...]:
        """Find entities by a part of their name; ``count`` is in how many stored facts each is."""
        first, _ = self.material.around
        return self._showing.search("entities", text, np.diff(first), limit)

    def relations(self, text: str, limit: int = 10) -> tuple[Facet, ...]:
        """Find relations by a part of their name; ``count`` is how many stored facts each has."""
        relation = self.material.facts[: self.material.num_stored, 1]
        counts = np.bincount(relation, minlength=len(self.material.relations))
        return self._showing.search("relations", text, counts, limit)

    # Figures.

    def estimate(self) -> Share | None:
        """Return the share of wrong facts by those drawn at random; None before the first."""
        with self._lock:
            self._sync()
            return share_now(self._draw, self._tally, self.material)

    def agreement(self) -> Agreement:
        """Return how far reviewers agree."""
        with self._lock:
            self._sync()
            return self._tally.agreement()

    def progress(self, reviewer: str) -> Progress:
        """Return how far the review is."""
        with self._lock:
            self._sync()
            return progress_now(
                self._tally,
                self._judged,
                self._serving,
                share_now(self._draw, self._tally, self.material),
                self.settings,
                self._budget,
                reviewer,
            )

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
            reached = self._draw.reached(self._tally.drawn_facts())
            rows = []
            for row in self.store.current():
                number = self.material.number(row.fact)
                chance = self._draw.chance(number, reached) if number >= 0 else 0.0
                drawn = "chosen" if chance == 0 else "random"
                rows.append(replace(row, drawn=drawn, chance=chance or None))
        return answers_table(rows)

    def _check(self, number: int) -> None:
        if not 0 <= number < len(self.material):
            raise UnknownNameError(
                f"There is no fact number {number}; this audit has {len(self.material):,} facts, "
                "numbered from 0."
            )


def _start(cursor: str) -> int:
    if not cursor:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 12:
        raise DataError(f"The cursor {cursor[:20]!r} is none that a page gave.")
    return int(cursor)
