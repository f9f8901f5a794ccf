"""What was acknowledged is kept: two reviewers at once, kill -9, a full disk."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from npugraph.errors import OutputError
from npugraph.review import AnswerIn, Desk, DeskSettings, NewAnswer, Store
from review.writers import kill_after, start_writer
from review_samples import sample_audit

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def test_two_reviewers_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    sample = sample_audit(tmp_path / "audit", stored=2000, missing=0)
    served: dict[str, list[int]] = {"ann": [], "bob": []}
    with Desk.open(sample.folder, DeskSettings(agreement_share=0.0, learn_every=500)) as desk:

        def judge(reviewer: str) -> None:
            while (card := desk.next(reviewer)) is not None:
                word = "false" if sample.wrong[card.number] else "true"
                desk.answer(reviewer, card.number, AnswerIn(f"{reviewer} {card.number}", word))
                served[reviewer].append(card.number)

        work = [threading.Thread(target=judge, args=(who,)) for who in served]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        progress = desk.progress("ann")
        share = desk.estimate()
    assert sorted(served["ann"] + served["bob"]) == list(range(2000)), "each fact once"
    assert min(map(len, served.values())) > 100, "both had their share"
    with Store.open(sample.folder / "answers.sqlite") as store:
        kept = store.current()
    assert len(kept) == 2000 == len({row.fact for row in kept})
    assert (progress.answered, progress.wrong) == (2000, int(sample.wrong.sum()))
    # All facts are judged, so nothing is left to estimate.
    assert share is not None
    assert share.value == pytest.approx(sample.wrong.mean())
    assert share.high == pytest.approx(share.low)


@FORKS
def test_two_processes_write_to_one_store(tmp_path: Path) -> None:
    sample = sample_audit(tmp_path / "audit")
    writers = [start_writer(sample.folder, name) for name in ("one", "two")]
    acknowledged = [kill_after(*writer, count=100) for writer in writers]
    with Store.open(sample.folder / "answers.sqlite") as store:
        keys = [row.key for row in store.since()]
    assert len(keys) == len(set(keys))
    assert set.union(*acknowledged) <= set(keys)


@FORKS
@pytest.mark.parametrize(
    "times", [pytest.param(5, id="5"), pytest.param(50, id="50", marks=pytest.mark.long)]
)
def test_an_acknowledged_answer_survives_kill_9(tmp_path: Path, times: int) -> None:
    sample = sample_audit(tmp_path / "audit")
    rng = np.random.default_rng(0)
    acknowledged: set[str] = set()
    for turn in range(times):
        writer = start_writer(sample.folder, f"turn{turn}")
        mine = kill_after(*writer, count=int(rng.integers(1, 60)))
        assert mine
        acknowledged |= mine
        with Store.open(sample.folder / "answers.sqlite") as store:
            rows = store.since()
        keys = {row.key for row in rows}
        assert acknowledged <= keys
        assert len(keys) == len(rows)
        # At most what the two reviewers had in hand was kept and not yet acknowledged.
        assert len(keys - acknowledged) <= 2 * (turn + 1)
    with Desk.open(sample.folder) as desk:
        assert desk.progress("ann").answered > 0


def test_a_full_disk_is_a_sentence_and_nothing_is_lost(tmp_path: Path) -> None:
    sample = sample_audit(tmp_path / "audit")
    kept = []

    def answer_all(desk: Desk) -> None:
        for number in range(200):
            saved = desk.answer("ann", number, AnswerIn(str(number), "true", note="x" * 400))
            kept.append(saved.answers[0])

    with Desk.open(sample.folder) as desk:
        # SQLite takes no more pages than these: what a full disk comes to, at the very same place.
        pages = desk.store._pragma("page_count")
        desk.store._connection.execute(f"PRAGMA max_page_count={pages + 2}")
        with pytest.raises(
            OutputError, match=r"answers.sqlite cannot be written: the disk is full"
        ):
            answer_all(desk)
        assert kept
        assert desk.progress("ann").answered == len(kept), "The desk counts what is kept."
        assert list(desk.answers()) == kept
        # There is room again.
        desk.store._connection.execute("PRAGMA max_page_count=1000000")
        desk.answer("ann", 399, AnswerIn("more", "true"))
    with Store.open(sample.folder / "answers.sqlite") as store:
        assert store.current()[:-1] == kept


def test_a_file_that_may_not_grow_is_a_sentence(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")

    def fill(store: Store) -> None:
        for place in range(2, 500):
            store.add(NewAnswer(str(place), "a", "r", "b", True, "true", "ann", note="x" * 999))

    with Store.open(tmp_path / "s.sqlite") as store:
        store.add(NewAnswer("1", "a", "r", "b", True, "true", "ann"))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        quiet = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        # The system itself refuses to write: no file may grow beyond 64 kB.
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, before[1]))
        try:
            with pytest.raises(OutputError, match=r"s.sqlite cannot be written"):
                fill(store)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, quiet)
        count = len(store.since())
        assert count > 1
        store.add(NewAnswer("later", "a", "r", "b", True, "false", "ann"))
    with Store.open(tmp_path / "s.sqlite") as again:
        assert [row.key for row in again.since()][: count - 1] == [
            str(n + 1) for n in range(count - 1)
        ]
        assert again.current()[-1].key == "later"


def test_a_store_that_is_held_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("npugraph.review.store.PATIENCE", 0.05)
    with Store.open(tmp_path / "s.sqlite") as store, Store.open(tmp_path / "s.sqlite") as other:
        other._connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(OutputError, match="another process has held it"):
            store.add(NewAnswer("1", "a", "r", "b", True, "true", "ann"))
        other._connection.execute("ROLLBACK")
        assert store.add(NewAnswer("1", "a", "r", "b", True, "true", "ann")).id == 1
