"""Where the posterior matters: the share of wrong facts itself, from 4% to 40%.

    python -m benchmarks.quality.planted_share umls --noise typed --share 0.2 --seed 0 --device cpu
    python -m benchmarks.quality.planted_share fb15k-237 --noise typed --share 0.2 --set warmup=1

27% of the true facts are removed, as at rate 0.3 of the protocol, and as many wrong ones are
planted as make ``--share`` of what is stored. npugraph-path is trained on one and the same graph
with the facts weighed in several ways, one JSON line each, appended to
benchmarks/results/planted_share.jsonl:

    none              every stored fact counts in full
    posterior         edges by the posterior
    truth             edges by the truth, which only this script knows
    posterior, both   the posterior, for edges and as answers
    truth, both       the truth likewise
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks import common
from benchmarks.quality import paths
from npugraph.bench.graphs import perturbed
from npugraph.data.perturb import PerturbSettings, read_truth
from npugraph.graph import KnowledgeGraph, Splits, TripleIndex
from npugraph.metrics import auroc, average_precision, ece
from npugraph.recipes.base import Recipe
from npugraph.recipes.path.judging import JudgingModel
from npugraph.recipes.path.npu import NPUGRAPH_PATH, NPUPathSettings, build_one
from npugraph.recipes.path.npu_training import WeightedPathTraining
from npugraph.recipes.path.posterior import PLAUSIBLE, posterior_of

MODULE = "benchmarks.quality.planted_share"
RESULTS = common.RESULTS / "planted_share.jsonl"
KEPT = ("graph", "noise", "share", "seed", "note")
# Share of the true facts that are removed: that of the protocol at rate 0.3.
REMOVED = 0.27
ON = {"edge_weights": "posterior"}
BOTH = {**ON, "question_weights": "posterior"}
WAYS: dict[str, dict[str, str]] = {
    "none": {"edge_weights": "none"},
    "posterior": ON,
    "truth": ON,
    "posterior, both": BOTH,
    "truth, both": BOTH,
}


def protocol(share: float, noise: str, seed: int) -> PerturbSettings:
    """Return how to perturb so that ``share`` of what is stored is wrong.

    >>> made = protocol(0.4, "typed", 0)
    >>> planted = made.rate * made.added_share
    >>> round(planted / (1 - REMOVED + planted), 6)
    0.4
    """
    planted = (1 - REMOVED) * share / (1 - share)
    rate = REMOVED + planted
    return PerturbSettings(rate, noise, added_share=planted / rate, seed=seed)  # type: ignore[arg-type]


def graph_of(arguments: argparse.Namespace) -> Splits:
    """Return the graph with so many wrong facts, perturbed into a folder below ``--work``."""
    drawn = (arguments.graph, f"{arguments.share:g}", arguments.noise, str(arguments.seed))
    folder = Path(arguments.work) / "-".join(drawn)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = protocol(arguments.share, arguments.noise, arguments.seed)
    return perturbed(arguments.graph, made, folder)


def planted_in(splits: Splits, system: JudgingModel) -> torch.Tensor:
    """Tell which stored facts of a model are wrong: bool [n]."""
    truth = read_truth(splits)
    assert truth is not None
    planted = TripleIndex(truth.planted, splits.num_entities, splits.num_relations)
    return planted.contains(system.stored.facts().cpu())


def knowing(splits: Splits) -> Recipe:
    """Return npugraph-path with the truth as the probability of its stored facts."""

    def build_knowing(settings: NPUPathSettings, train: KnowledgeGraph) -> WeightedPathTraining:
        made = build_one(settings, train)
        made.give((~planted_in(splits, made.system)).double())
        return made

    return replace(NPUGRAPH_PATH, name="npugraph-path-knowing", build=build_knowing)


def detection(system: JudgingModel, splits: Splits, settings: NPUPathSettings) -> dict[str, Any]:
    """Judge all stored facts by the posterior of the trained model, and compare with the truth."""
    planted = planted_in(splits, system).numpy()
    found = posterior_of(system, kinds=PLAUSIBLE, most=settings.posterior_facts, seed=settings.seed)
    assert found is not None
    judged = system.judge(system.stored.facts())
    score, probability = found.score(judged), found.if_stored(judged)
    return {
        "planted": int(planted.sum()),
        "facts": len(planted),
        "auroc": round(auroc(~planted, score), 5),
        "ap": round(average_precision(planted, -score), 5),
        "ece": round(ece(probability, ~planted), 5),
        "wrong_share": round(1 - found.priors.beta.value, 5),
        "identifiable": found.priors.identifiable,
    }


def run(arguments: argparse.Namespace, emit: paths.Emit) -> None:
    """Train once per way on one graph."""
    splits = graph_of(arguments)
    for way in arguments.ways:
        values = [f"{name}={value}" for name, value in WAYS[way].items()]
        words = {"set": [*arguments.set, *values], "recipe": NPUGRAPH_PATH.name, "rate": REMOVED}
        settings = paths.settings_of(argparse.Namespace(**(vars(arguments) | words)))
        recipe = knowing(splits) if way.startswith("truth") else NPUGRAPH_PATH
        fitted, record = paths.train(splits, recipe, settings)
        system = paths.path_part(fitted.system)
        filters = paths.filters_of(splits, REMOVED)
        result = paths.figures(paths.ranks_of(system.score_all, system, splits, filters), system)
        assert isinstance(settings, NPUPathSettings)
        result |= detection(system, splits, settings)
        emit("planted", {"way": way, "settings": asdict(settings), **record, **result})


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's words."""
    made = paths.common_parser(__doc__, "out/planted", RESULTS)
    made.add_argument("--share", type=float, default=0.2, help="of the stored facts that are wrong")
    made.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    return made


def main(words: Sequence[str] | None = None) -> None:
    """Run once; print and append every result as soon as it is there."""
    given = sys.argv[1:] if words is None else list(words)
    arguments = parser().parse_args(given)
    run(arguments, paths.emitter(MODULE, given, KEPT, arguments))


if __name__ == "__main__":
    main()
