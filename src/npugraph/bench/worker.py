"""The process of one cell: python -m npugraph.bench.worker, started by the bench.

It is told its cell by one line of JSON on stdin. On stdout it writes JSON lines: one per epoch, and
at the end one with the result and the cost, or with the error. All else goes to stderr. Stdin stays
open as long as the bench lives: when it ends, so does this process.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from npugraph.bench.cell import Circumstances, run_cell
from npugraph.bench.plan import Cell
from npugraph.bench.store import locked
from npugraph.errors import NpugraphError


def main() -> int:
    """Run the cell that stdin names."""
    # Whatever prints to stdout must not get between our lines.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as events:
        os.dup2(2, 1)
        order = json.loads(sys.stdin.readline())
        threading.Thread(target=_die_with_the_bench, daemon=True).start()
        return _run(order, events)


def _run(order: dict[str, Any], events: IO[str]) -> int:
    start = time.time() - order["sent"]
    cell = Cell.from_json(order["cell"])
    how = Circumstances(**{**order["how"], "work": Path(order["how"]["work"])})

    def tell(line: dict[str, Any]) -> None:
        events.write(json.dumps(line) + "\n")
        events.flush()

    (how.work / "cells").mkdir(parents=True, exist_ok=True)
    # The process of a bench that was killed may not have ended yet: wait for it.
    with locked(how.work / "cells" / f"{cell.key}.lock", wait=True):
        try:
            result, cost = run_cell(cell, how, lambda record: tell({"epoch": record}))
        except NpugraphError as error:
            tell({"error": str(error)})
            return 2
        # The bench waited for this process to start, too.
        cost["seconds"]["total"] = round(cost["seconds"]["total"] + start, 2)
        tell({"result": result, "cost": cost})
    return 0


def _die_with_the_bench() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
