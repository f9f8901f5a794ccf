"""Which part of npugraph-path and npugraph-plus brings what, on one perturbed graph.

    python -m benchmarks.quality.ablation fb15k-237 --seed 0 --precision bf16 --set compiled=true
    python -m benchmarks.quality.ablation fb15k-237 --seed 0 --precision bf16 --rows path edges

Every row is one training on the same graph, with the settings of benchmarks.quality.paths. It is
one JSON line, appended to benchmarks/results/ablation.jsonl: the figures of both filters, and how
the reciprocal ranks of the test facts differ from those of ``path`` on the same graph (a paired
test over facts; both directions of a fact count as one). For that the ranks of a row are kept
below ``--work``, so ``path`` must have run there before, here or in benchmarks.quality.paths.

    path        the recipe path
    edges       edges weighed by the posterior
    questions   facts weighed by the posterior as answers
    both        edges and answers, with the warm-up of the defaults
    weighed     the same, fitted to all kinds of corruption
    npu         two heads and the nPU objective
    soft        self-training: probable new facts as edges
    all         edges, npu and soft together
    plus        npugraph-plus: path and ComplEx-N3
    members     the mean of three models of paths
    plus, members   the same with ComplEx-N3
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.quality import paths
from npugraph.ranking.ranks import Floats
from npugraph.significance import paired_test

MODULE = "benchmarks.quality.ablation"
RESULTS = common.RESULTS / "ablation.jsonl"
KEPT = ("graph", "rate", "noise", "seed", "note")
BASE = "path"
OFF = {"edge_weights": "none", "warmup": "1"}
BOTH = {"question_weights": "posterior"}
NPU, SOFT = {"objective": "npu"}, {"soft_facts": "0.1"}
# Recipe and settings of each row. On large graphs an epoch is a quarter of a pass: one is warm-up
# enough. Rows that came later, "both" and "weighed", keep the two epochs of the defaults.
ROWS: dict[str, tuple[str, dict[str, str]]] = {
    BASE: ("path", {}),
    "edges": ("npugraph-path", {**OFF, "edge_weights": "posterior"}),
    "questions": ("npugraph-path", {**OFF, "question_weights": "posterior"}),
    "both": ("npugraph-path", BOTH),
    "weighed": ("npugraph-path", {**BOTH, "posterior_kinds": "all"}),
    "npu": ("npugraph-path", {**OFF, **NPU}),
    "soft": ("npugraph-path", {**OFF, **SOFT}),
    "all": ("npugraph-path", {**OFF, **NPU, **SOFT, "edge_weights": "posterior"}),
    "plus": ("npugraph-plus", {}),
    "members": ("path", {"members": "3"}),
    "plus, members": ("npugraph-plus", {"members": "3"}),
}


def compared(mine: dict[str, Floats], base: Path) -> dict[str, Any]:
    """Compare with the ranks that ``path`` left; nothing where it did not run."""
    if not base.is_file():
        return {}
    kept = np.load(base)
    result = {}
    for name, values in mine.items():
        test = paired_test(values.tolist(), kept[name].tolist())
        assert test is not None
        result[name] = {
            "difference": round(test.difference, 6),
            "t": round(test.statistic, 3),
            "facts": test.pairs,
            "p_value": test.p_value,
        }
    return {"against_path": result}


def run(arguments: argparse.Namespace, emit: paths.Emit) -> None:
    """Train once per row on one graph."""
    splits = paths.graph_of(arguments)
    for row in arguments.rows:
        recipe, values = ROWS[row]
        given = [*arguments.set, *(f"{name}={value}" for name, value in values.items())]
        words = vars(arguments) | {"recipe": recipe, "set": given}
        settings = paths.settings_of(argparse.Namespace(**words))
        fitted, record = paths.train(splits, recipe, settings)
        system = paths.path_part(fitted.system)
        filters = paths.filters_of(splits, arguments.rate)
        ranks = paths.ranks_of(fitted.system.score_all, system, splits, filters)
        mine = paths.keep_ranks(ranks, paths.ranks_file(arguments, row))
        base = paths.ranks_file(arguments, BASE)
        found = {} if row == BASE else compared(mine, base)
        result = {"row": row, "recipe": recipe, "settings": asdict(settings), **record}
        emit("ablation", {**result, **paths.figures(ranks, system), **found})


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's words."""
    made = paths.common_parser(__doc__, "out/paths", RESULTS)
    made.add_argument("--rate", type=float, default=0.3)
    made.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    return made


def main(words: Sequence[str] | None = None) -> None:
    """Run once; print and append every result as soon as it is there."""
    given = sys.argv[1:] if words is None else list(words)
    arguments = parser().parse_args(given)
    run(arguments, paths.emitter(MODULE, given, KEPT, arguments))


if __name__ == "__main__":
    main()
