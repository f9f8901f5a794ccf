"""What answers of a reviewer bring: order, probabilities, and the share of wrong facts.

    python -m benchmarks.quality.answers umls --noise typed --seed 0
    python -m benchmarks.quality.answers --million         # seconds to recalibrate a million facts
    python -m benchmarks.quality.answers --table           # all results as tables

Wrong facts are planted in a graph, 5% of its facts, nothing is removed, and the graph is audited
once; the audit is not told the truth. Then a reviewer who makes no mistakes is simulated: half of
the answers are on facts drawn at random, half on the most suspicious ones. Probabilities are
recalibrated by them, without a new training, and judged on the facts that have no answer. Appends
one JSON line per run to benchmarks/results/answers.jsonl.
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
from benchmarks.quality.answers_tables import all_tables
from benchmarks.quality.audit import merged
from npugraph.auditing import Audit, AuditSettings, audit
from npugraph.auditing.settings import divide_settings
from npugraph.auditing.statistics.answers import (
    CHOSEN,
    RANDOM,
    Answered,
    Predictors,
    SequentialDraw,
    random_share,
    recalibrate,
)
from npugraph.data.corrupt import NOISES
from npugraph.data.datasets import load
from npugraph.data.perturb import PerturbSettings, perturb
from npugraph.graph import TripleIndex
from npugraph.metrics import auroc, average_precision, ece
from npugraph.seeds import number
from npugraph.settings import make_settings, parse_assignments

MODULE = "benchmarks.quality.answers"
RESULTS = common.RESULTS / "answers.jsonl"
SIZES = (50, 100, 200)
# Draws behind the coverage of intervals, which cost nothing, and behind what is learned.
DRAWS, LEARNED_DRAWS = 200, 40
PLANTED = 0.05
MILLION = 1_000_000
Floats = NDArray[np.floating]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class Cell:
    """What an audit said of all facts, and which of them are true.

    Attributes:
        score: [n].
        probability: of being true [n].
        relation: [n].
        true: bool [n].
    """

    score: Floats
    probability: Floats
    relation: Ints
    true: Bools

    @classmethod
    def of(cls, found: Audit, planted: torch.Tensor) -> Cell:
        """Take it from an audit; ``planted`` facts [k, 3] are wrong."""
        sizes = found.graph.num_entities, found.graph.num_relations
        judged = found.collected
        wrong = TripleIndex(planted, *sizes).contains(judged.facts).numpy()
        return cls(judged.score, judged.probability, judged.facts[:, 1].numpy(), ~wrong)

    def answers(self, count: int, rng: np.random.Generator) -> Answered:
        """Simulate answers: half on random facts, half on the most suspicious of the others."""
        random = rng.permutation(len(self.true))[: count // 2]
        rest = np.setdiff1d(np.argsort(self.score, kind="stable"), random, assume_unique=True)
        suspicious = rest[np.argsort(self.score[rest], kind="stable")[: count - len(random)]]
        rows = np.concatenate([random, suspicious])
        drawn = np.repeat([RANDOM, CHOSEN], [len(random), len(suspicious)])
        return Answered(rows, self.true[rows], drawn)


def measures(cell: Cell, order: Floats, probability: Floats, rows: Ints) -> dict[str, float]:
    """Judge an order and probabilities of some facts."""
    true = cell.true[rows]
    return {
        "auroc": auroc(true, order[rows]),
        "average_precision": average_precision(~true, -order[rows]),
        "ece": ece(probability[rows], true),
    }


def learned(cell: Cell, count: int, seed: int) -> dict[str, Any]:
    """Recalibrate by simulated answers; means over draws, on facts without an answer.

    ``by_order`` has no probabilities to begin with, as where an audit promises none.
    """
    given = {
        "by_probability": Predictors.of(
            cell.score, probability=cell.probability, relation=cell.relation
        ),
        "by_order": Predictors.of(cell.score, relation=cell.relation),
    }
    found: dict[str, list[dict[str, float]]] = {"before": [], **{name: [] for name in given}}
    for draw in range(LEARNED_DRAWS):
        rng = np.random.default_rng(number(seed, "answers", count, draw))
        answers = cell.answers(count, rng)
        rest = np.setdiff1d(np.arange(len(cell.true)), answers.rows)
        found["before"].append(measures(cell, cell.score, cell.probability, rest))
        for name, facts in given.items():
            after = recalibrate(facts, answers).probability
            found[name].append(measures(cell, after, after, rest))
    return {
        name: {key: float(np.mean([one[key] for one in many])) for key in many[0]}
        for name, many in found.items()
    }


def covered(cell: Cell, count: int, seed: int) -> dict[str, Any]:
    """Return how often the interval of the share holds it, and its mean width, by drawing.

    ``half_random`` is what :func:`learned` has, ``random`` as many answers on random facts alone,
    and ``drawn`` as many on facts drawn by the audit's probabilities.
    """
    wrong = ~cell.true
    share, facts = wrong.mean(), len(wrong)
    ends: dict[str, list[tuple[float, float]]] = {}
    for draw in range(DRAWS):
        rng = np.random.default_rng(number(seed, "share", count, draw))
        rows = rng.permutation(facts)[:count]
        for name, size in (("half_random", count // 2), ("random", count)):
            found = random_share(int(wrong[rows[:size]].sum()), size, facts)
            ends.setdefault(name, []).append((found.low, found.high))
        order = SequentialDraw.of(cell.probability, seed=number(seed, "drawn", count, draw))
        found = order.estimate(wrong[order.rows[:count]], level=0.9)
        ends.setdefault("drawn", []).append((found.low, found.high))
    return {
        name: {
            "covered": float(np.mean([low <= share <= high for low, high in many])),
            "width": float(np.mean([high - low for low, high in many])),
        }
        for name, many in ends.items()
    }


def planted(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Audit a graph with planted errors, and simulate a reviewer."""
    how = PerturbSettings(rate=PLANTED, added_share=1.0, noise=arguments.noise, seed=arguments.seed)
    splits, truth = perturb(load(name).split(), how)
    asked, changes = divide_settings(AuditSettings.recipe, parse_assignments(arguments.assignments))
    given = {key: getattr(arguments, key) for key in ("views", "seed", "device")}
    settings = make_settings(AuditSettings, {"missing": 0, **asked, **given})
    started = time.perf_counter()
    found = audit(merged(splits), settings, changes)
    seconds = time.perf_counter() - started
    cell = Cell.of(found, truth.planted)
    return {
        "graph": name,
        "perturbation": dataclasses.asdict(how),
        "views": [view.name for view in found.crossfit.views],
        "facts": len(cell.true),
        "wrong_share": float((~cell.true).mean()),
        "audit_interval": [1 - found.priors.beta.high, 1 - found.priors.beta.low],
        "identifiable": found.priors.identifiable,
        "seconds": seconds,
        "draws": {"share": DRAWS, "learned": LEARNED_DRAWS},
        "learned": {str(size): learned(cell, size, arguments.seed) for size in SIZES},
        "share": {str(size): covered(cell, size, arguments.seed) for size in SIZES},
    }


def million(seed: int) -> dict[str, Any]:
    """Time the recalibration of a million facts in 300 relations from 2,000 sources."""
    rng = np.random.default_rng(number(seed, "million"))
    score = rng.normal(size=MILLION)
    relation, source = rng.integers(0, 300, MILLION), rng.integers(0, 2000, MILLION)
    odds = score + 4 + rng.normal(size=300)[relation] + rng.normal(size=2000)[source]
    true = rng.random(MILLION) < 1 / (1 + np.exp(-odds))
    probability = 1 / (1 + np.exp(-2 * score - 3))
    started = time.perf_counter()
    facts = Predictors.of(score, probability=probability, relation=relation, source=source)
    result: dict[str, Any] = {"facts": MILLION, "prepared": time.perf_counter() - started}
    for size in (*SIZES, 2000):
        rows = rng.permutation(MILLION)[:size]
        answers = Answered(rows, true[rows], np.zeros(size, dtype=np.int64))
        spent = []
        for _ in range(3):
            started = time.perf_counter()
            recalibrate(facts, answers)
            spent.append(time.perf_counter() - started)
        result[f"seconds_{size}"] = min(spent)
    return {"graph": "synthetic", "task": "million", **result}


def main(words: Sequence[str] | None = None) -> None:
    """Run one cell and append its result."""
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("graph", nargs="?", default="umls")
    parser.add_argument("--noise", choices=NOISES, default="typed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--views", default="", help="kinds of evidence, with commas between")
    parser.add_argument("--set", action="append", default=[], dest="assignments")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args(words)
    if arguments.table:
        print(all_tables(arguments.out))
        return
    run = million(arguments.seed) if arguments.million else planted(arguments.graph, arguments)
    cuda = torch.cuda.is_available() and arguments.device != "cpu" and not arguments.million
    result = {
        "task": "planted",
        **run,
        "machine": common.machine(cuda),
        "command": common.command(MODULE, words),
        "date": time.strftime("%Y-%m-%d"),
    }
    common.append(arguments.out, result)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
