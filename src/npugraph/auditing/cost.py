"""What an audit will cost."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from npugraph.auditing.features import CHUNK
from npugraph.auditing.presets import SEARCH, path_settings, share_within_reach
from npugraph.auditing.settings import AuditSettings, ViewName
from npugraph.auditing.views import suited_views
from npugraph.auditing.views.embedding import EmbeddingView
from npugraph.auditing.views.names import NamesView
from npugraph.auditing.views.near import STEPS, WIDTH, NearView
from npugraph.auditing.views.pairs import PairsView
from npugraph.auditing.views.parts import suited_parts
from npugraph.auditing.views.path import PathView
from npugraph.auditing.views.roles import RolesView
from npugraph.graph import KnowledgeGraph
from npugraph.names import counted
from npugraph.recipes.path.model import MARGIN
from npugraph.rules.mining import MAX_PATHS
from npugraph.settings import TrainSettings
from npugraph.training.loop import choose_device

# What the first optimiser loads, whatever the graph; copies of a fact; a path while it is counted.
OPTIMISER_BYTES = 145 * 2**20
FACT_BYTES = 200
PATH_BYTES = 120
# What each view judges by, for the plan.
IN_WORDS: dict[ViewName, str] = {
    "embedding": "entity vectors",
    "pairs": "entity vectors that never saw the two ends together",
    "path": "paths between the ends",
    "roles": "counts of roles",
    "names": "names",
    "near": "how close the ends are",
}
# Multiply-adds that take as long as one number of one message along an edge, and where only what a
# question reaches is worked on, the dense part of a layer included.
MESSAGE, MESSAGE_WITHIN = 40, 400
# And as long as what is done with the score of one entity; the bytes of that in a step.
SCORING, SCORE_BYTES = 300, 32
# Features per view, and seconds per fact of those without a training, on one core.
COLUMNS: dict[ViewName, int] = {
    "embedding": len(EmbeddingView.columns),
    "pairs": len(PairsView.columns),
    "path": len(PathView.columns),
    "roles": len(RolesView.columns),
    "names": len(NamesView.columns),
    "near": len(NearView.columns),
}
COUNTING: dict[ViewName, float] = {"roles": 3e-5, "names": 4e-5, "near": 1e-5}
# Numbers of four bytes that are kept of a judged fact beside its features.
FACT_COLUMNS = 12
# What weighing holds of a fact beside its features, by an audit of ten million facts.
WEIGHED_BYTES = 270
# What the views names and near hold of an entity, and roles of a fact.
NAME_BYTES, WALK_BYTES, ROLE_BYTES = 2400, STEPS * 4 * WIDTH, 100


@dataclass(frozen=True)
class Cost:
    """What an audit will do and roughly cost.

    Attributes:
        facts: distinct facts.
        systems: trainings, those of the search among them.
        views: the kinds of evidence.
        products: multiply-adds of training and judging, in 10^12.
        memory: bytes that the process holds at most at one time, libraries and all, roughly.
        disk: bytes that are written, roughly.
        seconds: at the speed this machine showed on a small matrix product; None: not measured.
        workers: processes of a cluster, each of which needs the memory; 0: this process alone.
    """

    facts: int
    systems: int
    views: tuple[ViewName, ...]
    products: float
    memory: int
    disk: int
    seconds: float | None = None
    workers: int = 0

    def sentence(self) -> str:
        """Say it in one line."""
        about = "" if self.seconds is None else f", about {_duration(self.seconds)}"
        memory = f"{self.memory / 2**20:,.0f} MiB of memory"
        if self.workers:
            memory = f"{counted(self.workers, 'worker')} with one thread and {memory} each"
        return (
            f"plan: {self.facts:,} facts, judged by {self._in_words()}; "
            f"{counted(self.systems, 'training')}, {memory}{about}."
        )

    def _in_words(self) -> str:
        """Return the views in words, each with its name."""
        words = [f"{IN_WORDS[name]} ({name})" for name in self.views]
        return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"


def estimate_cost(
    graph: KnowledgeGraph,
    settings: AuditSettings,
    training: TrainSettings,
    views: tuple[ViewName, ...] | None = None,
    *,
    search: bool = False,
    paths_trained: bool = True,
    measure: bool = True,
    workers: int = 0,
) -> Cost:
    """Estimate the cost of an audit from the sizes of the graph, and a speed measured now.

    Args:
        graph: what is audited.
        settings: what is asked for.
        training: the settings of every system.
        views: the kinds of evidence; None: those that are asked for, or suit the graph.
        search: whether a few settings are tried first.
        paths_trained: whether systems of paths are trained, or used as they are.
        measure: whether to measure the speed of this machine, which takes a tenth of a second.
        workers: processes that train and judge, one thread each; 0: this one does.
    """
    facts = len(graph.index())
    views = views or suited_views(graph, settings)
    width = 2 * getattr(training, "d", 128)
    compared = getattr(training, "negatives", 0) or graph.num_entities
    systems, work, memory, disk = 0, 0.0, 0, 0
    embeddings = sum(name in views for name in ("embedding", "pairs"))
    if embeddings:
        systems = embeddings * settings.folds + (len(SEARCH) if search else 0)
        per_fact = 2 * 3 * compared * width
        work = systems * training.epochs * facts * (settings.folds - 1) / settings.folds * per_fact
        work += embeddings * 2 * _judged(facts, settings) * 2 * settings.compared * width
        held = settings.folds if "pairs" in views else 1
        memory = _memory(graph, settings, training, facts, width, compared, held)
        disk = embeddings * _disk(graph, settings.folds, width)
        disk += _disk(graph, len(SEARCH), width) if search else 0
    if "path" in views:
        path = _path_cost(graph, settings, training, facts, paths_trained)
        systems, work = systems + (2 if paths_trained else 0), work + path.work
        memory, disk = max(memory, path.memory), disk + path.disk
    memory += _judged_bytes(facts, settings, views) + _counted_bytes(graph, facts, views)
    kept = FACT_COLUMNS + sum(COLUMNS[name] for name in views)
    disk += 4 * _judged(facts, settings) * kept
    products = work / 1e12
    seconds = None
    if measure:
        # Half of the peak is what whole steps reach; trees and files take a part of their own.
        at_once = max(1, min(workers, settings.folds))
        speed = at_once * _multiply_adds_per_second(choose_device(settings.device), bool(workers))
        counted = sum(COUNTING[name] for name in views if name in COUNTING) / at_once
        seconds = 2 * products * 1e12 / speed + (2.5e-4 + counted) * facts + 5
    return Cost(facts, systems, views, products, int(memory), disk, seconds, workers)


def _judged(facts: int, settings: AuditSettings) -> int:
    """Return about how many facts are judged: the stored ones, pools, and candidates."""
    in_pools = len(settings.kinds) * min(facts, settings.thresholds.pool_facts)
    return facts + in_pools + settings.thresholds.candidates_per_missing * settings.most_missing


def _judged_bytes(facts: int, settings: AuditSettings, views: tuple[ViewName, ...]) -> int:
    """Return the bytes of features, joined and as the trees want them, and of the weighing."""
    in_pools = len(settings.kinds) * min(facts, settings.thresholds.pool_facts)
    learnt_from = 2 * min(facts, settings.thresholds.score_facts)
    columns = sum(COLUMNS[name] for name in views)
    return columns * (8 * (facts + in_pools) + 24 * learnt_from) + WEIGHED_BYTES * facts


def _counted_bytes(graph: KnowledgeGraph, facts: int, views: tuple[ViewName, ...]) -> int:
    """Return the bytes of what views without a training hold."""
    # What roles and near hold is held for each part of a fold.
    parts = suited_parts(facts, graph.num_entities)
    per_entity = {"names": NAME_BYTES, "near": (parts + 1) * WALK_BYTES}
    held = sum(size for name, size in per_entity.items() if name in views) * graph.num_entities
    return held + (parts * ROLE_BYTES * facts if "roles" in views else 0)


class _PathCost(NamedTuple):
    """Multiply-adds, and bytes of memory and disk, that the view path takes."""

    work: float
    memory: int
    disk: int


def _path_cost(
    graph: KnowledgeGraph,
    settings: AuditSettings,
    training: TrainSettings,
    facts: int,
    trained: bool,
) -> _PathCost:
    """Return what two trainings on halves and judging take.

    Every question looks at all edges, or at those within reach.
    """
    own = path_settings(graph, settings, training)[1]
    few = share_within_reach(graph, own) if own.reached_only else None
    share = 1.0 if few is None else few
    message = MESSAGE if few is None else MESSAGE_WITHIN
    per_question = 2 * share * facts * own.d * own.layers * message
    per_question += SCORING * graph.num_entities
    asked = 2.0 * _judged(facts, settings)
    if trained:
        asked += 3 * facts * own.epochs * own.epoch_share
    on_cpu = choose_device(settings.device).type == "cpu"
    held = 30 * min(1.0, MARGIN * share) * own.d * own.layers + SCORE_BYTES
    step = int(held * graph.num_entities * own.batch_size) if on_cpu else 0
    weights = 8 * graph.num_relations * own.d**2 * own.layers
    memory = _resident() + OPTIMISER_BYTES + step + FACT_BYTES * facts
    return _PathCost(asked * per_question, memory, 4 * weights + 5 * graph.to_table().nbytes)


def _memory(
    graph: KnowledgeGraph,
    settings: AuditSettings,
    training: TrainSettings,
    facts: int,
    width: int,
    compared: int,
    held: int,
) -> int:
    """Return about how many bytes of main memory the process will hold at most.

    What is resident now, what an optimiser brings along, and the larger of two stages: training
    and judging, or mining the rules behind the evidence; ``held`` systems are open at once.
    """
    table = 4 * graph.num_entities * width
    largest = int(torch.bincount(graph.facts[:, 1]).max()) // settings.folds
    judging = (
        # The systems, an optimiser's state, gradients, the best weights so far.
        (held + 3) * table
        + 16 * training.batch_size * compared
        + 20 * min(CHUNK, largest) * 2 * settings.compared
        + FACT_BYTES * facts
    )
    degree = torch.bincount(graph.facts[:, [0, 2]].flatten())
    mining = PATH_BYTES * min(int((degree * (degree - 1)).sum()), MAX_PATHS)
    return _resident() + OPTIMISER_BYTES + max(judging, held * table + mining)


def _resident() -> int:
    """Return the bytes that this process holds now; a usual number where that is not told."""
    status = Path("/proc/self/statm")
    if not status.is_file():
        return 420 * 2**20
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _disk(graph: KnowledgeGraph, folds: int, width: int) -> int:
    """Return about how many bytes are written: one run per fold, and the lists."""
    weights = 4 * width * (graph.num_entities + graph.num_relations)
    facts = graph.to_table().nbytes + graph.entities.labels.nbytes
    return int(folds * (4 * weights + facts) + 3 * weights + 5 * facts + 2**21)


def _multiply_adds_per_second(device: torch.device, one_thread: bool = False) -> float:
    left = torch.ones(1024, 1024, device=device)
    threads = torch.get_num_threads()
    if one_thread:
        torch.set_num_threads(1)
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < 0.1:
        # Reading a number waits for a GPU to be done.
        float((left @ left)[0, 0])
        count += 1
    seconds = time.perf_counter() - started
    torch.set_num_threads(threads)
    return count * 1024**3 / seconds
