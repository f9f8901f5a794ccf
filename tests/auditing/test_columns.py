"""Columns of the user: read beside the facts, heeded by an audit, and told."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from audit_samples import FAST, WRONG, graph_of, people
from npugraph.asking import explain
from npugraph.auditing import AuditSettings, audit
from npugraph.auditing.columns import check_columns, judge_columns
from npugraph.auditing.judgement import Judgement
from npugraph.auditing.page import notes, sentences
from npugraph.data.io import ReadOptions, read_graph
from npugraph.data.sources import load_graph
from npugraph.errors import DataError
from npugraph.explaining.remarks import MOVED
from npugraph.graph import KnowledgeGraph

QUICK = {"folds": 2, "missing": 0, "self_test": 0, "search": False, "device": "cpu"}


def judgement(graph: KnowledgeGraph, wrong: torch.Tensor, seed: int = 0) -> Judgement:
    """A weak judgement: wrong facts are a little more suspicious."""
    rng = np.random.default_rng(seed)
    score = 2 + rng.normal(size=len(graph)) - 2.0 * wrong.numpy()
    probability = 1 / (1 + np.exp(-score))
    fold = np.zeros(len(graph), dtype=np.int64)
    return Judgement(graph.facts, fold, score, probability, probability * 0.9, probability)


def with_source() -> tuple[KnowledgeGraph, torch.Tensor]:
    graph = graph_of(people(120))
    wrong = torch.rand(len(graph), generator=torch.Generator().manual_seed(0)) < 0.1
    names = [f"s{int(i) % 7}" for i in range(len(graph))]
    names = ["bad" if bad else name for name, bad in zip(names, wrong.tolist(), strict=True)]
    return dataclasses.replace(graph, columns={"from": pa.array(names)}), wrong


def test_a_bad_source_is_found_and_its_facts_move_down() -> None:
    graph, wrong = with_source()
    before = judgement(graph, wrong)
    after, effects = judge_columns(before, graph, AuditSettings(source="from"))
    assert list(effects) == ["from"]
    assert effects["from"].groups == 8
    moved = after.probability - before.probability
    assert (moved[wrong.numpy()] < 0).all()
    assert (moved[~wrong.numpy()] >= 0).all()
    assert ((after.score - before.score)[wrong.numpy()] < -0.5).all()
    assert (after.low <= after.probability).all()
    assert (after.probability <= after.high).all()


def test_without_columns_nothing_changes() -> None:
    graph, wrong = with_source()
    before = judgement(graph, wrong)
    after, effects = judge_columns(before, graph, AuditSettings())
    assert after is before
    assert effects == {}


def test_an_end_may_be_the_source() -> None:
    graph = graph_of(people(120))
    head = graph.facts[:, 0]
    wrong = torch.isin(head, head.unique()[:6])
    after, effects = judge_columns(judgement(graph, wrong), graph, AuditSettings(source="head"))
    assert list(effects) == ["head"]
    assert effects["head"].spread > 0
    assert AuditSettings(source="head").columns == ()


def test_numbers_words_and_empty_fields_are_evidence() -> None:
    graph, wrong = with_source()
    rng = np.random.default_rng(0)
    number = np.where(wrong.numpy(), rng.random(len(graph)), 1 + rng.random(len(graph)))
    text = ["" if i % 5 == 0 else f"{value:.4f}" for i, value in enumerate(number)]
    word = ["yes" if bad else "no" for bad in wrong.tolist()]
    columns = {"number": pa.array(text), "word": pa.array(word), "float": pa.array(number)}
    graph = dataclasses.replace(graph, columns=columns)
    for name, groups in (("number", 10), ("word", 2), ("float", 10)):
        _, effects = judge_columns(judgement(graph, wrong), graph, AuditSettings(evidence=(name,)))
        assert effects[name].groups == groups
        assert effects[name].highest > 0.05


def test_an_audit_heeds_a_confidence_and_a_column_and_says_so(tmp_path: Path) -> None:
    rows = people(24)
    lines = ["head\trelation\ttail\tconfidence\torigin"]
    lines += [f"{h}\t{r}\t{t}\t0.5\tweb" for h, r, t in rows]
    path = tmp_path / "facts.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = audit(path, {**QUICK, "source": "origin"}, FAST)
    assert list(found.columns) == ["confidence", "origin"]
    told = " ".join(notes(found))
    # One value throughout cannot say anything.
    assert "The column confidence says nothing" in told
    assert "The column origin says nothing" in told
    plain = audit(graph_of(rows), QUICK, FAST)
    assert notes(plain) == ()
    ours, theirs = found.posterior, plain.posterior
    # A factor of 1 may be off by the last digit.
    assert np.allclose(ours["score"], theirs["score"], rtol=0, atol=1e-12)
    assert set(ours["source"].to_pylist()) == {"web"}
    assert ours.drop_columns(["score", "source"]).equals(theirs.drop_columns(["score"]))


def test_an_explanation_says_what_a_column_did(tmp_path: Path) -> None:
    names = [*people(36), *WRONG]
    origin = pa.array(["web" if row in WRONG else f"book {i % 5}" for i, row in enumerate(names)])
    graph = dataclasses.replace(graph_of(names), columns={"from": origin})
    found = audit(graph, {**QUICK, "source": "from"}, FAST, out=tmp_path)
    found.write(tmp_path)
    assert found.column_odds is not None
    odds = dict(zip(map(tuple, found.collected.facts.tolist()), found.column_odds, strict=True))
    told = 0
    for fact in WRONG:
        by_object, by_folder = found.explain(fact), explain(tmp_path, *fact, device="cpu")
        assert by_object.remarks == by_folder.remarks
        factor = odds[by_object.ids]
        said = [one for one in by_object.remarks if one.kind == "columns"]
        assert bool(said) == (factor >= MOVED)
        for one in said:
            told += 1
            assert one.text.startswith("The column from makes it more suspicious: it multiplies")
            assert f"{factor:.1f}." in one.text
            assert one.text in sentences(by_folder, []).contradicting
    assert told, "One source has all that is wrong."


def test_an_unknown_column_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no column 'origin' beside its facts"):
        audit(graph_of(people(12)), {**QUICK, "evidence": "origin"}, FAST)
    path = tmp_path / "facts.tsv"
    path.write_text("head\trelation\ttail\torigin\na\tr\tb\tx\n")
    with pytest.raises(DataError, match=r"no column is called 'origine'. Did you mean 'origin'"):
        read_graph(path, ReadOptions(beside=("origine",)))


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet", "frame"])
def test_columns_are_read_beside_the_facts(tmp_path: Path, ending: str) -> None:
    data = {
        "head": ["a", "b", "a"],
        "relation": ["r", "r", "s"],
        "tail": ["b", "c", "c"],
        "origin": ["x", "y", ""],
        "points": ["0.1", "7", "-3"],
    }
    options = ReadOptions(beside=("points", "origin"))
    if ending == "frame":
        graph = load_graph(data, options)
    else:
        path = tmp_path / f"facts.{ending}"
        if ending == "parquet":
            import pyarrow.parquet

            pyarrow.parquet.write_table(pa.table(data), path)
        else:
            between = "\t" if ending == "tsv" else ","
            rows = zip(*data.values(), strict=True)
            text = [between.join(data), *(between.join(row) for row in rows)]
            path.write_text("\n".join(text) + "\n")
        graph = read_graph(path, options)
    assert graph.columns["origin"].to_pylist() == ["x", "y", ""]
    assert graph.columns["points"].to_pylist() == ["0.1", "7", "-3"]
    assert graph.confidence is None
    chosen = graph.select(torch.tensor([True, False, True]))
    assert chosen.columns["origin"].to_pylist() == ["x", ""]
    assert graph.select(torch.tensor([2, 0])).columns["points"].to_pylist() == ["-3", "0.1"]
    check_columns(graph, AuditSettings(evidence=("points",), source="origin"))
    with pytest.raises(DataError, match="has no column 'origins'"):
        check_columns(graph, AuditSettings(source="origins"))


def test_columns_of_parts_come_together(tmp_path: Path) -> None:
    for part in ("train", "valid", "test"):
        (tmp_path / f"{part}.tsv").write_text(f"head\trelation\ttail\torigin\na\tr\tb\t{part}\n")
    whole = load_graph(tmp_path, ReadOptions(beside=("origin",)))
    assert whole.columns["origin"].to_pylist() == ["train", "valid", "test"]
    assert whole.split().valid.columns["origin"].to_pylist() == ["valid"]
