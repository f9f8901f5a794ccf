"""The view of names: what fits a place, what is usual, and that it sees nothing but names."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_samples import graph_of
from npugraph.auditing.folds import Folds, make_folds
from npugraph.auditing.views.names import (
    NamesView,
    Places,
    carry,
    cut_names,
    directions,
    name_pieces,
    tell_places,
)
from npugraph.data.corrupt import draw_pool
from npugraph.graph import KnowledgeGraph, Vocabulary
from npugraph.metrics import auroc
from npugraph.seeds import generator

LANDS = ("texas", "ohio", "maine", "utah", "iowa")


def towns(count: int = 60, *, plain: bool = False) -> KnowledgeGraph:
    """Towns named after their land, in it; people who live there. Or all of that by numbers."""
    rows = []
    for i in range(count):
        land = LANDS[i % len(LANDS)]
        town, person = f"town:{land} ville {i}", f"person:ann{'abcde'[i % 5]} smith {i}"
        rows += [(town, "in", f"land:{land}"), (person, "lives in", town)]
        rows += [(person, "knows", f"person:ann{'abcde'[(i + 1) % 5]} smith {(i + 7) % count}")]
    graph = graph_of(rows)
    if plain:
        order = torch.randperm(graph.num_entities, generator=generator(0, "rename")).tolist()
        names = Vocabulary.of([f"Q{1000 + i}" for i in order], "entity")
        graph = KnowledgeGraph(names, graph.relations, graph.facts)
    return graph


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_every_name_has_pieces(name: str) -> None:
    assert name_pieces(name)


def test_digits_are_one_and_prefixes_are_kept() -> None:
    assert name_pieces("city:a1") == name_pieces("city:a29")
    assert "^city:" in name_pieces("city:a1")
    assert name_pieces("Köln") == name_pieces("KÖLN")


def test_a_name_fits_where_its_like_stand() -> None:
    graph = towns()
    places = Places(cut_names(graph.entities), graph)
    lives, knows = (graph.relations.id(name) for name in ("lives in", "knows"))
    town, person = (graph.entities.id(n) for n in ("town:ohio ville 1", "person:annb smith 1"))
    asked = torch.tensor([[person, lives, town], [person, lives, person], [person, knows, town]])
    fit, unusual = places.fit(asked, 2).T
    assert fit[0] > 0.5 > 0 > fit[1]
    assert fit[0] > fit[2]
    assert unusual[0] > -1 > unusual[1]


def test_an_entity_does_not_speak_for_itself() -> None:
    rows = [("a", "r", "qqqq"), ("b", "r", "zzzz"), ("c", "r", "zzzy"), ("d", "s", "qqqq")]
    graph = graph_of(rows)
    places = Places(cut_names(graph.entities), graph)
    relation = graph.relations.id("r")
    odd, usual = (graph.entities.id(name) for name in ("qqqq", "zzzz"))
    fit = places.fit(torch.tensor([[0, relation, odd], [0, relation, usual]]), 2)[:, 0]
    # It stands there itself, but nothing like it does: as if it had never been seen.
    alone = Places(cut_names(graph.entities), graph.select(torch.tensor([1, 2])))
    assert fit[0] == pytest.approx(alone.fit(torch.tensor([[0, relation, odd]]), 2)[0, 0])
    assert fit[1] > fit[0]


def view_of(graph: KnowledgeGraph) -> tuple[Folds, NamesView]:
    folds = make_folds(graph, 3, 0)
    return folds, NamesView(folds, 0)


def test_wrong_facts_are_told_from_stored_ones_by_their_names() -> None:
    folds, view = view_of(towns())
    index = folds.graph.index()
    right, wrong = [], []
    for fold in range(folds.count):
        mine = folds.graph.facts[folds.fold == fold]
        pool, _ = draw_pool(mine, index, "one-sided", generator(0, "pool", fold))
        right.append(view.features(mine, fold))
        wrong.append(view.features(pool, fold))
    both = torch.cat([*right, *wrong]).numpy()
    label = np.repeat([True, False], [sum(map(len, right)), sum(map(len, wrong))])
    assert both.shape[1] == len(view.columns)
    assert np.isfinite(both).all()
    found = {name: auroc(label, both[:, place]) for place, name in enumerate(view.columns)}
    assert min(found["fit_tail"], found["fit_head"]) > 0.6
    # Towns are named after their land.
    rows = torch.cat([part[:, view.columns.index("shared")] for part in right])
    assert float(rows.max()) > 0.3


def test_a_fold_is_judged_without_its_own_facts() -> None:
    graph = towns()
    folds, view = view_of(graph)
    facts = folds.graph.facts[folds.fold == 0]
    before = view.features(facts, 0)
    kept = folds.fold != 0
    less = Folds(folds.graph.select(kept), folds.fold[kept], folds.count)
    assert torch.equal(NamesView(less, 0).features(facts, 0), before)
    # In any order, one by one or all at once, and again after another fold.
    view.features(facts, 1)
    assert torch.allclose(view.features(facts.flip(0), 0).flip(0), before)


def test_names_that_are_numbers_carry_nothing() -> None:
    assert carry(towns(), 0)
    assert not carry(towns(plain=True), 0)
    assert tell_places(towns(), 0) == tell_places(towns(), 0)


def test_pieces_stand_in_one_order_whatever_that_of_sets_is() -> None:
    # Strings of a set come in another order in each process, and sums with them.
    names = [f"ab{i} cdefgh{i * i} xyz" for i in range(40)]
    assert bool(cut_names(Vocabulary.of(names)).has_sorted_indices)


def test_names_without_anything_in_common_have_no_directions() -> None:
    pieces = cut_names(Vocabulary.of(["ab", "cd", "ef"]))
    assert directions(pieces, 0).shape[0] == 3
    assert not directions(pieces, 0).any()
