"""Errors planted as CAGED's published code plants them: what share of the first suspects is wrong.

    python -m benchmarks.quality.caged wn18rr --rate 0.05 --seed 0 --device cuda
    python -m benchmarks.quality.caged fb15k-237 --rate 0.05 --seed 0 --device cuda
    python -m benchmarks.quality.caged wn18rr --set self_test=0 --device cuda   # faster
    python -m benchmarks.quality.caged --table     # all results beside the published figures

int(rate N) false facts are added to all N facts of a graph (docs/protocol.md, noise ``caged``), and
the audit orders all of them. It is given the facts alone; the truth is looked at afterwards. As in
the published code, precision is that of the first int(share N) facts. Appends one JSON line per
run to benchmarks/results/caged.jsonl.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.quality.audit import Meter, merged
from benchmarks.quality.caged_tables import PUBLISHED, SHARES, caged, read
from npugraph.auditing import AuditSettings, audit
from npugraph.auditing.settings import divide_settings
from npugraph.data.datasets import load
from npugraph.data.perturb import PerturbSettings, perturb
from npugraph.graph import Splits, TripleIndex
from npugraph.metrics import auroc, average_precision
from npugraph.settings import parse_assignments

MODULE = "benchmarks.quality.caged"
RESULTS = common.RESULTS / "caged.jsonl"
Bools = NDArray[np.bool_]


def precision_at(wrong: Bools, score: NDArray[np.floating], facts: int) -> list[float]:
    """Return the share of wrong facts among the first int(share N), for each of SHARES.

    Args:
        wrong: which facts [n] were planted.
        score: higher is more plausible [n]; equal scores stay in order.
        facts: N, how many facts there were before.
    """
    found = np.cumsum(wrong[np.argsort(score, kind="stable")])
    counts = [max(1, int(share * facts)) for share in SHARES]
    return [float(found[count - 1] / count) for count in counts]


def by_part(wrong: torch.Tensor, stored: torch.Tensor, splits: Splits) -> dict[str, Bools]:
    """Divide planted facts [n, 3] by what a stored fact could have been replaced in."""
    rows = {
        "head": ([1, 2], splits.num_entities),
        "relation": ([0, 2], splits.num_entities),
        "tail": ([0, 1], splits.num_relations),
    }
    held = {}
    for name, (columns, base) in rows.items():
        left, right = columns
        keys = stored[:, left] * base + stored[:, right]
        held[name] = torch.isin(wrong[:, left] * base + wrong[:, right], keys).numpy()
    held["none"] = ~np.logical_or.reduce(list(held.values()))
    return held


def run(name: str, how: PerturbSettings, asked: dict[str, Any], changes: dict[str, str]) -> Any:
    """Plant, audit, and compare with the truth."""
    splits, truth = perturb(load(name).split(), how)
    graph = merged(splits, ("train", "valid", "test"))
    meter = Meter()
    found = audit(graph, AuditSettings(**asked), changes, stage=meter.stage)
    spent = meter.spent()
    facts, score = found.collected.facts, np.asarray(found.collected.score)
    planted = TripleIndex(truth.planted, splits.num_entities, splits.num_relations)
    wrong = planted.contains(facts).numpy()
    original = len(graph) - len(truth.planted)
    below = np.sort(score)[max(1, int(how.rate * original)) - 1]
    listed = {
        part: {"facts": int(mine.sum()), "found": float((score[wrong] <= below)[mine].mean())}
        for part, mine in by_part(facts[wrong], facts[~wrong], splits).items()
        if mine.any()
    }
    return {
        "perturbation": dataclasses.asdict(how),
        "facts": original,
        "planted": len(truth.planted),
        "shares": list(SHARES),
        "precision": precision_at(wrong, score, original),
        "published": PUBLISHED.get(name, {}) if how.rate == 0.05 else {},
        "auroc": auroc(~wrong, score),
        "average_precision": average_precision(wrong, -score),
        "first_rate_by_part": listed,
        "settings": {**found.settings.asked(), "assigned": {**asked, **changes}},
        "training": dataclasses.asdict(found.training),
        **spent,
    }


def main(words: Sequence[str] | None = None) -> None:
    """Run one audit and append its result."""
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("graph", nargs="?", default="umls")
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], dest="assignments")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args(words)
    if arguments.table:
        print("\n".join(caged(read(arguments.out))))
        return
    assigned = parse_assignments(arguments.assignments)
    recipe = assigned.get("recipe", AuditSettings.recipe)
    asked, changes = divide_settings(recipe, assigned)
    # Missing facts are not what is asked for here.
    asked = {"missing": 0, "device": arguments.device, "seed": arguments.seed, **asked}
    how = PerturbSettings(rate=arguments.rate, noise="caged", seed=arguments.seed)
    result = {
        "graph": arguments.graph,
        "machine": common.machine(torch.cuda.is_available() and arguments.device != "cpu"),
        "command": common.command(MODULE, words),
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        **run(arguments.graph, how, asked, changes),
    }
    common.append(arguments.out, result)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
