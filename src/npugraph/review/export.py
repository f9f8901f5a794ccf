"""Take what was decided about an audit's facts home, in the input's format or another tool's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from npugraph.data.io import compress, split_suffixes
from npugraph.errors import SettingsError, nearest
from npugraph.patching import Decision, Made, Source, make_patch, read_patch
from npugraph.patching.inputs import find_sources
from npugraph.review.decisions import decide
from npugraph.review.material import audit_record
from npugraph.review.store import FILE, Answer, Store

Format = Literal["graph", "patch"]
FORMATS: tuple[str, ...] = get_args(Format)


@dataclass(frozen=True)
class Exported:
    """What an export is.

    Attributes:
        files: names to give them, and their bytes.
        counts: how many facts are removed, replaced and added.
        notes: sentences on what could not be expressed.
    """

    files: tuple[tuple[str, bytes], ...]
    counts: dict[str, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decided:
    """An audit, and what is decided about its facts.

    Attributes:
        folder: of the audit.
        record: its audit.json.
        answers: those that hold.
        quarantine: whether the audit's own decisions count, too.
        facts: where the input is, if the user says so.
    """

    folder: Path
    record: dict[str, Any]
    answers: tuple[Answer, ...]
    quarantine: bool = False
    facts: Path | None = None

    @classmethod
    def open(cls, folder: Path, *, quarantine: bool = False, facts: Path | None = None) -> Decided:
        """Read the folder of an audit, and the answers that were given at its desk."""
        return cls(folder, audit_record(folder), _answers(folder), quarantine, facts)

    @cached_property
    def sources(self) -> list[Source]:
        """The files that were audited."""
        return find_sources(self.record, self.folder, self.facts)

    @cached_property
    def decisions(self) -> list[Decision]:
        """What the answers say and, if asked for, the audit's quarantine."""
        own = read_patch(self.folder / "patch.json").decisions if self.quarantine else ()
        return decide(self.answers, own)

    @cached_property
    def made(self) -> Made:
        """The patch, and the changed files."""
        return make_patch(self.sources, self.decisions, str(self.record.get("graph", "graph")))


def export(decided: Decided, format: str) -> Exported:
    """Return what was decided in a format of FORMATS; nothing is written."""
    check_format(format)
    made = decided.made
    counts = made.patch.counts()
    if format == "patch":
        text = made.patch.to_json()
        return Exported((("patch.json", text.encode()),), counts)
    files = tuple(
        (source.path.name, compress(data, split_suffixes(source.path)[1]))
        for source, data in zip(decided.sources, made.contents, strict=True)
    )
    return Exported(files, counts)


def check_format(format: str) -> None:
    """Refuse a format that is not known."""
    if format not in FORMATS:
        hint = nearest(format, FORMATS) or f" Known: {', '.join(FORMATS)}."
        raise SettingsError(f"There is no format {format!r}.{hint}")


def _answers(folder: Path) -> tuple[Answer, ...]:
    """Return the answers that hold; none where nobody has sat at the desk."""
    path = folder / FILE
    if not path.is_file():
        return ()
    with Store.open(path) as store:
        return tuple(store.current())
