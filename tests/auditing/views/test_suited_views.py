"""Which views an audit takes by itself."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from audit_samples import anonymous, random_facts
from npugraph.auditing import AuditSettings
from npugraph.auditing.views import suited, suited_views
from npugraph.data.sources import load_graph


def test_names_only_where_they_say_something() -> None:
    numbers = anonymous(random_facts(300, 30, 3, 0), 30, 3)
    assert suited_views(numbers, AuditSettings()) == ("embedding", "roles")
    assert "names" in suited_views(load_graph("world"), AuditSettings())


def test_closeness_where_facts_are_few() -> None:
    few = anonymous(random_facts(80, 30, 3, 0), 30, 3)
    assert suited_views(few, AuditSettings()) == ("embedding", "roles", "near")


def test_repeats_and_the_order_of_rows_change_nothing() -> None:
    graph = load_graph("world")
    again = torch.arange(len(graph)).flip(0).repeat(3)
    assert suited_views(graph.select(again), AuditSettings()) == suited_views(
        graph, AuditSettings()
    )


def test_what_is_asked_for_is_taken() -> None:
    graph = anonymous(random_facts(300, 30, 3, 0), 30, 3)
    asked = AuditSettings(views=("embedding",))
    assert suited_views(graph, asked) == ("embedding",)
    by_paths = dataclasses.replace(AuditSettings(), recipe="path")
    assert suited_views(graph, by_paths)[0] == "path"


def test_a_huge_vocabulary_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = anonymous(random_facts(80, 30, 3, 0), 30, 3)
    monkeypatch.setattr(suited, "MOST_ENTITIES", 29)
    assert suited_views(graph, AuditSettings()) == ("embedding", "roles")
