"""How hard a test tries: a little in ``make test``, more in ``make test-long``."""

from __future__ import annotations

import os


def times(short: int, long: int) -> int:
    """Return how often to try."""
    return long if os.environ.get("NPUGRAPH_LONG") == "1" else short
