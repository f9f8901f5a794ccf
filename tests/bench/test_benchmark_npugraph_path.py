"""The scripts that measure npugraph-path, on the bundled graph with tiny settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quality import ablation, ablation_tables, planted_share, planted_tables

TINY = ("d=2", "layers=2", "epochs=2", "epoch_share=0.01", "valid_facts=10", "batch_size=128")
# A posterior of few facts is as good here, and the others are not judged.
TINY_POSTERIOR = ("warmup=1", "posterior_facts=150", "judged_share=0.01")


def lines(script: Any, tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    out = tmp_path / "results.jsonl"
    command = ["world", "--device", "cpu", "--work", str(tmp_path / "work"), "--out", str(out)]
    script.main([*command, *words])
    return [json.loads(line) for line in out.read_text().splitlines()]


def settings(*values: str) -> list[str]:
    return [word for value in values for word in ("--set", value)]


def test_rows_of_the_ablation_are_compared_with_path(tmp_path: Path) -> None:
    words = ["--rows", "path", "npu", "--seed", "2", *settings(*TINY)]
    first, second = lines(ablation, tmp_path, *words)
    assert (first["row"], second["row"]) == ("path", "npu")
    assert "against_path" not in first
    gain = second["against_path"]["clean"]
    assert gain["difference"] == pytest.approx(
        second["clean"]["mrr"] - first["clean"]["mrr"], abs=2e-5
    )
    assert 0 <= gain["p_value"] <= 1
    assert second["source"]


def test_every_way_is_a_line_of_one_graph(tmp_path: Path) -> None:
    words = ["--share", "0.3", "--noise", "typed", "--ways", "none", "truth, both"]
    found = lines(planted_share, tmp_path, *words, *settings(*TINY, *TINY_POSTERIOR))
    assert [line["way"] for line in found] == ["none", "truth, both"]
    assert len({line["planted"] for line in found}) == 1
    for line in found:
        assert line["planted"] / line["facts"] == pytest.approx(0.3, abs=0.03)
        assert 0 <= line["auroc"] <= 1
        assert line["settings"]["warmup"] == 1
    assert found[0]["settings"]["edge_weights"] == "none"
    assert found[1]["settings"]["question_weights"] == "posterior"
    # By the truth every wrong fact weighs nothing from the first epoch on.
    curve = found[1]["curve"]
    assert curve[0]["posterior_below_half"] == pytest.approx(
        found[1]["planted"] / found[1]["facts"], abs=1e-6
    )


def made(row: str, seed: int, mrr: float, p_value: float | None = None) -> dict[str, Any]:
    figures = {"clean": {"mrr": mrr}, "perturbed": {"mrr": mrr - 0.1}, "training_seconds": 90}
    compared = {} if p_value is None else {"against_path": {"clean": {"p_value": p_value}}}
    return {"graph": "fb15k-237", "rate": 0.3, "row": row, "seed": seed, **figures, **compared}


def test_the_table_of_the_ablation() -> None:
    given = [made("path", 0, 0.30), made("path", 1, 0.32)]
    given += [made("edges", 0, 0.31, 0.04), made("edges", 1, 0.34, 0.2)]
    given += [made("npu", 0, 0.28, 0.001), made("npu", 1, 0.27, 0.001)]
    table = list(ablation_tables.ablation(given))
    assert table[2] == "| fb15k-237 | 0.3 | path | 0, 1 | .310 ± .014 | .210 ± .014 |  |  |  | 90 |"
    assert table[3].startswith(
        "| fb15k-237 | 0.3 | path, edges by the posterior | 0, 1 | .325 ± .021 | .225 ± .021 |"
    )
    assert table[3].endswith("| .015 ± .007 | 0.41 | 0.04, 0.2 | 90 |")
    assert "| -.035 ± .021 |" in table[7]
    assert (
        table[4] == "| fb15k-237 | 0.3 | path, questions by the posterior | not run | | | | | | |"
    )
    # Another graph, and another rate, has rows and a correction of its own; only what was run.
    for change in ({"graph": "kinships"}, {"rate": 0.7}):
        both = list(ablation_tables.ablation([*given, *({**line, **change} for line in given[:4])]))
        assert both[: len(table)] == table
        path, edges = both[len(table) :]
        place = {"graph": "fb15k-237", "rate": 0.3} | change
        assert path.startswith(f"| {place['graph']} | {place['rate']} | path | 0, 1 |")
        assert edges.endswith("| .015 ± .007 | 0.2 | 0.04, 0.2 | 90 |")


def test_the_tables_of_the_planted_share() -> None:
    cell = {"graph": "umls", "noise": "typed", "share": 0.2, "auroc": 0.9, "ap": 0.5}
    given = [
        {**cell, "seed": seed, "way": "posterior", "clean": {"mrr": mrr}}
        for seed, mrr in ((1, 0.7), (0, 0.8))
    ]
    start = "| umls | typed | 20% | 0, 1 | not run |"
    assert list(planted_tables.planted_ranking(given))[2].startswith(f"{start} .750 ± .071 |")
    assert list(planted_tables.planted_detection(given))[2].startswith(
        f"{start} .900 ± .000 / .500 ± .000 |"
    )
    # A way with fewer seeds than the row says which; of two runs the later counts.
    given += [{**cell, "seed": 0, "way": "none", "clean": {"mrr": mrr}} for mrr in (0.1, 0.6)]
    row = list(planted_tables.planted_ranking(given))[2]
    assert row.startswith("| umls | typed | 20% | 0, 1 | .600 (seed 0) | .750 ± .071 |")
