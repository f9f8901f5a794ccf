"""The part of the report on what was found without a model."""

from __future__ import annotations

from dataclasses import dataclass

from npugraph.errors import DataError


@dataclass(frozen=True)
class IssueRow:
    """One occurrence: a score in [0, 1], what it is about, and a sentence."""

    score: float
    about: tuple[str, ...]
    sentence: str

    def __post_init__(self) -> None:
        """Refuse a score that is none."""
        if not 0 <= self.score <= 1:
            raise DataError(f"The score {self.score} of an issue does not lie in [0, 1].")


@dataclass(frozen=True)
class IssueGroup:
    """All occurrences of one kind.

    Attributes:
        kind: as in issues.tsv.
        title: what they are.
        count: how many there are.
        examples: the first of them.
        information: whether they are no sign of an error.
    """

    kind: str
    title: str
    count: int
    examples: tuple[IssueRow, ...]
    information: bool = False
