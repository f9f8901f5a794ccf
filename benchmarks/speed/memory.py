"""How near the memory plan of ``npugraph fit`` is to the measured peak.

    python -m benchmarks.speed.memory --out benchmarks/results/memory.jsonl

Each graph and recipe is trained in a process of its own, on the CPU, for one epoch cut to a few
steps, with a validation and a checkpoint. The peak is that of the resident set, less what it was
before ``fit``; more steps do not raise it much.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import torch

from benchmarks import common
from benchmarks.common import Record

MODULE = "benchmarks.speed.memory"
GRAPHS = ("umls", "codex-s", "fb15k-237")
RECIPES = ("complex-n3", "distmult", "npugraph")
STEPS = 8


def measure(graph: str, name: str) -> Record:
    """Train once in this process; return the plan and the peak, in bytes."""
    from npugraph.data.sources import load_splits
    from npugraph.fitting import fit
    from npugraph.recipes import get_recipe
    from npugraph.training.batch_loss import Training
    from npugraph.training.memory import MemoryPlan, plan_memory

    torch.set_num_threads(1)
    splits = load_splits(graph, 0)
    settings = get_recipe(name).settings(device="cpu", epochs=1)
    found: list[MemoryPlan] = []

    def plan(training: Training) -> None:
        found.append(plan_memory(training, settings, len(splits.valid), torch.device("cpu")))
        items = min(training.num_items(), STEPS * settings.batch_size)
        training.num_items = lambda: items  # type: ignore[method-assign]

    # From now on the peak counts.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = resident("VmRSS")
    with tempfile.TemporaryDirectory() as folder:
        fit(splits, name, settings, Path(folder) / "run", on_built=plan)
    peak = resident("VmHWM") - before
    planned = found[0]
    return {
        "graph": graph,
        "recipe": name,
        "planned": planned.total,
        "weights": planned.weights,
        "libraries": planned.libraries,
        "measured": peak,
        "ratio": round(planned.total / peak, 3),
    }


def resident(name: str) -> int:
    """Return a line of this process's status, in bytes."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"{name}:\s+(\d+) kB", text)
    assert found is not None
    return 1024 * int(found[1])


def main(words: list[str]) -> None:
    """Measure every graph and recipe, or, as a worker, one of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    parser.add_argument("--out", type=Path, help="append results to this file")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    if args.worker:
        print(json.dumps(measure(*args.worker)))
        return
    head = {
        "benchmark": "memory",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": common.command(MODULE, words),
        "steps": STEPS,
        **common.circumstances(["torch", "numpy"]),
    }
    for graph in args.graphs:
        for name in args.recipes:
            line = common.in_own_process(MODULE, ["--worker", graph, name], {})
            print(f"{graph:12} {name:12} planned {line['planned'] / 1e6:6.0f} MB, ", end="")
            print(f"measured {line['measured'] / 1e6:6.0f} MB, ratio {line['ratio']:.2f}")
            if args.out:
                common.append(args.out, {**head, **line})


if __name__ == "__main__":
    main(sys.argv[1:])
