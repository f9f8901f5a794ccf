"""A patch: what was decided about facts, and what that changes in the files that hold them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from npugraph.data.io import ReadOptions
from npugraph.errors import DataError, no_such_file

FORMAT = "npugraph.patch/2"
ABOUT = (
    "Changes of a graph: what was decided, and the lines it takes out of each file and puts in. "
    "npugraph apply makes them, npugraph revert takes them back."
)
Change = Literal["remove", "replace", "add"]
Why = Literal["answer", "known", "quarantine"]


class Fact(NamedTuple):
    """A fact by the names of the input."""

    head: str
    relation: str
    tail: str

    def __str__(self) -> str:
        return f"({', '.join(self)})"


@dataclass(frozen=True)
class Decision:
    """What is to happen to one fact.

    Attributes:
        change: remove or replace a stored fact, or add one that is not stored.
        fact: the fact.
        new: what takes its place.
        why: an answer at the review desk; known to be wrong by a label or an answer that the audit
            was given; or the audit's quarantine.
        probability: of being true, by the audit; None where that is not told.
        reviewers: who said so.
        time: when the last of them did, as ISO 8601.
        note: what they wrote.
    """

    change: Change
    fact: Fact
    new: Fact | None = None
    why: Why = "answer"
    probability: float | None = None
    reviewers: tuple[str, ...] = ()
    time: str | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse a replacement by nothing, or by the same fact."""
        if (self.new is not None) != (self.change == "replace") or self.new == self.fact:
            raise DataError(f"The fact {self.fact}: a replacement, and that alone, has a new fact.")


@dataclass(frozen=True)
class Entry:
    """A line that goes or comes.

    Attributes:
        number: of the line, or of the row, from 1; 0 where a file has no order.
        text: the line with its end, as it is in the file.
        byte: where it begins among the uncompressed bytes, from 0.
    """

    number: int
    text: str
    byte: int = 0


@dataclass(frozen=True)
class FilePatch:
    """What changes in one file.

    Attributes:
        name: of the file, without its folder.
        options: how it was read, as ReadOptions takes it.
        before: SHA-256 of its uncompressed bytes; ``after``: of the changed ones.
        removed: lines that go, by their numbers in the file as it was.
        inserted: lines that come, by their numbers in the changed file.
        facts_before: SHA-256 of what it holds where the bytes depend on the library that writes
            them (Turtle: its triples; Parquet: all columns, types and rows); None for lines.
            ``facts_after``: of the changed file.
        removed_rows: the rows of a Parquet file that go, all columns, as an Arrow stream in
            base64; ``inserted_rows``: those that come.
    """

    name: str
    options: Mapping[str, Any]
    before: str
    after: str
    removed: tuple[Entry, ...] = ()
    inserted: tuple[Entry, ...] = ()
    facts_before: str | None = None
    facts_after: str | None = None
    removed_rows: str | None = None
    inserted_rows: str | None = None


@dataclass(frozen=True)
class Patch:
    """What was decided, and what that changes in each file.

    Attributes:
        graph: what the graph is called.
        decisions: as they were carried out.
        files: the files of the graph, changed or not.
    """

    graph: str
    decisions: tuple[Decision, ...]
    files: tuple[FilePatch, ...]

    def counts(self) -> dict[str, int]:
        """Return how many facts are removed, replaced and added."""
        words = {"remove": "removed", "replace": "replaced", "add": "added"}
        made = [decision.change for decision in self.decisions]
        return {word: made.count(change) for change, word in words.items()}  # type: ignore[arg-type]

    def to_json(self) -> str:
        """Return the text of a patch file."""
        record = {
            "format": FORMAT,
            "what": ABOUT,
            "graph": self.graph,
            "decisions": [_decision_record(one) for one in self.decisions],
            "files": [dataclasses.asdict(file) for file in self.files],
        }
        return json.dumps(record, indent=1) + "\n"


def options_record(options: ReadOptions) -> dict[str, Any]:
    """Return how a file is read, for JSON; columns beside the facts do not matter here."""
    columns = None if options.columns is None else list(options.columns)
    record = dataclasses.asdict(options) | {"columns": columns}
    return {name: value for name, value in record.items() if name != "beside"}


def options_of(record: Mapping[str, Any]) -> ReadOptions:
    """Return how a file was read, as a record of JSON says it."""
    columns = record.get("columns")
    return ReadOptions(**{**record, "columns": None if columns is None else tuple(columns)})


def _decision_record(decision: Decision) -> dict[str, Any]:
    new: Sequence[str | None] = decision.new or (None, None, None)
    return {
        "change": decision.change,
        **decision.fact._asdict(),
        **dict(zip(("new_head", "new_relation", "new_tail"), new, strict=True)),
        "why": decision.why,
        "probability": decision.probability,
        "reviewers": list(decision.reviewers),
        "time": decision.time,
        "note": decision.note,
    }


def read_patch(path: Path) -> Patch:
    """Read a patch file.

    Raises:
        DataError: it is none, it is damaged, or another version of npugraph wrote it.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise no_such_file(path) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a readable patch ({error}).") from None
    if not isinstance(record, dict) or "files" not in record or "format" not in record:
        raise DataError(
            f"{path}: not a patch of this version of npugraph; make one with npugraph export."
        )
    if record["format"] != FORMAT:
        raise DataError(f"{path}: a patch of the format {record['format']!r}, not {FORMAT!r}.")
    try:
        return Patch(
            str(record["graph"]),
            tuple(_decision_of(one) for one in record["decisions"]),
            tuple(_file_of(one) for one in record["files"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: the patch is damaged ({error!r}).") from None


def _decision_of(record: Mapping[str, Any]) -> Decision:
    new = [record[f"new_{name}"] for name in Fact._fields]
    return Decision(
        record["change"],
        Fact(*(record[name] for name in Fact._fields)),
        None if new[0] is None else Fact(*new),
        record["why"],
        record["probability"],
        tuple(record["reviewers"]),
        record["time"],
        record["note"],
    )


def _file_of(record: Mapping[str, Any]) -> FilePatch:
    name = str(record["name"])
    if Path(name).name != name:
        # It is looked for in a folder that the user names, and nowhere else.
        raise ValueError(f"the file name {name!r} is a path")
    for state in ("before", "after"):
        if not re.fullmatch("[0-9a-f]{64}", record[state]):
            raise ValueError(f"{record[state]!r} is no SHA-256")
    lines = {
        side: tuple(
            Entry(int(entry["number"]), str(entry["text"]), int(entry["byte"]))
            for entry in record[side]
        )
        for side in ("removed", "inserted")
    }
    return FilePatch(**{**record, **lines})
