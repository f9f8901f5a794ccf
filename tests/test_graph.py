"""Vocabularies, graphs and the split of one graph into three."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import npugraph.graph
from npugraph.errors import DataError, NpugraphError, UnknownNameError
from npugraph.graph import (
    LITERAL,
    PARTS,
    Annotations,
    KnowledgeGraph,
    Splits,
    Vocabulary,
)
from npugraph.triples import Triple
from small_facts import as_set, as_tensor, small_facts


def graph_of(facts: torch.Tensor, num_entities: int, num_relations: int) -> KnowledgeGraph:
    entities = Vocabulary.of([f"e{i:04}" for i in range(num_entities)], "entity")
    relations = Vocabulary.of([f"r{i:02}" for i in range(num_relations)], "relation")
    return KnowledgeGraph(entities, relations, facts)


# --- Vocabulary

LABELS = st.lists(st.text(min_size=1, max_size=6), max_size=20)


@given(LABELS)
def test_a_vocabulary_numbers_the_distinct_labels_in_byte_order(labels: list[str]) -> None:
    words = Vocabulary.of(labels)
    expected = sorted(set(labels), key=lambda label: label.encode())
    assert words.labels.to_pylist() == expected
    assert [words.label(i) for i in range(len(words))] == expected
    assert words.ids(labels).tolist() == [expected.index(label) for label in labels]
    assert words.take(words.ids(labels)).to_pylist() == labels


def test_a_vocabulary_takes_arrow_columns() -> None:
    column = pa.chunked_array([["b", "a"], ["c", "b"]])
    words = Vocabulary.of(column)
    assert words.labels.to_pylist() == ["a", "b", "c"]
    assert words.ids(column).tolist() == [1, 0, 2, 1]


def test_a_vocabulary_knows_its_members() -> None:
    words = Vocabulary.of(["a", "b"])
    assert "a" in words
    assert "c" not in words
    assert len(Vocabulary.of([])) == 0
    assert Vocabulary.of([]).ids([]).shape == (0,)


@pytest.mark.parametrize("ask", [Vocabulary.id, lambda words, label: words.ids(["paris", label])])
def test_an_unknown_label_is_named_with_the_nearest_known_one(ask: object) -> None:
    words = Vocabulary.of(["paris", "london"], "entity")
    with pytest.raises(DataError) as caught:
        ask(words, "pariss")
    expected = "No entity is called 'pariss' in this graph. Did you mean 'paris'?"
    assert str(caught.value) == expected


def test_vocabularies_are_equal_by_their_labels() -> None:
    assert Vocabulary.of(["a", "b"]) == Vocabulary.of(["b", "a", "a"])
    assert Vocabulary.of(["a"]) != Vocabulary.of(["b"])
    assert Vocabulary.of(["a"]) != ["a"]


def test_equal_vocabularies_have_equal_hashes() -> None:
    one, other = Vocabulary.of(["a"], "entity"), Vocabulary.of(["a"], "label")
    assert (one == other) == (hash(one) == hash(other))


# --- KnowledgeGraph


def test_rows_are_numbered_from_one(toy_graph: KnowledgeGraph) -> None:
    assert toy_graph.rows.tolist() == [1, 2, 3, 4, 5, 6]
    assert len(toy_graph) == 6
    assert (toy_graph.num_entities, toy_graph.num_relations) == (5, 2)


@pytest.mark.parametrize(
    "index",
    [torch.tensor([4, 1]), torch.tensor([False, True, False, False, True, False])],
    ids=["places", "mask"],
)
def test_select_keeps_everything_about_the_chosen_rows(
    toy_graph: KnowledgeGraph, index: torch.Tensor
) -> None:
    chosen = toy_graph.select(index)
    places = index if index.dtype == torch.int64 else index.nonzero().squeeze(1)
    assert torch.equal(chosen.facts, toy_graph.facts[places])
    assert chosen.rows.tolist() == (places + 1).tolist()
    assert toy_graph.confidence is not None
    assert toy_graph.label is not None
    assert torch.equal(chosen.confidence, toy_graph.confidence[places])
    assert torch.equal(chosen.label, toy_graph.label[places])
    assert chosen.entities is toy_graph.entities
    assert chosen.source == "toy"


def test_selecting_nothing_gives_an_empty_graph(toy_graph: KnowledgeGraph) -> None:
    nothing = toy_graph.select(torch.zeros(6, dtype=torch.bool))
    assert len(nothing) == len(nothing.rows) == 0
    assert nothing.duplicates() == nothing.self_loops() == 0
    assert nothing.to_table().num_rows == 0


def test_selecting_twice_keeps_the_first_row_numbers(toy_graph: KnowledgeGraph) -> None:
    twice = toy_graph.select(torch.tensor([5, 3, 2])).select(torch.tensor([0, 2]))
    assert twice.rows.tolist() == [6, 3]


def test_duplicates_and_loops_are_counted(toy_graph: KnowledgeGraph) -> None:
    assert toy_graph.duplicates() == 1
    assert toy_graph.self_loops() == 1
    assert len(toy_graph.index()) == 5


def test_a_table_holds_labels_and_the_optional_columns(toy_graph: KnowledgeGraph) -> None:
    table = toy_graph.to_table()
    assert table.column_names == ["head", "relation", "tail", "confidence", "label"]
    assert table.slice(4, 1).to_pylist() == [
        {"head": "d", "relation": "likes", "tail": "a", "confidence": 0.5, "label": 0}
    ]
    plain = toy_graph.with_facts(toy_graph.facts[:2], source="two")
    assert plain.to_table().column_names == ["head", "relation", "tail"]
    assert plain.source == "two"
    assert plain.rows.tolist() == [1, 2]


def test_encode_undoes_to_table(toy_graph: KnowledgeGraph) -> None:
    assert torch.equal(toy_graph.encode(toy_graph.to_table()), toy_graph.facts)


def test_encode_refuses_unknown_labels(toy_graph: KnowledgeGraph) -> None:
    table = pa.table({"head": ["a"], "relation": ["like"], "tail": ["b"]})
    with pytest.raises(DataError, match=r"No relation is called 'like'.* Did you mean 'likes'\?"):
        toy_graph.encode(table)


def test_the_summary_counts_all_parts(toy_graph: KnowledgeGraph) -> None:
    parts = [toy_graph.select(torch.tensor(rows)) for rows in ([0, 1, 2], [3], [4, 5])]
    splits = Splits("toy", *parts)
    assert splits.summary() == {
        "name": "toy",
        "entities": 5,
        "relations": 2,
        "train": 3,
        "valid": 1,
        "test": 2,
        "duplicates": 1,
        "self_loops": 1,
        "skipped": 0,
        "left_out": 0,
    }
    assert torch.equal(splits.all_facts(), toy_graph.facts)


# --- split

SHARES = st.sampled_from([0.0, 0.1, 0.3, 0.5])


@given(small_facts(), SHARES, SHARES, st.integers(0, 3))
@example(([(0, 0, 0)], 1, 1), 0.5, 0.5, 0)
def test_a_split_is_a_partition_that_leaks_nothing(
    case: tuple[list[Triple], int, int], valid_share: float, test_share: float, seed: int
) -> None:
    facts, num_entities, num_relations = case
    graph = graph_of(as_tensor(facts), num_entities, num_relations)
    splits = graph.split(valid_share=valid_share, test_share=test_share, seed=seed)
    parts = list(splits.parts().values())
    rows = torch.cat([part.rows for part in parts])
    assert sorted(rows.tolist()) == list(range(1, len(facts) + 1))
    for part in parts:
        assert torch.equal(part.facts, graph.facts[part.rows - 1])
    train, valid, test = (as_set(part.facts) for part in parts)
    assert len(train | valid | test) == len(train) + len(valid) + len(test)
    seen_entities = {entity for head, _, tail in train for entity in (head, tail)}
    seen_relations = {relation for _, relation, _ in train}
    for head, relation, tail in valid | test:
        assert {head, tail} <= seen_entities
        assert relation in seen_relations
    assert len(valid) <= round(valid_share * len(set(facts)))
    assert len(test) <= round(test_share * len(set(facts)))


def dense_graph() -> KnowledgeGraph:
    facts = [(h, r, t) for h in range(15) for r in range(2) for t in range(15)]
    return graph_of(as_tensor(facts), 15, 2)


def test_a_dense_graph_holds_out_exactly_what_was_asked() -> None:
    splits = dense_graph().split(valid_share=0.1, test_share=0.2)
    assert [len(part) for part in splits.parts().values()] == [315, 45, 90]


def test_a_sparse_graph_keeps_what_train_needs() -> None:
    star = graph_of(as_tensor([(0, 0, leaf) for leaf in range(1, 20)]), 20, 1)
    splits = star.split(valid_share=0.3, test_share=0.3)
    assert [len(part) for part in splits.parts().values()] == [19, 0, 0]


def test_a_split_follows_from_its_seed() -> None:
    first, again, other = (dense_graph().split(seed=seed) for seed in (5, 5, 6))
    for name in ("train", "valid", "test"):
        assert torch.equal(first.parts()[name].facts, again.parts()[name].facts)
    assert as_set(first.test.facts) != as_set(other.test.facts)


def test_a_split_does_not_depend_on_the_order_of_the_rows() -> None:
    graph = dense_graph()
    turned = graph.select(torch.arange(len(graph) - 1, -1, -1))
    assert as_set(graph.split().test.facts) == as_set(turned.split().test.facts)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_outside_0_1_is_refused(share: float) -> None:
    with pytest.raises(NpugraphError, match="valid_share"):
        dense_graph().split(valid_share=share)


# --- parts


def many_facts() -> KnowledgeGraph:
    graph = dense_graph()
    count = torch.arange(len(graph))
    return dataclasses.replace(
        graph,
        confidence=count.double() / len(graph),
        label=(count % 2).to(torch.int8),
        source="facts.tsv",
        name="cut",
        path=Path("facts.tsv"),
        annotations=Annotations(pa.table({name: ["a", "b", "c"] for name in LITERAL})),
    )


def test_a_file_cut_into_parts_is_put_together_as_it_was() -> None:
    graph = many_facts()
    splits = graph.split(1, valid_share=0.2, test_share=0.2)
    assert min(map(len, splits.parts().values())) > 10
    assert splits.summary()["skipped"] == 3
    whole = splits.whole()
    assert (whole.name, whole.source, whole.path) == ("cut", "facts.tsv", Path("facts.tsv"))
    assert whole.to_table().equals(graph.to_table())
    assert torch.equal(whole.rows, graph.rows)
    assert whole.skipped == 3


def test_a_graph_that_has_parts_is_not_cut_again() -> None:
    splits = many_facts().split(1, valid_share=0.2, test_share=0.2)
    again = splits.whole().split(2, valid_share=0.5)
    for part, same in zip(splits.parts().values(), again.parts().values(), strict=True):
        assert torch.equal(part.facts, same.facts)
        assert torch.equal(part.rows, same.rows)
        assert same.part is None
    counts = splits.whole().summary()
    assert {part: counts[part] for part in PARTS} == {
        name: len(part) for name, part in splits.parts().items()
    }


def test_parts_of_several_files_come_one_after_the_other() -> None:
    graph = many_facts()
    parts = [
        dataclasses.replace(graph.select(torch.arange(i, len(graph), 3)), source=f"file {i}")
        for i in range(3)
    ]
    parts[2] = dataclasses.replace(parts[2], label=None, confidence=None)
    splits = Splits("three", *parts, Path("folder"), Path("folder/truth.tsv"))
    whole = splits.whole()
    assert torch.equal(whole.facts, torch.cat([part.facts for part in parts]))
    assert whole.truth == Path("folder/truth.tsv")
    held_back = splits.whole().part == 2
    assert whole.confidence is not None
    assert whole.label is not None
    assert whole.confidence.isnan().equal(held_back)
    assert (whole.label == -1).equal(held_back)
    again = whole.split()
    assert again.truth == splits.truth
    assert again.source == Path("folder")
    assert again.test.confidence is None
    assert again.test.label is None
    assert torch.equal(again.train.confidence, parts[0].confidence)
    assert all(part.truth is None for part in again.parts().values())


def test_rows_of_files_that_are_numbered_alike_do_not_mix() -> None:
    graph = many_facts()
    numbered = [
        dataclasses.replace(graph, facts=graph.facts[rows], rows=torch.arange(1, len(rows) + 1))
        for rows in torch.split(torch.arange(len(graph)), 200)
    ]
    cut = Splits(
        "one name", *(dataclasses.replace(g, confidence=None, label=None) for g in numbered)
    )
    assert torch.equal(cut.whole().facts, graph.facts)


# --- facts labelled as wrong


def test_facts_labelled_as_wrong_are_in_no_part() -> None:
    splits = many_facts().split(valid_share=0.2, test_share=0.2)
    kept = splits.without_wrong()
    for name, part in splits.parts().items():
        assert part.label is not None
        assert torch.equal(kept.parts()[name].facts, part.facts[part.label == 1])
    assert kept.left_out == kept.summary()["left_out"] == 225
    assert kept.without_wrong() is kept
    plain = dense_graph().split()
    assert plain.without_wrong() is plain


# --- how they show themselves


def test_graphs_are_shown_in_a_few_lines() -> None:
    bad = Vocabulary.of(["<b>x</b>", "y"], "entity")
    graph = dataclasses.replace(many_facts(), name="<i>cut</i>")
    splits = graph.split()
    for result in (bad, graph, splits, splits.whole()):
        assert len(repr(result).splitlines()) <= 8
        assert max(map(len, repr(result).splitlines())) < 100
        assert "<table>" in result._repr_html_()
        assert "<b>" not in result._repr_html_()
        assert "<i>" not in result._repr_html_()
    assert "450" in repr(graph)
    assert "confidence, label" in repr(graph)
    assert "train" in repr(splits)
    long = Vocabulary.of(["x" * 1000], "entity")
    assert len(repr(long)) < 120


@pytest.mark.parametrize("many", [0, 100])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_large_vocabularies_find_and_return_the_same(
    monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, many: int
) -> None:
    monkeypatch.setattr(npugraph.graph, "MANY_LABELS", many)
    words = Vocabulary(pa.array(["a", "b", "é"], kind))
    assert (words.id("é"), "b" in words, "c" in words) == (2, True, False)
    assert words.ids(["é", "a"]).tolist() == [2, 0]
    assert words.take(torch.tensor([1, 0])).equals(pa.array(["b", "a"]))
    with pytest.raises(UnknownNameError, match="'c'"):
        words.id("c")
