"""Number the names of a column as they come: by compiled loops where there are many, or by Arrow.

Arrow waits for memory at every name; the loops (:mod:`.loops`, with numba) look many up at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from npugraph.compiling import Loop, available, compiled
from npugraph.data.io import loops
from npugraph.errors import DataError

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Places = NDArray[np.int64]
Ids = NDArray[np.int32]
# Bytes of text from which on the loops are worth loading: that takes as long as reading so many.
LEAST = 1 << 27
# Arrays of bytes have so many more than their text: words are read from any of them.
PADDING = 8
# Names that are copied at a time.
ROWS = 1 << 15
# What the offsets of an Arrow array of names can tell.
MOST_BYTES = 2**31 - 1


class TooLargeError(DataError):
    """Names that do not fit one Arrow array."""

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__(
            "The names take more than 2 GiB; read the file with --spill FOLDER, which has room for "
            "them."
        )


@cache
def loop(function: Loop) -> Loop:
    """Return a function of :mod:`.loops` compiled."""
    return compiled(function, loops.PARTS, inline=True, keep=True)


def prepare() -> None:
    """Make all loops, before several threads ask for them."""
    for function in (loops.cut, loops.number, loops.fill, loops.unpack, loops.place):
        loop(function)


def worth(size: int) -> bool:
    """Tell whether loops should read or number so many bytes of text."""
    # Those that are loaded already pay off sooner.
    return size >= (LEAST // 64 if loop.cache_info().currsize else LEAST) and available()


def words_of(text: Bytes) -> Words:
    """Return the eight bytes from each place of a text on as one number: [len(text) - 7].

    >>> words_of(np.arange(9, dtype=np.uint8))[1] == 0x0807060504030201
    np.True_
    """
    begin = np.frombuffer(text, np.uint64, 1)
    shape = (len(text) - PADDING + 1,)
    return np.lib.stride_tricks.as_strided(begin, shape, strides=(1,))


class Names:
    r"""Distinct names, numbered as they come.

    >>> names, text = Names(), np.frombuffer(b"b\ta\tb" + bytes(8), np.uint8)
    >>> names.number(words_of(text), np.array([0, 2, 4]), np.array([1, 3, 5]))
    array([0, 1, 0], dtype=int32)
    >>> names.labels().to_pylist()
    ['b', 'a']
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.count = 0
        self._used = 1
        self._kept = np.zeros(1 << 12, np.uint64)
        self._table = np.zeros(1 << 12, np.uint64)

    def number(
        self, words: Words, starts: Places, ends: Places, first: int = 0, step: int = 1
    ) -> Ids:
        """Return the numbers of names [n], given where fields begin and end in a text.

        Args:
            words: of the text.
            starts: of fields, int64 [m].
            ends: likewise.
            first: the first field that is a name.
            step: from one such field to the next.
        """
        numbers = np.empty(len(range(first, len(starts), step)), np.int32)
        self._make_room(len(numbers), len(words))
        fields = (words, starts, ends, first, step)
        self._used, self.count = loop(loops.number)(
            *fields, self._table, self._kept, self._used, self.count, numbers
        )
        return numbers

    def add(self, text: Bytes, offsets: Places) -> Ids:
        """Return the numbers of names [n] that stand in a text one after the other.

        Args:
            text: of any length.
            offsets: where each begins, and where the last one ends: int64 [n + 1].
        """
        numbers = np.empty(len(offsets) - 1, np.int32)
        for i in range(0, len(numbers), ROWS):
            places = offsets[i : i + ROWS + 1]
            some = np.zeros(places[-1] - places[0] + PADDING, np.uint8)
            some[:-PADDING] = text[places[0] : places[-1]]
            places = places - places[0]
            numbers[i : i + ROWS] = self.number(words_of(some), places[:-1], places[1:])
        return numbers

    def add_column(self, column: pa.ChunkedArray) -> Ids:
        """Return the numbers of the names [n] of a column of strings without nulls."""
        numbers = [np.empty(0, np.int32)]
        for chunk in column.chunks:
            if len(chunk) == 0:
                continue
            text = np.frombuffer(chunk.buffers()[2] or b"", np.uint8)
            offsets = np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset :][: len(chunk) + 1]
            numbers.append(self.add(text, offsets.astype(np.int64)))
        return np.concatenate(numbers)

    def text(self) -> tuple[Bytes, Places]:
        """Return the names in the order of their numbers, as :meth:`add` takes them."""
        # A record is longer than its name.
        text = np.empty(8 * self._used, np.uint8)
        offsets = np.empty(self.count + 1, np.int64)
        loop(loops.unpack)(self._kept, self._used, words_of(text), offsets)
        return text[: offsets[-1]], offsets

    def labels(self) -> pa.Array:
        """Return the names in the order of their numbers.

        Raises:
            TooLargeError: they are too large for an array.
            pa.ArrowInvalid: one is no UTF-8.
        """
        text, offsets = self.text()
        if len(text) > MOST_BYTES:
            raise TooLargeError
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(text)]
        labels = pa.Array.from_buffers(pa.string(), self.count, buffers)
        labels.validate(full=True)
        return labels

    def _make_room(self, names: int, size: int) -> None:
        """Grow so far that so many names of so many bytes in all may be new."""
        needed = self._used + 2 * names + size // 8 + loops.NEXT
        if needed > len(self._kept):
            kept = np.empty(2 * needed, np.uint64)
            kept[: self._used] = self._kept[: self._used]
            self._kept = kept
        entries = 2 * (self.count + names)
        if entries > len(self._table):
            self._table = np.zeros(1 << (entries - 1).bit_length(), np.uint64)
            words = words_of(self._kept.view(np.uint8))
            loop(loops.fill)(self._kept, words, self._used, self._table)


# Distinct names.
Distinct: TypeAlias = Names | pa.Array


def number_column(column: pa.ChunkedArray) -> tuple[pa.Array, Ids]:
    """Return the distinct names of a column without nulls as they come, and which is where.

    Raises:
        TooLargeError: they are too large for an array.
        pa.ArrowInvalid: one is no UTF-8.
    """
    if worth(column.nbytes) and pa.types.is_string(column.type):
        known = Names()
        numbers = known.add_column(column)
        return known.labels(), numbers
    try:
        encoded = column.dictionary_encode()
    except pa.ArrowCapacityError:
        raise TooLargeError from None
    if encoded.num_chunks == 0:
        return pa.array([], pa.string()), np.empty(0, np.int32)
    # All chunks have the same dictionary.
    indices = [chunk.indices.to_numpy() for chunk in encoded.chunks]
    names = encoded.chunk(0).dictionary
    names.validate(full=True)
    return names, np.concatenate(indices)


def merged(several: Sequence[Distinct]) -> tuple[pa.Array, list[Ids]]:
    """Return all names of several, and for each of these the places of its own among them.

    The first that is no array gets the names of the others.

    Raises:
        TooLargeError: they are too large for an array.
    """
    base = next((each for each in several if isinstance(each, Names)), None)
    if base is not None:
        own = np.arange(base.count, dtype=np.int32)
        places = [own if each is base else _added(base, each) for each in several]
        return base.labels(), places
    arrays: list[pa.Array] = [*several]
    if len(arrays) == 1:
        return arrays[0], [np.arange(len(arrays[0]), dtype=np.int32)]
    every, place = number_column(pa.chunked_array(arrays, pa.string()))
    return every, np.split(place, np.cumsum([len(array) for array in arrays])[:-1])


def _added(base: Names, each: Distinct) -> Ids:
    """Add names to others; return the places that they have there."""
    if isinstance(each, Names):
        return base.add(*each.text())
    return base.add_column(pa.chunked_array([each], pa.string()))


def sorted_order(names: pa.Array) -> NDArray[np.int64]:
    """Return the order of distinct names [n]: by their bytes, as Arrow sorts them.

    Numbers are sorted faster than text, so the first eight bytes after those that all names have in
    common come first; only names that are equal there are compared as text.

    >>> sorted_order(pa.array(["x/b", "x/a", "x/abcdefghj", "x/abcdefghi"])).tolist()
    [1, 3, 2, 0]
    """
    if len(names) == 0:
        return np.empty(0, np.int64)
    key = _first_bytes(names)
    order = np.argsort(key)
    key = key[order]
    equal = np.zeros(len(order) + 1, bool)
    equal[1:-1] = key[1:] == key[:-1]
    tied = np.flatnonzero(equal[1:] | equal[:-1])
    if len(tied):
        some = order[tied]
        order[tied] = some[pc.sort_indices(names.take(pa.array(some))).to_numpy()]
    return order


def _first_bytes(names: pa.Array) -> NDArray[np.uint64]:
    """Return eight bytes of each name, after those that all begin with, as a number to sort by."""
    ends = [value.encode() for value in pc.min_max(names).as_py().values()]
    common = next((i for i, (a, b) in enumerate(zip(*ends, strict=False)) if a != b), len(ends[0]))
    offsets = np.frombuffer(names.buffers()[1], np.int32)[names.offset :][: len(names) + 1]
    start, end = offsets[:-1].astype(np.int64) + common, offsets[1:]
    text = np.zeros(int(end[-1]) + common + PADDING, np.uint8)
    text[: end[-1]] = np.frombuffer(names.buffers()[2] or b"", np.uint8)[: end[-1]]
    key = words_of(text)[start].byteswap()
    missing = (8 * np.clip(8 - (end - start), 0, 8)).astype(np.uint64)
    # A shift by 64 leaves nothing, in numpy.
    first: NDArray[np.uint64] = key >> missing << missing
    return first
