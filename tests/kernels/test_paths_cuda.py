"""The Triton kernels for messages along edges, in Triton's interpreter, and their work items."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from npugraph.kernels import paths_cuda, paths_items
from npugraph.kernels.paths import Edges
from npugraph.kernels.paths_items import Items, Plan
from path_checks import hub_facts, some_facts


def test_kernels_equal_the_reference_in_the_interpreter():
    pytest.importorskip("triton", reason="Triton is not installed: pip install triton")
    done = subprocess.run(
        [sys.executable, Path(__file__).parents[1] / "path_checks.py"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "equal"


def test_items_cover_every_entry_once_and_hubs_are_cut(monkeypatch):
    monkeypatch.setattr(paths_items, "LONGEST", 4)
    key = torch.tensor([0] * 3 + [2] * 9 + [3] * 4 + [5] * 5)
    items = Items.of(key, 7)
    spans = sorted(zip(items.first.tolist(), items.last.tolist(), strict=True))
    entries = [entry for first, last in spans for entry in range(first, last)]
    assert entries == list(range(len(key)))
    lengths = (items.last - items.first).tolist()
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths) == 4
    for first, last, owner in zip(
        *(x.tolist() for x in (items.first, items.last, items.owner)), strict=True
    ):
        assert (key[first:last] == owner).all()
    assert items.hub.tolist() == [2, 5]
    assert items.part_first.tolist() == [0, 3]
    assert items.part_last.tolist() == [3, 5]
    assert items.parts == 5
    assert sorted(items.row.tolist()) == [0, 1, 3, 4, 6, 7, 8, 9, 10, 11]
    row, place = items.row_of_entry
    assert row.tolist() == [0] * 3 + [7] * 4 + [8] * 4 + [9] + [3] * 4 + [10] * 4 + [11]
    assert place.tolist() == [0, 1, 2] + [0, 1, 2, 3] * 2 + [0] + [0, 1, 2, 3] * 2 + [0]


@pytest.mark.parametrize("facts", [hub_facts(), some_facts(30, 6, 2), some_facts(0, 3, 1)])
def test_groups_are_the_edges_of_one_source_and_one_relation(facts):
    edges = Edges.of(facts, 12, 3)
    plan = Plan.of(edges)
    assert torch.equal(plan.to.long(), edges.target[plan.order])
    ends = plan.group >= 0
    assert torch.equal(plan.group[ends].long(), torch.arange(plan.groups))
    source, relation = edges.source[plan.order], edges.relation[plan.order]
    group = plan.groups - ends.flip(0).long().cumsum(0).flip(0)
    origin, kind = source[ends][group], relation[ends][group]
    assert torch.equal(origin, source)
    assert torch.equal(kind, relation)
    assert torch.equal(source[ends][plan.number.long()], plan.origin.long())
    assert (relation[ends][plan.number.long()].diff() >= 0).all()


def test_traffic_counts_rows_per_edge_or_once():
    facts = torch.tensor([[0, 0, 1], [0, 0, 2], [3, 0, 1], [0, 1, 2]])
    edges = Edges.of(facts, 5, 2)  # 8 edges, 6 pairs of source and relation, 4 relations
    counted = paths_cuda.traffic(edges, 10, 3, torch.bfloat16)
    assert counted == {
        "forward": 30 * (8 * 2 + 6 * 2 + 5 * 10),
        "coefficients": 30 * 5 * 12,
        "by_source": 30 * (8 * 6 + 6 * 4 + 5 * 8),
        "by_relation": 30 * (6 * 4 + 4 * 2),
    }
    least = paths_cuda.traffic(edges, 10, 3, torch.bfloat16, cached=True)
    assert least["forward"] == 30 * (5 * 2 + 4 * 2 + 5 * 10)
    assert all(least[name] <= counted[name] for name in counted)
