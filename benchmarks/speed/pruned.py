"""What a step of ``path`` takes on a graph that hardly fits: all nodes, and the best of a layer.

    python -m benchmarks.speed.pruned --out benchmarks/results/pruned.jsonl

One step with gradients, each in a process of its own, on a graph whose facts are drawn evenly. The
peak is that of the resident set, less what it was before the step.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

from benchmarks import common
from benchmarks.common import Record
from benchmarks.speed.memory import resident
from npugraph.recipes.path.model import PathModel
from npugraph.seeds import generator

MODULE = "benchmarks.speed.pruned"
RELATIONS, FACTS_PER_ENTITY = 20, 4
D, LAYERS, QUESTIONS = 16, 4, 8


def step(entities: int, nodes: int) -> Record:
    """Take one step in this process; return the plan and the peak in bytes, and the time."""
    torch.set_num_threads(1)
    rng, count = generator(0, "facts"), FACTS_PER_ENTITY * entities
    columns = (torch.randint(n, (count,), generator=rng) for n in (entities, RELATIONS, entities))
    facts = torch.stack(list(columns), 1)
    model = PathModel(facts, entities, RELATIONS, d=D, layers=LAYERS, nodes=nodes)
    _backward(PathModel(facts[:1] * 0, 1, RELATIONS, d=D))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = resident("VmRSS")
    _backward(model)
    peak = resident("VmHWM") - before
    # The first step compiled the loops.
    begin = time.process_time()
    _backward(model)
    return {
        "entities": entities,
        "facts": count,
        "nodes": nodes,
        "questions": QUESTIONS,
        "d": D,
        "layers": LAYERS,
        "planned": model.step_bytes(QUESTIONS, torch.device("cpu")),
        "measured": peak,
        "cpu_seconds": time.process_time() - begin,
    }


def _backward(model: PathModel) -> None:
    asked = torch.arange(QUESTIONS) % model.num_entities
    scores = model(asked, asked, torch.ones(len(model.edges)))
    (scores.logsumexp(1) - scores[:, 0]).sum().backward()


def main(words: list[str]) -> None:
    """Measure each number of nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, nargs="+", default=[0, 1000])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    if asked.worker is not None:
        print(json.dumps(step(asked.entities, asked.worker)))
        return
    for nodes in asked.nodes:
        task = ["--entities", str(asked.entities), "--worker", str(nodes)]
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
