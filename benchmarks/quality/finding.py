"""How well errors of each kind are found: by this checkout and by an earlier one, same graphs.

    git worktree add ../before d3b7c97
    python -m benchmarks.quality.finding --before ../before --jobs 2
    python -m benchmarks.quality.finding --table

The graphs are those of benchmarks.quality.promises, planted by this checkout with the same seeds:
what this checkout finds in them stands in promises.jsonl. The other checkout gets each of them as a
file and audits it by its command with its own defaults; the truth is looked at afterwards. One
JSON line per cell in benchmarks/results/finding_before.jsonl; cells that are there are not run
again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow.parquet as pq

from benchmarks import common
from benchmarks.quality import promises
from benchmarks.quality.finding_tables import finding, read
from benchmarks.quality.promises_tables import read as read_before
from npugraph.data.corrupt import Noise
from npugraph.data.io import write_table
from npugraph.errors import DataError
from npugraph.metrics import auroc, average_precision

MODULE = "benchmarks.quality.finding"
RESULTS = common.RESULTS / "finding_before.jsonl"
GRAPHS = ("umls", "kinships", "countries")
FIRST = 100


def audited_by(before: Path, facts: Path, out: Path, seed: int) -> None:
    """Audit a file by the command of another checkout, in one thread."""
    variables = {
        "PYTHONPATH": str(before.resolve() / "src"),
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
    }
    line = [sys.executable, "-m", "npugraph", "audit", str(facts), "--out", str(out)]
    line += ["--seed", str(seed), "--device", "cpu", "--json"]
    done = subprocess.run(
        line, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(line)} failed: {done.stderr.strip()[-300:]}")


def run(before: Path, graph: str, noise: str, seed: int) -> dict[str, Any]:
    """Plant, let the other checkout audit, and compare with the truth."""
    planted_in, planted = promises.planted_graph(graph, noise, seed)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        facts, out = Path(folder) / "facts.tsv", Path(folder) / "audit"
        write_table(planted_in.to_table(), facts)
        audited_by(before, facts, out, seed)
        said = pq.read_table(out / "posterior.parquet").to_pandas()
    said = said[said["collected"]].drop_duplicates(["head", "relation", "tail"])
    truth = planted_in.with_facts(planted).to_table().to_pandas()
    wrong_names = set(zip(truth["head"], truth["relation"], truth["tail"], strict=True))
    names = zip(said["head"], said["relation"], said["tail"], strict=True)
    wrong = np.array([name in wrong_names for name in names])
    score = said["score"].to_numpy()
    # The review list of that version: by probability, equal ones by score.
    order = np.lexsort((score, said["probability"].to_numpy()))
    return {
        "graph": graph,
        "noise": noise,
        "seed": seed,
        "left_out": False,
        "facts": len(wrong),
        "wrong": int(wrong.sum()),
        "found": int(wrong[order[:FIRST]].sum()),
        "auroc": auroc(~wrong, score),
        "ap": average_precision(wrong, -score),
        "seconds": round(time.perf_counter() - started, 1),
        "before": _commit(before),
        "machine": common.machine(False),
    }


def _commit(place: Path) -> str:
    words = ["git", "-C", str(place), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Run what is not there yet, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, help="the other checkout")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--seeds", default="4")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print("\n".join(finding(read(given.out))))
        return
    if given.before is None:
        parser.error("name the other checkout: --before")
    done = {(line["graph"], line["noise"], line["seed"]) for line in read_before(given.out)}
    cells = [
        (graph, noise, int(seed))
        for seed in given.seeds.split(",")
        for graph in given.graphs.split(",")
        for noise in get_args(Noise)
        if (graph, noise, int(seed)) not in done
    ]
    # Where the other checkout lies does not matter.
    words = common.command(MODULE, sys.argv[1:]).replace(str(given.before), "CHECKOUT")

    def one(cell: tuple[str, str, int]) -> None:
        try:
            line = run(given.before, *cell)
        except (RuntimeError, DataError) as error:
            print(f"{cell}: {error}", file=sys.stderr)
        else:
            common.append(given.out, {**line, "command": words})
            print(f"{cell}: AUROC {line['auroc']:.3f}, AP {line['ap']:.3f}", file=sys.stderr)

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(one, cells))


if __name__ == "__main__":
    main()
