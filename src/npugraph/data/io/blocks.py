"""Read large files of three columns block by block: what is held is ids, and each name once.

Threads take turns to read a block, cut it into fields and number its names (:mod:`.loops`). What is
out of the ordinary (an empty field, another number of columns, lines that end with a carriage
return alone, text that is no UTF-8, damage) is left for the reader of all files, which says what is
wrong where something is.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa

from npugraph.data.io import loops
from npugraph.data.io.encode import Numbered
from npugraph.data.io.formats import ROLES, split_suffixes
from npugraph.data.io.layout import Layout
from npugraph.data.io.numbering import PADDING, Bytes, Places, Words, loop, words_of
from npugraph.data.io.shares import Share, UnusualError, read_shares

# Bytes that are read at a time: they stay in a core's own cache.
SIZE = 1 << 19
# Bytes that hold the end of a line, most often.
LINE = 1 << 12
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
WIDTH = 3


def suits(layout: Layout) -> bool:
    """Tell whether a file is plain enough: three columns that tabs divide."""
    return layout.delimiter == "\t" and len(layout.names) == WIDTH == len(layout.roles)


def read_blocks(path: Path, layout: Layout) -> Numbered | None:
    """Read a file that suits; None where something in it is out of the ordinary."""
    with pa.input_stream(str(path), compression=split_suffixes(path)[1]) as stream:
        blocks = _Blocks(stream, layout.first.last if layout.header else 0)
        return read_shares(lambda: _work(blocks, layout), blocks.stop, max(1, pa.cpu_count()))


class _Blocks:
    """Whole lines of a stream, block by block; several threads may ask for the next."""

    def __init__(self, stream: pa.NativeFile, skipped: int) -> None:
        """``skipped``: so many lines at the beginning are no facts."""
        self._stream, self._skipped = stream, skipped
        self._lock, self._rest, self._place = Lock(), np.empty(0, np.uint8), 0
        self._ended = False

    def next(self) -> tuple[int, Bytes, int, int] | None:
        """Return number, text, and where the lines begin and end in it; None after the last."""
        with self._lock:
            if self._ended:
                return None
            begin = len(self._rest)
            # A line feed may be lacking at the end.
            text = np.empty(begin + SIZE + 1 + PADDING, np.uint8)
            text[:begin] = self._rest
            got = self._read(text[begin : begin + SIZE])
            end = begin + got
            if got < SIZE:
                self._ended = True
                if end and text[end - 1] != loops.LINE_FEED:
                    text[end] = loops.LINE_FEED
                    end += 1
            lines = end if self._ended else _last_line_end(text[:end])
            self._rest = text[lines:end].copy()
            place, self._place = self._place, self._place + 1
        return place, text, _after(text, self._skipped) if place == 0 else 0, lines

    def stop(self) -> None:
        """Let there be no next one."""
        with self._lock:
            self._ended = True

    def _read(self, room: Bytes) -> int:
        """Fill the room as far as there is something; return how many bytes that was."""
        got = 0
        while got < len(room) and (more := self._stream.readinto(room[got:])):
            got += more
        return got


def _last_line_end(text: Bytes) -> int:
    """Return where the last line ends that is whole; a line that fills a block is unusual."""
    for size in (LINE, len(text)):
        found = text[-size:].tobytes().rfind(b"\n")
        if found >= 0:
            return max(len(text) - size, 0) + found + 1
    raise UnusualError


def _after(text: Bytes, lines: int) -> int:
    """Return where the facts begin: after a byte order mark and some lines."""
    start = len(BYTE_ORDER_MARK) if text[:3].tobytes() == BYTE_ORDER_MARK else 0
    feeds = np.flatnonzero(text == loops.LINE_FEED)[:lines]
    if len(feeds) < lines:
        raise UnusualError
    skipped = text[start : feeds[-1] + 1].tobytes() if lines else b""
    if b"\r" in skipped.replace(b"\r\n", b""):
        raise UnusualError
    return start + len(skipped)


def _work(blocks: _Blocks, layout: Layout) -> Share:
    """Number the names of block after block until there is none."""
    share = Share()
    columns = [layout.roles[role] for role in ROLES[:WIDTH]]
    while (block := blocks.next()) is not None:
        place, text, begin, end = block
        fields = _cut(text, begin, end)
        known = zip(share.columns(), columns, strict=True)
        ids = [names.number(*fields, column, WIDTH) for names, column in known]
        share.parts.append((place, ids))
    return share


def _cut(text: Bytes, begin: int, end: int) -> tuple[Words, Places, Places]:
    """Return the words of a text, and where the fields of its lines begin and end."""
    words = words_of(text)
    # A field has a byte at least, and one after it.
    starts, ends = np.empty((2, 1 + end // 2), np.int64)
    count = loop(loops.cut)(text, words, begin, end, WIDTH, starts, ends)
    if count == loops.UNUSUAL:
        raise UnusualError
    return words, starts[:count], ends[:count]
