"""Does the audit keep what it promises? Expected against found in the first 100 suspects.

    python -m benchmarks.quality.promises codex-s --noise typed --seed 0
    python -m benchmarks.quality.promises codex-s --noise typed --seed 0 --left-out
    python -m benchmarks.quality.promises codex-s --noise none --seed 0     # as published
    python -m benchmarks.quality.promises --plan small --list               # its cells, a line each
    python -m benchmarks.quality.promises --plan small --jobs 13            # what is not there yet
    python -m benchmarks.quality.promises --plan small --graphs umls --seeds 0,1 --jobs 13
    python -m benchmarks.quality.promises --plan large --device cuda --jobs 3 --threads 4
    python -m benchmarks.quality.promises --table

A cell: errors of one kind are planted beside the facts of a graph (5% of them), the graph is
audited, and then the truth is looked at. With ``--left-out`` the whole family of the kind is taken
out of the calibration and of the self-test: the audit meets errors it has no pool of. As published
(``none``) every fact counts as true. One JSON line per cell in benchmarks/results/promises.jsonl;
cells that are there already are not run again, one that takes longer than ``--timeout`` is given
up. Each cell is a process of ``--threads``, one by default.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
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
from npugraph.auditing.figures import summary
from npugraph.auditing.page import is_planted
from npugraph.auditing.settings import KINDS, TESTED
from npugraph.data.corrupt import FAMILIES, Noise, family
from npugraph.data.datasets import load
from npugraph.data.perturb import PerturbSettings, perturb
from npugraph.graph import KnowledgeGraph
from npugraph.metrics import auroc, average_precision

MODULE = "benchmarks.quality.promises"
RESULTS = common.RESULTS / "promises.jsonl"
RATE = 0.05
AS_PUBLISHED = "none"
# Seeds 0 to 3 were run with earlier rules.
SEEDS = (4, 5, 6)
# The graphs of each plan. The rules were made on UMLS, the bundled graph, Nations and
# wordnet-animals with other seeds.
PLANS: dict[str, tuple[str, ...]] = {
    "small": ("umls", "kinships", "codex-s"),
    "more": ("countries", "nations"),
    "large": ("fb15k-237", "wn18rr"),
}
# Of the large ones three kinds and one seed.
LARGE_KINDS: tuple[Noise, ...] = ("one-sided", "typed", "swapped")
# Seconds after which a cell is given up.
TIMEOUT = 3600


def cells(plan: str) -> list[list[str]]:
    """Return the words of each cell of a plan, seed by seed."""
    kinds, seeds = (LARGE_KINDS, SEEDS[:1]) if plan == "large" else (get_args(Noise), SEEDS)
    found = []
    for seed in seeds:
        for graph in PLANS[plan]:
            own = ["--seed", str(seed)]
            found.append([graph, "--noise", AS_PUBLISHED, *own])
            for kind in kinds:
                found.append([graph, "--noise", kind, *own])
                # A kind without a pool is left out as it is, but for the others of its family.
                found.append([graph, "--noise", kind, *own, "--left-out"])
    return found


def wanted_cells(arguments: argparse.Namespace) -> list[list[str]]:
    """Return the words of the cells that were asked for and are not in the file yet."""
    done = {
        (line["graph"], line["noise"], line["seed"], line["left_out"])
        for line in read(arguments.out)
    }
    graphs = arguments.graphs.split(",") if arguments.graphs else PLANS[arguments.plan]
    seeds = [int(seed) for seed in arguments.seeds.split(",")] if arguments.seeds else SEEDS
    return [
        words
        for words in cells(arguments.plan)
        if words[0] in graphs
        and int(words[4]) in seeds
        and (words[0], words[2], int(words[4]), "--left-out" in words) not in done
    ]


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
    kinds, tested = (tuple(k for k in of if k not in left_out) for of in (KINDS, TESTED))
    asked = AuditSettings(
        seed=arguments.seed, kinds=kinds, tested=tested, device=arguments.device, explained=0
    )
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
        "noise_profile": {k: round(v, 5) for k, v in found.model.profile.share.items()},
        "first": [int(n) for n in np.cumsum(wrong[found.suspect_rows])[[*range(9, 100, 10)]]]
        if len(found.suspect_rows) >= 100
        else [],
    }


def run_plan(wanted: list[list[str]], arguments: argparse.Namespace) -> int:
    """Run cells, some at a time, each in its own process; return how many failed."""
    threads = str(arguments.threads)
    more = ["--out", str(arguments.out), "--device", arguments.device, "--threads", threads]
    # The trees' library reads the first two; PyTorch has an option of its own.
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, threads), "OMP_WAIT_POLICY": "passive"}
    more += ["--views", arguments.views] if arguments.views else []

    def one(words: list[str]) -> bool:
        started = time.perf_counter()
        call = [sys.executable, "-m", MODULE, *words, *more]
        try:
            ended = subprocess.run(
                call,
                check=False,
                capture_output=True,
                text=True,
                timeout=arguments.timeout,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            said = f"given up after {arguments.timeout} s"
        else:
            tail = ended.stderr.strip().splitlines()[-1:] if ended.returncode else ["done"]
            said = " ".join(tail)
        seconds = time.perf_counter() - started
        sys.stderr.write(f"{' '.join(words)}: {said} ({seconds:.0f} s)\n")
        return said == "done"

    with ThreadPoolExecutor(arguments.jobs) as pool:
        return list(pool.map(one, wanted)).count(False)


def main() -> None:
    """Run one cell, a plan, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graph", nargs="?")
    parser.add_argument("--noise", choices=[AS_PUBLISHED, *get_args(Noise)], default="typed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--left-out", action="store_true")
    parser.add_argument("--views", default="", help="views of the audit, with commas between")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--plan", choices=list(PLANS))
    parser.add_argument("--graphs", default="", help="of the plan, with commas between; all")
    parser.add_argument("--seeds", default="", help="likewise")
    parser.add_argument("--list", action="store_true", help="print the cells that are wanted")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    parser.add_argument("--threads", type=int, default=1, help="threads per cell")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds per cell at most")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        for table in TABLES:
            sys.stdout.write("\n".join([f"## {table.__name__}", *table(read(arguments.out)), ""]))
    elif arguments.plan:
        wanted = wanted_cells(arguments)
        if arguments.list:
            sys.stdout.write("".join(f"{' '.join(words)}\n" for words in wanted))
        elif run_plan(wanted, arguments):
            raise SystemExit(1)
    elif arguments.graph is None:
        parser.error("name a graph, a --plan, or ask for the --table")
    else:
        torch.set_num_threads(arguments.threads)
        common.append(arguments.out, run(arguments))


if __name__ == "__main__":
    main()
