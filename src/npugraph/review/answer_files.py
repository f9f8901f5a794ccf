"""Answers from a file into the store: what a spreadsheet was filled with comes home."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from npugraph.data.answers import WORDS, answer_fields
from npugraph.errors import DataError
from npugraph.review.material import Material
from npugraph.review.store import WORDS as SAID
from npugraph.review.store import NewAnswer, Store

_MEANING = {"true": 1, "false": 0, "unsure": -1, "wrong-relation": 0, "correct": 0}
_WORD = {1: "true", 0: "false", -1: "unsure"}
NEW = ("new_head", "new_relation", "new_tail")
# How the keys of answers begin that were given in a file.
FROM_FILE = "file/"


@dataclass(frozen=True)
class Imported:
    """How many answers of a file were added, were known already, and were not given yet."""

    added: int
    known: int
    open: int


def import_answers(
    store: Store, material: Material, path: Path, reviewer: str | None = None
) -> Imported:
    """Add the answers of a file to a store; what is in it already is not added again.

    A fact that the file calls random is none that the desk drew, so that it does not count for the
    desk's share of wrong facts before the desk's own order comes to it.

    Args:
        store: of the audit.
        material: the audit, which knows which facts are stored and which proposed.
        path: a file as read_answers takes it, with or without the columns of an exported one.
        reviewer: who gave the answers of rows that do not say so.
    """
    held: dict[_Pair, NewAnswer] = {_pair(row): row for row in store.current()}
    drawn = {row.fact for row in held.values() if row.drawn == "random"}
    rows, unanswered = [], 0
    for place, row in answer_fields(path):
        if row["answer"]:
            rows.append(_answer(place, row, material, reviewer))
        else:
            unanswered += 1
    last = {_pair(new): new for new in rows}
    done = {pair for pair, new in last.items() if _same(held.get(pair), new)}
    fresh: dict[str, NewAnswer] = {}
    for new in rows:
        pair = _pair(new)
        key = None if pair in done else _free_key(store, fresh, new, held.get(pair))
        if key is None:
            continue
        # A fact that the desk drew stays drawn; how a file drew facts is not the desk's order.
        how = "random" if new.fact in drawn else "chosen"
        fresh[key] = held[pair] = replace(new, key=key, drawn=how)
    store.add_all(list(fresh.values()))
    return Imported(len(fresh), len(rows) - len(fresh), unanswered)


_Pair = tuple[str, tuple[str, str, str]]


def _pair(one: NewAnswer) -> _Pair:
    return one.reviewer, one.fact


def _free_key(
    store: Store, fresh: Mapping[str, NewAnswer], new: NewAnswer, held: NewAnswer | None
) -> str | None:
    """Return a key under which an answer can be kept; None where it is known already.

    Args:
        store: of the audit.
        fresh: answers that will be kept, by their keys.
        new: the answer.
        held: what the reviewer says of the fact so far.
    """
    if _same(held, new):
        return None
    found = store.find(new.key)
    if _same(found, new) and not (held is not None and held.key.startswith(FROM_FILE)):
        # An old file: at the desk the reviewer has thought again, or taken it back.
        return None
    if found is None and new.key not in fresh:
        return new.key
    # Somebody thought again in the spreadsheet: that is one more answer.
    key = _key(new, "" if held is None else held.key)
    return None if key in fresh or store.find(key) is not None else key


def _answer(
    place: str, row: Mapping[str, str], material: Material, reviewer: str | None
) -> NewAnswer:
    """Return the answer of one row."""
    fact = (row["head"], row["relation"], row["tail"])
    number = material.number(fact)
    if number < 0:
        raise DataError(f"{place}: the audit does not know the fact ({', '.join(fact)}).")
    who = row["reviewer"] or reviewer
    if not who:
        raise DataError(f"{place}: nobody is named in the column reviewer; say --reviewer NAME.")
    try:
        new = NewAnswer(
            key=row["key"] or "-",
            head=row["head"],
            relation=row["relation"],
            tail=row["tail"],
            stored=bool(material.stored[number]),
            answer=_word(place, row),
            reviewer=who,
            new_head=row["new_head"] or None,
            new_relation=row["new_relation"] or None,
            new_tail=row["new_tail"] or None,
            confidence=_number(row["confidence"], "confidence", place),
            probability=_number(row["probability"], "probability", place),
            note=row["note"],
        )
    except DataError as error:
        raise DataError(f"{place}: {error}") from None
    return new if row["key"] else replace(new, key=_key(new))


def _word(place: str, row: Mapping[str, str]) -> str:
    """Return the desk's word for an answer; the column ``said`` counts where it still agrees."""
    given = row["answer"].lower()
    if given == "corrected":
        return "correct"
    if given == "wrong-relation" or (given == "correct" and any(row[name] for name in NEW)):
        return given
    if given not in WORDS:
        raise DataError(f"{place}: the answer {row['answer']!r} must be true, false or unsure.")
    meant = WORDS[given]
    if row["said"] in SAID and _MEANING[row["said"]] == meant:
        return row["said"]
    if meant == 0 and any(row[name] for name in NEW):
        return "correct"
    return _WORD[meant]


def _number(text: str, name: str, place: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise DataError(f"{place}: the {name} {text!r} is not a number.") from None


def _same(one: NewAnswer | None, other: NewAnswer) -> bool:
    names = ("head", "relation", "tail", "answer", "reviewer", *NEW, "confidence", "note")
    return one is not None and all(
        (getattr(one, name) or None) == (getattr(other, name) or None) for name in names
    )


def _key(new: NewAnswer, after: str = "") -> str:
    """Return a key that the same answer after the same one always gets: a file is read twice."""
    said = (new.head, new.relation, new.tail, new.answer, new.reviewer)
    more = (*(getattr(new, name) or "" for name in NEW), str(new.confidence), new.note)
    text = "\x1f".join((*said, *more, *([after] if after else [])))
    return FROM_FILE + str(uuid.uuid5(uuid.NAMESPACE_URL, text))
