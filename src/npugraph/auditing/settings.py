"""Settings of an audit, the training settings that suit a graph, and what they will cost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from npugraph.auditing.features import FEATURES
from npugraph.errors import SettingsError
from npugraph.graph import KnowledgeGraph
from npugraph.recipes import get_recipe
from npugraph.settings import TrainSettings, check_ranges, make_settings, setting
from npugraph.training.loop import choose_device

# Up to so many facts, a few strengths of the penalty are tried and validation chooses.
SEARCH_FACTS = 50_000
SEARCH: tuple[dict[str, Any], ...] = ({"n3": 0.005}, {"n3": 0.02}, {"n3": 0.1})


@dataclass(frozen=True)
class AuditSettings:
    """What an audit is asked for."""

    recipe: str = setting("complex-n3", "the system that judges the facts")
    folds: int = setting(5, "systems trained; each judges the facts it never saw", low=2)
    budget: int = setting(100, "facts a person is willing to review", low=1)
    target_precision: float = setting(
        0.9, "expected share of wrong facts among those put in quarantine", low=0, high=1
    )
    missing: int = setting(1000, "missing facts to propose at most", low=0)
    per_question: int = setting(3, "candidates for a missing fact a question", low=1)
    compared: int = setting(512, "entities each question is compared with, twice", low=2)
    explained: int = setting(200, "facts of each list that come with their evidence", low=0)
    beta: float | None = setting(None, "known share of true facts among the collected")
    alpha: float | None = setting(None, "known share of true facts among the uncollected")
    search: bool = setting(True, "on small graphs, let validation choose among a few settings")
    device: str = setting("auto", "cpu, cuda, ...; auto takes a GPU where there is one")
    seed: int = setting(0, "every random draw follows from it", low=0)

    def __post_init__(self) -> None:
        """Refuse values that mean nothing before any work is done."""
        check_ranges(self)
        for name in ("beta", "alpha"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise SettingsError(f"{name}={value} must lie between 0 and 1, both left out.")
        if self.beta is not None and self.alpha is not None and self.alpha >= self.beta:
            raise SettingsError(
                f"alpha={self.alpha} must be below beta={self.beta}: collected facts are true "
                "more often than uncollected ones."
            )
        get_recipe(self.recipe)


def suited_settings(
    graph: KnowledgeGraph, settings: AuditSettings, changes: Mapping[str, Any] | None = None
) -> TrainSettings:
    """Return the recipe's settings for a graph of this size; ``changes`` win.

    For complex-n3: small graphs get more passes, large ones fewer numbers a name, and beyond some
    20,000 entities on a GPU, or a few thousand on a CPU, a sample of entities to compare with.
    Other recipes keep their own defaults.
    """
    values: dict[str, Any] = {"device": settings.device}
    if settings.recipe == "complex-n3":
        values |= _complex_settings(graph, choose_device(settings.device).type)
    values |= dict(changes or {})
    return make_settings(get_recipe(settings.recipe).settings, values)


def _complex_settings(graph: KnowledgeGraph, device: str) -> dict[str, Any]:
    facts, gpu = len(graph), device == "cuda"
    large = facts > 400_000
    values: dict[str, Any] = {
        "d": 64 if large else (256 if gpu and facts >= 20_000 else 128),
        "n3": 0.02 if facts < 20_000 else 0.05,
        "epochs": 6 if large else (40 if facts < 20_000 else 12),
        "batch_size": 4096 if large else (512 if facts < 20_000 else 1000),
        "validate_every": 2 if large else (5 if facts < 20_000 else 4),
        "valid_facts": 2000,
        # Six passes leave no time to get worse twice.
        "patience": 1 if large else 2,
    }
    if graph.num_entities > (20_000 if gpu else 4000):
        # Beyond so many facts a step on a CPU must be cheap; it is seen by many facts instead.
        negatives = 256 if large and not gpu else 1024
        values |= {"negatives": negatives, "share": values["batch_size"]}
    if gpu:
        values["precision"] = "tf32"
    return values


@dataclass(frozen=True)
class Plan:
    """What an audit will do and roughly cost.

    Attributes:
        facts: distinct facts.
        systems: trainings, those of the search among them.
        products: multiply-adds of training and judging, in 10^12.
        memory: bytes at most at one time, roughly.
        seconds: at the speed this machine showed on a small matrix product; None: not measured.
    """

    facts: int
    systems: int
    products: float
    memory: int
    seconds: float | None = None

    def sentence(self) -> str:
        """Say it in one line."""
        about = "" if self.seconds is None else f", about {_duration(self.seconds)}"
        return (
            f"plan: {self.facts:,} facts, {self.systems} trainings, "
            f"{self.memory / 2**20:,.0f} MiB of memory{about}."
        )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"


def make_plan(
    graph: KnowledgeGraph,
    settings: AuditSettings,
    training: TrainSettings,
    measure: bool = True,
    changes: Mapping[str, Any] | None = None,
) -> Plan:
    """Estimate the cost of an audit from the sizes of the graph, and a speed measured now."""
    facts = len(graph.index())
    width = 2 * getattr(training, "d", 128)
    compared = getattr(training, "negatives", 0) or graph.num_entities
    systems = settings.folds + (len(SEARCH) if searches(graph, settings, changes) else 0)
    per_fact = 2 * 3 * compared * width
    fit = systems * training.epochs * facts * (settings.folds - 1) / settings.folds * per_fact
    judge = 6 * facts * 2 * 2 * settings.compared * width
    table = graph.num_entities * width * 4
    memory = (
        (settings.folds + 3) * table
        + 8 * training.batch_size * compared
        + 8 * facts * len(FEATURES) * 4
        + 8192 * 2 * settings.compared * 8
        + 400 * 2**20
    )
    products = (fit + judge) / 1e12
    seconds = None
    if measure:
        # Half of the peak is what whole steps reach; trees and files take a part of their own.
        speed = _multiply_adds_a_second(choose_device(settings.device))
        seconds = 2 * products * 1e12 / speed + 2.5e-4 * facts + 5
    return Plan(facts, systems, products, int(memory), seconds)


def _multiply_adds_a_second(device: torch.device) -> float:
    left = torch.ones(1024, 1024, device=device)
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < 0.1:
        # Reading a number waits for a GPU to be done.
        float((left @ left)[0, 0])
        count += 1
    return count * 1024**3 / (time.perf_counter() - started)


def searches(
    graph: KnowledgeGraph, settings: AuditSettings, changes: Mapping[str, Any] | None = None
) -> bool:
    """Tell whether validation chooses among a few settings first; what is given stays."""
    small = settings.recipe == "complex-n3" and len(graph) <= SEARCH_FACTS
    return settings.search and small and "n3" not in (changes or {})
