"""How well the audit finds planted facts, and whether its probabilities hold.

    python -m benchmarks.quality.audit umls --noise random --rate 0.3 --seed 0
    python -m benchmarks.quality.audit codex-s --negatives    # human-verified wrong facts mixed in
    python -m benchmarks.quality.audit nl27k --confidence     # against people's confidences
    python -m benchmarks.quality.audit --synthetic 1000000    # time and memory on a large graph
    python -m benchmarks.quality.audit umls --published       # what a graph as published lacks
    python -m benchmarks.quality.audit umls --in-training     # nPUGraph's own posterior beside it
    python -m benchmarks.quality.audit --table                # all results as tables

A graph is perturbed (its train and valid facts are merged; true facts are removed, false ones
planted) and audited. The audit is given the facts alone; the truth is looked at afterwards. Appends
one JSON line per run to benchmarks/results/audit.jsonl.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

from benchmarks import common
from benchmarks.quality.audit_tables import IN_TRAINING, PLATT, SIGMOID, SINGLE, all_tables
from benchmarks.quality.best_bin import best_bin
from benchmarks.quality.readings import COMMON, DROPOUT
from npugraph.arrays import first_of_each
from npugraph.auditing import Audit, AuditSettings, audit
from npugraph.auditing.write import write_audit
from npugraph.bench.plan import BenchPlan
from npugraph.calibration.probability import DensityRatio, posterior_collected
from npugraph.data.corrupt import NOISES
from npugraph.data.datasets import load, locate
from npugraph.data.io import ReadOptions, read_table, write_table
from npugraph.data.perturb import PerturbSettings, perturb
from npugraph.fitting import fit
from npugraph.graph import KnowledgeGraph, Splits, TripleIndex, Vocabulary
from npugraph.metrics import auroc, average_precision, brier, ece
from npugraph.recipes import get_recipe
from npugraph.seeds import generator
from npugraph.settings import make_settings, parse_assignments

# Linux says here how busy the machine is.
PROC = Path("/proc/stat")
MODULE = "benchmarks.quality.audit"
RESULTS = common.RESULTS / "audit.jsonl"
Bools = NDArray[np.bool_]
Floats = NDArray[np.floating]


def merged(splits: Splits, parts: tuple[str, ...] = ("train", "valid")) -> KnowledgeGraph:
    """Return the facts of some parts as one graph."""
    facts = torch.cat([splits.parts()[part].facts for part in parts])
    return splits.train.with_facts(facts, splits.name)


def single_score(found: Audit) -> tuple[Floats, Floats]:
    """Return the plain out-of-fold scores of the collected facts and of one-sided corruptions."""
    crossfit = found.crossfit
    return (
        crossfit.collected.plain_score().numpy(),
        crossfit.pools["one-sided"].plain_score().numpy(),
    )


def alternatives(found: Audit) -> dict[str, Floats]:
    """Return other people's ways to a probability, from the same systems."""
    score, pool = single_score(found)
    beta, alpha = best_bin(score, pool)
    alpha = min(alpha, 0.9 * beta)
    platt = DensityRatio.fit(score, pool, method="platt")(score)
    isotonic = DensityRatio.fit(score, pool)(score)
    return {
        SIGMOID: 1 / (1 + np.exp(-score.astype(np.float64))),
        PLATT: posterior_collected(platt, 0.9, 0.01),
        SINGLE: posterior_collected(isotonic, beta, alpha),
    }


def in_training(found: Audit, name: str, device: str) -> tuple[Floats, dict[str, Any]]:
    """Train nPUGraph on all collected facts; return its P(true) of these very facts, and how.

    It is told the audit's own estimate of beta, so that only the posteriors differ. Settings are
    those of readings.py on its two graphs, where dropout was chosen with the noise AUROC in view,
    to its advantage. On other graphs they are those of the plan table-0.3.
    """
    graph = found.crossfit.folds.graph
    order = torch.randperm(len(graph), generator=generator(found.settings.seed, "in-training"))
    cut = max(1, round(0.02 * len(graph)))
    train, valid, test = (graph.select(order[p]) for p in (slice(cut, None), slice(cut), slice(0)))
    chosen = {**COMMON, "dropout": DROPOUT[name]} if name in DROPOUT else _planned()
    values = {
        **chosen,
        "beta": min(max(found.priors.beta.value, 1e-3), 1 - 1e-3),
        "seed": found.settings.seed,
        "device": device,
    }
    settings = make_settings(get_recipe("npugraph").settings, values)
    started = time.perf_counter()
    fitted = fit(Splits("collected", train, valid, test), "npugraph", settings)
    facts = graph.facts.to(fitted.system.device)
    with torch.no_grad():
        found_true = fitted.system.probability(facts, torch.ones_like(facts[:, 0]).bool())
    assert found_true is not None
    how = {
        "seconds": time.perf_counter() - started,
        "best_epoch": fitted.progress.best_epoch,
        "settings": dataclasses.asdict(settings),
    }
    return found_true.cpu().double().numpy(), how


def _planned() -> dict[str, Any]:
    """Return the plan's settings of nPUGraph, but with the recipe's own running posterior."""
    planned = BenchPlan.read("table-0.3").system("nPUGraph").settings
    return {name: value for name, value in planned.items() if name != "posterior_momentum"}


def judge_other(probability: Floats, true: Bools) -> dict[str, float]:
    """Compare somebody's probabilities with which facts [n] are true."""
    return {
        "auroc": auroc(true, probability),
        "average_precision": average_precision(~true, -probability),
        "ece": ece(probability, true),
        "brier": brier(probability, true),
    }


def judge(found: Audit, true: Bools, arguments: argparse.Namespace) -> dict[str, Any]:
    """Compare an audit's probabilities with which collected facts [n] are true."""
    others = alternatives(found)
    extra: dict[str, Any] = {}
    if arguments.in_training:
        others[IN_TRAINING], how = in_training(found, arguments.graph, arguments.device)
        extra["in_training"] = {**judge_other(others[IN_TRAINING], true), **how}
    judged = found.collected
    score, _ = single_score(found)
    beta = found.priors.beta
    suspects = found.suspect_rows
    return {
        "recipe": found.settings.recipe,
        "views": [view.name for view in found.crossfit.views],
        "true_share": float(true.mean()),
        "beta": beta.value,
        "beta_low": beta.low,
        "beta_high": beta.high,
        "beta_error": float(beta.value - true.mean()),
        "in_interval": bool(beta.low <= true.mean() <= beta.high),
        "identifiable": found.priors.identifiable,
        "verdict": found.verdict.level,
        "profile": found.model.profile.share,
        "wrong_end": found.wrong_end,
        "auroc": auroc(true, judged.score),
        "average_precision": average_precision(~true, -judged.score),
        "auroc_single": auroc(true, score),
        "average_precision_single": average_precision(~true, -score),
        "ece": ece(judged.probability, true),
        "brier": brier(judged.probability, true),
        "ece_others": {name: ece(p, true) for name, p in others.items()},
        **extra,
        "precision_at_budget": float((~true[suspects]).mean()),
        "quarantined": len(found.quarantine_rows),
        "precision_of_quarantine": _mean(~true[found.quarantine_rows]),
    }


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None


def judge_missing(
    found: Audit, missing: torch.Tensor, planted: int, test: torch.Tensor
) -> dict[str, Any]:
    """Compare the proposed facts with the missing ones; test facts are true, too.

    The share of missing facts is that of the removed and the test facts among all true ones.
    """
    sizes = found.graph.num_entities, found.graph.num_relations
    removed = TripleIndex(missing, *sizes).contains(found.proposed.facts).numpy()
    held_out = TripleIndex(test, *sizes).contains(found.proposed.facts).numpy()
    listed = found.missing_rows
    plain = np.full(len(removed), -np.inf)
    for fold, system in enumerate(found.crossfit.systems):
        mine = found.proposed.fold == fold
        facts = found.proposed.facts[torch.from_numpy(mine)].to(system.device)
        plain[mine] = system.score(facts).cpu().numpy()
    by_score = np.argsort(-plain, kind="stable")[: len(listed)]
    stored = len(found.collected.facts) - planted
    lacking = len(missing) + len(test)
    share = found.missing_share
    return {
        "true_share": lacking / (stored + lacking),
        "share": None if share is None else share._asdict(),
        "proposed": len(removed),
        "listed": len(listed),
        "removed": len(missing),
        "precision": float(removed[listed].mean()),
        "precision_with_test": float((removed | held_out)[listed].mean()),
        "recall": float(removed[listed].sum() / max(len(missing), 1)),
        "expected": float(found.missing["probability"].to_numpy().mean()),
        "precision_by_score": float(removed[by_score].mean()),
        "precision_by_score_with_test": float((removed | held_out)[by_score].mean()),
    }


def perturbed(name: str, arguments: argparse.Namespace, settings: AuditSettings) -> dict[str, Any]:
    """Audit a perturbed graph."""
    how = PerturbSettings(rate=arguments.rate, noise=arguments.noise, seed=arguments.seed)
    splits, truth = perturb(load(name).split(), how)
    meter = Meter()
    found = audit(merged(splits), settings, arguments.changes, stage=meter.stage)
    spent = meter.spent()
    planted = TripleIndex(truth.planted, splits.num_entities, splits.num_relations)
    true = ~planted.contains(found.collected.facts).numpy()
    return {
        "task": "planted",
        "perturbation": dataclasses.asdict(how),
        **spent,
        **judge(found, true, arguments),
        "missing": judge_missing(found, truth.removed, len(truth.planted), splits.test.facts),
        "training": dataclasses.asdict(found.training),
    }


def as_published(name: str, arguments: argparse.Namespace, settings: AuditSettings) -> Any:
    """Audit a graph as it is: the test facts, which the audit is not shown, are missing."""
    splits = load(name).split()
    meter = Meter()
    found = audit(merged(splits), settings, arguments.changes, stage=meter.stage)
    spent = meter.spent()
    none = splits.test.facts[:0]
    return {
        "task": "published",
        "perturbation": {"seed": arguments.seed},
        **spent,
        "missing": judge_missing(found, splits.test.facts, 0, none),
    }


def with_negatives(name: str, arguments: argparse.Namespace, settings: AuditSettings) -> Any:
    """Mix facts that people judged wrong into a graph, and look for them."""
    splits = load(name).split()
    folder = locate(name)
    graph = merged(splits, ("train", "valid", "test"))
    tables = [
        read_table(folder / f"{part}_negatives.tsv.gz", ReadOptions())[0]
        for part in ("valid", "test")
    ]
    negatives = torch.cat([graph.encode(table) for table in tables])
    started = time.perf_counter()
    found = audit(
        graph.with_facts(torch.cat([graph.facts, negatives])), settings, arguments.changes
    )
    seconds = time.perf_counter() - started
    wrong = TripleIndex(negatives, graph.num_entities, graph.num_relations)
    true = ~wrong.contains(found.collected.facts).numpy()
    return {"task": "negatives", "seconds": seconds, **judge(found, true, arguments)}


def with_confidence(name: str, arguments: argparse.Namespace, settings: AuditSettings) -> Any:
    """Correlate the probabilities with confidences that the audit is not shown."""
    splits = load(name).split()
    graph = merged(splits, ("train", "valid", "test"))
    given = torch.cat([part.confidence for part in splits.parts().values()])  # type: ignore[misc]
    started = time.perf_counter()
    found = audit(graph, settings, arguments.changes)
    seconds = time.perf_counter() - started
    index = graph.index()
    confidence = np.zeros(len(index))
    confidence[index.places(graph.facts).numpy()] = given.numpy()
    single, _ = single_score(found)
    return {
        "task": "confidence",
        "seconds": seconds,
        "facts": len(index),
        "spearman": float(spearmanr(found.collected.score, confidence).statistic),
        "spearman_single": float(spearmanr(single, confidence).statistic),
        "beta": found.priors.beta.value,
        "identifiable": found.priors.identifiable,
        "verdict": found.verdict.level,
        "mean_confidence": float(confidence.mean()),
    }


def synthetic(facts: int, seed: int) -> tuple[KnowledgeGraph, torch.Tensor]:
    """Make a graph of distinct facts between groups of entities, 4% of it wrong; and which is.

    Each of 100 relations leads from five of 200 groups to another group each. Within a group some
    entities are far more frequent than others, as in real graphs. A wrong fact has any tail.
    """
    rng = generator(seed, "synthetic")
    entities, relations, groups, sources = facts // 10, 100, 200, 5
    group = torch.randint(groups, (entities,), generator=rng)
    order = torch.argsort(group, stable=True)
    start = torch.searchsorted(group[order], torch.arange(groups + 1))

    def member(of: torch.Tensor) -> torch.Tensor:
        size = start[of + 1] - start[of]
        chance = torch.rand(len(of), generator=rng, dtype=torch.float64).square()
        return order[(start[of] + (chance * size).long()).clamp(max=entities - 1)]

    # Some are drawn twice; what is left beyond the asked number is cut off.
    count = facts + facts // 5
    shift = torch.randint(1, groups, (relations,), generator=rng)
    relation = torch.randint(relations, (count,), generator=rng)
    source = torch.randint(sources, (count,), generator=rng)
    source = (2 * relation + source * (2 * (groups // sources // 2) + 1)) % groups
    head, tail = member(source), member((source + shift[relation]) % groups)
    wrong = torch.rand(count, generator=rng) < 0.04
    tail = torch.where(wrong, torch.randint(entities, (count,), generator=rng), tail)
    triples = torch.stack([head, relation, tail], 1)
    names = ([f"e{i:07d}" for i in range(entities)], [f"r{i:03d}" for i in range(relations)])
    graph = KnowledgeGraph(Vocabulary.of(names[0]), Vocabulary.of(names[1]), triples)
    kept = first_of_each(graph.index().codes(triples))[:facts]
    return graph.select(kept), wrong[kept]


def on_synthetic(arguments: argparse.Namespace, settings: AuditSettings) -> dict[str, Any]:
    """Audit a file of a large synthetic graph and write all files; time and memory count."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "facts.tsv"
        wrong = _write_synthetic(path, arguments)
        megabytes = path.stat().st_size / 1e6
        meter = Meter()
        found = audit(path, settings, arguments.changes, stage=meter.stage)
        meter.stage("writing", {})
        write_audit(found, Path(folder) / "audit")
        spent = meter.spent()
        index = found.graph.index()
        true = np.ones(len(index), dtype=bool)
        true[index.places(found.graph.encode(wrong)).numpy()] = False
    return {
        "task": "synthetic",
        "facts": len(index),
        "entities": found.graph.num_entities,
        "megabytes": megabytes,
        **spent,
        **judge(found, true, arguments),
        "training": dataclasses.asdict(found.training),
    }


def _write_synthetic(path: Path, arguments: argparse.Namespace) -> pa.Table:
    """Write a synthetic graph as a file; return its wrong facts, by their names."""
    graph, wrong = synthetic(arguments.synthetic, arguments.seed)
    write_table(graph.to_table(), path)
    return graph.select(wrong.nonzero()[:, 0]).to_table()


class Meter:
    """Measures time and memory of what follows, and how busy others kept the machine."""

    def __init__(self) -> None:
        """Start."""
        self.started = time.perf_counter()
        self.own = time.process_time()
        self.others = common.others_time() if PROC.is_file() else None
        self.stages: dict[str, float] = {}
        self.plan = ""

    def stage(self, name: str, progress: dict[str, Any]) -> None:
        """Note when a stage begins, and say how it goes."""
        self.stages.setdefault(name, round(self.seconds(), 1))
        if name == "plan":
            self.plan = progress["cost"].sentence()
        print(f"{self.seconds():.0f} s: {name} {progress}", file=sys.stderr, flush=True)

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self.started

    def spent(self) -> dict[str, Any]:
        """Return what was spent; ``others_busy`` counts the cores that other processes kept."""
        seconds, own = self.seconds(), time.process_time() - self.own
        others = None
        if self.others is not None:
            others = round(max(common.others_time() - self.others, 0.0) / seconds, 2)
        return {
            "seconds": seconds,
            "cpu_seconds": own,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "cores": os.cpu_count(),
            "others_busy": others,
            "stages_begin": self.stages,
            "plan": self.plan,
        }


# What is asked of a graph, by option; without one, facts are planted and removed.
TASKS = {"negatives": with_negatives, "confidence": with_confidence, "published": as_published}


def main() -> None:
    """Run one audit and append its result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("graph", nargs="?", default="umls")
    parser.add_argument("--noise", choices=NOISES, default="random")
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    for name in TASKS:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument(
        "--in-training", action="store_true", help="train nPUGraph, too: slow on large graphs"
    )
    parser.add_argument("--synthetic", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], dest="assignments")
    parser.add_argument("--views", default="", help="kinds of evidence, with commas between")
    parser.add_argument("--recipe", default="complex-n3")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.table:
        print(all_tables(arguments.out))
        return
    arguments.changes = parse_assignments(arguments.assignments)
    names = ("recipe", "views", "seed", "device")
    settings = make_settings(AuditSettings, {name: getattr(arguments, name) for name in names})
    if arguments.synthetic:
        result = on_synthetic(arguments, settings)
    else:
        asked = [task for name, task in TASKS.items() if getattr(arguments, name)]
        task = asked[0] if asked else perturbed
        result = task(arguments.graph, arguments, settings)
    cuda = torch.cuda.is_available() and arguments.device != "cpu"
    result = {
        "graph": f"synthetic-{arguments.synthetic}" if arguments.synthetic else arguments.graph,
        "machine": common.machine(cuda),
        "command": common.command(MODULE, sys.argv[1:]),
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        **result,
    }
    common.append(arguments.out, result)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
