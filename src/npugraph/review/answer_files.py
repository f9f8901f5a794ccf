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

    Args:
        store: of the audit.
        material: the audit, which knows which facts are stored and which proposed.
        path: a file as read_answers takes it, with or without the columns of an exported one.
        reviewer: who gave the answers of rows that do not say so.
    """
    fresh: list[NewAnswer] = []
    known = unanswered = 0
    for place, row in answer_fields(path):
        if not row["answer"]:
            unanswered += 1
            continue
        new = _answer(place, row, material, reviewer)
        found = store.find(new.key)
        if found is not None and _same(found, new):
            known += 1
            continue
        if found is not None:
            # Somebody thought again in the spreadsheet: that is one more answer.
            new = replace(new, key=_key(new))
            if store.find(new.key) is not None:
                known += 1
                continue
        fresh.append(new)
    store.add_all(fresh)
    return Imported(len(fresh), known, unanswered)


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
            drawn=row["drawn"].lower() or "chosen",
            chance=_number(row["chance"], "chance", place),
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


def _same(one: NewAnswer, other: NewAnswer) -> bool:
    names = ("head", "relation", "tail", "answer", "reviewer", *NEW, "confidence", "note")
    return all((getattr(one, name) or None) == (getattr(other, name) or None) for name in names)


def _key(new: NewAnswer) -> str:
    """Return a key that the same answer always gets, so that a file may be read twice."""
    said = (new.head, new.relation, new.tail, new.answer, new.reviewer)
    more = (*(getattr(new, name) or "" for name in NEW), str(new.confidence), new.note)
    return "file/" + str(uuid.uuid5(uuid.NAMESPACE_URL, "\x1f".join((*said, *more))))
