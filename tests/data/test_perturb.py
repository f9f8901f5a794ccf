"""The speculative protocol: how much is planted and removed, where from, and the hidden truth."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from npugraph.data.corrupt import NOISES
from npugraph.data.io import read_splits
from npugraph.data.perturb import (
    PAPER_COUNTS,
    PerturbSettings,
    Truth,
    describe,
    perturb,
    read_truth,
    save,
)
from npugraph.errors import DataError, SettingsError
from npugraph.graph import KnowledgeGraph, Splits, Vocabulary

Fact = tuple[int, int, int]
NUM_ENTITIES, NUM_RELATIONS = 40, 4
# Kinds that can put any entity anywhere; those that this graph has room for, whose relations have
# no heads in common; and those of them that count as the paper does.
FREE = ("random", "one-sided", "typed", "wrong-tail")
POSSIBLE = tuple(noise for noise in NOISES if noise != "relation-typed")
COUNTED = tuple(noise for noise in POSSIBLE if noise != "caged")


def as_set(facts: Tensor) -> set[Fact]:
    return {tuple(row) for row in facts.tolist()}


def make_splits(confidence: bool = False, label_prefix: str = "e", repeats: int = 0) -> Splits:
    """A graph of about 600 facts; relation r only links entities of its own ten to the others."""
    rng = torch.Generator().manual_seed(7)
    relation = torch.randint(NUM_RELATIONS, (700,), generator=rng)
    head = 10 * relation + torch.randint(10, (700,), generator=rng)
    tail = torch.randint(NUM_ENTITIES, (700,), generator=rng)
    facts = torch.unique(torch.stack([head, relation, tail], dim=1), dim=0)
    facts = torch.cat([facts, facts[:repeats]])
    facts = facts[torch.randperm(len(facts), generator=rng)]
    graph = KnowledgeGraph(
        Vocabulary.of([f"{label_prefix}{i:02}" for i in range(NUM_ENTITIES)], "entity"),
        Vocabulary.of([f"r{i}" for i in range(NUM_RELATIONS)], "relation"),
        facts,
        confidence=confidence_of(facts) if confidence else None,
    )
    return dataclasses.replace(graph, name="toy").split(valid_share=0.1, test_share=0.1)


def confidence_of(facts: Tensor) -> Tensor:
    """A confidence that follows from the fact, so that a test can tell whose it is."""
    head, relation, tail = facts.double().unbind(1)
    return (head * NUM_RELATIONS * NUM_ENTITIES + relation * NUM_ENTITIES + tail) / 10_000


def given_facts(splits: Splits) -> set[Fact]:
    return as_set(splits.train.facts) | as_set(splits.valid.facts)


@pytest.mark.parametrize("noise", COUNTED)
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.7])
def test_counts_follow_the_formula(noise: str, rate: float) -> None:
    splits = make_splits(repeats=30)
    merged = len(given_facts(splits))
    noisy, truth = perturb(splits, PerturbSettings(rate=rate, noise=noise))
    changed = round(rate * merged)
    added = round(0.1 * changed)
    assert len(truth.planted) == added
    assert len(truth.removed) == changed - added
    total = merged - (changed - added) + added
    assert len(noisy.train) == round(0.7 * total)
    assert len(noisy.train) + len(noisy.valid) == total


@pytest.mark.parametrize("noise", POSSIBLE)
def test_planted_facts_are_new_and_removed_facts_are_gone(noise: str) -> None:
    splits = make_splits()
    noisy, truth = perturb(splits, PerturbSettings(rate=0.5, noise=noise))
    planted, removed, given = as_set(truth.planted), as_set(truth.removed), given_facts(noisy)
    assert len(planted) == len(truth.planted)
    assert len(removed) == len(truth.removed)
    assert not planted & as_set(splits.all_facts())
    assert planted <= given
    assert removed <= given_facts(splits)
    assert not removed & given
    assert given == (given_facts(splits) - removed) | planted


def test_caged_adds_a_share_of_all_facts_and_removes_none() -> None:
    splits = make_splits()
    noisy, truth = perturb(splits, PerturbSettings(rate=0.1, noise="caged"))
    every = as_set(splits.all_facts())
    # As many of either half; what is drawn twice counts once.
    assert 2 * (int(0.1 * len(every)) // 2) - 3 <= len(truth.planted) <= int(0.1 * len(every))
    assert len(truth.removed) == 0
    assert given_facts(noisy) == given_facts(splits) | as_set(truth.planted)
    assert torch.equal(noisy.test.facts, splits.test.facts)


@pytest.mark.parametrize("noise", ["one-sided", "typed"])
def test_the_truth_says_what_each_planted_fact_was_made_of(noise: str) -> None:
    splits = make_splits()
    _, truth = perturb(splits, PerturbSettings(rate=0.5, added_share=1.0, noise=noise))
    assert truth.origin is not None
    assert as_set(truth.origin) <= given_facts(splits)
    # One end alone differs.
    assert torch.equal((truth.origin != truth.planted).sum(1), torch.ones(len(truth.planted)))
    assert torch.equal(truth.origin[:, 1], truth.planted[:, 1])
    made_of_nothing = perturb(splits, PerturbSettings(rate=0.5, noise="random"))[1].origin
    assert made_of_nothing is not None
    assert (made_of_nothing == -1).all()


def test_train_and_valid_have_no_fact_in_common() -> None:
    noisy, _ = perturb(make_splits(repeats=50), PerturbSettings(rate=0.3))
    assert not as_set(noisy.train.facts) & as_set(noisy.valid.facts)
    assert noisy.train.duplicates() == noisy.valid.duplicates() == 0


def test_planted_and_kept_facts_are_in_both_parts() -> None:
    noisy, truth = perturb(make_splits(), PerturbSettings(rate=0.5, added_share=0.5))
    planted = as_set(truth.planted)
    for part in (noisy.train, noisy.valid):
        share = len(as_set(part.facts) & planted) / len(part)
        assert 0.2 < share < 0.5


def test_the_test_part_and_the_names_stay_as_they_were() -> None:
    splits = make_splits()
    noisy, _ = perturb(splits, PerturbSettings(rate=0.7))
    assert torch.equal(noisy.test.facts, splits.test.facts)
    assert noisy.train.entities == splits.train.entities
    assert noisy.train.relations == splits.train.relations


def test_the_hidden_truth_is_not_in_the_graph_that_is_handed_on() -> None:
    noisy, _ = perturb(make_splits())
    assert noisy.truth is None
    assert noisy.train.label is None


def replaced_one_side(fact: Fact, true: set[Fact]) -> bool:
    head, relation, tail = fact
    return any(
        (other, relation, tail) in true or (head, relation, other) in true
        for other in range(NUM_ENTITIES)
    )


def test_one_sided_noise_changes_one_side_of_a_true_fact() -> None:
    splits = make_splits()
    _, truth = perturb(splits, PerturbSettings(rate=0.7, added_share=0.9, noise="one-sided"))
    true = given_facts(splits)
    assert all(replaced_one_side(fact, true) for fact in as_set(truth.planted))


def test_wrong_tails_leave_head_and_relation_of_a_true_fact() -> None:
    splits = make_splits()
    _, truth = perturb(splits, PerturbSettings(rate=0.7, added_share=0.9, noise="wrong-tail"))
    kept = {(head, relation) for head, relation, _ in given_facts(splits)}
    assert all((head, relation) in kept for head, relation, _ in as_set(truth.planted))
    # Any entity may be put there.
    assert len(truth.planted[:, 2].unique()) > NUM_ENTITIES / 2


def test_typed_noise_takes_entities_seen_in_that_place() -> None:
    splits = make_splits()
    _, truth = perturb(splits, PerturbSettings(rate=0.7, added_share=0.5, noise="typed"))
    true = given_facts(splits)
    heads = {(relation, head) for head, relation, _ in true}
    tails = {(relation, tail) for _, relation, tail in true}
    for head, relation, tail in as_set(truth.planted):
        assert (relation, head) in heads
        assert (relation, tail) in tails
        assert replaced_one_side((head, relation, tail), true)


@pytest.mark.parametrize("noise", ["one-sided", "typed"])
def test_both_sides_are_replaced_about_equally_often(noise: str) -> None:
    splits = make_splits()
    _, truth = perturb(splits, PerturbSettings(rate=0.7, added_share=0.5, noise=noise))
    # A head outside the ten of its relation must have been put there; a tail never tells.
    foreign = [head // 10 != relation for head, relation, _ in truth.planted.tolist()]
    share = sum(foreign) / len(foreign)
    assert share == 0 if noise == "typed" else 0.3 < share < 0.7


def test_random_noise_covers_the_whole_space() -> None:
    _, truth = perturb(make_splits(), PerturbSettings(rate=0.9, added_share=1.0))
    planted = truth.planted
    assert len(planted) > 400
    for column, size in ((0, NUM_ENTITIES), (1, NUM_RELATIONS), (2, NUM_ENTITIES)):
        counts = torch.bincount(planted[:, column], minlength=size)
        assert counts.min() > 0
        assert counts.max() < 4 * len(planted) / size


def test_the_same_seed_gives_the_same_graph() -> None:
    settings = PerturbSettings(rate=0.4, noise="typed", seed=3)
    (first, truth), (again, truth_again) = (perturb(make_splits(), settings) for _ in range(2))
    assert torch.equal(first.all_facts(), again.all_facts())
    assert torch.equal(truth.planted, truth_again.planted)
    assert torch.equal(truth.removed, truth_again.removed)


def test_another_seed_gives_another_graph() -> None:
    results = [perturb(make_splits(), PerturbSettings(seed=seed)) for seed in (0, 1)]
    (first, truth), (other, other_truth) = results
    assert as_set(truth.planted) != as_set(other_truth.planted)
    assert as_set(truth.removed) != as_set(other_truth.removed)
    assert first.name != other.name


def test_the_graph_does_not_depend_on_the_order_of_its_rows() -> None:
    splits = make_splits()
    turned = dataclasses.replace(
        splits, train=splits.train.select(torch.arange(len(splits.train) - 1, -1, -1))
    )
    assert torch.equal(perturb(splits)[0].all_facts(), perturb(turned)[0].all_facts())


def test_rate_0_only_splits_anew() -> None:
    splits = make_splits()
    noisy, truth = perturb(splits, PerturbSettings(rate=0.0))
    assert len(truth.planted) == len(truth.removed) == 0
    assert given_facts(noisy) == given_facts(splits)


@pytest.mark.parametrize(
    ("rate", "added_share"),
    [
        (0.3, 0.1),
        (0.3, 0.0),
        (0.3, 1.0),
        (0.0, 0.1),
    ],
)
def test_a_saved_graph_comes_back_with_its_truth(
    tmp_path: Path, rate: float, added_share: float
) -> None:
    settings = PerturbSettings(rate=rate, added_share=added_share)
    noisy, truth = perturb(make_splits(confidence=True), settings)
    stats = describe(noisy, truth, settings, "toy")
    save(noisy, truth, stats, tmp_path)
    again = read_splits(tmp_path)
    found = read_truth(again)
    assert found is not None
    assert again.truth == tmp_path / "truth.tsv"
    assert again.train.entities == noisy.train.entities
    assert torch.equal(found.planted, truth.planted)
    assert torch.equal(found.removed, truth.removed)
    for name, part in noisy.parts().items():
        assert torch.equal(again.parts()[name].facts, part.facts)
        assert torch.equal(again.parts()[name].confidence, part.confidence)
    assert json.loads((tmp_path / "stats.json").read_text()) == stats


def test_labels_with_quotes_survive_the_truth_file(tmp_path: Path) -> None:
    noisy, truth = perturb(make_splits(label_prefix='"\u2028é '))
    save(noisy, truth, {}, tmp_path)
    found = read_truth(read_splits(tmp_path))
    assert found is not None
    assert torch.equal(found.planted, truth.planted)


@pytest.mark.parametrize("train_share", [0.0, 1.0])
def test_a_share_that_leaves_a_part_empty_is_refused(train_share: float) -> None:
    with pytest.raises(SettingsError, match="train_share"):
        PerturbSettings(train_share=train_share)


def test_the_clean_facts_are_the_original_ones() -> None:
    splits = make_splits(repeats=20)
    noisy, truth = perturb(splits, PerturbSettings(rate=0.5, added_share=0.4))
    assert as_set(truth.clean_facts(noisy)) == as_set(splits.all_facts())


def test_a_graph_without_hidden_truth_has_none(tmp_path: Path) -> None:
    splits = make_splits()
    assert read_truth(splits) is None
    gone = dataclasses.replace(splits, truth=tmp_path / "truth.tsv")
    with pytest.raises(DataError, match=r"truth\.tsv: the hidden truth of 'toy' is no longer"):
        read_truth(gone)


def dense_splits(*missing: Fact) -> Splits:
    """Every triple of six entities and one relation but the missing ones; six are in test."""
    every = torch.cartesian_prod(torch.arange(6), torch.arange(1), torch.arange(6))
    rows = torch.tensor([row for row in every.tolist() if tuple(row) not in missing])
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    graph = KnowledgeGraph(
        Vocabulary.of("abcdef", "entity"), Vocabulary.of(["r"], "relation"), rows
    )
    test, valid, train = torch.arange(len(rows)).tensor_split([6, 12])
    return Splits("dense", graph.select(train), graph.select(valid), graph.select(test))


@pytest.mark.parametrize("noise", COUNTED)
def test_a_graph_that_is_too_dense_is_refused(noise: str) -> None:
    with pytest.raises(DataError) as caught:
        perturb(dense_splits(), PerturbSettings(rate=0.5, added_share=0.5, noise=noise))
    assert str(caught.value).startswith(
        f"Only 0 of 8 false facts could be found with noise {noise!r}:"
    )


@pytest.mark.parametrize("noise", FREE)
def test_the_last_free_places_are_found(noise: str) -> None:
    free = {(0, 0, 0), (3, 0, 2)}
    settings = PerturbSettings(rate=2 / 28, added_share=1.0, noise=noise)
    _, truth = perturb(dense_splits(*free), settings)
    assert as_set(truth.planted) == free


def test_confidence_stays_with_its_fact() -> None:
    splits = make_splits(confidence=True)
    noisy, truth = perturb(splits, PerturbSettings(rate=0.5))
    planted = as_set(truth.planted)
    possible = set(confidence_of(torch.cat([splits.train.facts, splits.valid.facts])).tolist())
    for part in (noisy.train, noisy.valid):
        assert part.confidence is not None
        true = torch.tensor([tuple(row) not in planted for row in part.facts.tolist()])
        assert torch.equal(part.confidence[true], confidence_of(part.facts)[true])
        assert set(part.confidence[~true].tolist()) <= possible


def test_without_confidence_there_is_none() -> None:
    noisy, _ = perturb(make_splits())
    assert noisy.train.confidence is None
    assert noisy.valid.confidence is None


def test_the_description_counts_and_quotes_the_paper() -> None:
    settings = PerturbSettings(rate=0.3)
    noisy, truth = perturb(make_splits(), settings)
    stats = describe(noisy, truth, settings, "fb15k")
    given = len(given_facts(noisy))
    assert stats["planted"] == len(truth.planted)
    assert stats["removed"] == len(truth.removed)
    assert stats["train"] + stats["valid"] == given
    assert stats["true_share"] == pytest.approx(1 - len(truth.planted) / given)
    train, valid = PAPER_COUNTS["fb15k", 0.3]
    assert stats["paper"] == {"train": train, "valid": valid}
    assert describe(noisy, truth, settings, "toy")["paper"] is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rate": 1.0}, "rate=1.0 must"),
        ({"rate": -0.1}, "rate=-0.1 must"),
        ({"rate": float("nan")}, "rate=nan must"),
        ({"added_share": 1.1}, "added_share=1.1 must"),
        ({"train_share": -1}, "train_share=-1 must"),
        ({"noise": "tped"}, "noise='tped' must be one of random, one-sided, typed, wrong-tail"),
    ],
)
def test_settings_that_mean_nothing_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        PerturbSettings(**values)


def test_the_truth_of_no_change_is_the_graph_itself() -> None:
    splits = make_splits()
    nothing = torch.empty(0, 3, dtype=torch.int64)
    assert torch.equal(Truth(nothing, nothing).clean_facts(splits), splits.all_facts())
