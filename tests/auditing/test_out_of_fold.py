"""Folds, pools of uncollected facts, and judging every fact by a system that never saw it."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from audit_samples import FAST, anonymous, graph_of, people, random_facts, sample
from npugraph.auditing import AuditSettings, Thresholds
from npugraph.auditing.features import FEATURES, Comparer
from npugraph.auditing.folds import make_folds
from npugraph.auditing.home import Home
from npugraph.auditing.out_of_fold import CrossFit, judge_out_of_fold
from npugraph.auditing.settings import KINDS
from npugraph.auditing.views import ViewInputs, build_views
from npugraph.data.corrupt import Noise, draw_pool
from npugraph.errors import RunError, SettingsError
from npugraph.graph import KnowledgeGraph, TripleIndex
from npugraph.recipes import get_recipe
from npugraph.seeds import generator
from npugraph.settings import TrainSettings, make_settings

FOLDS = 3
# The features that do not count the answers of a question.
WITHOUT_ANSWERS = [
    place
    for place, name in enumerate(FEATURES)
    if not name.startswith(("answers", "role_count", "degree"))
]


def settings(**changes: object) -> TrainSettings:
    return make_settings(get_recipe("complex-n3").settings, {**FAST, **changes})


def cross_fit(
    graph: KnowledgeGraph,
    recipe: str,
    training: TrainSettings,
    *,
    report: Callable[[int, dict[str, Any]], object] | None = None,
    judged: Callable[[int], object] | None = None,
    out: Path | None = None,
    **asked: Any,
) -> CrossFit:
    """Train and judge as an audit does."""
    asked = {"folds": 5, "missing": 0, **asked}
    wanted = AuditSettings(recipe=recipe, **asked)
    folds = make_folds(graph, wanted.folds, wanted.seed)

    def say(name: str, progress: dict[str, Any]) -> None:
        if name == "epoch" and report is not None:
            report(progress["fold"], progress)
        if name == "judged" and judged is not None:
            judged(progress["fold"])

    inputs = ViewInputs(folds, wanted, training, Home(out), say=say)
    return judge_out_of_fold(inputs, build_views(inputs, ("embedding",)))


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return sample()


@pytest.fixture(scope="module")
def fitted(graph: KnowledgeGraph) -> CrossFit:
    return cross_fit(graph, "complex-n3", settings(), folds=FOLDS, compared=16, seed=4)


def keys(graph: KnowledgeGraph, facts: Tensor) -> list[int]:
    return graph.index().codes(facts).tolist()


# Folds


@given(st.integers(2, 60), st.integers(0, 2**31), st.data())
def test_folds_hold_each_distinct_fact_once(count: int, seed: int, data: st.DataObject) -> None:
    facts = random_facts(count, 9, 3, seed)
    if len(facts) < 2:
        return
    folds = data.draw(st.integers(2, len(facts)))
    repeated = torch.cat([facts, facts[: len(facts) // 2]])
    cut = make_folds(anonymous(repeated, 9, 3), folds, seed)
    assert sorted(map(tuple, cut.graph.facts.tolist())) == sorted(map(tuple, facts.tolist()))
    sizes = torch.bincount(cut.fold, minlength=folds)
    assert len(sizes) == cut.count == folds
    assert int(sizes.max() - sizes.min()) <= 1
    assert int(sizes.min()) >= 1


def test_folds_follow_from_the_facts_and_the_seed_alone(graph: KnowledgeGraph) -> None:
    turned = graph.select(torch.randperm(len(graph), generator=torch.Generator().manual_seed(1)))
    one, other = make_folds(graph, 5, 3), make_folds(turned, 5, 3)
    assert torch.equal(one.graph.facts, other.graph.facts)
    assert torch.equal(one.fold, other.fold)
    assert not torch.equal(one.fold, make_folds(graph, 5, 4).fold)


def test_a_fold_a_fact(graph: KnowledgeGraph) -> None:
    count = len(graph.index())
    assert sorted(make_folds(graph, count, 0).fold.tolist()) == list(range(count))


@pytest.mark.parametrize("count", [-1, 0, 1, 10_000])
def test_folds_that_cannot_be_are_refused(graph: KnowledgeGraph, count: int) -> None:
    with pytest.raises(SettingsError, match=f"folds={count} must lie between 2 and the 198 facts"):
        make_folds(graph, count, 0)


def test_a_folds_parts_share_nothing_and_leave_nothing_out(graph: KnowledgeGraph) -> None:
    cut = make_folds(graph, FOLDS, 0)
    for fold in range(FOLDS):
        splits = cut.splits(fold, 0.1, 0)
        parts = [set(keys(graph, part.facts)) for part in splits.parts().values()]
        assert sum(map(len, parts)) == len(set().union(*parts)) == len(graph.index())
        assert parts[2] == set(keys(graph, cut.graph.facts[cut.fold == fold]))
        assert len(parts[1]) == round(0.1 * (len(parts[0]) + len(parts[1])))
        again = cut.splits(fold, 0.1, 0)
        assert torch.equal(again.valid.facts, splits.valid.facts)


def test_there_is_always_a_fact_to_validate_on() -> None:
    cut = make_folds(anonymous(random_facts(8, 5, 2, 0), 5, 2), 2, 0)
    assert len(cut.splits(0, 0.0, 0).valid) == 1


# Pools


@pytest.mark.parametrize("kind", KINDS)
def test_pools_hold_no_collected_fact_and_are_what_they_say(
    graph: KnowledgeGraph, kind: Noise
) -> None:
    index = graph.index()
    facts = index.facts()[::2]
    pool, replaced = draw_pool(facts, index, kind, generator(0, "test"))
    assert len(pool) > len(facts) / 2
    assert not index.contains(pool).any()
    assert int(pool.min()) >= 0
    again = draw_pool(facts, index, kind, generator(0, "test"))
    assert torch.equal(pool, again[0])
    assert torch.equal(replaced, again[1])
    if kind == "random":
        assert replaced.tolist() == [-1] * len(pool)
        return
    known = {tuple(fact) for fact in facts.tolist()}
    if kind in ("swapped", "relation"):
        assert replaced.tolist() == [-1] * len(pool)
        ends = {(h, t) for h, _, t in known}
        wanted = ends if kind == "relation" else {(t, h) for h, t in ends}
        assert all((h, t) in wanted for h, _, t in pool.tolist())
        return
    # Either the head or the tail is new, as it says, and the rest is that of a given fact.
    assert set(replaced.tolist()) == {0, 2}
    left, right = {(h, r) for h, r, _ in known}, {(r, t) for _, r, t in known}
    assert all((h, r) in left for h, r, _ in pool[replaced == 2].tolist())
    assert all((r, t) in right for _, r, t in pool[replaced == 0].tolist())
    assert any((h, r) not in left for h, r, _ in pool.tolist())
    assert any((r, t) not in right for _, r, t in pool.tolist())
    if kind == "typed":
        stored = index.facts().tolist()
        heads, tails = {(r, h) for h, r, _ in stored}, {(r, t) for _, r, t in stored}
        assert all((r, h) in heads and (r, t) in tails for h, r, t in pool.tolist())


def test_random_facts_are_drawn_from_all_names(graph: KnowledgeGraph) -> None:
    index = graph.index()
    facts = index.facts().repeat(20, 1)
    pool, _ = draw_pool(facts, index, "random", generator(0, "test"))
    for column, count in enumerate((graph.num_entities, graph.num_relations, graph.num_entities)):
        shares = torch.bincount(pool[:, column], minlength=count) / len(pool)
        assert int(pool[:, column].max()) == count - 1
        assert float(shares.max()) < 3 / count


def test_a_typed_end_comes_from_all_facts_of_the_relation() -> None:
    # One fact is given, but the relation has eight: its other entities must turn up.
    index = anonymous(torch.tensor([[i, 0, 8 + i] for i in range(8)]), 20, 2).index()
    facts = index.facts()[:1].repeat(200, 1)
    pool, _ = draw_pool(facts, index, "typed", generator(0, "test"))
    assert set(pool[:, 0].tolist()) == set(range(8))
    assert set(pool[:, 2].tolist()) == set(range(8, 16))


def test_a_full_graph_has_no_pool() -> None:
    every = torch.cartesian_prod(torch.arange(3), torch.arange(2), torch.arange(3))
    index = TripleIndex(every, 3, 2)
    for kind in KINDS:
        assert draw_pool(every, index, kind, generator(0, "test"))[0].shape == (0, 3)


def test_pools_are_capped(graph: KnowledgeGraph) -> None:
    few = Thresholds(pool_facts=30)
    training = make_settings(get_recipe("random").settings, {})
    fitted = cross_fit(graph, "random", training, folds=3, thresholds=few)
    for pool in fitted.pools.values():
        assert 15 < len(pool.facts) <= 30


# Cross-fitting


def test_every_fact_is_judged_by_the_system_that_never_saw_it(
    graph: KnowledgeGraph, fitted: CrossFit
) -> None:
    cut = make_folds(graph, FOLDS, 4)
    assert torch.equal(fitted.collected.facts, cut.graph.facts)
    assert torch.equal(fitted.collected.fold, cut.fold)
    for fold, system in enumerate(fitted.systems):
        others = cut.graph.select(cut.fold != fold)
        comparison = Comparer(system, others, 16, generator(4, "compare", fold))
        for name, judged in {"stored": fitted.collected, **fitted.pools}.items():
            mine = judged.fold == fold
            expected, found = comparison.features(judged.facts[mine]), judged.features[mine]
            # Facts that come several to a question stand beside one another.
            columns = WITHOUT_ANSWERS if name == "crowded" else slice(None)
            torch.testing.assert_close(
                found[:, columns], expected[:, columns], rtol=1e-5, atol=1e-5
            )


def test_a_crowded_fact_stands_beside_the_others_of_its_question(fitted: CrossFit) -> None:
    """More answers are counted than are stored in other folds, and never more than were drawn."""
    pool, stored = fitted.pools["crowded"], fitted.collected
    counted = pool.features[:, FEATURES.index("answers_tail")].expm1().round()
    more = 0
    for (head, relation, _), fold, end, count in zip(
        pool.facts.tolist(), pool.fold, pool.replaced, counted, strict=True
    ):
        same, drawn = (
            (facts[:, 0] == head) & (facts[:, 1] == relation)
            for facts in (stored.facts, pool.facts)
        )
        known = int((same & (stored.fold != fold)).sum())
        others = int((drawn & (pool.fold == fold) & (pool.replaced == end)).sum()) - 1
        assert known <= count <= known + (others if end == 2 else 0)
        more += int(count) - known
    assert more > 0


def test_a_fact_is_no_evidence_for_itself(fitted: CrossFit) -> None:
    """Counts are those of the other folds: recounted here by hand."""
    facts, fold = fitted.collected.facts, fitted.collected.fold
    names = ("answers_tail", "role_count_tail", "role_count_head", "relation_count")
    columns = [FEATURES.index(name) for name in names]
    for i in range(0, len(facts), 7):
        head, relation, tail = facts[i]
        same = (facts[:, 1] == relation) & (fold != fold[i])
        counts = [
            (same & (facts[:, 0] == head)).sum(),
            (same & (facts[:, 2] == tail)).sum(),
            (same & (facts[:, 0] == head)).sum(),
            same.sum(),
        ]
        expected = torch.log1p(torch.stack(counts).float())
        torch.testing.assert_close(fitted.collected.features[i, columns], expected)


def test_pools_are_uncollected_and_spread_over_the_folds(
    graph: KnowledgeGraph, fitted: CrossFit
) -> None:
    assert set(fitted.pools) == set(KINDS)
    for pool in fitted.pools.values():
        assert not graph.index().contains(pool.facts).any()
        assert sorted(set(pool.fold.tolist())) == list(range(FOLDS))
        assert pool.features.shape == (len(pool.facts), len(FEATURES))
        assert pool.features.isfinite().all()


def test_systems_differ_by_fold(fitted: CrossFit) -> None:
    tables = [system.state_dict()["encoder.entities"] for system in fitted.systems]
    assert not torch.equal(tables[0], tables[1])


def test_the_order_of_the_rows_changes_nothing(graph: KnowledgeGraph, fitted: CrossFit) -> None:
    turned = graph.select(torch.randperm(len(graph), generator=torch.Generator().manual_seed(1)))
    again = cross_fit(turned, "complex-n3", settings(), folds=FOLDS, compared=16, seed=4)
    assert torch.equal(again.collected.facts, fitted.collected.facts)
    assert torch.equal(again.collected.features, fitted.collected.features)
    for kind in KINDS:
        assert torch.equal(again.pools[kind].features, fitted.pools[kind].features)


def test_an_interrupted_run_goes_on(
    graph: KnowledgeGraph, fitted: CrossFit, tmp_path: Path
) -> None:
    class StopError(Exception):
        pass

    def stop(fold: int, record: dict[str, object]) -> None:
        if fold == 1 and record["epoch"] == 2:
            raise StopError

    ask = {"folds": FOLDS, "compared": 16, "seed": 4, "out": tmp_path}
    with pytest.raises(StopError):
        cross_fit(graph, "complex-n3", settings(), report=stop, **ask)
    trained: list[tuple[int, int]] = []
    again = cross_fit(
        graph,
        "complex-n3",
        settings(),
        report=lambda fold, record: trained.append((fold, record["epoch"])),
        **ask,
    )
    assert trained == [(1, 3), (2, 1), (2, 2), (2, 3)]
    assert torch.equal(again.collected.features, fitted.collected.features)
    for kind in KINDS:
        assert torch.equal(again.pools[kind].features, fitted.pools[kind].features)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")}
    assert len(before) == FOLDS
    cross_fit(graph, "complex-n3", settings(), **ask)
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_folds_that_were_judged_are_not_judged_again(
    graph: KnowledgeGraph, fitted: CrossFit, tmp_path: Path
) -> None:
    class StopError(Exception):
        pass

    def stop(fold: int) -> None:
        raise StopError

    def judged(**changes: Any) -> tuple[list[int], CrossFit]:
        told: list[int] = []
        asked = {"folds": FOLDS, "compared": 16, "seed": 4, "out": tmp_path, **changes}
        found = cross_fit(graph, "complex-n3", settings(), **{"judged": told.append, **asked})
        return told, found

    with pytest.raises(StopError):
        judged(judged=stop)
    told, again = judged()
    assert told == [1, 2]
    assert torch.equal(again.collected.features, fitted.collected.features)
    assert torch.equal(again.collected.support, fitted.collected.support)
    assert again.collected.columns == fitted.collected.columns
    for kind in KINDS:
        assert torch.equal(again.pools[kind].replaced, fitted.pools[kind].replaced)
    # What comes after judging may change; what it follows from may not.
    assert judged(budget=3, beta=0.9)[0] == []
    (tmp_path / "judged" / "fold-2.safetensors").write_bytes(b"cut off")
    assert judged()[0] == [1]
    assert judged(compared=8)[0] == [0, 1, 2]


def test_without_a_folder_what_was_trained_goes_with_the_last_who_needs_it(
    graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = cross_fit(graph, "complex-n3", settings(), folds=2, compared=4)
    systems = found.systems
    del found
    gc.collect()
    assert systems[1].score_all(*torch.zeros(2, 1, dtype=torch.int64), "tail").shape[0] == 1
    assert len(list(tmp_path.iterdir())) == 1
    del systems
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"folds": 4}, "another graph"),
        ({"seed": 5}, "seed="),
        ({"training": settings(epochs=4)}, "epochs=3, not 4"),
        ({"graph": graph_of(people(40))}, "another graph"),
        ({"recipe": "random"}, "recipe"),
    ],
    ids=lambda value: "",
)
def test_a_folder_of_something_else_is_refused(
    graph: KnowledgeGraph, tmp_path: Path, changes: dict[str, object], what: str
) -> None:
    ask = {"graph": graph, "recipe": "complex-n3", "training": settings(), "folds": 3, "seed": 4}

    def first_epoch(fold: int, record: dict[str, object]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cross_fit(**ask, out=tmp_path, report=first_epoch)
    if changes.get("recipe") == "random":
        changes = {**changes, "training": make_settings(get_recipe("random").settings, {})}
    with pytest.raises(RunError, match="fold-1 belongs to another graph, or to other") as caught:
        cross_fit(**{**ask, **changes}, out=tmp_path)
    assert what in str(caught.value)


def test_recipes_that_are_not_trained_can_judge(graph: KnowledgeGraph) -> None:
    fitted = cross_fit(graph, "inverse-rule", get_recipe("inverse-rule").settings(), folds=2)
    assert fitted.collected.features.isfinite().all()
