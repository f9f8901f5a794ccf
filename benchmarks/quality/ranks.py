"""Do ranks train as one process does? Losses and MRR, beside each other.

    python -m benchmarks.quality.ranks --graphs umls codex-s --recipes complex-n3 rotate

For each graph and recipe: the losses of the first steps in float64 and in float32, and the MRR of
the test facts (clean filter) after some epochs in float32, by one process and by ranks on this
machine (gloo). Nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch

from benchmarks import common
from benchmarks.common import Record
from npugraph.data.sources import load_splits
from npugraph.fitting import fit
from npugraph.peers import Peers, join
from npugraph.ranking.evaluate import evaluate
from npugraph.recipes import get_recipe
from npugraph.settings import make_settings
from npugraph.training.loop import begin_epoch
from npugraph.training.optimizers import make_optimizer
from npugraph.training.split import split
from npugraph.training.step import StepRecorder, descend

MODULE = "benchmarks.quality.ranks"
DTYPES = {"float64": torch.float64, "float32": torch.float32}


def losses(
    peers: Peers, graph: str, recipe: str, values: dict[str, Any], steps: int, dtype: str
) -> list[float]:
    """Return the losses of the first steps on a graph."""
    chosen = get_recipe(recipe)
    settings = make_settings(chosen.settings, {**values, "device": "cpu"})
    training = chosen.build(settings, load_splits(graph, settings.seed).train).to(DTYPES[dtype])
    split(training, settings, peers)
    optimizer = make_optimizer(training, settings)
    recorder, gradients = StepRecorder(torch.Generator(), False), training.system.share.gradients
    batches = (
        rows
        for epoch in count(1)
        for rows in begin_epoch(epoch, training, optimizer, settings, recorder)
    )
    return [
        float(descend(training.loss(rows, recorder.rng), optimizer, peers=gradients))
        for rows in islice(batches, steps)
    ]


def work(task: Record) -> Record:
    """Do one rank's part: losses in both types, then a training and its MRR."""
    peers = join()
    given = task["graph"], task["recipe"], task["values"]
    found = {dtype: losses(peers, *given, task["steps"], dtype) for dtype in DTYPES}
    values = {**task["values"], "device": "cpu", "epochs": task["epochs"]}
    fitted = fit(task["graph"], task["recipe"], values, peers=peers)
    mrr = evaluate(fitted)["filters"]["clean"]["mrr"]
    peers.leave()
    return {"losses": found, "mrr": mrr}


def by_ranks(task: Record, ranks: int) -> Record:
    """Return what the first of so many processes says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    words = ["--worker", json.dumps(task)]

    def one(rank: int) -> Record:
        variables = {**shared, "RANK": str(rank), "OMP_NUM_THREADS": "1"}
        done: Record = common.in_own_process(MODULE, words, variables)
        return done

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(one, range(ranks)))[0]


def compare(task: Record, ranks: int) -> Record:
    """Return the largest differences between one process and ranks."""
    one, several = by_ranks(task, 1), by_ranks(task, ranks)
    farthest = {
        dtype: max(
            abs(a - b) for a, b in zip(one["losses"][dtype], several["losses"][dtype], strict=True)
        )
        for dtype in DTYPES
    }
    return {
        **task,
        "ranks": ranks,
        "largest_difference_of_losses": farthest,
        "first_and_last_loss": [one["losses"]["float64"][place] for place in (0, -1)],
        "mrr": {"1": one["mrr"], str(ranks): several["mrr"]},
    }


def main() -> None:
    """Compare, and append a line per graph and recipe."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--graphs", nargs="+", default=["umls", "codex-s"])
    parser.add_argument("--recipes", nargs="+", default=["complex-n3", "rotate"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--d", type=int, default=32)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=common.RESULTS / "ranks.jsonl")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        torch.set_num_threads(1)
        print(json.dumps(work(json.loads(given.worker))))
        return
    for graph in given.graphs:
        for recipe in given.recipes:
            values = {"d": given.d, "seed": given.seed}
            task = {"graph": graph, "recipe": recipe, "values": values}
            found = compare({**task, "steps": given.steps, "epochs": given.epochs}, given.ranks)
            print(json.dumps(found))
            about = {
                "date": datetime.now(UTC).date().isoformat(),
                "command": common.command(MODULE, sys.argv[1:]),
                **common.circumstances(["torch"]),
            }
            common.append(given.out, {**found, **about})


if __name__ == "__main__":
    main()
