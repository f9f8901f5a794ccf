"""Put together what several threads have read of a file, each with names numbered for itself."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

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
        list(pool.map(_renumber, shares, of_entities, of_relations))
    parts = {
        place: Part(*(Block(0, ids) for ids in columns))
        for share in shares
        for place, columns in share.parts
    }
    return Numbered([entities], [relations], [parts[place] for place in sorted(parts)])


def _renumber(share: Share, entities: Ids, relations: Ids) -> None:
    """Give the names of one share the numbers that they have among those of all."""
    for _, columns in share.parts:
        for new, ids in zip((entities, relations, entities), columns, strict=True):
            # Only so is nothing copied; no number is out of bounds.
            np.take(new, ids, out=ids, mode="clip")
