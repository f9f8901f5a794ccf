"""How long a reviewer waits at a desk of a million facts: for a page, an answer, for learning.

    python -m benchmarks.speed.desk                       # a million facts, 2,000 sources
    python -m benchmarks.speed.desk --facts 100000 --print

The folder of an audit is made up: names, scores that know something of the truth, 17 features. Two
reviewers then use the desk: pages by every filter and grouping, and answers as they are served;
then they estimate.
Appends one JSON line to benchmarks/results/desk_speed.jsonl. Seconds hold for one machine with
nothing else to do; ``cpu`` is the processor time of all threads.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import common
from npugraph.data.io import write_table, write_text
from npugraph.review import AnswerIn, Card, Desk, DeskSettings, Filters
from npugraph.review.records import Grouping
from npugraph.seeds import number

MODULE = "benchmarks.speed.desk"
RESULTS = common.RESULTS / "desk_speed.jsonl"
ENTITIES, RELATIONS, SOURCES, FEATURES = 0.2, 300, 2000, 17
MISSING, SUSPECTS = 0.01, 100
# Answers that are given, and answers that are learned from at once.
ANSWERS, LEARNED = 100, 200


def made_up(folder: Path, facts: int, seed: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Write the folder of an audit; return which facts [n] are wrong."""
    rng = np.random.default_rng(number(seed, "desk"))
    count, entities = round(facts * (1 + MISSING)), round(facts * ENTITIES)
    names = pa.array([f"http://example.org/entity/{i:07}" for i in range(entities)])
    relations = pa.array([f"http://example.org/relation/{i:03}" for i in range(RELATIONS)])
    sources = pa.array([f"document {i}" for i in range(SOURCES)])
    wrong = rng.random(count) < 0.05
    score = rng.normal(size=count) + np.where(wrong, -1.5, 1.5)
    chance = 1 / (1 + np.exp(-3 * score) / 19)
    heads, tails = (rng.integers(0, entities, count) for _ in range(2))
    table = {
        "head": names.take(pa.array(heads)),
        "relation": relations.take(pa.array(rng.integers(0, RELATIONS, count))),
        "tail": names.take(pa.array(tails)),
        "probability": chance,
        "low": chance * 0.9,
        "high": 1 - 0.9 * (1 - chance),
        "score": score,
        "collected": np.arange(count) < facts,
        "fold": np.arange(count) % 5 + 1,
        "source": sources.take(pa.array(rng.integers(0, SOURCES, count))),
    }
    posterior = pa.table(table)
    write_table(posterior, folder / "posterior.parquet")
    suspects = posterior.take(pa.array(np.argsort(score[:facts])[:SUSPECTS]))
    write_table(suspects.select(["head", "relation", "tail"]), folder / "suspects.tsv", header=True)
    columns = {f"view.{i}": (score + rng.normal(size=count)).astype("f4") for i in range(FEATURES)}
    write_table(pa.table(columns).slice(0, facts), folder / "features.parquet")
    record = {"verdict": "reliable", "missing_verdict": "reliable", "suspects": SUSPECTS}
    settings = {"budget": SUSPECTS, "source": "from"}
    write_text(folder / "audit.json", json.dumps({**record, "settings": settings}))
    return wrong


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds and the processor seconds that something takes."""
    started, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - used


def summed(spent: list[tuple[float, float]]) -> dict[str, float]:
    """Return the median and the 95th percentile of seconds, and those of processor seconds."""
    wall, cpu = np.array(spent).T
    return {
        "median": float(np.median(wall)),
        "p95": float(np.quantile(wall, 0.95)),
        "cpu_median": float(np.median(cpu)),
        "cpu_p95": float(np.quantile(cpu, 0.95)),
    }


def pages(desk: Desk) -> list[tuple[float, float]]:
    """Look at pages as a reviewer does: first and later ones, filtered, grouped, with facets."""
    relation = desk.material.relations.label(7)
    asked = [
        Filters(),
        Filters(kind="suspect"),
        Filters(relation=relation, state="open"),
        Filters(source="document 5"),
        Filters(text="entity/00012"),
        Filters(kind="missing", state="open"),
    ]
    groupings: tuple[Grouping, ...] = ("", "relation", "entity")
    spent = []
    for filters in asked:
        for group_by in groupings:
            for cursor in ("", "50", "100"):
                spent.append(
                    timed(lambda f=filters, g=group_by, c=cursor: desk.page("ann", f, None, g, c))  # type: ignore[misc]
                )
        spent.append(timed(lambda f=filters: desk.facets("ann", f)))  # type: ignore[misc]
    return spent


def answers(
    desk: Desk, wrong: np.ndarray[Any, np.dtype[np.bool_]]
) -> dict[str, list[tuple[float, float]]]:
    """Answer what is served; learning goes on beside it."""
    spent: dict[str, list[tuple[float, float]]] = {"next": [], "answer": [], "progress": []}
    for place in range(ANSWERS):
        who = ("ann", "bob")[place % 2]
        served: list[Card | None] = []
        spent["next"].append(timed(lambda w=who, s=served: s.append(desk.next(w))))  # type: ignore[misc]
        card = served[0]
        if card is None:
            break
        given = AnswerIn(str(place), "false" if wrong[card.number] else "true")
        spent["answer"].append(
            timed(lambda w=who, n=card.number, g=given: desk.answer(w, n, g))  # type: ignore[misc]
        )
        spent["progress"].append(timed(lambda w=who: desk.progress(w)))  # type: ignore[misc]
    return spent


def run(facts: int, seed: int) -> dict[str, Any]:
    """Measure one desk."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        wrong = made_up(folder, facts, seed)
        opened: list[Desk] = []
        opening = timed(lambda: opened.append(Desk.open(folder, DeskSettings(seed=seed))))
        with opened[0] as desk:
            result = {"opening": opening[0], "pages": summed(pages(desk))}
            result |= {name: summed(spent) for name, spent in answers(desk, wrong).items()}
            desk.settle()
            result["pages_after"] = summed(pages(desk))
            # What a recalibration takes by itself: once to prepare, then each time.
            learner, rng = desk._learner, np.random.default_rng(number(seed, "answered"))
            rows = np.sort(rng.permutation(facts)[:LEARNED])
            random = np.ones(len(rows), dtype=bool)
            result["learning"] = summed(
                [timed(lambda: learner.learn(rows, wrong[rows], random).by_yield) for _ in range(3)]
            )
        (folder / "answers.sqlite").unlink()
        with Desk.open(folder, DeskSettings(seed=seed, estimate=0.02)) as desk:
            spent = answers(desk, wrong)
            result |= {f"estimate_{name}": summed(each) for name, each in spent.items()}
    return {"facts": facts, "seed": seed, **result}


def main(words: Sequence[str] | None = None) -> None:
    """Run, and append the result."""
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--facts", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--print", action="store_true", help="write nothing down")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args(words)
    result = run(arguments.facts, arguments.seed)
    result |= {
        **common.circumstances(["numpy", "pyarrow"]),
        "command": common.command(MODULE, words),
        "date": time.strftime("%Y-%m-%d"),
    }
    print(json.dumps(result, indent=1))
    if not arguments.print:
        common.append(arguments.out, result)


if __name__ == "__main__":
    main()
