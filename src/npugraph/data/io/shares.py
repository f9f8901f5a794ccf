"""Put together what several threads have read of a file, each with names numbered for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import pyarrow as pa

from npugraph.data.io.encode import Block, Numbered, Part
from npugraph.data.io.numbering import Ids, Names, TooLargeError, merged, prepare


class UnusualError(Exception):
    """The file is for another reader."""


@dataclass
class Share:
    """What one thread has read.

    Attributes:
        entities: names of heads and tails.
        relations: names of relations.
        parts: by the place of a part in the file, the numbers of its heads, relations and tails.
    """

    entities: Names = field(default_factory=Names)
    relations: Names = field(default_factory=Names)
    parts: list[tuple[int, list[Ids]]] = field(default_factory=list)

    def columns(self) -> tuple[Names, Names, Names]:
        """Return the names that heads, relations and tails are numbered by."""
        return self.entities, self.relations, self.entities


def read_shares(work: Callable[[], Share], threads: int) -> Numbered | None:
    """Let threads do the work, which takes part after part until there is none.

    Returns:
        All facts in the order of their parts; None where something is out of the ordinary.
    """
    prepare()
    with ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(work) for _ in range(threads)]
        try:
            shares = [job.result() for job in jobs]
            entities, of_entities = merged([share.entities for share in shares])
            relations, of_relations = merged([share.relations for share in shares])
        except (UnusualError, TooLargeError, pa.ArrowInvalid, OSError):
            return None
        places = _Places(shares)
        list(pool.map(places.write, shares, of_entities, of_relations))
    part = Part(*(Block(0, column) for column in places.columns))
    return Numbered([entities], [relations], [part])


class _Places:
    """The columns of all facts, and where each part of them begins."""

    def __init__(self, shares: Sequence[Share]) -> None:
        sizes = {place: len(columns[0]) for share in shares for place, columns in share.parts}
        order = sorted(sizes)
        ends = accumulate(sizes[place] for place in order)
        self._ends = dict(zip(order, ends, strict=True))
        self.columns = np.empty((3, sum(sizes.values())), np.int32)

    def write(self, share: Share, entities: Ids, relations: Ids) -> None:
        """Write what one share has read, given the places of its names among all."""
        while share.parts:
            place, columns = share.parts.pop()
            end = self._ends[place]
            for new, ids, column in zip(
                (entities, relations, entities), columns, self.columns, strict=True
            ):
                # Only so is nothing copied; no number is out of bounds.
                np.take(new, ids, out=column[end - len(ids) : end], mode="clip")
