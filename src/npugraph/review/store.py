"""Answers of reviewers in SQLite: only added to, and safe on the disk before they are acknowledged.

Nothing is ever changed or deleted: an undo is one more row, and so is a second thought. The
file is ``answers.sqlite`` of an audit folder; any number of processes may write to it at once.
"""

from __future__ import annotations

import dataclasses
import errno
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa

from npugraph.errors import DataError, OutputError, RunError, cannot_write
from npugraph.settings import as_path

Word = Literal["true", "false", "unsure", "wrong-relation", "correct"]
WORDS: tuple[str, ...] = get_args(Word)
# Answers that say that a fact, as it stands, is wrong.
WRONG_WORDS = ("false", "wrong-relation", "correct")
DRAWN = ("random", "chosen")
FILE = "answers.sqlite"
# Seconds to wait while another process writes.
PATIENCE = 10.0
# Says that a file is a store of answers, and of which form: "npa" and a number.
APPLICATION, FORM = 0x6E7061, 1
_TABLES = """
CREATE TABLE answers (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,
    head TEXT NOT NULL, relation TEXT NOT NULL, tail TEXT NOT NULL, stored INTEGER NOT NULL,
    answer TEXT NOT NULL, new_head TEXT, new_relation TEXT, new_tail TEXT,
    confidence REAL, probability REAL, drawn TEXT NOT NULL, chance REAL,
    reviewer TEXT NOT NULL, time TEXT NOT NULL, note TEXT NOT NULL,
    batch TEXT, undoes INTEGER REFERENCES answers(id)
);
CREATE TABLE skips (
    id INTEGER PRIMARY KEY, head TEXT NOT NULL, relation TEXT NOT NULL, tail TEXT NOT NULL,
    reviewer TEXT NOT NULL, time TEXT NOT NULL
);
CREATE TABLE begun (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_KEPT = "\n".join(
    f"CREATE TRIGGER {table}_{what} BEFORE {what} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'answers are only added'); END;"
    for table in ("answers", "skips", "begun")
    for what in ("UPDATE", "DELETE")
)


@dataclass(frozen=True)
class NewAnswer:
    """An answer to keep.

    Attributes:
        key: made by whoever sends it; the same key is never kept twice.
        head: names of the fact, as the input has them; ``relation`` and ``tail`` likewise.
        stored: whether the graph holds the fact; False for a proposed one.
        answer: a word of WORDS.
        reviewer: who says so.
        new_head: what it should be, for ``correct``; ``new_relation`` and ``new_tail`` likewise.
        confidence: the reviewer's, in [0, 1].
        probability: the model's when the fact was served.
        drawn: ``random`` or ``chosen``.
        chance: of having been drawn, where facts had different ones.
        note: in the reviewer's words.
        batch: the answers that were given at once, and are undone at once.
    """

    key: str
    head: str
    relation: str
    tail: str
    stored: bool
    answer: str
    reviewer: str
    new_head: str | None = None
    new_relation: str | None = None
    new_tail: str | None = None
    confidence: float | None = None
    probability: float | None = None
    drawn: str = "chosen"
    chance: float | None = None
    note: str = ""
    batch: str | None = None

    def __post_init__(self) -> None:
        """Refuse what the store must not hold."""
        if self.answer not in WORDS:
            raise DataError(f"The answer {self.answer!r} must be {', '.join(WORDS)}.")
        if self.drawn not in DRAWN:
            raise DataError(f"drawn={self.drawn!r} must be {' or '.join(DRAWN)}.")
        for name in ("key", "head", "relation", "tail", "reviewer"):
            if not getattr(self, name):
                raise DataError(f"An answer needs a {name}.")
        for name in ("confidence", "probability", "chance"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise DataError(f"The {name} {value} of an answer must lie between 0 and 1.")
        fact = self.fact
        new = (self.new_head, self.new_relation, self.new_tail)
        changed = tuple(b if b else a for a, b in zip(fact, new, strict=True))
        if self.answer == "correct" and changed == fact:
            raise DataError("The answer 'correct' needs the fact that is right instead.")
        if any(new) and self.answer not in ("correct", "wrong-relation"):
            raise DataError(f"The answer {self.answer!r} has no other fact beside it.")

    @property
    def fact(self) -> tuple[str, str, str]:
        """The names of the fact."""
        return self.head, self.relation, self.tail


@dataclass(frozen=True)
class Answer(NewAnswer):
    """An answer that is kept: its number, its time (UTC) and, for an undo, what it undoes."""

    id: int = 0
    time: str = ""
    undoes: int | None = None

    @property
    def wrong(self) -> bool | None:
        """Whether the fact is called wrong; None where the reviewer is not sure."""
        return None if self.answer == "unsure" else self.answer in WRONG_WORDS

    @property
    def verdict(self) -> str:
        """What an answer says of the fact as it stands: true, false or unsure."""
        return "false" if self.answer in WRONG_WORDS else self.answer


_GIVEN = tuple(field.name for field in dataclasses.fields(NewAnswer))
_COLUMNS = (*_GIVEN, "id", "time", "undoes")
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM answers"
_INSERT = (
    f"INSERT INTO answers ({', '.join(_GIVEN)}, time, undoes) "
    f"VALUES ({', '.join('?' * (len(_GIVEN) + 2))}) ON CONFLICT(key) DO NOTHING"
)


class Store:
    """The answers of one audit; threads may share it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Take an open connection; use :meth:`open`."""
        self.path = path
        self._connection = connection
        self._lock = threading.RLock()

    @classmethod
    def open(cls, path: str | Path) -> Store:
        """Open a store, or begin one where there is no file yet."""
        place = as_path(path, "the store of answers")
        if not place.parent.is_dir():
            raise OutputError(f"{place} cannot be written: there is no folder {place.parent}.")
        with _sentences(place):
            connection = sqlite3.connect(
                place, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
        store = cls(place, connection)
        try:
            with _sentences(place):
                store._prepare()
        except BaseException:
            connection.close()
            raise
        return store

    def _prepare(self) -> None:
        found, form = (self._pragma(name) for name in ("application_id", "user_version"))
        empty = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if (found, form) != (APPLICATION, FORM) and not empty:
            raise RunError(
                f"{self.path} is no store of answers that this version can read; move it away, "
                "or open it with the version that made it."
            )
        self._connection.execute("PRAGMA journal_mode=WAL")
        # An answer is on the disk before anybody is told that it is kept.
        self._connection.execute("PRAGMA synchronous=FULL")
        with self._transaction():
            # Another process may have begun it in the meantime.
            if self._pragma("user_version") == FORM:
                return
            for statement in (*_TABLES.split(";\n"), *_KEPT.split("\n")):
                if statement.strip():
                    self._connection.execute(statement)
            self._connection.execute(f"PRAGMA application_id={APPLICATION}")
            self._connection.execute(f"PRAGMA user_version={FORM}")

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def close(self) -> None:
        """Close the file; what was acknowledged is in it anyway."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # A full disk may have ended the transaction already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def add(self, new: NewAnswer) -> Answer:
        """Keep an answer; it is on the disk when this returns. A key that is known adds nothing."""
        return self.add_all([new])[0]

    def add_all(self, new: Sequence[NewAnswer]) -> list[Answer]:
        """Keep all of some answers, or none: where a key belongs to another answer, it refuses."""
        with self._lock, _sentences(self.path), self._transaction():
            return [self._insert(one, None) for one in new]

    def _insert(self, new: NewAnswer, undoes: int | None) -> Answer:
        values = [getattr(new, name) for name in _GIVEN]
        self._connection.execute(_INSERT, (*values, _now(), undoes))
        kept = self._rows("WHERE key = ?", (new.key,))[0]
        check_same(kept, new)
        return kept

    def undo(self, reviewer: str, key: str) -> list[Answer]:
        """Take back what a reviewer said last: one answer, or all that were given at once.

        Returns:
            The answers that were taken back; none where there was nothing, or where this key was
            heeded before.
        """
        with self._lock, _sentences(self.path), self._transaction():
            # Bulk answers have such keys, too: an undo has others.
            if self._rows("WHERE key = ? AND reviewer = ?", (f"undo/{key}/0", reviewer)):
                return []
            # What a row undoes, and the undoing row itself, are both done with.
            last = self._rows(
                "WHERE reviewer = ? AND undoes IS NULL AND id NOT IN (SELECT undoes FROM answers "
                "WHERE undoes IS NOT NULL) ORDER BY id DESC LIMIT 1",
                (reviewer,),
            )
            if last and last[0].batch is not None:
                last = self._rows(
                    "WHERE reviewer = ? AND batch = ? AND undoes IS NULL", (reviewer, last[0].batch)
                )
            for place, one in enumerate(last):
                given = {name: getattr(one, name) for name in _GIVEN}
                self._insert(NewAnswer(**{**given, "key": f"undo/{key}/{place}"}), one.id)
            return last

    def skip(self, reviewer: str, fact: tuple[str, str, str]) -> None:
        """Remember that a reviewer does not want to judge a fact."""
        with self._lock, _sentences(self.path), self._transaction():
            self._connection.execute(
                "INSERT INTO skips (head, relation, tail, reviewer, time) VALUES (?, ?, ?, ?, ?)",
                (*fact, reviewer, _now()),
            )

    def skips(self, after: int = 0) -> list[tuple[int, str, tuple[str, str, str]]]:
        """Return number, reviewer and fact of what was skipped after a number."""
        with self._lock, _sentences(self.path):
            rows = self._connection.execute(
                "SELECT id, reviewer, head, relation, tail FROM skips WHERE id > ? ORDER BY id",
                (after,),
            ).fetchall()
        return [(row[0], row[1], (row[2], row[3], row[4])) for row in rows]

    def begin(self, name: str, value: str) -> str:
        """Write down a value that must not change once reviewing began; return the first one."""
        with self._lock, _sentences(self.path), self._transaction():
            self._connection.execute(
                "INSERT INTO begun VALUES (?, ?) ON CONFLICT(name) DO NOTHING", (name, value)
            )
            found = self._connection.execute("SELECT value FROM begun WHERE name = ?", (name,))
            return str(found.fetchone()[0])

    def begun(self, name: str) -> str | None:
        """Return a value that was written down by :meth:`begin`."""
        with self._lock, _sentences(self.path):
            found = self._connection.execute("SELECT value FROM begun WHERE name = ?", (name,))
            row = found.fetchone()
        return None if row is None else str(row[0])

    def version(self) -> int:
        """Return a number that changes when another connection has added something."""
        with self._lock, _sentences(self.path):
            return self._pragma("data_version")

    def find(self, key: str) -> Answer | None:
        """Return the answer with a key."""
        with self._lock, _sentences(self.path):
            found = self._rows("WHERE key = ?", (key,))
        return found[0] if found else None

    def batch(self, reviewer: str, batch: str) -> list[Answer]:
        """Return the answers that a reviewer gave at once."""
        with self._lock, _sentences(self.path):
            return self._rows(
                "WHERE reviewer = ? AND batch = ? AND undoes IS NULL", (reviewer, batch)
            )

    def since(self, after: int = 0) -> list[Answer]:
        """Return every row after a number, those that are undone and the undoing ones included."""
        with self._lock, _sentences(self.path):
            return self._rows("WHERE id > ? ORDER BY id", (after,))

    def latest(self, reviewer: str = "", limit: int = 5) -> list[Answer]:
        """Return what was answered last and not taken back, the newest first."""
        with self._lock, _sentences(self.path):
            return self._rows(
                "WHERE ? IN ('', reviewer) AND undoes IS NULL AND id NOT IN (SELECT undoes FROM "
                "answers WHERE undoes IS NOT NULL) ORDER BY id DESC LIMIT ?",
                (reviewer, limit),
            )

    def _rows(self, where: str, values: Iterable[Any] = ()) -> list[Answer]:
        found = self._connection.execute(f"{_SELECT} {where}", tuple(values)).fetchall()
        rows = (dict(zip(_COLUMNS, row, strict=True)) for row in found)
        return [Answer(**{**row, "stored": bool(row["stored"])}) for row in rows]

    def current(self) -> list[Answer]:
        """Return what holds: neither undone nor replaced, the last per reviewer and fact."""
        return current(self.since())

    def table(self) -> pa.Table:
        """Return what holds as a table that ``npugraph audit --answers`` takes."""
        return answers_table(self.current())


def check_same(kept: Answer, new: NewAnswer) -> None:
    """Refuse a new answer whose key is that of another one which is kept."""
    names = ("reviewer", "head", "relation", "tail", "answer", "batch")
    if any(getattr(kept, name) != getattr(new, name) for name in names):
        raise taken_key(new.key)


def taken_key(key: str) -> DataError:
    """Return the error of a key that is used twice."""
    return DataError(f"The key {key!r} belongs to another answer; make a new one for every answer.")


def current(rows: Iterable[Answer]) -> list[Answer]:
    """Return the rows that are neither undone nor replaced, in their order."""
    rows = list(rows)
    undone = {row.undoes for row in rows}
    held = {
        (row.reviewer, row.fact): row for row in rows if row.undoes is None and row.id not in undone
    }
    return sorted(held.values(), key=lambda row: row.id)


def answers_table(rows: Sequence[Answer]) -> pa.Table:
    """Return answers as a table: ``answer`` is true, false or unsure, ``said`` the word itself."""
    columns: dict[str, pa.Array] = {
        name: pa.array([getattr(row, name) for row in rows], pa.string())
        for name in ("head", "relation", "tail")
    }
    columns["answer"] = pa.array([row.verdict for row in rows], pa.string())
    columns["said"] = pa.array([row.answer for row in rows], pa.string())
    kinds = {"confidence": pa.float64(), "probability": pa.float64(), "chance": pa.float64()}
    names = ("new_head", "new_relation", "new_tail", "confidence", "probability", "drawn")
    for name in (*names, "chance", "reviewer", "time", "note"):
        values = [getattr(row, name) for row in rows]
        columns[name] = pa.array(values, kinds.get(name, pa.string()))
    columns["stored"] = pa.array([row.stored for row in rows], pa.bool_())
    return pa.table(columns)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite into sentences."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            full = OSError(errno.ENOSPC, "disk full")
            raise OutputError(f"{cannot_write(path, full)} Nothing was lost.") from None
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise OutputError(
                f"{path} cannot be written: another process has held it for {PATIENCE:.0f} "
                "seconds; try again, or end that process."
            ) from None
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise RunError(f"{path} is no store of answers, or is damaged; move it away.") from None
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            raise cannot_write(path, OSError(errno.EACCES, "read-only")) from None
        raise cannot_write(path, error) from None
