"""What a table holds, whatever it is written as: Markdown, LaTeX or HTML."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """One place of a table.

    Attributes:
        text: what stands there.
        best: whether it is the best of its column.
        impossible: whether it is a figure of the paper that cannot be.
        missing: whether it says that there is no figure.
    """

    text: str
    best: bool = False
    impossible: bool = False
    missing: bool = False


@dataclass(frozen=True)
class Column:
    """A column: a heading, which neighbours may share, and a word under it.

    Attributes:
        head: such as MRR.
        sub: such as here or paper; may be empty.
    """

    head: str
    sub: str = ""

    @property
    def title(self) -> str:
        """Both words."""
        return f"{self.head} {self.sub}".strip()


@dataclass(frozen=True)
class Line:
    """One system of a part: its name and one item per column."""

    name: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Group:
    """Systems of one kind, under their heading; an empty heading is not shown."""

    heading: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Part:
    """One grid: columns and groups of lines.

    Attributes:
        title: what it shows.
        first: heading of the first column.
        columns: the others.
        groups: the lines.
    """

    title: str
    first: str
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Block:
    """All about one graph at one rate, or one sweep.

    Attributes:
        title: such as FB15k-237, rate 0.3, random noise.
        parts: its grids.
        notes: sentences below them.
        commands: (cell in words, the line that runs it again).
    """

    title: str
    parts: tuple[Part, ...]
    notes: tuple[str, ...]
    commands: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """A plan's results.

    Attributes:
        name: of the plan.
        title: one sentence.
        state: how many cells have run.
        blocks: one per graph and rate, then one per sweep.
    """

    name: str
    title: str
    state: str
    blocks: tuple[Block, ...]
