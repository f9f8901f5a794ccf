"""How long a cell and a plan take, before they run.

What is known of a cell decides, the best source first:

- ``known``: this very cell was run on such a machine.
- ``same settings``: cells of the same system on the same graph, with another seed or rate.
- ``measured``: a few steps and a few rankings, timed now, times how many there will be.
- ``same recipe``: other settings or another graph, by the numbers that an epoch touches. Only
  the cells nearest in size count, and none more than ``FARTHEST`` times larger or smaller.
- ``unknown``.

All but the first count every epoch: a cell that stops early, by patience, takes less.
"""

from __future__ import annotations

import functools
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from npugraph.bench.graphs import graph_of, without_test
from npugraph.bench.plan import Cell
from npugraph.children import environment
from npugraph.data.datasets import CATALOGUE
from npugraph.data.perturb import PerturbSettings
from npugraph.data.sources import load_splits
from npugraph.errors import NpugraphError
from npugraph.graph import Splits
from npugraph.ranking.ranks import rank
from npugraph.recipes import get_recipe
from npugraph.seeds import generator
from npugraph.settings import TrainSettings, make_settings
from npugraph.training.batch_loss import Training
from npugraph.training.loop import begin_epoch, choose_device, precision
from npugraph.training.optimizers import make_optimizer
from npugraph.training.step import StepRecorder, descend

Basis = Literal["known", "same settings", "measured", "same recipe", "unknown"]
Lines = Mapping[str, Mapping[str, Any]]
# Steps before the clock starts: they set up what later ones find ready.
WARMUP_STEPS = 5
# Seconds that steps are timed for, at most.
STEP_SECONDS = 1.0
MOST_STEPS = 50
RANKED_FACTS = 256
# So many times more work, or less, and another cell says nothing: seconds do not grow that evenly.
FARTHEST = 30.0


@dataclass(frozen=True)
class CostEstimate:
    """What a cell is expected to take.

    Attributes:
        cell: which.
        seconds: from its start to its end, or None.
        share: seconds of the whole machine; less than ``seconds`` where others ran beside it.
        basis: what is known of it.
    """

    cell: Cell
    seconds: float | None
    share: float | None
    basis: Basis


def estimate(
    cells: Sequence[Cell], results: Lines, costs: Lines, machine: str
) -> list[CostEstimate]:
    """Estimate cells by what others took on machines whose name holds ``machine``."""
    seen = _Seen.of(results, costs, machine)
    return [seen.estimate(cell) for cell in cells]


def total_seconds(estimates: Sequence[CostEstimate]) -> tuple[float, int]:
    """Return the seconds of one machine for all cells, and how many of them are not in it."""
    known = [item.share for item in estimates if item.share is not None]
    return sum(known), len(estimates) - len(known)


@dataclass(frozen=True)
class _Past:
    """A cell that was run: what it was and what it took."""

    line: Mapping[str, Any]
    seconds: Mapping[str, float]
    workers: int
    shared: bool


@dataclass(frozen=True)
class _Seen:
    by_key: dict[str, _Past]
    by_settings: dict[str, list[_Past]]
    by_recipe: dict[str, list[_Past]]

    @classmethod
    def of(cls, results: Lines, costs: Lines, machine: str) -> _Seen:
        seen = cls({}, {}, {})
        for key, line in results.items():
            cost = costs.get(key)
            if line["status"] != "done" or cost is None or machine not in cost["machine"]:
                continue
            past = _Past(line, cost["seconds"], cost["workers"], bool(cost.get("shared")))
            seen.by_key[key] = past
            seen.by_settings.setdefault(_group(line), []).append(past)
            seen.by_recipe.setdefault(line["recipe"], []).append(past)
        return seen

    def estimate(self, cell: Cell) -> CostEstimate:
        """Return what a cell will take, by the best that is known."""
        if cell.key in self.by_key:
            past = self.by_key[cell.key]
            seconds = past.seconds["total"]
            return CostEstimate(cell, seconds, seconds / past.workers, "known")
        me = cell.to_json()
        sources: tuple[tuple[Basis, list[_Past]], ...] = (
            ("same settings", self.by_settings.get(_group(me), [])),
            ("same recipe", self.by_recipe.get(cell.recipe, [])),
        )
        for basis, found in sources:
            near = _nearest(me, found)
            if near:
                return _scaled(cell, me, near, basis)
        return CostEstimate(cell, None, None, "unknown")


def _group(line: Mapping[str, Any]) -> str:
    """Return what cells share that differ in nothing but seed and rate."""
    settings = {name: value for name, value in line["settings"].items() if name != "seed"}
    return json.dumps([line["recipe"], line["graph"], settings], sort_keys=True)


def _nearest(me: Mapping[str, Any], found: list[_Past]) -> list[_Past]:
    """Return the cells whose training is nearest in size, if any is within ``FARTHEST``."""
    mine = _work(me)
    away = [(abs(math.log(mine / _work(past.line))), past) for past in found if _is_there(past)]
    near = [(far, past) for far, past in away if far <= math.log(FARTHEST)]
    # Those that ran beside other work took longer, and count only where there are no others.
    near = [(far, past) for far, past in near if not past.shared] or near
    least = min((far for far, _ in near), default=0.0)
    return [past for far, past in near if far <= least + 1e-9]


def _is_there(past: _Past) -> bool:
    """Tell whether the graph of a cell can still be read."""
    try:
        _size(past.line["graph"])
    except NpugraphError:
        return False
    return True


def _scaled(cell: Cell, me: Mapping[str, Any], found: list[_Past], basis: Basis) -> CostEstimate:
    """Take the mean of other cells, each scaled by how much more there is to do here."""
    guesses = [_scaled_seconds(me, past) for past in found]
    shares = [guess / past.workers for guess, past in zip(guesses, found, strict=True)]
    return CostEstimate(cell, sum(guesses) / len(found), sum(shares) / len(found), basis)


def _scaled_seconds(me: Mapping[str, Any], past: _Past) -> float:
    """Return what a cell would have taken as ``me``: its start as it is, the rest by its size."""
    train, rank, total = (float(past.seconds[name]) for name in ("train", "rank", "total"))
    # What stopped early did not do all its epochs.
    epochs = float(past.line["settings"]["epochs"] / past.line["epochs"])
    training = train * epochs * _work(me) / _work(past.line)
    ranking = rank * _ranked_work(me) / _ranked_work(past.line)
    start = max(0.0, total - train - rank)
    return start + training + ranking


def _work(line: Mapping[str, Any]) -> float:
    """Return about how many numbers all epochs touch: facts, candidates, width."""
    settings = line["settings"]
    candidates = settings.get("negatives", 0) or _size(line["graph"]).entities
    facts = _train_facts(line["graph"], line["rate"])
    return float(settings["epochs"] * facts * (1 + candidates) * settings.get("d", 1))


def _ranked_work(line: Mapping[str, Any]) -> float:
    """Return about how many numbers ranking the test facts touches."""
    size = _size(line["graph"])
    return float(size.facts["test"] * size.entities * line["settings"].get("d", 1))


def _train_facts(graph: str, rate: float) -> float:
    """Return about how many training facts a graph has after the perturbation."""
    facts = _size(graph).facts
    if rate == 0:
        return facts["train"]
    drawn = PerturbSettings(rate)
    kept = 1 - rate * (1 - drawn.added_share) + rate * drawn.added_share
    return drawn.train_share * kept * (facts["train"] + facts["valid"])


class _Size(NamedTuple):
    entities: int
    facts: Mapping[str, int]


@functools.cache
def _size(graph: str) -> _Size:
    """Return the entities of a graph and the facts of its parts; a file is read once."""
    if graph in CATALOGUE:
        return _Size(CATALOGUE[graph].entities, CATALOGUE[graph].counts)
    splits = load_splits(graph)
    return _Size(splits.num_entities, {name: len(part) for name, part in splits.parts().items()})


def measure(
    estimates: Sequence[CostEstimate],
    work: Path,
    device: str | None = None,
    say: Callable[[str], object] = print,
) -> list[CostEstimate]:
    """Time a few steps of the cells of which no like was ever run.

    Cells that share all but the seed are timed once. One that cannot be timed stays as it was.

    Args:
        estimates: of a plan; those that are known or of the same settings are kept.
        work: folder for perturbed graphs.
        device: in place of the plan's, or None.
        say: told what is being timed.
    """
    timed: dict[str, float | None] = {}
    found = []
    start = _time_start()
    for item in estimates:
        if item.basis in ("same recipe", "unknown"):
            cell = item.cell
            group = json.dumps([_group(cell.to_json()), cell.rate])
            if group not in timed:
                say(f"timing {cell.title} ...")
                timed[group] = _try(cell, work, device, say)
            seconds = timed[group]
            if seconds is not None:
                item = CostEstimate(cell, start + seconds, start + seconds, "measured")
        found.append(item)
    return found


def _time_start() -> float:
    """Return the seconds that the process of a cell takes to start."""
    started = time.perf_counter()
    words = [sys.executable, "-c", "import npugraph.bench.worker"]
    subprocess.run(words, check=True, env=environment())
    return time.perf_counter() - started


def _try(cell: Cell, work: Path, device: str | None, say: Callable[[str], object]) -> float | None:
    try:
        return time_cell(cell, work, device)
    except (NpugraphError, RuntimeError) as error:  # a RuntimeError is torch's, of memory mostly
        say(f"{cell.title} cannot be timed: {error}")
        return None


def time_cell(cell: Cell, work: Path, device: str | None = None) -> float:
    """Return the seconds that a cell would take with all its epochs, by a few timed steps."""
    started = time.perf_counter()
    on = choose_device(device or cell.device)
    kind = get_recipe(cell.recipe).settings
    settings = make_settings(kind, {**cell.settings, "device": str(on)})
    splits = graph_of(cell, work)
    training = get_recipe(cell.recipe).build(settings, without_test(splits).train)
    training.to(on)
    clock = _Clock(on)
    setup = clock.now() - started
    with precision(settings.precision, on):
        epoch = _time_steps(training, settings, clock)
        start, each = _time_ranking(training, splits, clock)
        health = clock.time(training.health)
        # Self-training prepares every epoch after the warm-up, and the last one is after it.
        draws = generator(settings.seed, "begin", settings.epochs, device=on)
        begin = clock.time(lambda: training.begin_epoch(settings.epochs, draws))
    validations = math.ceil(settings.epochs / settings.validate_every)
    ranked = min(settings.valid_facts or len(splits.valid), len(splits.valid))
    return (
        setup
        + settings.epochs * (epoch + health)
        + max(0, settings.epochs - getattr(settings, "warmup", 0)) * begin
        + (validations + 1) * start
        + (validations * ranked + len(splits.test)) * each
    )


class _Clock:
    """Tells the time when the device has done what it was given."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def time(self, work: Callable[[], object]) -> float:
        started = self.now()
        work()
        return self.now() - started


def _time_steps(training: Training, settings: TrainSettings, clock: _Clock) -> float:
    """Return the seconds of an epoch's steps."""
    optimizer, rng = make_optimizer(training, settings), torch.Generator(clock.device)
    recorder = StepRecorder(rng, settings.cuda_graph and clock.device.type == "cuda")
    batches = begin_epoch(1, training, optimizer, settings, recorder)

    def step(rows: Tensor) -> None:
        if not recorder.replay(rows):
            with recorder.recording(rows) as batch:
                descend(training.loss(batch, rng), optimizer, settings.clip)

    # Where there are fewer batches than steps to warm up, all are timed after one round.
    for rows in batches[:WARMUP_STEPS]:
        step(rows)
    rest = batches[WARMUP_STEPS : WARMUP_STEPS + MOST_STEPS] or batches
    started, done = clock.now(), 0
    for rows in rest:
        step(rows)
        done += len(rows)
        if clock.now() - started > STEP_SECONDS:
            break
    return (clock.now() - started) / done * training.num_items()


@torch.no_grad()
def _time_ranking(training: Training, splits: Splits, clock: _Clock) -> tuple[float, float]:
    """Return the seconds of ranking no fact at all, and those that each fact adds.

    Before the first fact, the entities are represented and the known facts are indexed.
    """
    system = training.system.eval()
    facts = torch.cat([splits.valid.facts, splits.train.facts])[:RANKED_FACTS]
    facts = facts.to(system.device)
    sizes = (splits.num_entities, splits.num_relations)
    known = {"seen": torch.cat([splits.train.facts, splits.valid.facts])}

    def ranking(count: int) -> float:
        return clock.time(lambda: rank(system.score_all, facts[:count], *sizes, known))

    few, many = max(1, len(facts) // 16), len(facts)
    encoding = clock.time(system.represent)
    # Once without looking at the clock: the first time, loops are compiled.
    for count in (few, many):
        ranking(count)
    short, long = ranking(few), ranking(many)
    each = max(0.0, long - short) / max(1, many - few)
    return encoding + short, each
