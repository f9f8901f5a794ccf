"""What the demo finds, promises, corrects and costs, seed by seed.

    python -m benchmarks.quality.demo --seed 0                # one demo
    python -m benchmarks.quality.demo --seeds 0-9 --jobs 10   # ten of them, each in its own process
    python -m benchmarks.quality.demo --seeds 0-9 --replaced  # what was meant is gone, not beside
    python -m benchmarks.quality.demo --table

The demo of ``make demo``: wrong facts are planted in the bundled graph, 100 suspects are listed,
all files are written. With ``--replaced`` the facts that the planted ones were made of are taken
out, so that corrections have something to put back. A correction is right where it names the fact
that the planted one was made of. One JSON line per seed in benchmarks/results/demo.jsonl.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from benchmarks import common
from benchmarks.quality.demo_tables import TABLES, read
from npugraph.auditing import Audit, AuditSettings, audit, write_audit
from npugraph.auditing.page import is_planted
from npugraph.data.demo import planted_world
from npugraph.data.perturb import Truth
from npugraph.graph import KnowledgeGraph, TripleIndex

MODULE = "benchmarks.quality.demo"
RESULTS = common.RESULTS / "demo.jsonl"


def replaced(graph: KnowledgeGraph, truth: Truth) -> KnowledgeGraph:
    """Return the graph without the facts that the planted ones were made of."""
    assert truth.origin is not None
    gone = TripleIndex(truth.origin, graph.num_entities, graph.num_relations)
    return graph.select(~gone.contains(graph.facts))


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run one demo; return its figures."""
    graph, truth = planted_world(arguments.seed)
    if arguments.replaced:
        graph = replaced(graph, truth)
    asked = AuditSettings(seed=arguments.seed, device="cpu")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = audit(graph, asked, out=folder)
        # Only now is the truth looked at.
        said = write_audit(found, folder, planted=truth.planted)
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    counts = ("expected_wrong", "expected_wrong_low", "expected_wrong_high")
    shares = ("wrong_share", "wrong_share_low", "wrong_share_high")
    wrong = is_planted(found, truth.planted)
    return {
        "seed": arguments.seed,
        "replaced": arguments.replaced,
        "facts": said["facts"],
        "planted": int(wrong.sum()),
        "suspects": said["suspects"],
        "found": int(wrong[found.suspect_rows].sum()),
        **{name: said[name] for name in ("verdict", "verdict_reason", *counts, *shares)},
        "corrections": corrections(found, truth),
        "tested_corrections": found.corrector.test.right,
        "views": [one.view for one in found.views],
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mib": round(used.ru_maxrss / 1024),
        "settings": asked.asked(),
        "command": common.command(MODULE, sys.argv[1:]),
        "machine": common.machine(False),
    }


def corrections(found: Audit, truth: Truth) -> dict[str, int]:
    """Count the corrections of planted suspects, and which of them are right.

    ``right`` names what the fact was made of; ``true`` names any fact that is true. ``of_true`` are
    those of suspects that are true themselves.
    """
    assert truth.origin is not None
    origin = dict(zip(map(tuple, truth.planted.tolist()), truth.origin.tolist(), strict=True))
    # What is stored and not planted is true, and so is what planted facts were made of.
    clean = {tuple(fact) for fact in found.graph.facts.tolist()} | set(map(tuple, origin.values()))
    clean -= set(origin)
    count = dict.fromkeys(("new", "new_right", "stored", "stored_right", "true", "of_true"), 0)
    suspects = found.collected.facts[found.suspect_rows].tolist()
    for fact, fix in zip(suspects, found.corrections, strict=True):
        if fix is None:
            continue
        if tuple(fact) not in origin:
            count["of_true"] += 1
            continue
        meant = list(fact)
        meant[0 if fix.side == "head" else 2] = found.graph.entities.id(fix.label)
        sort = "stored" if fix.stored else "new"
        count[sort] += 1
        count[f"{sort}_right"] += meant == origin[tuple(fact)]
        count["true"] += tuple(meant) in clean
    return count


def run_all(seeds: list[int], arguments: argparse.Namespace) -> None:
    """Run one process per seed, some at a time."""
    more = ["--replaced"] if arguments.replaced else []
    more += ["--threads", str(arguments.threads), "--out", str(arguments.out)]
    variables = {"OMP_NUM_THREADS": str(arguments.threads)}

    def one(seed: int) -> str:
        try:
            common.in_own_process(MODULE, ["--seed", str(seed), *more], variables)
        except RuntimeError as error:
            return f"seed {seed}: {error}"
        return f"seed {seed}: done"

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for said in pool.map(one, seeds):
            sys.stderr.write(said + "\n")


def numbers(text: str) -> list[int]:
    """Return the seeds of a text.

    >>> numbers("0-2,7")
    [0, 1, 2, 7]
    """
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def main() -> None:
    """Run one demo or several, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=numbers, help="several: 0-9, or 0,3,5")
    parser.add_argument("--replaced", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="demos at a time")
    parser.add_argument("--threads", type=int, default=1, help="threads per demo")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        for table in TABLES:
            sys.stdout.write("\n".join([*table(read(arguments.out)), ""]))
    elif arguments.seeds:
        run_all(arguments.seeds, arguments)
    else:
        torch.set_num_threads(arguments.threads)
        record = run(arguments)
        common.append(arguments.out, record)
        sys.stdout.write(f"{record['found']}\n")


if __name__ == "__main__":
    main()
