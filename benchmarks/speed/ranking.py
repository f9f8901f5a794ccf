"""Full filtered ranking on FB15k-237: npugraph against PyKEEN's RankBasedEvaluator.

Both rank the true head and tail of test facts among all entities, train, valid and test filtered,
with the same random weights of dimension 128, and the run checks that the ranks are the same.
Every measurement is a process of its own, because the allocator setting is read when one starts:

- npugraph: all test facts. The time of ``rank`` and of its metrics: building the filter index of
  both sides, grouping the queries, scoring, counting. ``System.score_all`` scores, as for a user.
- PyKEEN: a seeded sample of the test facts. The time of ``evaluate``, less its preparation of the
  filter facts, which is done before; only one metric is asked for. No work is shared between
  facts, so facts per second carry over to the whole test set. Its best of all batch sizes, with
  and without the allocator setting, is the figure that counts; ours is the one without. A batch
  that does not fit 80 % of the free memory fails and is left out.

Both get a warm-up call, then calls until ``--seconds`` have passed, two at least; the fastest
counts. Memory is the peak of the process during all calls, less what it held before them (data,
weights, libraries). A row is marked where other processes took more than a tenth of a core.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from benchmarks import common
from benchmarks.common import Record, others_time
from npugraph.data import datasets
from npugraph.encoders import Lookup
from npugraph.graph import SIDES, Splits
from npugraph.model import System
from npugraph.ranking.ranks import rank
from npugraph.scorers import MLP, ComplEx, DistMult, RotatE, Scorer, TransE
from npugraph.seeds import generator

DATASET = "fb15k-237"
DIMENSION = 128
BATCHES = (4, 16, 64, 256, 1024)
MODULE = "benchmarks.speed.ranking"
RESULTS = common.RESULTS / "ranking.jsonl"
# How far the two may differ: rounding alone moves a rank by a place or two among 14,541.
MRR_TOLERANCE, RANK_TOLERANCE = 1e-5, 1.0


@dataclass(frozen=True)
class Case:
    """One score function: ours, and the name of PyKEEN's model for it (None: it has none)."""

    scorer: Callable[[], Scorer]
    peer: str | None


CASES = {
    "distmult": Case(DistMult, "DistMult"),
    "complex": Case(ComplEx, "ComplEx"),
    "rotate": Case(lambda: RotatE(norm="l2"), "RotatE"),
    "rotate-modulus": Case(RotatE, None),
    "transe": Case(lambda: TransE(p=1), "TransE"),
    "ermlp": Case(lambda: MLP(DIMENSION, DIMENSION, generator(0, "benchmark", "mlp")), "ERMLP"),
}


@dataclass(frozen=True)
class Task:
    """One measurement, as it is handed to a worker; ``batch`` 0 means npugraph."""

    model: str
    batch: int
    allocator: bool
    sample: int
    seconds: float
    threads: int
    seed: int


def draw_weights(task: Task, splits: Splits) -> tuple[Tensor, Tensor]:
    """Return entities [E, w] and relations [R, v] in our layout; the same in every process."""
    scorer = CASES[task.model].scorer()
    rng = generator(task.seed, "benchmark", "weights")
    return (
        torch.randn(splits.num_entities, scorer.entity_width(DIMENSION), generator=rng),
        torch.randn(splits.num_relations, scorer.relation_width(DIMENSION), generator=rng),
    )


def draw_sample(task: Task, splits: Splits) -> Tensor:
    """Return the places of the sampled test facts; a smaller sample begins a larger one."""
    rng = generator(task.seed, "benchmark", "sample")
    return torch.randperm(len(splits.test), generator=rng)[: task.sample]


def kib(file: str, field: str) -> int:
    """Return a field of a memory table of the kernel, in units of 1024 bytes."""
    lines = Path(file).read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{field}:")))


def measure(call: Callable[[int], object], facts: int, warm_up: int, seconds: float) -> Record:
    """Time ``call(facts)`` after ``call(warm_up)``; return speed, times and memory."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins here
    before = kib("/proc/self/status", "VmRSS")
    call(warm_up)
    others, times = others_time(), list[float]()
    while len(times) < 2 or sum(times) < seconds:
        start = time.perf_counter()
        call(facts)
        times.append(time.perf_counter() - start)
    return {
        "facts": facts,
        "seconds": times,
        "facts_per_second": facts / min(times),
        "cores_used_by_others": round((others_time() - others) / sum(times), 3),
        "peak_mb": (kib("/proc/self/status", "VmHWM") - before) * 1024 / 1e6,
    }


def run_ours(task: Task, splits: Splits) -> Record:
    """Rank all test facts with npugraph; return the measurement and the sample's ranks."""
    sizes = splits.num_entities, splits.num_relations
    system = System(Lookup(*draw_weights(task, splits)), CASES[task.model].scorer(), *sizes).eval()
    facts, known = splits.test.facts, splits.all_facts()
    ranks = rank(system.score_all, facts[:1], *sizes, {"all": known})

    def call(count: int) -> None:
        nonlocal ranks
        ranks = rank(system.score_all, facts[:count], *sizes, {"all": known})
        ranks.metrics("all")

    record = measure(call, len(facts), 64, task.seconds)
    places = draw_sample(task, splits).numpy()
    chosen = [ranks.by_filter["all"][side].of("realistic")[places] for side in SIDES]
    return {**record, "ranks": np.stack(chosen).tolist()}


def build_peer(task: Task, splits: Splits) -> Any:
    """Return PyKEEN's model of the same function with the same weights."""
    import pykeen.models
    from pykeen.triples import CoreTriplesFactory

    name = str(CASES[task.model].peer)
    factory = CoreTriplesFactory(splits.train.facts, splits.num_entities, splits.num_relations)
    model = getattr(pykeen.models, name)(triples_factory=factory, embedding_dim=DIMENSION)
    entities, relations = draw_weights(task, splits)
    if name == "RotatE":
        relations = torch.cat([relations.cos(), relations.sin()], -1)
    if name in ("ComplEx", "RotatE"):  # two halves to pairs of real and imaginary part
        entities, relations = (torch.stack(x.chunk(2, -1), -1) for x in (entities, relations))
    tables = model.entity_representations[0], model.relation_representations[0]
    for table, value in zip(tables, (entities, relations), strict=True):
        (parameter,) = table.parameters()
        parameter.data.copy_(value.view_as(parameter))
    if name == "ERMLP":
        copy_perceptron(model.interaction, CASES[task.model].scorer())
    return model


def copy_perceptron(interaction: Any, ours: Scorer) -> None:
    """Give PyKEEN's perceptron our weights; its first layer is over [h ; r ; t]."""
    assert isinstance(ours, MLP)
    first = torch.cat([ours.head, ours.relation, ours.tail]).T
    pairs = {
        interaction.hidden.weight: first,
        interaction.hidden.bias: ours.bias,
        interaction.hidden_to_score.weight: ours.out.unsqueeze(0),
        interaction.hidden_to_score.bias: ours.shift.unsqueeze(0),
    }
    for parameter, value in pairs.items():
        parameter.data.copy_(value)


def run_peer(task: Task, splits: Splits) -> Record:
    """Rank a sample of the test facts with PyKEEN; return the measurement and the ranks."""
    import pykeen.evaluation.evaluator

    model = build_peer(task, splits)
    evaluator = pykeen.evaluation.RankBasedEvaluator(
        metrics=["mean_reciprocal_rank"], add_defaults=False, clear_on_finalize=False
    )
    facts = splits.test.facts[draw_sample(task, splits)]
    known = torch.unique(splits.all_facts(), dim=0)  # what PyKEEN would prepare in each call

    def call(count: int) -> None:
        evaluator.evaluate(model, facts[:count], task.batch, use_tqdm=False)

    # The batch size is given: without the search for one that fits the memory, it fails instead.
    evaluate = torch.inference_mode()(inspect.unwrap(pykeen.evaluation.evaluator.evaluate))
    parts = {"evaluate": evaluate, "prepare_filter_triples": lambda **_: known}
    with mock.patch.multiple(pykeen.evaluation.evaluator, **parts):
        record = measure(call, len(facts), task.batch, task.seconds)
    ranks = [np.concatenate(evaluator.ranks[side, "realistic"]) for side in SIDES]
    return {**record, "ranks": np.stack(ranks).tolist()}


def run_worker(text: str) -> None:
    """Do one measurement in this process and print it as one line of JSON."""
    task = Task(**json.loads(text))
    torch.set_num_threads(task.threads)
    limit = int(0.8 * 1024 * kib("/proc/meminfo", "MemAvailable"))
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    splits = datasets.load(DATASET).split()
    record = run_peer(task, splits) if task.batch else run_ours(task, splits)
    print(json.dumps({"batch": task.batch, "allocator": task.allocator, **record}))


def launch(task: Task) -> Record | None:
    """Run one measurement in a fresh process; None where it failed, for memory for instance."""
    who = f"PyKEEN, batch {task.batch}" if task.batch else "npugraph"
    return common.launch(MODULE, asdict(task), f"{task.model}: {who}", "facts")


def compare(model: str, args: argparse.Namespace) -> Record:
    """Measure one score function in all settings; return its record, with ratio and agreement."""

    def task(batch: int, allocator: bool, sample: int) -> Task:
        return Task(model, batch, allocator, sample, args.seconds, args.threads, args.seed)

    largest = max(args.sample, *args.batches)
    ours = [launch(task(0, allocator, largest)) for allocator in (False, True)]
    peers = [
        launch(task(batch, allocator, max(args.sample, batch)))
        for batch in (args.batches if CASES[model].peer else [])
        for allocator in (False, True)
    ]
    done = [record for record in peers if record is not None]
    best = max(done, key=lambda record: float(record["facts_per_second"]), default=None)
    if ours[0] is None or (best is None and CASES[model].peer):
        raise SystemExit(f"{model}: every run of one library failed; there is nothing to compare.")
    result: Record = {"model": model, "failed": peers.count(None)}
    if best is not None:  # PyKEEN's time for all test facts follows from its speed on the sample
        result["agreement"] = agreement(ours[0]["ranks"], best["ranks"])
        result["ratio"] = ours[0]["facts_per_second"] / best["facts_per_second"]
        result["pykeen_seconds_extrapolated"] = ours[0]["facts"] / best["facts_per_second"]
    for record in filter(None, [*ours, *done]):
        del record["ranks"]
    result |= {"ours": ours[0], "ours_with_allocator": ours[1], "pykeen": best, "pykeen_all": done}
    return result


def agreement(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> Record:
    """Compare realistic ranks [2, n] on the facts both have ranked."""
    peer = np.array(theirs)
    own = np.array(ours)[:, : peer.shape[1]]
    difference = float(np.abs(own - peer).mean())
    mrr = [float((1 / ranks).mean()) for ranks in (own, peer)]
    same = abs(mrr[0] - mrr[1]) <= MRR_TOLERANCE and difference <= RANK_TOLERANCE
    return {
        "same": same,
        "facts": peer.shape[1],
        "mrr_ours": mrr[0],
        "mrr_pykeen": mrr[1],
        "mean_rank_difference": difference,
    }


def environment(args: argparse.Namespace) -> Record:
    """Say what was run, when, and on what."""
    return {
        "benchmark": "ranking",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": common.command(MODULE, sys.argv[1:]),
        "dataset": DATASET,
        "dimension": DIMENSION,
        "allocator": common.ALLOCATOR,
        "settings": {k: v for k, v in vars(args).items() if k not in ("models", "out", "worker")},
        **common.circumstances(("torch", "numpy", "pykeen", "opt_einsum")),
    }


HEADING = (
    f"{'model':<15}{'ours facts/s':>13}{'MB':>9}{'PyKEEN facts/s':>16}{'MB':>9}  "
    f"{'PyKEEN at its best':<26}{'ratio':>8}{'|d rank|':>10}"
)


def row(result: Record) -> str:
    """Return one line of the table."""
    ours, peer = result["ours"], result["pykeen"]
    start = f"{result['model']:<15}{ours['facts_per_second']:>13,.0f}{ours['peak_mb']:>9,.0f}"
    if peer is None:
        return start
    setting = f"batch {peer['batch']}, allocator {'on' if peer['allocator'] else 'off'}"
    same = result["agreement"]
    quiet = all(r["cores_used_by_others"] < 0.1 for r in (ours, *result["pykeen_all"]))
    return (
        f"{start}{peer['facts_per_second']:>16,.1f}{peer['peak_mb']:>9,.0f}  {setting:<26}"
        f"{result['ratio']:>7.1f}x{same['mean_rank_difference']:>10.4f}"
        f"{'' if same['same'] else '  NOT THE SAME RANKS'}{'' if quiet else '  machine not quiet'}"
    )


def main() -> None:
    """Run the comparison, print the table, append one record per model to the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--sample", type=int, default=256, help="test facts PyKEEN ranks")
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES), help="PyKEEN's")
    parser.add_argument("--seconds", type=float, default=5.0, help="least time of a measurement")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="JSON lines to append to")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        run_worker(args.worker)
        return
    if any(importlib.util.find_spec(name) is None for name in ("pykeen", "opt_einsum")):
        # Without opt_einsum PyKEEN's ComplEx is several times slower: not its best figure.
        raise SystemExit("This benchmark needs: pip install 'pykeen[opt-einsum]==1.11.1'")
    about = environment(args)
    results = []
    for model in args.models:
        results.append(compare(model, args))
        common.append(args.out, about | results[-1])
    print("\n".join([HEADING, *(row(result) for result in results)]))
    if not all(result.get("agreement", {"same": True})["same"] for result in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
