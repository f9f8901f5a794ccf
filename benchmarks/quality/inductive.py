"""Trained on one graph, tested on another with none of its entities.

    python -m benchmarks.quality.inductive wn18rr --seed 0
    python -m benchmarks.quality.inductive fb15k-237 --seed 0 --set hide_pair_share=1

Both graphs are drawn from a public one, after Teru et al. (ICML 2020): around entities drawn one
after the other, at most ``--width`` new neighbours per hop are taken, over ``--hops`` hops,
until the facts among all that were taken are as many as wanted. Then these entities are taken out
with all their facts, and the second graph is drawn from the rest; a relation that the first
graph does not train is left out. Of each graph, 10% of the facts are for validation and 10% for
the test. The test facts of the second graph are ranked once, by what was trained on the first, with
the train part of the second as evidence. It is one JSON line, printed and appended to
benchmarks/results/inductive.jsonl:

    ranking     among all entities of the second graph, other known answers left out
    negatives   among 50 entities drawn for each fact and side, that are no known answers, as
                the papers on this task do; it says much less

The draws are not those of Teru et al.: figures of papers are of other facts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import common
from benchmarks.quality.paths import train
from npugraph.data.sources import load_graph
from npugraph.errors import DataError
from npugraph.fitting import Fitted, on_graph
from npugraph.graph import KnowledgeGraph, Side, Splits, TripleIndex, Vocabulary
from npugraph.ranking.evaluate import evaluate
from npugraph.recipes import get_recipe
from npugraph.seeds import generator
from npugraph.settings import make_settings, parse_assignments
from npugraph.training.loop import choose_device

MODULE = "benchmarks.quality.inductive"
RESULTS = common.RESULTS / "inductive.jsonl"
# Facts of both graphs: about as many as the smallest of the splits in use have.
FACTS = (6000, 2000)
NEGATIVES = 50
COLUMNS: dict[Side, int] = {"tail": 2, "head": 0}
KEYS = ("mrr", "hits@1", "hits@10")


def around(facts: Tensor, root: Tensor, hops: int, width: int, rng: torch.Generator) -> Tensor:
    """Return a root [1] and entities within some hops [n]; per hop at most ``width`` new ones."""
    taken = last = root
    for _ in range(hops):
        ends = facts[:, [0, 2]]
        touched = torch.isin(ends, last)
        # The other end of every fact that touches what was taken last.
        found = torch.unique(torch.cat([ends[touched[:, 0], 1], ends[touched[:, 1], 0]]))
        found = found[~torch.isin(found, taken)]
        last = found[torch.randperm(len(found), generator=rng)[:width]]
        taken = torch.cat([taken, last])
    return taken


def draw(facts: Tensor, wanted: int, hops: int, width: int, rng: torch.Generator) -> Tensor:
    """Return entities [n] with at least as many facts among them as wanted."""
    taken: Tensor = torch.zeros(0, dtype=torch.int64)
    entities: Tensor = torch.unique(facts[:, [0, 2]])
    for root in torch.split(entities[torch.randperm(len(entities), generator=rng)], 1):
        taken = torch.unique(torch.cat([taken, around(facts, root, hops, width, rng)]))
        if int(torch.isin(facts[:, [0, 2]], taken).all(1).sum()) >= wanted:
            return taken
    raise DataError(f"There are no {wanted:,} facts to draw; lower --facts.")


def alone(graph: KnowledgeGraph, facts: Tensor, name: str) -> KnowledgeGraph:
    """Return a graph of these facts, with the entities and relations that are in them."""
    entities, ends = torch.unique(facts[:, [0, 2]], return_inverse=True)
    relations, relation = torch.unique(facts[:, 1], return_inverse=True)
    return KnowledgeGraph(
        Vocabulary.of([graph.entities.label(i) for i in entities.tolist()], "entity"),
        Vocabulary.of([graph.relations.label(i) for i in relations.tolist()], "relation"),
        torch.stack([ends[:, 0], relation, ends[:, 1]], 1),
        name=name,
    )


def two_graphs(
    graph: KnowledgeGraph, wanted: tuple[int, int], hops: int, width: int, seed: int
) -> tuple[Splits, Splits]:
    """Return a graph to train on and one to test on, without a common entity."""
    rng = generator(seed, "inductive")
    facts = graph.index().facts()
    shares = {"valid_share": 0.1, "test_share": 0.1}
    taken = draw(facts, wanted[0], hops, width, rng)
    inside = torch.isin(facts[:, [0, 2]], taken)
    first = alone(graph, facts[inside.all(1)], f"{graph.name}, first").split(seed, **shares)
    rest = facts[~inside.any(1)]
    trained = [first.train.relations.label(int(r)) for r in torch.unique(first.train.facts[:, 1])]
    rest = rest[torch.isin(rest[:, 1], graph.relations.ids(trained))]
    taken = draw(rest, wanted[1], hops, width, rng)
    kept = rest[torch.isin(rest[:, [0, 2]], taken).all(1)]
    return first, alone(graph, kept, f"{graph.name}, second").split(seed, **shares)


@torch.no_grad()
def among_negatives(fitted: Fitted, seed: int) -> dict[str, float]:
    """Rank each test fact among entities drawn for it that are no answers; ties count half."""
    splits, system = fitted.splits, fitted.system
    known = TripleIndex(splits.all_facts(), splits.num_entities, splits.num_relations)
    rng, ranks = generator(seed, "negatives"), []
    for fact in splits.test.facts:
        for side, column in COLUMNS.items():
            every = fact.repeat(splits.num_entities, 1)
            every[:, column] = torch.arange(splits.num_entities)
            free = (~known.contains(every)).nonzero().squeeze(1)
            drawn = free[torch.randperm(len(free), generator=rng)[:NEGATIVES]]
            ends, relation = fact[2 - column].view(1), fact[1].view(1).to(system.device)
            scores = system.score_all(ends.to(system.device), relation, side)[0].cpu()
            own, others = scores[fact[column]], scores[drawn]
            ranks.append(1 + float((others > own).sum()) + float((others == own).sum()) / 2)
    found = torch.tensor(ranks)
    figures = {"mrr": found.reciprocal().mean(), "hits@10": (found <= 10).float().mean()}
    return {key: round(float(value), 5) for key, value in figures.items()}


def sizes(splits: Splits) -> dict[str, int]:
    """Return what a reader wants to know of a graph."""
    counts = {name: len(part) for name, part in splits.parts().items()}
    return {"entities": splits.num_entities, "relations": splits.num_relations, **counts}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Draw, train, rank."""
    values = {"seed": arguments.seed, "device": arguments.device}
    recipe = get_recipe(arguments.recipe)
    settings = make_settings(recipe.settings, {**values, **parse_assignments(arguments.set)})
    graph = replace(load_graph(arguments.graph), part=None)
    first, second = two_graphs(
        graph, tuple(arguments.facts), arguments.hops, arguments.width, arguments.seed
    )
    fitted, record = train(first, arguments.recipe, settings)
    moved = on_graph(fitted, second.whole())
    own, other = (evaluate(one)["filters"]["clean"] for one in (fitted, moved))
    return {
        "settings": asdict(settings),
        "first": sizes(first),
        "second": sizes(second),
        **record,
        "own_graph": {key: round(own[key], 5) for key in KEYS},
        "ranking": {key: round(other[key], 5) for key in KEYS},
        "negatives": among_negatives(moved, arguments.seed),
    }


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's words."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("graph")
    made.add_argument("--recipe", default="path", help="one without entity vectors")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--facts", type=int, nargs=2, default=FACTS, help="of both graphs, at least")
    made.add_argument("--hops", type=int, default=3)
    made.add_argument("--width", type=int, default=50, help="new entities per hop, at most")
    made.add_argument("--device", default="auto")
    made.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    made.add_argument("--out", type=Path, default=RESULTS)
    return made


def main(words: Sequence[str] | None = None) -> None:
    """Run once; print and append the result."""
    given = sys.argv[1:] if words is None else list(words)
    arguments = parser().parse_args(given)
    record = {
        "kind": "inductive",
        "command": common.command(MODULE, given),
        **{key: getattr(arguments, key) for key in ("recipe", "graph", "seed", "hops", "width")},
        "machine": common.machine(choose_device(arguments.device).type == "cuda"),
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        **run(arguments),
    }
    common.append(arguments.out, record)
    shown = {k: v for k, v in record.items() if k not in ("settings", "curve", "command")}
    print(json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()
