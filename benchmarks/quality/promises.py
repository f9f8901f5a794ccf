"""Does the audit keep what it promises? Expected against found in the first 100 suspects.

    python -m benchmarks.quality.promises codex-s --noise typed --seed 0
    python -m benchmarks.quality.promises codex-s --noise typed --seed 0 --left-out
    python -m benchmarks.quality.promises codex-s --noise none --seed 0     # as published
    python -m benchmarks.quality.promises --plan small --jobs 14            # all cells of a plan
    python -m benchmarks.quality.promises --table

A cell: errors of one kind are planted beside the facts of a graph (5% of them), the graph is
audited, and then the truth is looked at. With ``--left-out`` the whole family of the kind is taken
out of the calibration and of the self-test: the audit meets errors it has no pool of. As published
(``none``) every fact counts as true. One JSON line per cell in benchmarks/results/promises.jsonl;
cells that are there already are not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from benchmarks import common
from benchmarks.quality.promises_tables import TABLES, read
from npugraph.auditing import Audit, AuditSettings, audit
from npugraph.auditing.page import is_planted, summary
from npugraph.auditing.settings import KINDS
from npugraph.data.corrupt import FAMILIES, Noise, family
from npugraph.data.datasets import load
from npugraph.data.perturb import PerturbSettings, perturb
from npugraph.graph import KnowledgeGraph
from npugraph.metrics import auroc, average_precision

MODULE = "benchmarks.quality.promises"
RESULTS = common.RESULTS / "promises.jsonl"
RATE = 0.05
AS_PUBLISHED = "none"
# Graphs whose figures are reported; the others were looked at while the rules were made.
REPORTED = ("codex-s", "kinships", "countries")
SEEDS = (0, 1, 2)
# Of the large ones three kinds and one seed.
LARGE = ("fb15k-237", "wn18rr")
LARGE_KINDS: tuple[Noise, ...] = ("one-sided", "typed", "swapped")


def cells(plan: str) -> list[list[str]]:
    """Return the words of each cell of a plan: ``small`` or ``large``."""
    graphs, kinds, seeds = (
        (REPORTED, get_args(Noise), SEEDS) if plan == "small" else (LARGE, LARGE_KINDS, (0,))
    )
    found = []
    for graph in graphs:
        for seed in seeds:
            own = ["--seed", str(seed)]
            found.append([graph, "--noise", AS_PUBLISHED, *own])
            for kind in kinds:
                found.append([graph, "--noise", kind, *own])
                # A kind without a pool is left out as it is, but for the others of its family.
                found.append([graph, "--noise", kind, *own, "--left-out"])
    return found


def planted_graph(name: str, noise: str, seed: int) -> tuple[KnowledgeGraph, torch.Tensor]:
    """Return a graph with errors beside its facts, and which they are."""
    splits = load(name).split()
    if noise == AS_PUBLISHED:
        whole = splits.whole()
        return whole, whole.facts[:0]
    asked = PerturbSettings(rate=RATE, added_share=1.0, noise=noise, seed=seed)  # type: ignore[arg-type]
    splits, truth = perturb(splits, asked)
    return splits.whole(), truth.planted


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Audit one cell; return its figures."""
    graph, planted = planted_graph(arguments.graph, arguments.noise, arguments.seed)
    left_out: tuple[str, ...] = ()
    if arguments.left_out:
        left_out = FAMILIES[family(arguments.noise)]
    kinds = tuple(kind for kind in KINDS if kind not in left_out)
    asked = AuditSettings(seed=arguments.seed, kinds=kinds, device=arguments.device, explained=0)
    if arguments.views:
        asked = dataclasses.replace(asked, views=tuple(arguments.views.split(",")))
    started = time.perf_counter()
    found = audit(graph, asked)
    seconds = time.perf_counter() - started
    # Only now is the truth looked at.
    return {
        "graph": arguments.graph,
        "noise": arguments.noise,
        "seed": arguments.seed,
        "left_out": arguments.left_out,
        "rate": RATE,
        "seconds": round(seconds, 1),
        **figures(found, planted),
        "settings": asked.asked(),
        "command": common.command(MODULE, sys.argv[1:]),
        "machine": common.machine(torch.cuda.is_available() and arguments.device != "cpu"),
    }


def figures(found: Audit, planted: torch.Tensor) -> dict[str, Any]:
    """Return what was promised beside what is there."""
    wrong = is_planted(found, planted)
    said = summary(found)
    kept = ("verdict", "verdict_reason", "wrong_share", "wrong_share_low", "wrong_share_high")
    counts = ("suspects", "expected_wrong", "expected_wrong_low", "expected_wrong_high")
    score = found.collected.score
    told = bool(wrong.any()) and not bool(wrong.all())
    low = found.model.low_end
    return {
        "facts": len(wrong),
        "wrong": int(wrong.sum()),
        "found": int(wrong[found.suspect_rows].sum()),
        **{name: said[name] for name in (*kept, *counts)},
        "quarantined": len(found.quarantine_rows),
        "quarantined_wrong": int(wrong[found.quarantine_rows].sum()),
        "auroc": auroc(~wrong, score) if told else None,
        "ap": average_precision(wrong, -score) if told else None,
        "low_end": dataclasses.asdict(low),
        "self_test": said["self_test"],
        "noise_profile": said["noise_profile"],
        "first": [int(n) for n in np.cumsum(wrong[found.suspect_rows])[[*range(9, 100, 10)]]]
        if len(found.suspect_rows) >= 100
        else [],
    }


def run_plan(plan: str, jobs: int, out: Path, more: list[str]) -> None:
    """Run the cells of a plan that are not there yet, some at a time, each in its own process."""
    done = set()
    if out.is_file():
        lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        done = {(r["graph"], r["noise"], r["seed"], r["left_out"]) for r in lines}
    wanted = [
        words
        for words in cells(plan)
        if (words[0], words[2], int(words[4]), "--left-out" in words) not in done
    ]

    def one(words: list[str]) -> None:
        call = [sys.executable, "-m", MODULE, *words, "--out", str(out), *more]
        ended = subprocess.run(call, check=False, capture_output=True, text=True)
        tail = ended.stderr.strip().splitlines()[-1:] if ended.returncode else []
        sys.stderr.write(f"{' '.join(words)}: {ended.returncode} {' '.join(tail)}\n")

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, wanted))


def main() -> None:
    """Run one cell, a plan, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graph", nargs="?")
    parser.add_argument("--noise", choices=[AS_PUBLISHED, *get_args(Noise)], default="typed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--left-out", action="store_true")
    parser.add_argument("--views", default="", help="views of the audit, with commas between")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--plan", choices=["small", "large"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        for table in TABLES:
            sys.stdout.write("\n".join([f"## {table.__name__}", *table(read(arguments.out)), ""]))
    elif arguments.plan:
        more = ["--device", arguments.device]
        more += ["--views", arguments.views] if arguments.views else []
        run_plan(arguments.plan, arguments.jobs, arguments.out, more)
    else:
        torch.set_num_threads(1)
        common.append(arguments.out, run(arguments))


if __name__ == "__main__":
    main()
