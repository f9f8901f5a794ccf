"""Change single lines of a text file; every other byte stays as it is.

A byte order mark, CR LF, blank lines, comments, a last line without an end: all of it survives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from npugraph.errors import DataError
from npugraph.patching.patch import Entry

MARK = b"\xef\xbb\xbf"
ENDS = b"\r\n"


@dataclass(frozen=True)
class Lines:
    """The lines of a file with their ends, which are LF, CR LF or CR, and a byte order mark."""

    mark: bytes
    lines: list[bytes]

    @classmethod
    def of(cls, data: bytes) -> Lines:
        r"""Cut the bytes of a file.

        >>> Lines.of(b"a\r\n\nb").lines
        [b'a\r\n', b'\n', b'b']
        """
        mark = MARK if data.startswith(MARK) else b""
        return cls(mark, data[len(mark) :].splitlines(keepends=True))

    @property
    def end(self) -> bytes:
        """How lines end here: as the first one does."""
        first = self.lines[0] if self.lines else b""
        return first[len(first.rstrip(ENDS)) :] or b"\n"

    @property
    def open(self) -> bool:
        """Whether the last line has no end."""
        return bool(self.lines) and not self.lines[-1].endswith((b"\r", b"\n"))


@dataclass(frozen=True)
class Edited:
    """A changed file.

    Attributes:
        data: its uncompressed bytes.
        removed: lines that went, by their places before.
        inserted: lines that came, by their places now.
    """

    data: bytes
    removed: tuple[Entry, ...]
    inserted: tuple[Entry, ...]


def edit_lines(old: Lines, replaced: Mapping[int, bytes], added: Sequence[bytes]) -> Edited:
    r"""Replace lines, take lines out, and add lines at the end.

    Args:
        old: the file.
        replaced: place of a line, from 0 -> what takes its place, with its end; empty: nothing.
        added: new lines without their ends.

    >>> edit_lines(Lines.of(b"a\nb\nc"), {0: b"", 1: b"B\n"}, [b"d"]).data
    b'B\nc\nd'
    """
    changes = dict(replaced)
    new = [changes.get(place, line) for place, line in enumerate(old.lines)]
    more = [line + old.end for line in added]
    if more and old.open:
        # The last line has no end, and the new last line shall have none.
        more[-1] = added[-1]
        last = max((place for place, line in enumerate(new) if line), default=None)
        if last is not None and not new[last].endswith((b"\r", b"\n")):
            new[last] += old.end
            changes[last] = new[last]
    whole = [*new, *more]
    touched = sorted(changes)
    coming = [place for place in touched if new[place]] + [*range(len(new), len(whole))]
    return Edited(
        old.mark + b"".join(whole),
        _entries(old.mark, old.lines, touched),
        _entries(old.mark, whole, coming),
    )


def _entries(mark: bytes, lines: Sequence[bytes], places: Sequence[int]) -> tuple[Entry, ...]:
    """Return some lines with their numbers and places in the file."""
    if not places:
        return ()
    starts = [0, *accumulate(map(len, lines))]
    # A place may hold several lines, or none.
    numbers = [0, *accumulate(len(line.splitlines()) for line in lines)]
    return tuple(
        Entry(numbers[i] + 1, lines[i].decode("utf-8"), len(mark) + starts[i]) for i in places
    )


def exchange(data: bytes, out: Sequence[Entry], into: Sequence[Entry], name: str) -> bytes:
    r"""Take lines out of a file and put others in: a patch forwards, or backwards.

    Args:
        data: the bytes of the file.
        out: lines that go, by their places in it.
        into: lines that come, by their places in what is returned.
        name: how errors call the file.

    >>> exchange(b"a\nb\n", [Entry(1, "a\n", 0)], [Entry(2, "c\n", 2)], "x")
    b'b\nc\n'
    """
    kept, end = [], 0
    for entry in sorted(out, key=lambda entry: entry.byte):
        text = entry.text.encode()
        if not end <= entry.byte or data[entry.byte : entry.byte + len(text)] != text:
            raise DataError(f"{name}, line {entry.number}: not what the patch says.")
        kept.append(data[end : entry.byte])
        end = entry.byte + len(text)
    rest = b"".join([*kept, data[end:]])
    parts, taken, length = [], 0, 0
    for entry in sorted(into, key=lambda entry: entry.byte):
        text = entry.text.encode()
        until = taken + entry.byte - length
        if not taken <= until <= len(rest):
            raise DataError(f"{name}, line {entry.number}: the patch is damaged.")
        parts += [rest[taken:until], text]
        taken, length = until, entry.byte + len(text)
    return b"".join([*parts, rest[taken:]])
