"""Is a training step as fast as in another checkout? Ratios in one run.

    git worktree add ../before COMMIT
    python -m benchmarks.speed.before --before ../before

The second epoch of ``fit`` over the first facts of FB15k-237, with the recipe's own settings, by
this checkout and by the other in turn, each time in a process of its own with one thread and the
same seed, without validation. What counts is processor time: other processes change it less than
the clock's. The ratio is of the medians; below 1: this checkout is faster.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from benchmarks import common
from benchmarks.common import Record
from npugraph.data import datasets
from npugraph.fitting import fit

MODULE = "benchmarks.speed.before"
DATASET = "fb15k-237"


def work(task: Record) -> Record:
    """Train two epochs on some facts; return the second's processor seconds and its loss."""
    torch.set_num_threads(1)
    whole = datasets.load(task["graph"]).split()
    few = torch.arange(task["facts"]), torch.arange(0)
    splits = replace(whole, train=whole.train.select(few[0]), valid=whole.valid.select(few[1]))
    values = {"epochs": 2, "device": "cpu", "seed": task["seed"]}
    # What is loaded and compiled once is over after the first epoch.
    after: list[float] = []
    fitted = fit(splits, task["recipe"], values, report=lambda _: after.append(time.process_time()))
    return {"seconds": after[1] - after[0], "loss": fitted.metrics[1]["loss"]}


def compare(recipe: str, given: argparse.Namespace) -> Record:
    """Return the times of both checkouts, taken in turn, and their ratio."""
    task = {"recipe": recipe, "graph": given.graph, "facts": given.facts, "seed": given.seed}
    words = ["--worker", json.dumps(task)]
    places = {"before": given.before.resolve(), "now": common.ROOT}
    found: dict[str, list[Record]] = {name: [] for name in places}
    for number in range(given.rounds):
        # Who goes first changes.
        for name in sorted(places, reverse=number % 2 == 1):
            variables = {"PYTHONPATH": str(places[name] / "src"), "OMP_NUM_THREADS": "1"}
            found[name].append(common.in_own_process(MODULE, words, variables))
            print(f"  {recipe} {name}: {found[name][-1]['seconds']:.2f} s", file=sys.stderr)
    times = {name: [round(one["seconds"], 3) for one in runs] for name, runs in found.items()}
    middle = {name: statistics.median(values) for name, values in times.items()}
    return {
        **task,
        "processor_seconds": times,
        "ratio": round(middle["now"] / middle["before"], 3),
        "loss": {name: runs[0]["loss"] for name, runs in found.items()},
    }


def main() -> None:
    """Compare, and append a line per recipe."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--before", type=Path, help="the other checkout")
    parser.add_argument("--recipes", nargs="+", default=["distmult", "complex", "rotate"])
    parser.add_argument("--graph", default=DATASET)
    parser.add_argument("--facts", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=common.RESULTS / "before.jsonl")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        print(json.dumps(work(json.loads(given.worker))))
        return
    if given.before is None:
        parser.error("say where the other checkout is: --before FOLDER")
    line = ["git", "-C", str(given.before), "rev-parse", "HEAD"]
    other = subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()
    for recipe in given.recipes:
        found = compare(recipe, given)
        print(json.dumps(found))
        about = {
            "benchmark": "before",
            "before": other,
            "date": datetime.now(UTC).date().isoformat(),
            "command": f"python -m {MODULE} --before CHECKOUT --rounds {given.rounds} "
            f"--facts {given.facts} --recipes {recipe}",
            **common.circumstances(["torch"]),
        }
        common.append(given.out, {**found, **about})


if __name__ == "__main__":
    main()
