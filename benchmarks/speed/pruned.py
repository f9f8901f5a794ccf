"""What a step of ``path`` takes: with all nodes, the best of a layer, those that paths reach.

    python -m benchmarks.speed.pruned --out benchmarks/results/pruned.jsonl
    python -m benchmarks.speed.pruned --graph wn18 --layers 5 --ways all reached

One step with gradients, each in a process of its own, on a graph whose facts are drawn evenly, or
on a known one. The peak is that of the resident set, less what it was before the step.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import common
from benchmarks.common import Record
from benchmarks.speed.memory import resident
from npugraph.data.datasets import load
from npugraph.recipes.path.model import PathModel
from npugraph.seeds import generator

MODULE = "benchmarks.speed.pruned"
RELATIONS, FACTS_PER_ENTITY = 20, 4
D, QUESTIONS = 16, 8
WAYS: dict[str, dict[str, Any]] = {
    "all": {},
    "best": {"nodes": 1000},
    "reached": {"reached_only": True},
}


def graph_of(asked: argparse.Namespace) -> tuple[str, Tensor, int, int]:
    """Return the name, the facts, and how many entities and relations there are."""
    if asked.graph:
        train = load(asked.graph).split().train
        return asked.graph, train.facts, train.num_entities, train.num_relations
    rng, count = generator(0, "facts"), FACTS_PER_ENTITY * asked.entities
    sizes = (asked.entities, RELATIONS, asked.entities)
    columns = [torch.randint(n, (count,), generator=rng) for n in sizes]
    return "drawn", torch.stack(columns, 1), asked.entities, RELATIONS


def step(asked: argparse.Namespace, way: str) -> Record:
    """Take one step in this process; return the plan and the peak in bytes, and the time."""
    torch.set_num_threads(1)
    name, facts, entities, relations = graph_of(asked)
    options: dict[str, Any] = {"d": D, "layers": asked.layers, **WAYS[way]}
    model = PathModel(facts, entities, relations, **options)
    planned = model.step_bytes(QUESTIONS, torch.device("cpu"))
    _backward(PathModel(facts[:1] * 0, 1, relations, d=D))
    starts = facts[torch.randint(len(facts), (QUESTIONS,), generator=generator(0, "asked")), 0]
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = resident("VmRSS")
    _backward(model, starts)
    peak = resident("VmHWM") - before
    # The first step compiled the loops.
    begin = time.process_time()
    _backward(model, starts)
    return {
        "graph": name,
        "way": way,
        "entities": entities,
        "facts": len(facts),
        "questions": QUESTIONS,
        **options,
        "planned": planned,
        "measured": peak,
        "cpu_seconds": time.process_time() - begin,
    }


def _backward(model: PathModel, start: Tensor | None = None) -> None:
    asked = torch.arange(QUESTIONS) % (2 * model.num_relations)
    start = asked % model.num_entities if start is None else start
    scores = model(start, asked, torch.ones(len(model.edges)))
    (scores.logsumexp(1) - scores[:, 0]).sum().backward()


def main(words: list[str]) -> None:
    """Measure each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", default="", help="a known graph in place of a drawn one")
    parser.add_argument("--entities", type=int, default=100_000, help="of the drawn graph")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", choices=WAYS, help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    if asked.worker is not None:
        print(json.dumps(step(asked, asked.worker)))
        return
    for way in asked.ways:
        task = ["--entities", str(asked.entities), "--layers", str(asked.layers), "--worker", way]
        task += ["--graph", asked.graph] if asked.graph else []
        found = common.in_own_process(MODULE, task, {"OMP_NUM_THREADS": "1"})
        record = {
            **found,
            **common.circumstances(["torch"]),
            "command": common.command(MODULE, words),
        }
        print(json.dumps(record))
        if asked.out:
            common.append(asked.out, record)


if __name__ == "__main__":
    main(sys.argv[1:])
