"""The script that plants errors as CAGED does, on the bundled graph with tiny settings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.quality import caged
from npugraph.auditing import run
from npugraph.data.datasets import load
from npugraph.data.perturb import PerturbSettings, perturb

TINY = ("d=4", "epochs=1", "folds=2", "search=false", "self_test=0")


def test_a_run_is_a_line_and_the_audit_is_not_told_the_truth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []

    def watched(graph: object, *rest: object, **more: object) -> run.Audit:
        given.append(graph)
        return run.audit(graph, *rest, **more)

    monkeypatch.setattr(caged, "audit", watched)
    out = tmp_path / "caged.jsonl"
    words = ["world", "--rate", "0.05", "--seed", "2", "--device", "cpu", "--out", str(out)]
    caged.main([*words, *(word for value in TINY for word in ("--set", value))])
    (line,) = [json.loads(line) for line in out.read_text().splitlines()]
    splits, truth = perturb(load("world").split(), PerturbSettings(0.05, "caged", seed=2))
    assert len(given[0]) == len(splits.all_facts())
    assert given[0].truth is None
    assert given[0].label is None
    assert line["planted"] == len(truth.planted)
    assert line["facts"] == len(load("world").index())
    assert len(line["precision"]) == 5
    assert 0.05 < line["precision"][0] <= 1
    assert sum(part["facts"] for part in line["first_rate_by_part"].values()) >= line["planted"]
    capsys.readouterr()
    caged.main(["--table", "--out", str(out)])
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1].startswith(f"| world | 5% | audit | 2 | {line['precision'][0]:.3f} |")


def test_precision_is_that_of_the_first_shares_of_the_original_facts() -> None:
    wrong = np.zeros(1050, dtype=bool)
    wrong[[0, 1, 2, 3, 4, 15, 30]] = True
    found = caged.precision_at(wrong, np.arange(1050.0), 1000)
    assert found == [0.5, 0.3, 6 / 30, 7 / 40, 7 / 50]


def test_planted_facts_are_divided_by_what_may_have_been_replaced() -> None:
    splits = load("world").split()
    stored = torch.tensor([[0, 0, 1]])
    wrong = torch.tensor([[5, 0, 1], [0, 3, 1], [0, 0, 7], [8, 3, 9]])
    found = {name: mine.tolist() for name, mine in caged.by_part(wrong, stored, splits).items()}
    assert found == {
        "head": [True, False, False, False],
        "relation": [False, True, False, False],
        "tail": [False, False, True, False],
        "none": [False, False, False, True],
    }


def test_the_published_figures_fall_and_stand_beside_ours(tmp_path: Path) -> None:
    record = {
        "graph": "wn18rr",
        "perturbation": {"rate": 0.05, "seed": 0},
        "precision": [1, 1, 1, 1, 0.9],
    }
    path = tmp_path / "lines.jsonl"
    path.write_text(json.dumps(record) + "\n" + json.dumps(record) + "\n")
    rows = list(caged.caged(caged.read(path)))[2:]
    assert len(rows) == 3
    assert "| audit | 0 | 1.000 |" in rows[0]
    assert "| CAGED, published | 0 | 0.813 | 0.695 |" in rows[1]
    for systems in caged.PUBLISHED.values():
        for values in systems.values():
            assert list(values) == sorted(values, reverse=True)
