"""The loops of :mod:`.numbering` and :mod:`.blocks`, as numba compiles them.

Text is looked at eight bytes at a time: ``words[i]`` are the bytes i to i + 7 of a text, the first
of them lowest, so arrays of bytes have eight more than their text.

Names are kept one after the other, in records of 64-bit words: length and number of the name (32
bits each), then its bytes, filled up with zeros. A table says where: a name is looked for from the
place that its hash gives, and the entry there has the first 24 bits of the hash and the place of
the record (40 bits). 0 is an empty entry, so that no record is at place 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WORD = np.uint64
NONE, ONE = WORD(0), WORD(1)
# One in each byte; the highest bit of each; the others; what lifts 14 and more to the highest.
ONES, HIGH = WORD(0x0101010101010101), WORD(0x8080808080808080)
LOW, LIFT = WORD(0x7F7F7F7F7F7F7F7F), WORD(0x7272727272727272)
# Odd numbers that multiply well.
FACTOR, LAST_FACTOR = WORD(0x9E3779B97F4A7C15), WORD(0xC2B2AE3D27D4EB4F)
SHIFT, HALF, TAG, TOP = WORD(29), WORD(32), WORD(40), WORD(56)
PLACE, NUMBER = WORD(2**40 - 1), WORD(2**32 - 1)
# Names whose entries are fetched at once: fetching one waits for memory, and not for another.
GROUP = 32
# A record that begins at the end of a line of the cache goes on, this many words on, in the next.
NEXT = 5
TAB, LINE_FEED, RETURN = 9, 10, 13
# No lines of so many fields each.
UNUSUAL = -1


def cut(text: Any, words: Any, begin: int, end: int, width: int, starts: Any, ends: Any) -> int:
    """Find the fields of the lines in text[begin:end]; return how many, or UNUSUAL.

    Every line has a line feed, maybe after a carriage return, and as many fields as ``width``, none
    of them empty. Empty lines are left out.
    """
    count = field = 0
    start: Any = begin
    for i in range(begin, end, 8):
        word = words[i]
        # The bytes below 14.
        found = ~(((word & LOW) + LIFT) | word) & HIGH
        while found != NONE:
            lowest = found & (~found + ONE)
            found ^= lowest
            k = i + np.int64((((lowest - ONE) & ONES) * ONES) >> TOP) - 1
            if k >= end:
                break
            byte = text[k]
            if byte == TAB:
                if field == width - 1 or k == start:
                    return UNUSUAL
                starts[count], ends[count] = start, k
                count, field, start = count + 1, field + 1, k + 1
            elif byte == LINE_FEED:
                last = k - 1 if k > start and text[k - 1] == RETURN else k
                if last > start and field == width - 1:
                    starts[count], ends[count] = start, last
                    count, field = count + 1, 0
                elif last > start or field > 0:
                    return UNUSUAL
                start = k + 1
            elif byte == RETURN and text[k + 1] != LINE_FEED:
                return UNUSUAL
    return count


def number(
    words: Any,
    starts: Any,
    ends: Any,
    first: int,
    step: int,
    table: Any,
    kept: Any,
    used: int,
    known: int,
    numbers: Any,
) -> tuple[int, int]:
    """Write the numbers of names; new ones are kept.

    Args:
        words: of the text that they are in.
        starts: where fields begin.
        ends: where they end.
        first: the first field that is a name.
        step: from one such field to the next.
        table: entries, a power of two; enough for all names to be new.
        kept: records; enough for all names to be new, and NEXT more.
        used: words of records in use.
        known: how many names these are.
        numbers: where to write.

    Returns:
        ``used`` and ``known`` afterwards.
    """
    mask = WORD(len(table) - 1)
    hashes, near = np.empty(GROUP, WORD), np.empty(GROUP, WORD)
    for i in range(0, len(numbers), GROUP):
        group = min(GROUP, len(numbers) - i)
        field = first + step * i
        for j in range(group):
            a = starts[field + step * j]
            hashes[j] = _hash(words, a, ends[field + step * j] - a)
        for j in range(group):
            near[j] = table[hashes[j] & mask]
        for j in range(group):
            place = np.int64(near[j] & PLACE)
            near[j] = kept[place] ^ kept[place + NEXT]
        for j in range(group):
            a = starts[field + step * j]
            n = ends[field + step * j] - a
            tag = hashes[j] >> TAG << TAG
            slot = hashes[j] & mask
            while True:
                entry = table[slot]
                if entry == NONE:
                    table[slot] = tag | WORD(used)
                    kept[used] = (WORD(n) << HALF) | WORD(known)
                    used = _keep(words, a, n, kept, used + 1)
                    numbers[i + j] = known
                    known += 1
                    break
                place = np.int64(entry & PLACE)
                if (entry ^ tag) <= PLACE and _same(words, a, n, kept, place):
                    numbers[i + j] = np.int64(kept[place] & NUMBER)
                    break
                slot = (slot + ONE) & mask
    return used, known


def fill(kept: Any, words: Any, used: int, table: Any) -> None:
    """Enter all records in an empty table; ``words`` are those from any byte of them."""
    mask = WORD(len(table) - 1)
    place: Any = 1
    while place < used:
        n = np.int64(kept[place] >> HALF)
        code = _hash(words, 8 * (place + 1), n)
        slot = code & mask
        while table[slot] != NONE:
            slot = (slot + ONE) & mask
        table[slot] = (code >> TAG << TAG) | WORD(place)
        place += 1 + ((n + 7) >> 3)


def unpack(kept: Any, used: int, words: Any, offsets: Any) -> None:
    """Write the names one after the other, and where each begins and the last one ends.

    ``words`` are those of the text to write to, which is as long as all records.
    """
    place: Any = 1
    at: Any = 0
    i = 0
    while place < used:
        n = np.int64(kept[place] >> HALF)
        offsets[i] = at
        # The zeros at the end of a name are where the next one is written.
        for k in range((n + 7) >> 3):
            words[at + 8 * k] = kept[place + 1 + k]
        i, at, place = i + 1, at + n, place + 1 + ((n + 7) >> 3)
    offsets[i] = at


def place(
    head: Any, relation: Any, tail: Any, heads: Any, relations: Any, tails: Any, ids: Any
) -> None:
    """Write the ids of facts [n, 3], given places of names [n] and the id of the name at each."""
    for i in range(len(head)):
        ids[i, 0] = heads[head[i]]
        ids[i, 1] = relations[relation[i]]
        ids[i, 2] = tails[tail[i]]


def _hash(words: Any, a: Any, n: Any) -> Any:
    """Hash n bytes from the place a of a text on."""
    code = WORD(n) * LAST_FACTOR
    for i in range(n >> 3):
        code = (code ^ words[a + 8 * i]) * FACTOR
        code ^= code >> SHIFT
    if n & 7:
        code = (code ^ (words[a + 8 * (n >> 3)] & _mask(n))) * FACTOR
    code ^= code >> HALF
    code *= LAST_FACTOR
    return code ^ (code >> SHIFT)


def _mask(n: Any) -> Any:
    """Return the bits of the last bytes of a name of n bytes, which are no whole word."""
    return (ONE << WORD(8 * (n & 7))) - ONE


def _keep(words: Any, a: Any, n: Any, kept: Any, used: Any) -> Any:
    """Copy a name, and return the place behind it."""
    for i in range(n >> 3):
        kept[used + i] = words[a + 8 * i]
    if n & 7:
        kept[used + (n >> 3)] = words[a + 8 * (n >> 3)] & _mask(n)
    return used + ((n + 7) >> 3)


def _same(words: Any, a: Any, n: Any, kept: Any, place: Any) -> Any:
    """Tell whether a name is that of a record."""
    if np.int64(kept[place] >> HALF) != n:
        return False
    for i in range(n >> 3):
        if words[a + 8 * i] != kept[place + 1 + i]:
            return False
    return (n & 7) == 0 or (words[a + 8 * (n >> 3)] & _mask(n)) == kept[place + 1 + (n >> 3)]


# What the others call, those that are called first.
PARTS = (_mask, _hash, _keep, _same)
