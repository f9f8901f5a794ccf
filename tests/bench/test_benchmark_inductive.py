"""The script that draws two graphs without a common entity, on the bundled graph."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.quality import inductive
from npugraph.data.datasets import bundled
from npugraph.errors import DataError
from npugraph.fitting import fit
from npugraph.seeds import generator
from recipe_cases import CASES, groups

TINY = ("d=2", "layers=2", "epochs=1", "epoch_share=0.1", "valid_facts=20", "batch_size=16")


def names(splits) -> set[tuple[str, str, str]]:  # type: ignore[no-untyped-def]
    columns = splits.whole().to_table().select(["head", "relation", "tail"]).to_pydict()
    return set(zip(*columns.values(), strict=True))


def test_the_two_graphs_share_relations_and_no_entity() -> None:
    graph = replace(bundled(), part=None)
    drawn = inductive.two_graphs(graph, (400, 150), 2, 20, 1)
    first, second = drawn
    ends = [set(part.train.entities.labels.to_pylist()) for part in drawn]
    assert not ends[0] & ends[1]
    trained = first.train.relations.labels.take(first.train.facts[:, 1].unique().tolist())
    assert set(second.train.relations.labels.to_pylist()) <= set(trained.to_pylist())
    every = set(zip(*graph.to_table().select(range(3)).to_pydict().values(), strict=True))
    for part, wanted in zip(drawn, (400, 150), strict=True):
        assert wanted <= len(names(part)) <= 3 * wanted
        assert names(part) <= every
        assert len(part.test) == pytest.approx(len(names(part)) / 10, abs=1)
    # All facts among the entities are there, but for relations that are not trained.
    inside = {fact for fact in every if fact[0] in ends[0] and fact[2] in ends[0]}
    assert names(first) == inside
    again = inductive.two_graphs(graph, (400, 150), 2, 20, 1)
    assert [names(part) for part in again] == [names(part) for part in drawn]
    other = inductive.two_graphs(graph, (400, 150), 2, 20, 2)
    assert names(other[0]) != names(first)


def test_neighbours_are_taken_hop_by_hop() -> None:
    star = torch.tensor([[0, 0, i] for i in range(1, 9)] + [[i, 0, i + 8] for i in range(1, 9)])
    rng = generator(0, "test")
    found = inductive.around(star, torch.tensor([0]), 2, 3, rng).tolist()
    assert found[0] == 0
    assert len(set(found)) == len(found) == 7
    assert sorted(found[4:]) == sorted(i + 8 for i in found[1:4])
    with pytest.raises(DataError, match="no 50 facts to draw"):
        inductive.draw(star, 50, 2, 3, rng)


def test_few_negatives_flatter() -> None:
    fitted = fit(groups(), "path", CASES["path"].settings(epochs=1))
    found = inductive.among_negatives(fitted, 0)
    assert found == inductive.among_negatives(fitted, 0)
    assert 0 < found["mrr"] <= 1
    # With 40 entities all of those that are no answer are drawn: it is the filtered rank.
    ranks = inductive.evaluate(fitted)["filters"]["clean"]
    assert found["mrr"] == pytest.approx(ranks["mrr"], abs=1e-4)
    assert found["hits@10"] == pytest.approx(ranks["hits@10"], abs=1e-4)


def test_the_result_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results.jsonl"
    words = ["world", "--device", "cpu", "--facts", "300", "100", "--seed", "3", "--out", str(out)]
    inductive.main([*words, *(word for value in TINY for word in ("--set", value))])
    (line,) = (json.loads(text) for text in out.read_text(encoding="utf-8").splitlines())
    assert json.loads(capsys.readouterr().out)["ranking"] == line["ranking"]
    assert line["first"]["train"] > line["second"]["train"] > 60
    assert 0 < line["ranking"]["mrr"] <= line["negatives"]["mrr"] <= 1
    assert "--seed 3" in line["command"]
    assert line["source"]
