"""Facts of entities that stand out are listed first, and nothing is promised of them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import torch

import npugraph
from npugraph.auditing import Audit
from npugraph.auditing.clusters import Cluster, judge_clusters
from npugraph.auditing.figures import summary
from npugraph.auditing.judgement import Judgement
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.statistics.columns import LIMIT
from npugraph.auditing.statistics.verdict import ORDER
from npugraph.graph import KnowledgeGraph, Vocabulary


def judged(bad: int, end: int = 0) -> Judgement:
    """Return 4,000 facts of 100 entities; those of the first few are less plausible."""
    rng = np.random.default_rng(1)
    entity = np.repeat(np.arange(100), 40)
    facts = np.stack([entity, rng.integers(0, 3, 4000), rng.integers(100, 900, 4000)], 1)
    score = rng.normal(size=4000) + 0.3 * rng.normal(size=100)[entity] - 2.0 * (entity < bad)
    if end:
        facts = facts[:, ::-1].copy()
    chance = 1 / (1 + np.exp(-score))
    return Judgement(
        torch.from_numpy(facts), np.zeros(4000, dtype=np.int64), score, chance, chance, chance
    )


@pytest.mark.parametrize("end", [0, 2])
def test_facts_of_entities_that_stand_out_come_first(end: int) -> None:
    before = judged(6, end)
    after, found = judge_clusters(before, AuditSettings())
    assert [cluster.end for cluster in found] == [{0: "head", 2: "tail"}[end]]
    assert set(found[0].entities) <= set(range(6))
    assert len(found[0].entities) >= 5
    assert (found[0].facts == 40).all()
    among = np.isin(before.facts[:, end].numpy(), found[0].entities)
    np.testing.assert_allclose(after.score, before.score - np.log(LIMIT) * among)
    assert (after.probability[among] < before.probability[among]).all()
    np.testing.assert_array_equal(after.probability[~among], before.probability[~among])


def test_a_source_that_is_named_is_the_users_word() -> None:
    before = judged(6)
    after, found = judge_clusters(before, AuditSettings(source="head"))
    assert found == ()
    assert after is before


def test_where_nobody_stands_out_nothing_changes() -> None:
    before = judged(0)
    after, found = judge_clusters(before, AuditSettings())
    assert found == ()
    assert after is before


def test_the_sentence_names_some_of_them() -> None:
    before = judged(8)
    names = [f"<b>{number}" for number in range(900)]
    graph = KnowledgeGraph(Vocabulary.of(names), Vocabulary.of(["r", "s", "t"]), before.facts)
    (cluster,) = judge_clusters(before, AuditSettings())[1]
    said = cluster.sentence(graph)
    assert said.startswith(f"As heads, {len(cluster.entities)} entities have facts")
    assert f"{graph.entities.label(int(cluster.entities[0]))} (40 facts)" in said
    assert f" and {len(cluster.entities) - 5} more." in said


def test_an_audit_says_who_stands_out_and_promises_nothing(silent: Audit, tmp_path: Path) -> None:
    assert silent.clusters == ()
    assert summary(silent)["clusters"] == []
    cluster = Cluster("tail", np.array([1, 0]), np.array([9, 12]))
    found = dataclasses.replace(silent, clusters=(cluster,))
    assert found.verdict.level == ORDER
    said = summary(found)
    names = [found.graph.entities.label(number) for number in (1, 0)]
    record = {"end": "tail", "entities": names, "facts": [9, 12]}
    assert said["clusters"] == [record]
    assert cluster.sentence(found.graph) in said["notes"]
    assert said["expected_wrong"] is None
    printed = Path(npugraph.__file__).parent / "schemas" / "commands" / "audit.json"
    schema = json.loads(printed.read_text(encoding="utf-8"))["properties"]["clusters"]
    jsonschema.validate([record], schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate([{**record, "end": "relation"}], schema)
    found.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Errors seem to come many per entity" in page
