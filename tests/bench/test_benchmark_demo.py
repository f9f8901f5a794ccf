"""The benchmark of the demo: what it counts as a right correction, and its table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch

from benchmarks.quality import demo
from benchmarks.quality.demo_tables import demos
from npugraph.data.demo import planted_world
from npugraph.report import Correction


def line(seed: int, **more: Any) -> dict[str, Any]:
    fixes = {"new": 1, "new_right": 0, "stored": 3, "stored_right": 2, "true": 4, "of_true": 1}
    made: dict[str, Any] = {"seed": seed, "replaced": False, "found": 80, "corrections": fixes}
    made |= {"expected_wrong": 85, "expected_wrong_low": 70, "expected_wrong_high": 95}
    return made | {"cpu_seconds": 60.0} | more


def test_the_table_has_means_over_seeds() -> None:
    runs = [line(0), line(1, found=60), line(2, expected_wrong=None, cpu_seconds=90.0)]
    *_, row = demos(runs)
    assert row == (
        "| is stored beside them | 3 | 73.3 (60) | 2 | 1 of 2 | 5% | 50% | 100% | 70 (90) |"
    )


def test_what_planted_facts_were_made_of_can_be_taken_out() -> None:
    graph, truth = planted_world(3)
    assert truth.origin is not None
    left = demo.replaced(graph, truth)
    assert not left.index().contains(truth.origin).any()
    assert len(left) == len(graph) - len(torch.unique(truth.origin, dim=0))


def test_a_right_correction_names_what_the_fact_was_made_of() -> None:
    graph, truth = planted_world(3)
    assert truth.origin is not None
    suspects = torch.cat([truth.planted[:4], truth.origin[4:5]])
    label = graph.entities.label

    def fix(place: int, stored: bool) -> Correction:
        end = 0 if truth.planted[place, 0] != truth.origin[place, 0] else 2
        side = "head" if end == 0 else "tail"
        return Correction(side, label(int(truth.origin[place, end])), stored)

    found = SimpleNamespace(
        graph=graph,
        collected=SimpleNamespace(facts=suspects),
        suspect_rows=np.arange(5),
        corrections=(fix(0, True), fix(1, False), Correction("tail", "Euro"), None, fix(4, True)),
    )
    counted = demo.corrections(cast(Any, found), truth)
    assert (counted["stored"], counted["stored_right"]) == (1, 1)
    assert (counted["new"], counted["new_right"]) == (2, 1)
    assert counted["of_true"] == 1


def test_seeds_are_ranges_or_single_ones() -> None:
    assert demo.numbers("0-2,7") == [0, 1, 2, 7]
