"""Quality on clean data: does a recipe reach the level the field reports for it?

    python benchmarks/clean.py umls-complex-n3 kinships-complex-n3
    python benchmarks/clean.py fb15k-237-complex-n3 --set device=cuda

Trains on the graph as published, keeps the best epoch by validation MRR, ranks the test facts once
(filtered, realistic) and appends one JSON line to benchmarks/results/clean.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch

from npugraph.datasets import load
from npugraph.evaluation import evaluate
from npugraph.recipes import get_recipe
from npugraph.settings import make_settings, parse_assignments
from npugraph.train import choose_device, fit

RESULTS = Path(__file__).parent / "results" / "clean.jsonl"
# name -> graph, recipe, settings. Chosen on validation facts.
RUNS: dict[str, tuple[str, str, dict[str, object]]] = {
    "umls-complex-n3": ("umls", "complex-n3", {"d": 128, "epochs": 60, "batch_size": 128}),
    "kinships-complex-n3": ("kinships", "complex-n3", {"d": 128, "epochs": 60, "batch_size": 128}),
    "fb15k-237-complex-n3": (
        "fb15k-237",
        "complex-n3",
        {"d": 1000, "n3": 0.05, "batch_size": 1000, "epochs": 60, "precision": "tf32"},
    ),
}


def machine(device: torch.device) -> str:
    """Name the processor that did the work."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {os.cpu_count()} cores"


def run(name: str, changes: dict[str, str]) -> dict[str, object]:
    """Train and judge one named run; return its line of results."""
    graph, recipe, values = RUNS[name]
    settings = make_settings(get_recipe(recipe).settings, {**values, **changes})
    splits = load(graph)
    started = time.perf_counter()

    def report(record: dict[str, object]) -> None:
        print(json.dumps(record), file=sys.stderr, flush=True)

    fitted = fit(splits, recipe, settings, report=report)
    seconds = time.perf_counter() - started
    result = evaluate(fitted, ["clean"])
    metrics = result["filters"]["clean"]
    device = choose_device(settings.device)
    changed = "".join(f" --set {key}={value}" for key, value in changes.items())
    return {
        "name": name,
        "command": f"python benchmarks/clean.py {name}{changed}",
        "graph": graph,
        "recipe": recipe,
        **{k: round(metrics[k], 5) for k in ("mrr", "hits@1", "hits@3", "hits@10")},
        "valid_mrr": round(fitted.progress.best_mrr, 5),
        "best_epoch": fitted.progress.best_epoch,
        "train_seconds": round(seconds, 1),
        "rank_seconds": result["seconds"],
        "settings": asdict(settings),
        "machine": machine(device),
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    """Run the named runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="+", choices=list(RUNS))
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    for name in arguments.names:
        line = json.dumps(run(name, parse_assignments(arguments.set)))
        with arguments.out.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        print(line)


if __name__ == "__main__":
    main()
