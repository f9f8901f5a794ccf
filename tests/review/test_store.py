"""Answers in SQLite: nothing lost, nothing doubled, nothing changed."""

from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path

import pytest

from npugraph.data.answers import read_answers
from npugraph.errors import DataError, OutputError, RunError
from npugraph.review.store import NewAnswer, Store


def new(key: str, answer: str = "true", reviewer: str = "ann", head: str = "a") -> NewAnswer:
    return NewAnswer(key, head, "r", "b", True, answer, reviewer)


def test_an_answer_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        saved = store.add(new("k", "false"))
    with Store.open(tmp_path / "s.sqlite") as again:
        assert again.current() == [saved]
        assert (saved.id, saved.wrong, saved.reviewer) == (1, True, "ann")


def test_a_key_is_kept_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        first = store.add(new("k"))
        assert store.add(new("k")) == first
        with pytest.raises(DataError, match="belongs to another answer"):
            store.add_all([new("l"), new("k", "false")])
        assert len(store.since()) == 1


def test_the_last_answer_of_a_reviewer_holds_and_undo_brings_back_the_one_before(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        first, second = store.add(new("1")), store.add(new("2", "false"))
        other = store.add(new("3", reviewer="bob"))
        assert store.current() == [second, other]
        assert store.undo("ann", "u") == [second]
        assert store.undo("ann", "u") == [], "The same key undoes once."
        assert store.current() == [first, other]
        assert store.undo("ann", "v") == [first]
        assert store.undo("ann", "w") == []
        assert store.current() == [other]
        assert len(store.since()) == 5, "An undo is one more row."


def test_what_was_answered_at_once_is_undone_at_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        many = [dataclasses.replace(new(f"k/{i}", head=f"h{i}"), batch="k") for i in range(5)]
        kept = store.add_all(many)
        assert store.undo("ann", "u") == kept
        assert store.current() == []


def test_rows_are_never_changed_or_deleted(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        store.add(new("k"))
    plain = sqlite3.connect(tmp_path / "s.sqlite")
    for words in ("UPDATE answers SET answer = 'false'", "DELETE FROM answers"):
        with pytest.raises(sqlite3.IntegrityError, match="only added"):
            plain.execute(words)
    plain.close()


def test_the_table_is_what_an_audit_reads(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        for place, word in enumerate(("true", "false", "unsure", "wrong-relation")):
            store.add(new(str(place), word, head=f"h{place}"))
        store.add(NewAnswer("5", "h4", "r", "b", True, "correct", "ann", new_tail="c"))
        rows = read_answers(store.table())
    assert rows.said == (1, 0, -1, 0, 0), "A corrected fact is wrong as it stands."
    assert rows.drawn == ("chosen",) * 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"answer": "maybe"}, "true, false, unsure, wrong-relation, correct"),
        ({"answer": "correct"}, "needs the fact that is right instead"),
        ({"answer": "correct", "new_tail": "b"}, "needs the fact that is right instead"),
        ({"answer": "true", "new_tail": "c"}, "has no other fact"),
        ({"reviewer": ""}, "needs a reviewer"),
        ({"confidence": 2.0}, "between 0 and 1"),
        ({"drawn": "somehow"}, "random or chosen"),
    ],
)
def test_what_means_nothing_is_refused(given: dict[str, object], said: str) -> None:
    words = {"key": "k", "head": "a", "relation": "r", "tail": "b", "stored": True}
    with pytest.raises(DataError, match=said):
        NewAnswer(**{**words, "answer": "true", "reviewer": "ann", **given})  # type: ignore[arg-type]


def test_another_file_is_no_store(tmp_path: Path) -> None:
    text = tmp_path / "notes.sqlite"
    text.write_text("this is a text and no database at all " * 10)
    with pytest.raises(RunError, match=r"notes.sqlite is no store"):
        Store.open(text)
    other = sqlite3.connect(tmp_path / "other.sqlite")
    other.execute("CREATE TABLE x (y)")
    other.close()
    with pytest.raises(RunError, match=r"other.sqlite is no store of answers that this version"):
        Store.open(tmp_path / "other.sqlite")
    with pytest.raises(OutputError, match="there is no folder"):
        Store.open(tmp_path / "nowhere" / "s.sqlite")
