"""nPUGraph and its ablations on a perturbed graph: ranking, noise detection, time.

    python -m benchmarks.quality.speculative umls --recipe npugraph --seed 0
    python -m benchmarks.quality.speculative fb15k --recipe npugraph/no-npu --set batch_size=1024

The graph is perturbed (rate 0.3, random noise, the run's seed), the best epoch is chosen on the
perturbed validation facts, and the test facts are ranked once. Appends one JSON line, the learning
curve included, to benchmarks/results/speculative.jsonl.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks import common
from npugraph.bench.graphs import perturbed
from npugraph.data.perturb import PerturbSettings
from npugraph.fitting import fit
from npugraph.ranking.evaluate import evaluate, noise_judge
from npugraph.recipes import get_recipe
from npugraph.settings import make_settings, parse_assignments
from npugraph.training.loop import choose_device

MODULE = "benchmarks.quality.speculative"
RESULTS = common.RESULTS / "speculative.jsonl"
CURVE = ("epoch", "loss", "valid_mrr", "noise_auroc", "noise_auroc_held_out", "posterior_agreement")


def run(arguments: argparse.Namespace, words: Sequence[str]) -> dict[str, Any]:
    """Train and judge once; return the line of results. ``words`` is the command as typed."""
    changes = parse_assignments(arguments.set)
    recipe = get_recipe(arguments.recipe)
    settings = make_settings(recipe.settings, {"seed": arguments.seed, **changes})
    protocol = PerturbSettings(arguments.rate, arguments.noise, seed=arguments.seed)
    drawn = (arguments.graph, f"{arguments.rate:g}", arguments.noise, str(arguments.seed))
    folder = Path(arguments.work) / "-".join(drawn)
    splits = perturbed(arguments.graph, protocol, folder)

    def report(record: dict[str, Any]) -> None:
        print(json.dumps(record), file=sys.stderr, flush=True)

    started, worked = time.perf_counter(), time.process_time()
    judge = noise_judge(splits)
    fitted = fit(splits, arguments.recipe, settings, report=report, judge=judge)
    seconds, worked = time.perf_counter() - started, time.process_time() - worked
    result = evaluate(fitted, ["clean", "perturbed"])
    best = fitted.metrics[fitted.progress.best_epoch - 1]
    device = choose_device(settings.device)
    keys = ("mrr", "hits@1", "hits@3", "hits@10")
    return {
        "command": common.command(MODULE, words),
        "graph": arguments.graph,
        "recipe": arguments.recipe,
        "seed": arguments.seed,
        "rate": arguments.rate,
        "noise": arguments.noise,
        **{f: {k: round(result["filters"][f][k], 5) for k in keys} for f in result["filters"]},
        "noise_auroc": best.get("noise_auroc"),
        "noise_auroc_held_out": best.get("noise_auroc_held_out"),
        "valid_mrr": round(fitted.progress.best_mrr, 5),
        "best_epoch": fitted.progress.best_epoch,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(worked, 1),
        "rank_seconds": result["seconds"],
        "note": arguments.note,
        "machine": common.machine(device.type == "cuda"),
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "settings": asdict(settings),
        "curve": [{k: r[k] for k in CURVE if k in r} for r in fitted.metrics if "valid_mrr" in r],
    }


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's words."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("graph")
    made.add_argument("--recipe", default="npugraph")
    made.add_argument("--rate", type=float, default=0.3)
    made.add_argument("--noise", default="random")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    made.add_argument("--note", default="", help="what a reader of the figures must know")
    made.add_argument("--work", default="out/speculative", help="where perturbed graphs go")
    made.add_argument("--out", type=Path, default=RESULTS)
    return made


def main() -> None:
    """Run once and append the result."""
    arguments = parser().parse_args()
    result = run(arguments, sys.argv[1:])
    common.append(arguments.out, result)
    print(json.dumps({k: v for k, v in result.items() if k not in ("settings", "curve")}))


if __name__ == "__main__":
    main()
