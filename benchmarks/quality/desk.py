"""What a review at the desk brings: order, probabilities, finds, and the share of wrong facts.

    python -m benchmarks.quality.desk umls --noise hard --seed 0
    python -m benchmarks.quality.desk codex-s --noise verified --seed 0   # what people judged wrong
    python -m benchmarks.quality.desk --table

Wrong facts are planted beside the facts of a graph, 5% of them, and the graph is audited; the audit
is not told the truth. Then a reviewer who makes no mistakes sits at the desk of that audit: facts
come as :meth:`npugraph.review.Desk.next` serves them, a fifth at random, and every 20 answers are
learned from. Order and probabilities are judged on the facts without an answer. The same reviewer
takes facts in random order, and in the order of the audit, which learns nothing. In estimate mode
facts are drawn until the share of wrong ones is known to +-2 points. Appends one JSON line per cell
to benchmarks/results/desk.jsonl.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.quality.desk_tables import all_tables
from benchmarks.quality.promises import planted_graph
from npugraph.auditing import AuditSettings, audit, write_audit
from npugraph.auditing.settings import divide_settings
from npugraph.auditing.statistics.answers import (
    Counts,
    narrow_enough,
    next_strata,
    random_share,
    stratified_share,
)
from npugraph.bench.sources import provenance
from npugraph.data.corrupt import Noise
from npugraph.data.datasets import load, locate
from npugraph.data.io import ReadOptions, read_table
from npugraph.graph import KnowledgeGraph
from npugraph.metrics import auroc, average_precision, ece
from npugraph.review import AnswerIn, Desk, DeskSettings
from npugraph.review.estimate import strata
from npugraph.review.learning import Judged
from npugraph.review.material import Material
from npugraph.seeds import number
from npugraph.settings import make_settings, parse_assignments

MODULE = "benchmarks.quality.desk"
RESULTS = common.RESULTS / "desk.jsonl"
VERIFIED = "verified"
# Says by which sources an audit was made that is used again.
MADE_BY = "made_by.json"
# Answers after which the order and the probabilities are looked at.
SIZES = (0, 50, 100, 200)
# Reviews of a cell, each with draws of its own; draws of the estimate.
REVIEWS, DRAWS = 5, 200
HALF_WIDTH = 0.02
LEVEL = 0.95
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


def wrong_graph(name: str, noise: str, seed: int) -> tuple[KnowledgeGraph, torch.Tensor]:
    """Return a graph with wrong facts among its own, and which they are [k, 3]."""
    if noise != VERIFIED:
        return planted_graph(name, noise, seed)
    graph, folder = load(name).split().whole(), locate(name)
    files = [folder / f"{part}_negatives.tsv.gz" for part in ("valid", "test")]
    wrong = torch.cat([graph.encode(read_table(file, ReadOptions())[0]) for file in files])
    return graph.with_facts(torch.cat([graph.facts, wrong])), wrong


def truth(material: Material, graph: KnowledgeGraph, wrong: torch.Tensor) -> Bools:
    """Return which facts of an audit [n] are wrong."""
    table = graph.with_facts(wrong).to_table()
    names = zip(*(table[name].to_pylist() for name in ("head", "relation", "tail")), strict=True)
    found = np.zeros(len(material), dtype=bool)
    found[[material.number(fact) for fact in names]] = True
    return found


def looked_at(judged: Judged, wrong: Bools, left: Bools) -> dict[str, float]:
    """Judge the order and the probabilities of the facts without an answer."""
    probability = judged.probability[left]
    first = Judged.of_audit(judged.material)
    figures = {
        "average_precision": average_precision(wrong[left], -judged.place[left].astype(float)),
        "unlearned_precision": average_precision(wrong[left], -first.place[left].astype(float)),
    }
    if np.isfinite(probability).all():
        figures["ece"] = ece(probability, ~wrong[left])
    return figures


def review(folder: Path, wrong: Bools, seed: int) -> dict[str, Any]:
    """Answer as the desk serves; return what was found, and how good order and chances are."""
    (folder / "answers.sqlite").unlink(missing_ok=True)
    asked = DeskSettings(seed=seed, agreement_share=0.0)
    found, chosen, after = [], [], {}
    with Desk.open(folder, asked) as desk:
        left = np.ones(len(wrong), dtype=bool)
        for count in range(max(SIZES) + 1):
            if count in SIZES:
                after[str(count)] = looked_at(desk.judged, wrong, left)
            card = desk.next("reviewer")
            if card is None or count == max(SIZES):
                break
            word = "false" if wrong[card.number] else "true"
            desk.answer("reviewer", card.number, AnswerIn(str(count), word))
            # A person is slower than the learning.
            desk.settle()
            left[card.number] = False
            found.append(bool(wrong[card.number]))
            chosen.append(card.why != "random")
        share = desk.estimate()
    assert share is not None
    return {
        "after": after,
        "found": found,
        "chosen": chosen,
        "covered": share.low <= wrong.mean() <= share.high,
    }


def order_of_audit(material: Material, wrong: Bools, seed: int) -> list[bool]:
    """Return what the same reviewer finds where nothing is learned; a fifth at random, too."""
    order = Judged.of_audit(material).by_yield.tolist()
    random = np.random.default_rng(number(seed, "unlearned")).permutation(len(wrong)).tolist()
    seen: set[int] = set()
    found = []
    for place in range(1, max(SIZES) + 1):
        rows = random if place % 5 == 0 else order
        fact = next(row for row in rows if row not in seen)
        seen.add(fact)
        found.append(bool(wrong[fact]))
    return found


def reviews(folder: Path, wrong: Bools, seed: int) -> dict[str, Any]:
    """Hold some reviews; return means."""
    held = [review(folder, wrong, number(seed, "review", i) % 2**31) for i in range(REVIEWS)]
    material = Material.open(folder)
    plain = [order_of_audit(material, wrong, number(seed, "plain", i)) for i in range(REVIEWS)]
    after = {
        size: {
            name: float(np.mean([one["after"][size][name] for one in held]))
            for name in held[0]["after"][size]
        }
        for size in held[0]["after"]
    }

    def per_hundred(lists: list[list[bool]], part: slice) -> float:
        return 100 * float(np.mean([np.mean(one[part]) for one in lists]))

    parts = {"first_100": slice(0, 100), "second_100": slice(100, 200)}
    return {
        "after": after,
        "found_per_100": {
            name: {
                "desk": per_hundred([one["found"] for one in held], part),
                "unlearned": per_hundred(plain, part),
                "random": 100 * float(wrong.mean()),
            }
            for name, part in parts.items()
            if max(SIZES) > part.start
        },
        "share_covered": float(np.mean([one["covered"] for one in held])),
    }


@functools.cache
def _plain(wrong: int, answers: int, facts: int) -> bool:
    """Tell whether the interval by plain random answers is narrow enough."""
    end = random_share(wrong, answers, facts, level=LEVEL)
    return end.high - end.low <= 2 * HALF_WIDTH


def simple_needed(wrong: Bools, seed: int) -> int:
    """Return how many answers on plain random facts make the interval narrow enough.

    Looked at as in estimate mode: every ten answers, narrow enough at two looks in a row.
    """
    hits = np.cumsum(wrong[np.random.default_rng(seed).permutation(len(wrong))])
    narrow = [_plain(int(hits[n - 1]), n, len(hits)) for n in range(30, len(hits) + 1, 10)]
    both = np.flatnonzero(np.logical_and(narrow[1:], narrow[:-1]))
    return 40 + 10 * int(both[0]) if len(both) else len(hits)


def drawn_needed(codes: Ints, wrong: Bools, seed: int) -> tuple[int, float, float]:
    """Return how many answers estimate mode takes, and the ends of its interval then."""
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(np.flatnonzero(codes == code)) for code in range(codes.max() + 1)]
    facts = np.array([len(order) for order in orders])
    stratum, said = np.zeros(len(wrong), dtype=np.int64), np.zeros(len(wrong))
    count = 0
    while not narrow_enough(facts, stratum[:count], said[:count], HALF_WIDTH, level=LEVEL):
        # Between two looks nothing can be enough.
        for _ in range(min(10, len(wrong) - count)):
            counts = Counts.of(facts, stratum[:count], said[:count])
            mine = int(next_strata(counts)[0])
            stratum[count], said[count] = mine, wrong[orders[mine][counts.answers[mine]]]
            count += 1
    end = stratified_share(Counts.of(facts, stratum[:count], said[:count]), level=LEVEL)
    return count, end.low, end.high


def estimates(material: Material, wrong: Bools, seed: int) -> dict[str, Any]:
    """Draw many times until the share of wrong facts is known to +-2 points."""
    codes, share = strata(material), wrong.mean()
    ended = [drawn_needed(codes, wrong, number(seed, "estimate", i)) for i in range(DRAWS)]
    simple = [simple_needed(wrong, number(seed, "simple", i)) for i in range(DRAWS)]
    needed = float(np.mean([count for count, _, _ in ended]))
    return {
        "draws": DRAWS,
        "half_width": HALF_WIDTH,
        "covered": float(np.mean([low <= share <= high for _, low, high in ended])),
        "answers": needed,
        "answers_simple": float(np.mean(simple)),
        "ratio": needed / float(np.mean(simple)),
        "mean_half_width": float(np.mean([(high - low) / 2 for _, low, high in ended])),
    }


def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Audit a graph with wrong facts, then review and estimate."""
    graph, planted = wrong_graph(arguments.graph, arguments.noise, arguments.seed)
    asked, changes = divide_settings(AuditSettings.recipe, parse_assignments(arguments.assignments))
    given = {"missing": 0, "explained": 0, "seed": arguments.seed, "device": arguments.device}
    settings = make_settings(AuditSettings, {**given, **asked})
    if not (folder / "audit.json").is_file():
        write_audit(audit(graph, settings, changes), folder)
        (folder / MADE_BY).write_text(json.dumps(provenance()), encoding="utf-8")
    material = Material.open(folder)
    # Only now is the truth looked at.
    wrong = truth(material, graph, planted)
    return {
        "graph": arguments.graph,
        "noise": arguments.noise,
        "seed": arguments.seed,
        "facts": len(wrong),
        "wrong": int(wrong.sum()),
        "verdict": material.record["verdict"],
        "auroc": auroc(~wrong, material.score),
        "ap": average_precision(wrong, -material.score),
        "reviews": REVIEWS,
        **reviews(folder, wrong, arguments.seed),
        "estimate": estimates(material, wrong, arguments.seed),
        "settings": material.record["settings"],
        "audit": json.loads((folder / MADE_BY).read_text(encoding="utf-8")),
        "sources": provenance(),
        "changes": changes,
        "desk": dataclasses.asdict(DeskSettings(agreement_share=0.0)),
    }


def without_kept(words: Sequence[str]) -> list[str]:
    """Return the words of a command; where its audit is kept does not matter.

    >>> without_kept(["umls", "--kept", "out/umls", "--seed", "1"])
    ['umls', '--seed', '1']
    """
    place = list(words).index("--kept") if "--kept" in words else len(words)
    return [*words[:place], *words[place + 2 :]]


def main(words: Sequence[str] | None = None) -> None:
    """Run one cell and append its result."""
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("graph", nargs="?", default="umls")
    parser.add_argument("--noise", choices=[VERIFIED, *get_args(Noise)], default="hard")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], dest="assignments")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--kept", type=Path, help="folder of the audit, to be used again")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args(words)
    if arguments.table:
        print(all_tables(arguments.out))
        return
    with tempfile.TemporaryDirectory() as place:
        result = run(arguments, arguments.kept or Path(place) / "audit")
    cuda = torch.cuda.is_available() and arguments.device != "cpu"
    result |= {
        "machine": common.machine(cuda),
        "command": common.command(MODULE, without_kept(words)),
        "date": time.strftime("%Y-%m-%d"),
    }
    common.append(arguments.out, result)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
