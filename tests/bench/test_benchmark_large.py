"""The benchmark of tables as large as a GPU holds, on a CPU and tiny."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.speed import large

WORDS = "--device cpu --entities 3000 --relations 20 --facts 9000 --d 4 --negatives 8 --share 16"
MORE = "--batches 32 64 --seconds 0.2 --ranked 20 --candidates 50"


@pytest.mark.parametrize("kind", ["float32", "bf16"])
def test_it_trains_and_says_what_it_found(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lines.jsonl"
    large.main([*WORDS.split(), *MORE.split(), "--table-precision", kind, "--out", str(out)])
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert [json.loads(line) for line in out.read_text().splitlines()] == lines
    assert [line["batch"] for line in lines] == [32, 64]
    for line in lines:
        assert line["steps"] > 0
        rate = line["facts_per_second"]
        assert rate == pytest.approx(line["steps"] * line["batch"] / line["seconds"], rel=0.05)
        assert line["hours_per_epoch_extrapolated"] == pytest.approx(9000 / rate / 3600)
        assert 0 < line["share_of_traffic_floor"] < 1
        assert line["floats_per_entity"] == 8
        # Rows of the tables, and one number each.
        size = {"float32": 4, "bf16": 2}[kind]
        assert line["gb_kept"] == pytest.approx((3000 + 40) * (8 * size + 4) / 1e9)
        assert "mrr" not in line
        assert 0 < line["mrr_among_sampled"] < 1
    # The first steps are told at once.
    assert said.err.index("batch 32: step 1 took") < said.err.index("batch 64: step 1 took")


def test_facts_follow_from_the_seed_and_can_be_learned() -> None:
    sizes = large.Sizes(500, 7, 9000, 2, 4, 4, torch.float32, torch.device("cpu"), 3)
    facts = large.chunk_of_facts(2, sizes, 1000)
    assert torch.equal(facts, large.chunk_of_facts(2, sizes, 1000))
    assert not torch.equal(facts, large.chunk_of_facts(3, sizes, 1000))
    assert bool((facts.amax(0) < torch.tensor([500, 7, 500])).all())
    rule = (facts[:, 0] * 48_271 + facts[:, 1] * 16_807 + 11) % 500
    assert 0.75 < float((rule == facts[:, 2]).double().mean()) < 0.87


def test_the_floor_counts_every_row_once() -> None:
    sizes = large.Sizes(50, 3, 9, 2, 2, 2, torch.float32, torch.device("cpu"), 0)
    facts = torch.tensor([[0, 0, 1], [0, 0, 1]])
    asked = large.questions(facts, sizes, torch.Generator().manual_seed(0))
    pools = torch.cat([one.candidates.ids.flatten() for one in asked if one.candidates])
    entities = len(torch.unique(torch.cat([pools, torch.tensor([0, 1])])))
    # Entities, the relation and its twin: four numbers and a sum, read and written; and the facts.
    assert large.floor_bytes(asked, sizes) == 2 * (16 + 4) * (entities + 2) + 48


def test_what_does_not_fit_is_refused_in_a_sentence() -> None:
    with pytest.raises(SystemExit) as ended:
        large.main(["--device", "cpu", "--entities", str(10**13)])
    assert str(ended.value).startswith("error: This needs about ")
    assert str(ended.value).endswith("smaller --batches or --table-precision bf16.")
