"""What an audit that goes on from an earlier one finds among new facts, beside a full audit.

    python -m benchmarks.quality.since umls --seed 0
    python -m benchmarks.quality.since umls --seed 0 --share 0.4 --new entities
    python -m benchmarks.quality.since umls --seed 0 --fold
    python -m benchmarks.quality.since --table

Errors are planted beside the facts of a graph (5% of them, half with any entity at one end, half
with one of that role). A share of all facts, errors among them, is put aside: drawn at random
(``--new facts``), or all facts of entities drawn at random (``--new entities``). The rest is
audited in full. Then the facts come back: the whole is audited since that audit, and in full. Both
are judged by the new facts alone. With ``--fold`` the system of the first fold alone is trained,
in both ways, and its plain score judges the new facts of the fold: seconds instead of minutes. One
JSON line per cell in benchmarks/results/since.jsonl.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks import common
from benchmarks.quality.since_tables import TABLES, read
from npugraph.auditing import Audit, AuditSettings, audit
from npugraph.auditing.earlier import ids_of, validated
from npugraph.auditing.folds import Folds, distinct_facts, make_folds
from npugraph.auditing.page import is_planted
from npugraph.auditing.presets import suited_settings
from npugraph.auditing.since import few_epochs
from npugraph.data.datasets import load
from npugraph.data.perturb import PerturbSettings, perturb
from npugraph.data.sources import load_graph
from npugraph.fitting import Fitted, fit
from npugraph.graph import KnowledgeGraph, Splits, TripleIndex
from npugraph.metrics import auroc, average_precision
from npugraph.seeds import generator
from npugraph.settings import TrainSettings
from npugraph.training.warm import Start

MODULE = "benchmarks.quality.since"
RESULTS = common.RESULTS / "since.jsonl"
# Half of the errors are of each kind.
RATE, KINDS = 0.025, ("one-sided", "typed")


def planted_graph(name: str, seed: int) -> tuple[KnowledgeGraph, torch.Tensor]:
    """Return a graph with errors beside its facts, and which they are."""
    splits, planted = load(name).split(), []
    for number, noise in enumerate(KINDS):
        asked = PerturbSettings(rate=RATE, added_share=1.0, noise=noise, seed=seed + number)  # type: ignore[arg-type]
        splits, truth = perturb(splits, asked)
        planted.append(truth.planted)
    return splits.whole(), torch.cat(planted)


def put_aside(graph: KnowledgeGraph, share: float, new: str, seed: int) -> torch.Tensor:
    """Return which facts [n] come later: about a share of them."""
    rng = generator(seed, "later", new)
    if new == "facts":
        return torch.randperm(len(graph), generator=rng) < round(share * len(graph))
    late = torch.zeros(graph.num_entities, dtype=torch.bool)
    for entity in torch.randperm(graph.num_entities, generator=rng).tolist():
        late[entity] = True
        aside = late[graph.facts[:, 0]] | late[graph.facts[:, 2]]
        if aside.float().mean() >= share:
            break
    return aside


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Audit the rest, then the whole in both ways; return the figures."""
    graph, planted = planted_graph(arguments.graph, arguments.seed)
    aside = put_aside(graph, arguments.share, arguments.new, arguments.seed)
    rest = graph.select(~aside).to_table().select(["head", "relation", "tail"])
    whole = graph.to_table().select(["head", "relation", "tail"])
    asked = AuditSettings(seed=arguments.seed, device=arguments.device, explained=0)
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        old, first = timed(rest, asked, out=before)
        old.write(before)
        later, warm = timed(whole, {"explained": 0}, since=before)
    full, cold = timed(whole, asked)
    new = graph.facts[aside]
    return {
        "graph": arguments.graph,
        "new": arguments.new,
        "share": arguments.share,
        "seed": arguments.seed,
        "facts": len(graph),
        "added": later.since.changes.added,  # type: ignore[union-attr]
        "new_entities": later.since.changes.entities,  # type: ignore[union-attr]
        "first_cpu_seconds": first,
        "since": {**figures(later, graph, new, planted), "cpu_seconds": warm}
        | {"due": list(later.since.due), "mrr": later.since.mrr, "full": dict(later.since.full)},  # type: ignore[union-attr]
        "full": {**figures(full, graph, new, planted), "cpu_seconds": cold},
        "settings": asked.asked(),
        "command": common.command(MODULE, sys.argv[1:]),
        "machine": common.machine(cuda=False),
    }


def run_fold(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train the first fold's system on the rest, go on from it with all, and train it anew."""
    graph, planted = planted_graph(arguments.graph, arguments.seed)
    graph = distinct_facts(graph)
    aside = put_aside(graph, arguments.share, arguments.new, arguments.seed)
    asked = AuditSettings(seed=arguments.seed, device=arguments.device)
    training = suited_settings(graph, asked)
    share, seed = asked.thresholds.valid_share, arguments.seed
    fold = make_folds(graph, asked.folds, seed).fold
    names = graph.select(~aside).to_table().select(["head", "relation", "tail"])
    rest = load_graph(names)
    place = graph.index().places(ids_of(graph, rest.with_facts(rest.index().facts()).to_table()))
    before = Folds(rest.with_facts(rest.index().facts()), fold[place], asked.folds)
    folds = Folds(graph, fold, asked.folds, new=aside)
    mine = aside & (fold == 0)
    wrong = TripleIndex(planted, graph.num_entities, graph.num_relations).contains(
        graph.facts[mine]
    )

    def fitted(splits: Splits, settings: TrainSettings, **more: Any) -> tuple[Fitted, float]:
        started = time.process_time()
        found = fit(splits, asked.recipe, settings, **more)
        return found, round(time.process_time() - started, 1)

    def told(found: Fitted, seconds: float) -> dict[str, float]:
        score = found.system.score(graph.facts[mine]).numpy()
        return {
            "auroc": auroc(~wrong.numpy(), score),
            "ap": average_precision(wrong.numpy(), -score),
            "wrong": int(wrong.sum()),
            "mrr": found.progress.best_mrr,
            "cpu_seconds": seconds,
        }

    with tempfile.TemporaryDirectory() as folder:
        old, first = fitted(before.splits(0, share, seed), training, out=folder)
        assert old.run is not None
        start = Start(old.run)
        few = dataclasses.replace(training, epochs=few_epochs(training.epochs))
        splits = folds.splits(0, share, seed, validated(start, graph))
        warm = told(*fitted(splits, few, start=start))
    return {
        "fold": True,
        "graph": arguments.graph,
        "new": arguments.new,
        "share": arguments.share,
        "seed": seed,
        "facts": len(graph),
        "added": int(aside.sum()),
        "judged": int(mine.sum()),
        "first_cpu_seconds": first,
        "since": warm,
        "full": told(*fitted(folds.splits(0, share, seed), training)),
        "command": common.command(MODULE, sys.argv[1:]),
        "machine": common.machine(cuda=False),
    }


def timed(graph: Any, settings: Any, **more: Any) -> tuple[Audit, float]:
    """Audit; return it, and the CPU seconds it took."""
    started = time.process_time()
    return audit(graph, settings, **more), round(time.process_time() - started, 1)


def figures(
    found: Audit, graph: KnowledgeGraph, new: torch.Tensor, planted: torch.Tensor
) -> dict[str, Any]:
    """Return how well wrong facts are told from right ones among the new facts."""
    names = [graph.with_facts(facts).to_table() for facts in (new, planted)]
    fresh, wrong = (is_planted(found, found.graph.encode(table)) for table in names)
    label, score = ~wrong[fresh], found.collected.score[fresh]
    listed = found.suspect_rows[fresh[found.suspect_rows]]
    expected = found.expected_wrong
    return {
        "auroc": auroc(label, score),
        "ap": average_precision(~label, -score),
        "wrong": int((~label).sum()),
        "verdict": found.verdict.level,
        "listed": len(listed),
        "listed_wrong": int(wrong[listed].sum()),
        "expected_wrong": None if expected is None else list(expected),
        "share_told": 1 - found.priors.beta.value if found.verdict.reliable else None,
        "self_test_auroc": found.test.auroc,
    }


def main() -> None:
    """Run one cell, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", nargs="?", help="umls, kinships, world, ...")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.2, help="of the facts that come later")
    parser.add_argument("--new", choices=("facts", "entities"), default="facts")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--fold", action="store_true", help="one system alone, by plain score")
    parser.add_argument("--table", action="store_true", help="print the table, run nothing")
    arguments = parser.parse_args()
    if arguments.table:
        lines = read(arguments.out)
        for table in TABLES:
            sys.stdout.write("\n".join(table(lines)) + "\n\n")
        return
    common.append(arguments.out, run_fold(arguments) if arguments.fold else run(arguments))


if __name__ == "__main__":
    main()
