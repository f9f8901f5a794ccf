"""The folder of an audit."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class Home:
    """Where an audit keeps what it trains and judges.

    Attributes:
        path: the folder.
        kept: whether somebody asked for it; otherwise it goes with the last that refers to it.
    """

    def __init__(self, out: Path | None = None) -> None:
        """Take the folder ``out``, or a temporary one."""
        self.kept = out is not None
        if out is None:
            self.path = Path(tempfile.mkdtemp(prefix="npugraph-"))
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        else:
            self.path = out.absolute()

    @property
    def checkpoint_seconds(self) -> float:
        """Least time between two checkpoints of a training."""
        # Nobody goes on from a folder that goes.
        return 0.0 if self.kept else float("inf")
