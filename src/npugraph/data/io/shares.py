"""Put together what several threads have read of a file, each with names numbered for itself."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from npugraph.data.io.encode import Block, Numbered, Part
from npugraph.data.io.numbering import Ids, Names, TooLargeError, prepare


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

    def check(self) -> None:
        """Raise an error where the names do not fit Arrow arrays, or are no UTF-8."""
        for names in (self.entities, self.relations):
            names.labels()


def read_shares(
    work: Callable[[], Share], stop: Callable[[], None], threads: int
) -> Numbered | None:
    """Let threads do the work, which takes part after part until there is none.

    Args:
        work: of one thread.
        stop: lets there be no next part: where one thread gives up, the others need not go on.
        threads: how many.

    Returns:
        All facts in the order of their parts; None where something is out of the ordinary.
    """
    prepare()

    def checked() -> Share:
        try:
            share = work()
        finally:
            stop()
        share.check()
        return share

    with ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(checked) for _ in range(threads)]
        try:
            shares = [job.result() for job in jobs]
        except (UnusualError, TooLargeError, pa.ArrowInvalid, OSError):
            return None
        finally:
            # Ctrl-C is told to this thread alone.
            stop()
    parts = {
        place: Part(*(Block(number, ids) for ids in columns))
        for number, share in enumerate(shares)
        for place, columns in share.parts
    }
    return Numbered(
        [share.entities for share in shares],
        [share.relations for share in shares],
        [parts[place] for place in sorted(parts)],
    )
