"""The benchmark of the desk: what it counts, on an audit that was written in a moment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.quality import desk
from benchmarks.quality.desk_tables import all_tables, read
from benchmarks.speed import desk as speed
from npugraph.review.material import Material
from review_samples import sample_audit


def test_a_review_finds_more_than_chance_and_counts_what_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "SIZES", (0, 20, 40))
    monkeypatch.setattr(desk, "REVIEWS", 2)
    sample = sample_audit(tmp_path / "audit", stored=400, missing=0)
    found = desk.reviews(sample.folder, sample.wrong, seed=3)
    assert set(found["after"]) == {"0", "20", "40"}
    assert found["after"]["0"]["average_precision"] == found["after"]["0"]["unlearned_precision"]
    first = found["found_per_100"]["first_100"]
    assert first["random"] == pytest.approx(100 * sample.wrong.mean())
    assert first["desk"] > 2 * first["random"] < first["unlearned"]


def test_good_scores_need_fewer_answers_than_a_random_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "DRAWS", 5)
    monkeypatch.setattr(desk, "HALF_WIDTH", 0.05)
    sample = sample_audit(tmp_path / "audit", stored=3000, missing=0)
    found = desk.estimates(Material.open(sample.folder), sample.wrong, seed=1)
    assert found["ratio"] == pytest.approx(found["answers"] / found["answers_simple"])
    assert found["ratio"] < 1
    assert found["mean_half_width"] <= 0.05
    assert 0 <= found["covered"] <= 1


def test_the_truth_is_found_by_names(tmp_path: Path) -> None:
    sample = sample_audit(tmp_path / "audit", stored=50, missing=0)
    material = Material.open(sample.folder)
    numbers = np.arange(50)
    assert [material.number(material.names(int(n))) for n in numbers] == numbers.tolist()


def test_tables_have_a_row_per_cell() -> None:
    text = all_tables(desk.RESULTS)
    lines = read(desk.RESULTS)
    for table in ("desk_learned", "desk_found", "desk_estimated"):
        assert table in text
    assert all(text.count(f"| {line['graph']} | {line['noise']} |") == 3 for line in lines)


def test_waiting_is_measured_for_pages_answers_learning_and_the_estimate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(speed, "ANSWERS", 6)
    monkeypatch.setattr(speed, "LEARNED", 40)
    found = speed.run(facts=600, seed=0)
    for name in ("pages", "next", "answer", "learning", "estimate_next", "estimate_answer"):
        assert 0 < found[name]["median"] <= found[name]["p95"]
