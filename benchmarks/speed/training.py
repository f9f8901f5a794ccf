"""Training throughput on FB15k-237: npugraph against PyKEEN, PyG, TorchKGE and plain loops.

    python -m benchmarks.speed.training                 # positives per second, 7-8 minutes
    python -m benchmarks.speed.training --quality umls  # what sharing negatives does to MRR

Positive facts per second at batch 1024, K = 50 negatives for each, d = 128 (numbers for TransE and
DistMult, complex numbers for ComplEx and RotatE), float32. Every measurement is a process of its
own and is taken with and without a setting of the C library's allocator; the better one counts,
for everybody. All train the same facts with Adam on dense gradients, all but ``kge`` in its fused
form, which the others' users would have to ask for; nobody has a penalty on the weights.

- npugraph: the recipes' own training, either end of a fact replaced by halves of the batch.
  ``npugraph`` shares the 50 candidates of a side among runs of ``--share`` facts, ``npugraph-own``
  draws them for each fact. A candidate that makes a collected fact does not count.
- pykeen: its models, its losses and its BasicNegativeSampler, unfiltered, fed with slices of
  shuffled facts. Its constraints on the tables after each step are left out.
- pyg: its models and its loader. Its ``loss`` draws one negative; here the same formula is taken
  over 50, drawn by its ``random_sample`` from the batch repeated 50 times, while positives are
  scored once.
- torchkge: its models, its losses and its UniformNegativeSampler with ``n_neg=50``; no RotatE.
- kge: a loop as RotatE's public code runs it: candidates of each fact gathered as [b, K, d], head
  and tail steps in turn, self-adversarial loss with weights by frequency. Worker processes draw 2K
  entities for each fact, drop those that make a training fact, and repeat until K are left. Adam in
  torch's default form. The known end meets the relation first.
- loop: a bound: the same dense loop if sampling cost nothing, with one unfiltered draw for the
  whole batch, no worker processes, and fused Adam. The aim is held against it, too; the ratio
  without it stands beside.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import torch

from benchmarks import common
from benchmarks.common import Record, others_time
from benchmarks.speed.training_peers import BOUND, PEERS, Step, Task, batches
from npugraph.data import datasets
from npugraph.graph import Splits
from npugraph.recipes import get_recipe
from npugraph.seeds import generator, number
from npugraph.settings import TrainSettings, make_settings
from npugraph.training.batch_loss import Training
from npugraph.training.loop import validation_metrics
from npugraph.training.optimizers import make_optimizer
from npugraph.training.step import descend

DATASET = "fb15k-237"
MODULE = "benchmarks.speed.training"
RESULTS = common.RESULTS / "training.jsonl"
# How many times the fastest other library ours should be.
AIMS = {"transe": 3.0, "distmult": 3.0, "complex": 3.0, "rotate": 2.0}
OURS = ("npugraph", "npugraph-own")
PACKAGES = ("torch", "numba", "pykeen", "torch-geometric", "torchkge")


def make_ours(task: Task, splits: Splits, rate: float) -> tuple[Training, TrainSettings]:
    """Return the recipe's training with K candidates by halves of the batch, and its settings."""
    shared = {
        "d": task.dimension,
        "negatives": task.negatives,
        "batch_size": task.batch,
        "learning_rate": rate,
        "optimizer": "adam",
        "device": "cpu",
        "seed": task.seed,
    }
    recipe = get_recipe(task.model)
    own = {"sides": "halves"} if task.model == "transe" else {"penalty": 0.0}
    settings = make_settings(recipe.settings, {**shared, "share": task.share, **own})
    return recipe.build(settings, splits.train), settings


def ours(task: Task, splits: Splits) -> Step:
    """Return a step of npugraph, as its training loop takes it."""
    training, settings = make_ours(task, splits, 1e-3)
    training.system.train()
    optimizer = make_optimizer(training, settings)
    rng = generator(task.seed, "benchmark", "sampler")
    rows = batches(task, splits)

    def step() -> None:
        descend(training.loss(next(rows), rng), optimizer)

    return step


LIBRARIES: dict[str, Callable[[Task, Splits], Step]] = {
    "npugraph": ours,
    "npugraph-own": ours,
    **{name: step for name, (_, step) in PEERS.items()},
}


def run_worker(text: str) -> None:
    """Measure one task and print its record as JSON."""
    task = Task(**json.loads(text))
    torch.set_num_threads(task.threads)
    torch.manual_seed(number(task.seed, "benchmark", "global"))
    step = LIBRARIES[task.library](task, datasets.load(DATASET).split())
    for _ in range(task.warm_up):
        step()
    others, times = others_time(), list[float]()
    while len(times) < 3 or sum(times) < task.seconds:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    record = {
        "library": task.library,
        "allocator": task.allocator,
        "steps": len(times),
        "positives_per_second": task.batch * len(times) / sum(times),
        "median_step_ms": 1e3 * statistics.median(times),
        "cores_used_by_others": round((others_time() - others) / sum(times), 3),
    }
    print(json.dumps(record))


def launch(task: Task) -> Record | None:
    """Run one measurement in a fresh process; None where it failed."""
    return common.launch(MODULE, asdict(task), f"{task.model}: {task.library}", "positives")


def compare(model: str, args: argparse.Namespace) -> Record:
    """Measure one score function in all libraries; return its record, with the ratios."""
    best: dict[str, Record] = {}
    everything: list[Record] = []
    for library in args.libraries:
        if (library, model) == ("torchkge", "rotate"):
            continue
        share = args.share if library == "npugraph" else 1
        sizes = args.batch, args.negatives, args.dimension, args.warm_up
        done = [
            launch(Task(library, model, on, share, *sizes, args.seconds, args.threads, args.seed))
            for on in (False, True)
        ]
        found = [record for record in done if record is not None]
        everything += found
        if found:
            best[library] = max(found, key=lambda record: float(record["positives_per_second"]))
    speed = {library: float(r["positives_per_second"]) for library, r in best.items()}
    peers = {library: value for library, value in speed.items() if library not in OURS}
    result: Record = {"model": model, "positives_per_second": speed, "best": best}
    result |= ratios(speed, peers, "")
    result |= ratios(speed, {k: v for k, v in peers.items() if k != BOUND}, "_without_bound")
    return result | {"aim": AIMS[model], "all": everything}


def ratios(speed: dict[str, float], peers: dict[str, float], suffix: str) -> Record:
    """Return the fastest of the peers and how many times as fast ours are, under named keys."""
    if not peers:
        return {}
    fastest = max(peers, key=lambda library: peers[library])
    ratio = {own: speed[own] / peers[fastest] for own in OURS if own in speed}
    return {f"fastest_peer{suffix}": fastest, f"ratio{suffix}": ratio}


def quality(args: argparse.Namespace) -> Iterator[Record]:
    """Train with candidates of each fact and with shared ones; yield validation MRRs."""
    torch.set_num_threads(args.threads)
    for dataset, model in itertools.product(args.quality, ("complex", "transe")):
        splits = datasets.load(dataset).split()
        # Small graphs need small batches to take enough steps.
        batch = min(args.batch, 256 if len(splits.train) < 50_000 else 1024)
        found: dict[int, list[float]] = {}
        for share, seed in itertools.product((1, args.share), range(3)):
            sizes = batch, args.negatives, args.dimension, 0
            task = Task("npugraph", model, False, share, *sizes, 0.0, args.threads, seed)
            found.setdefault(share, []).append(train_once(task, splits, args.epochs))
            print(f"  {dataset} {model} share={share}: {found[share][-1]:.4f}", file=sys.stderr)
        means = {share: statistics.mean(values) for share, values in found.items()}
        yield {
            "dataset": dataset,
            "model": model,
            "batch_of_quality": batch,
            "valid_mrr": {f"share={share}": values for share, values in found.items()},
            "mean_difference": means[args.share] - means[1],
        }


def train_once(task: Task, splits: Splits, epochs: int) -> float:
    """Train for some epochs; return the MRR of the validation facts, train and valid filtered."""
    training, settings = make_ours(task, splits, 5e-3)
    optimizer = make_optimizer(training, settings)
    for epoch in range(1, epochs + 1):
        training.system.train()
        rng = generator(task.seed, "sampler", epoch)
        order = torch.randperm(len(splits.train), generator=generator(task.seed, "order", epoch))
        for rows in torch.split(order, task.batch):
            descend(training.loss(rows, rng), optimizer)
    training.system.eval()
    return float(validation_metrics(training, splits, settings)["mrr"])


def environment(args: argparse.Namespace) -> Record:
    """Say what was run, when, and on what."""
    settings = {k: v for k, v in vars(args).items() if k not in ("models", "out", "worker")}
    return {
        "benchmark": "quality of sharing" if args.quality else "training",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": common.command(MODULE, sys.argv[1:]),
        "dataset": DATASET,
        "allocator": common.ALLOCATOR,
        "settings": settings,
        **common.circumstances(name for name in PACKAGES if find_spec(name.replace("-", "_"))),
    }


def row(result: Record, libraries: list[str]) -> str:
    """Return one line of the table."""
    speed = result["positives_per_second"]
    cells = [f"{speed[name]:>14,.0f}" if name in speed else f"{'-':>14}" for name in libraries]
    found = result.get("ratio", {})
    tail = "".join(f"{found[own]:>9.2f}x" if own in found else f"{'-':>10}" for own in OURS)
    reached = "" if found.get("npugraph", math.inf) >= result["aim"] else "  BELOW THE AIM"
    without = result.get("ratio_without_bound", {}).get("npugraph")
    if without is not None:
        name = result["fastest_peer_without_bound"]
        reached = f" (shared {without:.2f}x of {name}, without {BOUND}){reached}"
    # The processes that draw candidates for kge are its own, and count as others here.
    quiet = all(r["cores_used_by_others"] < 0.1 for r in result["all"] if r["library"] != "kge")
    return (
        f"{result['model']:<10}{''.join(cells)}{tail}  of {result.get('fastest_peer', '-')}"
        f"{reached}{'' if quiet else '  machine not quiet'}"
    )


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(AIMS), default=list(AIMS))
    parser.add_argument("--libraries", nargs="+", choices=list(LIBRARIES), default=list(LIBRARIES))
    parser.add_argument("--share", type=int, default=64, help="facts that share their candidates")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--negatives", type=int, default=50)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--warm-up", type=int, default=8, help="steps before the measurement")
    parser.add_argument("--seconds", type=float, default=3.0, help="least time of a measurement")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quality", nargs="+", metavar="GRAPH", help="compare MRR instead")
    parser.add_argument("--epochs", type=int, default=40, help="of --quality")
    parser.add_argument("--out", type=Path, default=RESULTS, help="JSON lines to append to")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Run the comparison, print the table, append one record per model to the results."""
    args = parse()
    if args.worker:
        run_worker(args.worker)
        return
    missing = [name for name in args.libraries if name in PEERS and not find_spec(PEERS[name][0])]
    if missing and not args.quality:
        raise SystemExit(f"Not installed: {', '.join(missing)}. See benchmarks/README.md.")
    about, results = environment(args), list[Record]()
    found = quality(args) if args.quality else (compare(model, args) for model in args.models)
    for result in found:
        results.append(result)
        common.append(args.out, about | result)
    if args.quality:
        print("\n".join(json.dumps(result) for result in results))
        return
    names = "".join(f"{name:>14}" for name in args.libraries)
    print(f"{'model':<10}{names}{'shared':>10}{'own':>10}")
    print("\n".join(row(result, args.libraries) for result in results))


if __name__ == "__main__":
    main()
