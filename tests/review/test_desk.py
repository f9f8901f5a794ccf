"""The desk: what is served, what is hidden, what answers change."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from npugraph.data.answers import read_answers
from npugraph.data.io import write_table
from npugraph.errors import DataError, RunError
from npugraph.review import AnswerIn, Desk, Filters
from npugraph.review import desk as desk_module
from review_samples import Sample, sample_audit


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return sample_audit(tmp_path / "audit")


def judge(desk: Desk, sample: Sample, reviewer: str, count: int, start: int = 0) -> list[int]:
    """Answer what is served, truly; return the numbers."""
    done = []
    for place in range(start, start + count):
        card = desk.next(reviewer)
        assert card is not None
        word = "false" if sample.wrong[card.number] else "true"
        desk.answer(reviewer, card.number, AnswerIn(f"{reviewer} {place}", word))
        done.append(card.number)
    return done


def test_no_fact_is_served_twice_to_one_reviewer(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        done = judge(desk, sample, "ann", 120)
    assert len(set(done)) == 120


def test_a_share_is_drawn_at_random_and_comes_blind(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        for place in range(100):
            card = desk.next("ann")
            assert card is not None
            assert card.blind == (card.why == "random")
            if card.blind:
                assert (card.probability, card.place, card.evidence) == (None, None, None)
                assert not card.issues
                assert card.correction is None
                assert desk.page("ann", Filters(entity=card.head.name)).cards
            word = "false" if sample.wrong[card.number] else "true"
            desk.answer("ann", card.number, AnswerIn(str(place), word))
            if card.blind:
                after = desk.card(card.number, "ann")
                assert not after.blind
                assert after.place is not None
        drawn = [row.drawn for row in desk.answers()]
    assert drawn.count("random") == 20


def test_a_review_goes_on_where_it_stopped(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        done = judge(desk, sample, "ann", 30)
        waiting = desk.next("ann")
        assert waiting is not None
        again = desk.next("ann")
        assert again is not None
        assert again.number == waiting.number
    with Desk.open(sample.folder) as desk:
        assert desk.progress("ann").mine == 30
        more = desk.next("ann")
        assert more is not None
        assert more.number not in done


def test_undo_brings_a_fact_back(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        (number,) = judge(desk, sample, "ann", 1)
        undone = desk.undo("ann", "u")
        assert undone is not None
        assert undone.numbers == (number,)
        card = desk.next("ann")
        assert card is not None
        assert card.number == number
        assert desk.undo("ann", "v") is None
        assert desk.progress("ann").answered == 0


def test_a_key_is_heeded_once_and_belongs_to_one_answer(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        first = desk.answer("ann", 3, AnswerIn("k", "true"))
        again = desk.answer("ann", 3, AnswerIn("k", "true"))
        assert again.repeated
        assert again.answers == first.answers
        with pytest.raises(DataError, match="belongs to another answer"):
            desk.answer("ann", 4, AnswerIn("k", "true"))
        with pytest.raises(DataError, match="no fact number 9999"):
            desk.answer("ann", 9999, AnswerIn("l", "true"))


def test_who_disagree_are_settled_by_a_third(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        desk.answer("ann", 5, AnswerIn("1", "true"))
        desk.answer("bob", 5, AnswerIn("2", "wrong-relation"))
        assert desk.card(5, "ann").state == "dispute"
        assert desk.agreement().disputes == 1
        third = desk.next("eve")
        assert third is not None
        assert (third.number, third.why, third.blind, third.answers) == (5, "dispute", True, ())
        desk.answer("eve", 5, AnswerIn("3", "false"))
        assert desk.card(5, "ann").state == "wrong"
        assert desk.agreement().disputes == 0


def test_pages_follow_filters_groups_and_cursors(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        everything = desk.page("ann", size=500)
        assert everything.total == 460 == len(everything.cards)
        seen, cursor = [], ""
        while True:
            page = desk.page("ann", Filters(relation="knows"), cursor=cursor, size=50)
            seen += [card.number for card in page.cards]
            cursor = page.next_cursor
            if not cursor:
                break
        assert sorted(seen) == list(range(1, 460, 4))
        grouped = desk.page("ann", group_by="entity", size=20)
        heads = [card.head.name for card in grouped.cards]
        assert [heads[i] for i in sorted({heads.index(h) for h in heads})] == [
            group.name.name for group in grouped.groups
        ]
        assert {card.stored for card in desk.page("ann", Filters(kind="missing")).cards} == {False}
        assert desk.page("ann", Filters(issue="type")).total == 3
        assert desk.page("ann", Filters(text="PERSON 00007")).total == 4


def test_a_bulk_answer_is_previewed_and_undone_whole(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        desk.answer("ann", 1, AnswerIn("0", "true"))
        filters = Filters(relation="knows", kind="stored")
        seen = desk.preview("ann", filters)
        assert (seen.count, seen.left) == (99, 1)
        with pytest.raises(DataError, match="99 facts would be answered, not 98"):
            desk.answer_all("ann", filters, AnswerIn("b", "true"), count=98)
        saved = desk.answer_all("ann", filters, AnswerIn("b", "true"), count=99)
        assert len(saved.answers) == 99
        assert desk.progress("ann").mine == 100
        desk.undo("ann", "u")
        assert desk.progress("ann").mine == 1


def test_learning_mends_probabilities_that_do_not_hold(tmp_path: Path) -> None:
    sample = sample_audit(tmp_path / "audit", stored=2000, wrong=0.15, reliable=False)
    with Desk.open(sample.folder) as desk:
        assert desk.card(0, "ann").probability is None
        judge(desk, sample, "ann", 200)
        desk.settle()
        assert desk.progress("ann").learned >= 100
        judged = desk.judged
    stored = slice(0, 2000)
    found = 1 - judged.probability[stored].mean()
    assert found == pytest.approx(sample.wrong[stored].mean(), abs=0.05)
    assert np.isfinite(judged.probability[stored]).all()


def answer_until_done(desk: Desk, sample: Sample) -> list[int]:
    """Answer truly until nothing is served; return the numbers."""
    done: list[int] = []
    while (card := desk.next("ann")) is not None:
        assert card.blind
        word = "false" if sample.wrong[card.number] else "true"
        desk.answer("ann", card.number, AnswerIn(f"e{card.number}", word))
        done.append(card.number)
    return done


def test_estimate_mode_stops_and_says_how_many_answers_it_took(tmp_path: Path) -> None:
    sample = sample_audit(tmp_path / "audit", stored=1500, missing=20, reliable=False)
    with Desk.open(sample.folder, {"estimate": 0.05}) as desk:
        done = answer_until_done(desk, sample)
        progress = desk.progress("ann")
        table = desk.table()
    assert len(set(done)) == len(done) < 400
    assert progress.enough
    assert progress.share is not None
    assert progress.share.high - progress.share.low <= 0.1
    assert progress.share.low <= sample.wrong[:1500].mean() <= progress.share.high
    assert f"it took {len(done):,} answers" in " ".join(progress.said)
    # Each answer goes home with the chance of its fact, so that others weigh it the same way.
    rows = read_answers(table)
    assert set(rows.drawn) == {"random"}
    weights = sum(1 / chance for chance in rows.chance if chance)
    assert weights == pytest.approx(1500, abs=1)
    # The estimate goes on as one, whoever opens the desk and with whatever seed.
    with Desk.open(sample.folder, {"seed": 5}) as desk:
        share = desk.estimate()
        assert share is not None
        assert share.drawn == "strata"
        assert (share.low, share.high) == (progress.share.low, progress.share.high)


def test_an_estimate_does_not_go_on_with_another_audit(tmp_path: Path) -> None:
    sample = sample_audit(tmp_path / "audit")
    with Desk.open(sample.folder, {"estimate": 0.1}):
        pass
    sample_audit(sample.folder, seed=9)
    with pytest.raises(RunError, match="begun with other strata, before this audit"):
        Desk.open(sample.folder, {"estimate": 0.1})


def test_random_answers_tell_the_share_however_facts_came_to_be_judged(tmp_path: Path) -> None:
    sample = sample_audit(tmp_path / "audit", stored=300, missing=0, wrong=0.3)
    with Desk.open(sample.folder) as desk:
        judge(desk, sample, "ann", 150)
        share = desk.estimate()
        drawn = desk.table()["drawn"].to_pylist()
    assert share is not None
    # Facts that were judged for their suspicion count as drawn once the order has come to them.
    assert share.answers == drawn.count("random") > 30
    assert share.open == 0
    assert share.low <= sample.wrong.mean() <= share.high


def test_a_second_reviewer_gets_a_share_of_the_judged_facts_blind(sample: Sample) -> None:
    settings = {"agreement_share": 0.2, "random_share": 0.0}
    with Desk.open(sample.folder, settings) as desk:
        judge(desk, sample, "ann", 40)
        second = []
        for place in range(20):
            card = desk.next("bob")
            assert card is not None
            if card.why == "agreement":
                assert (card.blind, card.answers, card.state) == (True, (), "open")
                second.append(card.number)
            word = "false" if sample.wrong[card.number] else "true"
            desk.answer("bob", card.number, AnswerIn(f"bob {place}", word))
        found = desk.agreement()
    assert len(second) == found.facts == found.agreed >= 8
    assert found.kappa in (None, 1.0)
    assert [(p.one, p.other, p.facts) for p in found.pairs] == [("ann", "bob", len(second))]


def test_a_skipped_fact_goes_to_others(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        card = desk.next("ann")
        assert card is not None
        desk.skip("ann", card.number)
        after = desk.next("ann")
        assert after is not None
        assert after.number != card.number
        other = desk.next("bob")
        assert other is not None
        assert other.number == card.number
        assert desk.page("ann", Filters(state="skipped")).total == 1
    with Desk.open(sample.folder) as desk:
        again = desk.next("ann")
        assert again is not None
        assert again.number != card.number, "It is remembered."


def test_what_was_known_before_is_not_served(tmp_path: Path) -> None:
    sample = sample_audit(tmp_path / "audit", stored=60, missing=0)
    path = sample.folder / "posterior.parquet"
    table = pyarrow.parquet.read_table(path)
    known = [True, False, *[None] * 58]
    write_table(table.append_column("known", pa.array(known)), path)
    with Desk.open(sample.folder, {"random_share": 0.5}) as desk:
        done = judge(desk, sample, "ann", 58)
        assert desk.next("ann") is None
        share = desk.estimate()
    assert sorted(done) == list(range(2, 60))
    assert share is not None
    assert share.low == pytest.approx(share.high), "What is known counts as answered."


def test_learning_that_fails_is_told_and_tried_again(
    sample: Sample, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Desk.open(sample.folder, {"learn_every": 20}) as desk:
        right = desk._learner.learn

        def fail(*_: Any) -> None:
            raise ValueError("no such luck")

        monkeypatch.setattr(desk._learner, "learn", fail)
        with caplog.at_level(logging.ERROR):
            judge(desk, sample, "ann", 20)
            desk.settle()
        assert "could not learn from 20 answers" in caplog.text
        assert "no such luck" in caplog.text
        assert desk.progress("ann").learned == 0
        monkeypatch.setattr(desk._learner, "learn", right)
        judge(desk, sample, "ann", 20, start=20)
        desk.settle()
        assert desk.progress("ann").learned > 20


def test_only_a_thread_that_was_started_is_waited_for(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Desk.open(sample.folder, {"learn_every": 1}) as desk:
        waited: list[object] = []

        class Slow(desk_module.threading.Thread):
            def start(self) -> None:
                waited.append(desk._learning)
                super().start()

        monkeypatch.setattr(desk_module.threading, "Thread", Slow)
        judge(desk, sample, "ann", 1)
        desk.settle()
    assert waited == [None]


@pytest.mark.parametrize("bulk", [False, True])
def test_what_another_desk_adds_in_between_is_counted(
    sample: Sample, monkeypatch: pytest.MonkeyPatch, bulk: bool
) -> None:
    with Desk.open(sample.folder) as mine, Desk.open(sample.folder) as other:
        name = "add_all" if bulk else "add"
        add = getattr(mine.store, name)

        def slow(new: Any) -> Any:
            other.answer("bob", 8, AnswerIn("b", "false"))
            return add(new)

        monkeypatch.setattr(mine.store, name, slow)
        if bulk:
            head = mine.material.names(0)[0]
            filters = Filters(entity=head, relation="lives in")
            assert mine.answer_all("ann", filters, AnswerIn("a", "true")).numbers == (0,)
        else:
            assert mine.answer("ann", 0, AnswerIn("a", "true")).numbers == (0,)
        assert mine.progress("ann").answered == 2
        assert mine.card(8, "ann").state == "wrong"


def test_a_bulk_key_that_is_taken_is_refused_and_nothing_is_kept(sample: Sample) -> None:
    filters = Filters(relation="knows", kind="missing")
    with Desk.open(sample.folder) as desk:
        count = len(desk.answer_all("ann", filters, AnswerIn("b", "true")).answers)
        assert desk.answer_all("ann", filters, AnswerIn("b", "true")).repeated
        for who, word in (("bob", "true"), ("ann", "false")):
            with pytest.raises(DataError, match="belongs to another answer"):
                desk.answer_all(who, filters, AnswerIn("b", word))
        desk.answer("eve", 0, AnswerIn("c/3", "true"))
        with pytest.raises(DataError, match="'c/3' belongs to another answer"):
            desk.answer_all("bob", filters, AnswerIn("c", "true"))
        assert desk.progress("bob").mine == 0
        # An undo has keys of its own, and they belong to a reviewer as well.
        assert desk.undo("ann", "u") is not None
        assert len(desk.answer_all("bob", filters, AnswerIn("u", "true")).answers) == count
        with pytest.raises(DataError, match="belongs to another answer"):
            desk.undo("eve", "u")
        assert desk.progress("eve").mine == 1
