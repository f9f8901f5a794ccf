"""A recipe of paths on a perturbed graph: speed, ranking, detection.

    python -m benchmarks.quality.paths fb15k-237 --seed 0 --precision bf16
    python -m benchmarks.quality.paths wn18 --recipe npugraph-plus --seed 0 --precision bf16
    python -m benchmarks.quality.paths fb15k-237 --rate 0          # the graph as published
    python -m benchmarks.quality.paths fb15k-237 --only-speed --set compiled=true

The graph is perturbed, the best epoch is chosen on the perturbed validation facts, and the test
facts are ranked once. Training facts are judged with their own edges hidden. Every result is one
JSON line, printed as soon as it is there and appended to benchmarks/results/paths.jsonl:

    speed       time of the first steps, peak memory
    ranking     MRR under both filters, linked and unlinked pairs apart; of npugraph-plus also
                for its parts alone, in lines of their own; with --valid-evidence once more, by
                the paths that go along the validation facts, too
    detection   AUROC and AP of the planted training facts

The reciprocal ranks of the test facts are kept below ``--work``, for benchmarks.quality.ablation.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import common
from benchmarks.quality.paths_tables import MORE
from npugraph.bench.graphs import perturbed
from npugraph.bench.plan import BenchPlan
from npugraph.data.perturb import PerturbSettings, read_truth
from npugraph.data.sources import load_splits
from npugraph.fitting import Fitted, fit
from npugraph.graph import SIDES, Splits, TripleIndex
from npugraph.metrics import auroc, average_precision, ece
from npugraph.model import Model
from npugraph.ranking.evaluate import known_facts
from npugraph.ranking.ranks import Floats, Ranks, ScoreAll, rank
from npugraph.recipes import get_recipe
from npugraph.recipes.base import Recipe
from npugraph.recipes.path.judged import VALUES, Judged
from npugraph.recipes.path.judging import JudgingModel
from npugraph.recipes.path.plus import PlusModel, PlusSettings
from npugraph.recipes.path.recipe import PathSettings
from npugraph.seeds import generator
from npugraph.settings import TrainSettings, make_settings, parse_assignments
from npugraph.training.loop import choose_device, precision
from npugraph.training.optimizers import make_optimizer
from npugraph.training.step import descend

MODULE = "benchmarks.quality.paths"
RESULTS = common.RESULTS / "paths.jsonl"
# An epoch asks a quarter of the questions: validation falls between.
LARGE: dict[str, Any] = {
    "d": 32,
    "layers": 6,
    "answers": 1,
    "batch_size": 128,
    "learning_rate": 3e-3,
    "edge_dropout": 0.1,
    "epoch_share": 0.25,
    "epochs": 3,
}
# By graph. FB15K has twice the edges and a third of its facts share a question: two answers per
# question ask all facts in the time of half of them.
SETTINGS: dict[str, dict[str, Any]] = {
    "fb15k-237": {**LARGE, "hide_pair_share": 0.5},
    "fb15k": {**LARGE, "answers": 2, "epochs": 4},
    "wn18": {**LARGE, "batch_size": 64},
    "wn18rr": {**LARGE, "batch_size": 64},
}
# For the graphs as published: more passes, since more is there to learn. Held-out pairs of
# FB15k-237 are linked by no training fact, by the construction of that benchmark, so every edge
# between the two ends is hidden; those of WN18RR may be (NBFNet's published settings say the same).
PUBLISHED: dict[str, dict[str, Any]] = {
    "fb15k-237": {"answers": 2, "hide_pair_share": 1.0, "edge_dropout": 0.2, "epochs": 10},
    "wn18rr": {"answers": 2, "epochs": 12},
}
# Test pairs of FB15k-237 are not linked, by construction; validation facts of a perturbed one are
# drawn from all facts.
WEIGHT_BY = {"fb15k-237": "unlinked"}
WARM, TIMED = 5, 20
# Words of the command that a line has under their own names.
KEPT = ("recipe", "graph", "rate", "noise", "seed", "note")
KEYS = ("mrr", "hits@1", "hits@3", "hits@10")
Emit = Callable[[str, dict[str, Any]], None]


def work_path(arguments: argparse.Namespace, before: str = "", after: str = "") -> Path:
    """Return a path below ``--work`` that is named after the graph and how it is perturbed."""
    drawn = (arguments.graph, f"{arguments.rate:g}", arguments.noise, str(arguments.seed))
    return Path(arguments.work) / (before + "-".join(drawn) + after)


def graph_of(arguments: argparse.Namespace) -> Splits:
    """Return the graph as published, or perturbed into a folder below ``--work``."""
    if arguments.rate == 0:
        return load_splits(arguments.graph)
    protocol = PerturbSettings(arguments.rate, arguments.noise, seed=arguments.seed)
    folder = work_path(arguments)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return perturbed(arguments.graph, protocol, folder)


def ranks_file(arguments: argparse.Namespace, row: str) -> Path:
    """Return where the reciprocal ranks of a recipe, or of a row of the ablation, are kept."""
    return work_path(arguments, "ranks-", f"-{row}.npz")


def keep_ranks(ranks: Ranks, file: Path) -> dict[str, Floats]:
    """Keep the mean reciprocal ranks of both directions of every test fact: [n] by filter."""
    result: dict[str, Floats] = {}
    for name, of_side in ranks.by_filter.items():
        tail, head = (1 / of_side[side].of("realistic") for side in SIDES)
        result[name] = (tail + head) / 2
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez(file, **result)  # type: ignore[arg-type,unused-ignore]
    return result


def beside_paths(graph: str) -> dict[str, Any]:
    """Return what npugraph-plus has beside path: ComplEx-N3 as in the plan table-0.3."""
    if graph not in SETTINGS:
        return {}
    plan = BenchPlan.read("table-0.3")
    system = plan.system("ComplEx-N3")
    # WN18RR is WN18 without the reverse relations.
    found = {**system.settings, **system.graph.get(graph.removesuffix("rr"), {})}
    values = {f"complex_{name}": found[name] for name in ("d", "n3", "epochs")}
    return values | {"weight_by": WEIGHT_BY.get(graph, "all")}


def settings_of(arguments: argparse.Namespace) -> PathSettings:
    """Return the settings: of the graph, as published or not, then those of the command."""
    values = {"seed": arguments.seed, "device": arguments.device, "valid_facts": 5000}
    values |= {"precision": arguments.precision} | SETTINGS.get(arguments.graph, {})
    if arguments.rate == 0:
        values |= PUBLISHED.get(arguments.graph, {})
    kind = get_recipe(arguments.recipe).settings
    if issubclass(kind, PlusSettings):
        values |= beside_paths(arguments.graph)
    made = make_settings(kind, {**values, **parse_assignments(arguments.set)})
    if not isinstance(made, PathSettings):
        raise SystemExit(f"{arguments.recipe} is no recipe of paths.")
    return made


def wait(device: torch.device) -> float:
    """Return the time when the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def path_part(system: Model) -> JudgingModel:
    """Return the model of paths of a recipe, or all its members."""
    found = system.path if isinstance(system, PlusModel) else system
    assert isinstance(found, JudgingModel)
    return found


def rankings_of(system: Model) -> dict[str, ScoreAll]:
    """Return what is ranked by: the whole system, and each part of it alone."""
    if not isinstance(system, PlusModel):
        return {"whole": system.score_all}
    parts = {"paths": system.path.score_all, "vectors": system.vectors.score_all}
    return {"whole": system.score_all, **parts}


def speed(splits: Splits, recipe: str, settings: PathSettings) -> dict[str, Any]:
    """Time a few steps of a training that is thrown away."""
    device = choose_device(settings.device)
    training = get_recipe(recipe).build(settings, splits.train)
    training.to(device)
    optimizer = make_optimizer(training, settings)
    rng = torch.Generator(device).manual_seed(0)
    order = torch.randperm(training.num_items(), generator=generator(0, "speed")).to(device)
    batches = torch.split(order, settings.batch_size)[: WARM + TIMED]
    training.system.train()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    times = [wait(device)]
    with precision(settings.precision, device):
        for number, rows in enumerate(batches):
            descend(training.loss(rows, rng), optimizer, settings.clip)
            # The first steps are waited for one by one: they compile. The others run on.
            if number < WARM or number == len(batches) - 1:
                times.append(wait(device))
    timed = max(len(batches) - WARM, 1)
    steps = -(-training.num_items() // settings.batch_size)
    on_gpu = device.type == "cuda"
    return {
        "first_steps_ms": [round(1e3 * (b - a), 1) for a, b in zip(times, times[1:], strict=False)],
        "ms_per_step": round(1e3 * (times[-1] - times[-2]) / timed, 2),
        "steps": steps * settings.epochs,
        "edges": 2 * len(path_part(training.system).stored),
        "peak_mib": torch.cuda.max_memory_allocated(device) // 2**20 if on_gpu else None,
    }


def train(
    splits: Splits, recipe: str | Recipe, settings: TrainSettings
) -> tuple[Fitted, dict[str, Any]]:
    """Train, saying how it goes; return what was trained and how long that took."""

    def report(record: dict[str, Any]) -> None:
        print(json.dumps(record), file=sys.stderr, flush=True)

    started = time.perf_counter()
    fitted = fit(splits, recipe, settings, report=report)
    seconds = time.perf_counter() - started
    validating = sum(line.get("validation_seconds", 0.0) for line in fitted.metrics)
    training = sum(line["seconds"] for line in fitted.metrics) - validating
    best = fitted.metrics[fitted.progress.best_epoch - 1] if fitted.progress.best_epoch else {}
    return fitted, {
        "seconds": round(seconds, 1),
        "training_seconds": round(training, 1),
        "best_epoch": fitted.progress.best_epoch,
        **{k: round(v, 5) for k, v in best.items() if k.startswith(("valid_mrr", "valid_weight"))},
        "curve": [
            {k: v for k, v in line.items() if "progress" not in k} for line in fitted.metrics
        ],
    }


def steps_of(fitted: Fitted) -> int:
    """Return how many steps a training took."""
    items = get_recipe(fitted.recipe).build(fitted.settings, fitted.splits.train).num_items()
    return -(-items // fitted.settings.batch_size) * fitted.progress.epoch


def filters_of(splits: Splits, rate: float) -> dict[str, Tensor]:
    """Return the known facts of both filters; as published there is but one."""
    names = ("clean", "perturbed") if rate else ("clean",)
    return {name: known_facts(splits, name) for name in names}


def ranks_of(
    score_all: ScoreAll, system: JudgingModel, splits: Splits, filters: dict[str, Tensor]
) -> Ranks:
    """Rank the test facts."""
    facts = splits.test.facts.to(system.device)
    return rank(score_all, facts, splits.num_entities, splits.num_relations, filters)


def figures(ranks: Ranks, system: JudgingModel) -> dict[str, Any]:
    """Return the metrics of the test facts by filter, and MRR for linked and unlinked pairs."""
    result: dict[str, Any] = {}
    facts = torch.from_numpy(ranks.facts).to(system.device)
    mask = system.kinds_of(facts)["linked"].cpu().numpy()
    for name in ranks.by_filter:
        metrics = ranks.metrics(name)
        result[name] = {key: round(metrics[key], 5) for key in KEYS}
        result[name]["mrr_linked"] = round(ranks.metrics(name, where=mask)["mrr"], 5)
        result[name]["mrr_unlinked"] = round(ranks.metrics(name, where=~mask)["mrr"], 5)
    return result | {"linked_share": round(float(mask.mean()), 4)}


def directions_joined(judged: Judged) -> dict[str, Floats]:
    """Return every value of judged facts as the sum over both directions, and as the lesser."""
    values = {name: getattr(judged, name).double().cpu().numpy() for name in VALUES}
    sums = {f"{name}_sum": both.sum(0) for name, both in values.items()}
    return sums | {f"{name}_least": both.min(0) for name, both in values.items()}


def detection(system: JudgingModel, splits: Splits) -> dict[str, Any]:
    """Judge the training facts with their own edges hidden, and compare with the truth."""
    truth = read_truth(splits)
    assert truth is not None
    facts = splits.train.facts
    planted = TripleIndex(truth.planted, splits.num_entities, splits.num_relations).contains(facts)
    started = time.perf_counter()
    judged = system.judge_thoroughly(facts.to(system.device))
    seconds = time.perf_counter() - started
    scores = directions_joined(judged)
    if judged.thinned is not None:
        thinned = directions_joined(judged.thinned)
        scores |= {f"thinned_{name}": values for name, values in thinned.items()}
    posterior, calibration = system.posterior(), {}
    if posterior is not None:
        scores["credibility"] = posterior.score(judged)
        probability = posterior.if_stored(judged)
        calibration = {
            "ece": round(ece(probability, ~planted), 5),
            "wrong_share": round(1 - posterior.priors.beta.value, 5),
        }
    return {
        "planted": int(planted.sum()),
        "facts": len(facts),
        **{
            name: {
                "auroc": round(auroc(~planted, score), 5),
                "ap": round(average_precision(planted, -score), 5),
            }
            for name, score in scores.items()
        },
        **calibration,
        "seconds": round(seconds, 1),
        "seconds_with_posterior": round(time.perf_counter() - started, 1),
    }


def run(arguments: argparse.Namespace, emit: Emit) -> None:
    """Do all that the command asks for."""
    settings, splits = settings_of(arguments), graph_of(arguments)
    emit("speed", {"settings": asdict(settings), **speed(splits, arguments.recipe, settings)})
    if arguments.only_speed:
        return
    fitted, record = train(splits, arguments.recipe, settings)
    system = path_part(fitted.system)
    record["ms_per_step"] = round(1e3 * record["training_seconds"] / steps_of(fitted), 2)
    for part, score_all in rankings_of(fitted.system).items():
        ranks = ranks_of(score_all, system, splits, filters_of(splits, arguments.rate))
        row = (
            arguments.recipe if settings.members == 1 else f"{arguments.recipe}-{settings.members}"
        )
        row += "" if part == "whole" else f"-{part}"
        keep_ranks(ranks, ranks_file(arguments, row))
        result = figures(ranks, system)
        emit("ranking", {"part": part, "settings": asdict(settings), **record, **result})
    if arguments.valid_evidence:
        # Nothing is trained on them, so this is beside the protocol, and has a name of its own.
        both = torch.cat([splits.train.facts, splits.valid.facts])
        moved = system.along(splits.train.with_facts(both)).eval()
        ranks = ranks_of(moved.score_all, system, splits, filters_of(splits, arguments.rate))
        emit(
            "ranking",
            {"part": MORE, "settings": asdict(settings), **record} | figures(ranks, system),
        )
    if arguments.rate and not arguments.no_detection:
        emit("detection", {"settings": asdict(settings), **detection(system, splits)})


def common_parser(about: str | None, work: str, out: Path) -> argparse.ArgumentParser:
    """Return a parser of what every script of this kind is told."""
    made = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    made.add_argument("graph")
    made.add_argument("--noise", default="random")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--device", default="auto")
    made.add_argument("--precision", default="float32", choices=("float32", "tf32", "bf16"))
    made.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    made.add_argument("--note", default="", help="what a reader of the figures must know")
    made.add_argument("--work", default=work, help="where perturbed graphs go")
    made.add_argument("--out", type=Path, default=out)
    return made


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's words."""
    made = common_parser(__doc__, "out/paths", RESULTS)
    made.add_argument("--recipe", default="path", help="path, npugraph-path or npugraph-plus")
    made.add_argument("--rate", type=float, default=0.3, help="0: the graph as published")
    made.add_argument("--no-detection", action="store_true")
    made.add_argument(
        "--valid-evidence",
        action="store_true",
        help="rank a second time, by the paths along the validation facts, too",
    )
    made.add_argument("--only-speed", action="store_true", help="stop after the first steps")
    return made


def emitter(module: str, given: Sequence[str], kept: Sequence[str], of: argparse.Namespace) -> Emit:
    """Return what prints a result and appends it to ``--out`` as soon as it is there.

    Args:
        module: what is run.
        given: its words.
        kept: words of the command that a line has under their own names.
        of: the words, parsed.
    """
    started = time.perf_counter()
    common_part = {
        "command": common.command(module, given),
        **{key: getattr(of, key) for key in kept},
        "machine": common.machine(choose_device(of.device).type == "cuda"),
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }

    def emit(kind: str, result: dict[str, Any]) -> None:
        since = round(time.perf_counter() - started, 1)
        record = {"kind": kind, **common_part, "since_start": since, **result}
        common.append(of.out, record)
        shown = {k: v for k, v in record.items() if k not in ("settings", "curve", "command")}
        print(json.dumps(shown), flush=True)

    return emit


def main(words: Sequence[str] | None = None) -> None:
    """Run once; print and append every result as soon as it is there."""
    given = sys.argv[1:] if words is None else list(words)
    arguments = parser().parse_args(given)
    run(arguments, emitter(MODULE, given, KEPT, arguments))


if __name__ == "__main__":
    main()
