"""The audit as a whole: what its tables promise, on one small graph and on odd ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
import torch

from audit_samples import FAST, REPEATED, called_reliable, graph_of, people, rows, sample
from npugraph.auditing import (
    Audit,
    AuditSettings,
    Thresholds,
    audit,
    estimate_cost,
    suited_settings,
)
from npugraph.auditing import run as run_module
from npugraph.auditing.choosing import choose_training
from npugraph.auditing.cost import IN_WORDS
from npugraph.auditing.figures import summary
from npugraph.auditing.folds import make_folds
from npugraph.auditing.judgement import weigh
from npugraph.auditing.presets import SEARCH
from npugraph.auditing.settings import ViewName
from npugraph.auditing.statistics.evidence import TruthModel
from npugraph.auditing.tables import CORRECTED, LISTED
from npugraph.auditing.views import ViewInputs, suited_views
from npugraph.calibration.class_priors import Interval
from npugraph.errors import DataError, RunError, SettingsError
from npugraph.graph import KnowledgeGraph

FACT = ("head", "relation", "tail")
# A few moments; chance needs no training.
QUICK = AuditSettings(recipe="random", folds=2, search=False, device="cpu", missing=10, explained=2)


def facts_of(table: pa.Table) -> list[tuple[str, str, str]]:
    return list(zip(*(table[name].to_pylist() for name in FACT), strict=True))


# Tables


@pytest.mark.parametrize(
    ("name", "columns"),
    [("suspects", (*LISTED, *CORRECTED)), ("missing", LISTED)],
)
def test_lists_have_their_columns_and_are_in_order(
    done: Audit, name: str, columns: tuple[str, ...]
) -> None:
    table = getattr(done, name)
    assert table.column_names == list(columns)
    probability = table["probability"].to_numpy()
    low, high = table["low"].to_numpy(), table["high"].to_numpy()
    assert ((low <= probability) & (probability <= high)).all()
    assert ((low >= 0) & (high <= 1)).all()
    steps = np.diff(probability)
    assert (steps <= 0).all() if name == "missing" else (steps >= 0).all()
    listed = facts_of(table)
    assert len(listed) == len(set(listed))


def test_lists_are_of_stored_and_of_new_facts(done: Audit) -> None:
    stored = set(rows())
    # They end where a fact is as probable as any.
    assert 0 < len(done.suspects) <= done.settings.budget
    assert set(facts_of(done.suspects)) <= stored
    assert len(done.missing) == done.settings.missing
    assert not set(facts_of(done.missing)) & stored


def test_the_posterior_has_every_row_and_every_proposal(done: Audit) -> None:
    table = done.posterior
    assert table.column_names == [
        *FACT,
        "probability",
        "low",
        "high",
        "score",
        "collected",
        "fold",
        "known",
        "place",
    ]
    given = len(rows())
    assert table["known"].null_count == len(table), "Nothing is known of any fact."
    assert facts_of(table)[:given] == rows()
    assert table["collected"].to_pylist() == [i < given for i in range(len(table))]
    proposed = facts_of(table)[given:]
    assert len(proposed) == len(set(proposed)) == len(done.proposed.facts)
    assert set(facts_of(done.missing)) <= set(proposed)
    assert set(table["fold"].to_pylist()) == {1, 2, 3}
    for name in ("probability", "low", "high", "score"):
        assert np.isfinite(table[name].to_numpy()).all()
    low, p, high = (table[name].to_numpy() for name in ("low", "probability", "high"))
    assert ((low >= 0) & (low <= p) & (p <= high) & (high <= 1)).all()
    # A repeat says what the first one says.
    assert table.slice(given - REPEATED, REPEATED).equals(table.slice(0, REPEATED))


def test_a_row_carries_the_judgement_of_its_fact(done: Audit) -> None:
    for i in (0, 50, len(rows()) - 1):
        place = done.place[i]
        assert torch.equal(done.graph.facts[i], done.collected.facts[place])
        row = done.posterior.slice(i, 1).to_pylist()[0]
        assert row["probability"] == done.collected.probability[place]
        assert row["fold"] == done.crossfit.folds.fold[place] + 1


def test_a_quarantine_keeps_its_target(done: Audit) -> None:
    relation = done.collected.facts[:, 1]
    rare = (torch.bincount(relation)[relation] < done.settings.thresholds.rare_facts).numpy()
    # By the upper end of the interval.
    rising = np.sort(done.collected.high[~rare])
    # Facts of equal probability are taken or left together.
    target = 1 - rising[rising <= rising[9]].mean()

    def asking(target: float) -> Audit:
        settings = dataclasses.replace(done.settings, target_precision=target)
        return called_reliable(dataclasses.replace(done, settings=settings))

    known = asking(target)
    wrong = 1 - known.collected.high[known.quarantine_rows]
    assert len(wrong) >= 10
    assert wrong.mean() >= target - 1e-9
    # The next facts would miss it.
    assert (1 - rising[rising <= rising[len(wrong)]]).mean() < target
    # Even then facts of rare relations stay.
    assert len(asking(0.0).quarantine_rows) == (~rare).sum()


def test_a_guess_puts_nothing_in_quarantine(done: Audit) -> None:
    priors = dataclasses.replace(done.priors, identifiable=False, reason="Too few facts.")
    settings = dataclasses.replace(done.settings, target_precision=0.0)
    unsure = dataclasses.replace(done, priors=priors, settings=settings)
    assert len(unsure.quarantine) == len(unsure.quarantine_rows) == 0
    assert unsure.cleaned.equals(unsure.graph.to_table())
    assert len(unsure.suspects) == settings.budget


# The same again


class StopError(Exception):
    """Stands for a kill."""


def test_interrupted_turned_round_and_protected_it_says_the_same(
    silent: Audit, asked: AuditSettings, tmp_path: Path
) -> None:
    """Neither a stop after a fold, nor the order of the rows, nor protection changes a figure."""
    turned = sample().select(torch.arange(len(rows())).flip(0))
    guarded = facts_of(silent.suspects)[:3]
    protected = turned.encode(
        pa.table(dict(zip(FACT, map(list, zip(*guarded, strict=True)), strict=True)))
    )

    def stop(name: str, progress: dict[str, Any]) -> None:
        if name == "epoch" and progress["fold"] == 1:
            raise StopError

    ask = {"protected": protected, "out": tmp_path}
    with pytest.raises(StopError):
        audit(turned, asked, FAST, stage=stop, **ask)
    assert (tmp_path / "folds" / "fold-1" / "model.safetensors").is_file()
    stages: list[tuple[str, Any]] = []
    again = audit(turned, asked, FAST, stage=lambda n, p: stages.append((n, p.get("fold"))), **ask)
    assert ("epoch", 0) not in stages
    assert ("epoch", 2) in stages
    assert [name for name, _ in stages if name != "epoch"] == [
        "plan",
        "training",
        *["trained"] * 3,
        "judging",
        *["judged"] * 3,
        "weighing",
    ]
    for name in ("collected", "proposed"):
        one, other = getattr(silent, name), getattr(again, name)
        assert torch.equal(one.facts, other.facts)
        for figure in ("fold", "score", "probability", "low", "high"):
            assert np.array_equal(getattr(one, figure), getattr(other, figure)), figure
    assert facts_of(again.posterior)[: len(rows())] == rows()[::-1]
    assert facts_of(again.suspects)[:-3] == facts_of(silent.suspects)[3:]
    assert not set(guarded) & set(facts_of(again.suspects))
    assert again.missing.equals(silent.missing)
    # Even a quarantine of everything leaves out what is protected.
    settings = dataclasses.replace(asked, target_precision=0.0, thresholds=Thresholds(rare_facts=1))
    all_of_it = called_reliable(dataclasses.replace(again, settings=settings))
    assert len(all_of_it.quarantine_rows) == len(silent.collected.facts) - 3
    assert not set(guarded) & set(facts_of(all_of_it.quarantine))


def test_another_seed_is_another_audit() -> None:
    graph = graph_of(people(12))
    one, other, again = (
        audit(graph, dataclasses.replace(QUICK, seed=seed)).collected for seed in (0, 1, 0)
    )
    assert not np.array_equal(one.fold, other.fold)
    assert np.array_equal(one.probability, again.probability)


def test_a_folder_of_another_audit_is_refused(tmp_path: Path) -> None:
    audit(graph_of(people(12)), QUICK, out=tmp_path)
    with pytest.raises(RunError, match="another folder"):
        audit(graph_of(people(13)), QUICK, out=tmp_path)


# Settings


def test_a_given_share_is_taken() -> None:
    found = audit(graph_of(people(12)), dataclasses.replace(QUICK, beta=0.875, alpha=0.001))
    assert found.priors.beta == (0.875, 0.875, 0.875)
    assert found.priors.alpha == (0.001, 0.001, 0.001)
    assert found.priors.identifiable


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"folds": 1}, "folds=1 is too small; the least is 2."),
        ({"budget": 0}, "budget=0 is too small"),
        ({"missing": -1}, "missing=-1 must be at least 0."),
        ({"per_question": 0}, "per_question=0 is too small"),
        ({"compared": 1}, "compared=1 is too small"),
        ({"target_precision": 1.1}, "target_precision=1.1 is too large; the most is 1."),
        ({"target_precision": float("nan")}, "target_precision=nan"),
        ({"beta": 1.0}, "beta=1.0 must lie between 0 and 1"),
        ({"beta": float("nan")}, "beta=nan is not a finite number"),
        ({"alpha": 0.0}, "alpha=0.0 must lie between 0 and 1"),
        ({"alpha": 0.5, "beta": 0.4}, "alpha=0.5 must be below beta=0.4"),
        ({"seed": -1}, "seed=-1"),
        ({"recipe": "complx"}, "complx"),
    ],
)
def test_what_means_nothing_is_refused_before_any_work(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(SettingsError) as caught:
        dataclasses.replace(QUICK, **changes)
    assert what in str(caught.value)


def test_a_plan_counts_the_trainings() -> None:
    graph, settings = sample(), AuditSettings(device="cpu")
    training = suited_settings(graph, settings)
    cost = estimate_cost(graph, settings, training, measure=False)
    assert cost.facts == len(graph.index())
    assert cost.systems == settings.folds
    assert cost.views == suited_views(graph, settings)
    fewer = estimate_cost(graph, settings, training, ("embedding",), measure=False)
    assert fewer.systems == cost.systems
    assert fewer.memory < cost.memory
    searched = estimate_cost(graph, settings, training, search=True, measure=False)
    assert searched.systems == settings.folds + len(SEARCH)
    assert "about" not in cost.sentence()
    timed = estimate_cost(graph, settings, training)
    assert timed.seconds is not None
    assert "about" in timed.sentence()


def test_a_plan_names_the_views_in_plain_words() -> None:
    graph = sample()
    settings = AuditSettings(device="cpu", views=("embedding", "roles", "names"))
    cost = estimate_cost(graph, settings, suited_settings(graph, settings), measure=False)
    words = "entity vectors (embedding), counts of roles (roles) and names (names); 5 trainings"
    assert words in cost.sentence()
    assert set(IN_WORDS) == set(get_args(ViewName))


def test_validation_chooses_among_a_few_settings() -> None:
    graph, settings = graph_of(people(12)), AuditSettings(device="cpu", folds=2)
    training = suited_settings(graph, settings, FAST)
    folds = make_folds(graph, settings.folds, settings.seed)
    chosen, tried = choose_training(ViewInputs(folds, settings, training))
    assert [values for values, _ in tried] == list(SEARCH)
    best = max(tried, key=lambda pair: pair[1])[0]
    assert chosen == dataclasses.replace(training, **best)


# Graphs


def test_too_few_facts_are_refused() -> None:
    few = graph_of(people(36)[:49] + people(36)[:10], source="few")
    with pytest.raises(DataError, match="'few' holds 49 distinct facts; .* needs at least 50"):
        audit(few, QUICK)


@pytest.mark.parametrize(
    "graph",
    [
        graph_of(people(36)[:50]),
        graph_of([(h, "r", t) for h, _, t in people(12)]),
        graph_of([(f"a{i}", "r", f"b{i}") for i in range(60)]),
        graph_of([(f"a{i % 9}", f"r{i}", f"b{i % 13}") for i in range(80)]),
        graph_of(people(12) * 2, extra=tuple(f"lonely {i}" for i in range(40))),
    ],
    ids=["few", "one relation", "pairs", "a relation a fact", "doubled, lonely entities"],
)
def test_odd_graphs_are_judged(graph: KnowledgeGraph) -> None:
    found = audit(graph, QUICK)
    assert len(found.posterior) == len(graph) + len(found.proposed.facts)
    for judged in (found.collected, found.proposed):
        for values in (judged.probability, judged.low, judged.high):
            assert ((values >= 0) & (values <= 1)).all()


def test_held_out_facts_that_are_found_again_judge_the_missing_ones(done: Audit) -> None:
    # On so small a graph too few are found again, and proposals are judged as stored facts are.
    assert done.missing_share is None
    # Who knows somebody is known by them; a sixth of that is not stored.
    rng = np.random.default_rng(0)
    pairs = sorted({tuple(sorted(rng.choice(100, 2, replace=False).tolist())) for _ in range(700)})
    both = [(f"p{x}", "knows", f"p{y}") for a, b in pairs for x, y in ((a, b), (b, a))]
    missing = set(both[::6])
    graph = graph_of([fact for fact in both if fact not in missing])
    # To that rule the inverse of a planted fact is missing, too.
    asked = dataclasses.replace(QUICK, recipe="inverse-rule", folds=3, missing=100, self_test=0)
    found = audit(graph, asked)
    assert found.missing_share is not None
    value, low, high = found.missing_share
    assert low < 1 / 6 < high
    assert value == pytest.approx(1 / 6, abs=0.05)
    assert set(facts_of(found.missing)[:80]) <= missing
    assert found.missing["probability"].to_numpy()[:80].mean() > 0.6
    assert not graph.index().contains(found.proposed.facts).any()


@pytest.mark.parametrize(
    ("high", "identifiable", "beta", "said"),
    [
        (0.99, True, None, "tail"),
        (1.0, True, None, None),  # perhaps there is nothing wrong
        (0.99, False, None, None),
        (0.99, True, 0.9, None),
    ],
)
def test_a_wrong_end_is_said_where_there_is_evidence_of_wrong_facts(
    high: float,
    identifiable: bool,
    beta: float | None,
    said: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pretend(*judged: Any) -> TruthModel:
        model = weigh(*judged)
        share = Interval(0.9, 0.8, high)
        priors = dataclasses.replace(model.priors, beta=share, identifiable=identifiable)
        return dataclasses.replace(model, priors=priors, wrong_end="tail")

    monkeypatch.setattr(run_module, "weigh", pretend)
    found = audit(graph_of(people(12)), dataclasses.replace(QUICK, missing=0, beta=beta))
    assert found.wrong_end == said


def test_no_missing_facts_are_wanted() -> None:
    found = audit(graph_of(people(12)), dataclasses.replace(QUICK, missing=0))
    assert len(found.missing) == len(found.proposed.facts) == 0
    assert len(found.posterior) == len(found.graph)
    verdict = found.missing_verdict
    assert (verdict.level, verdict.why) == ("cannot judge", "No missing facts were asked for.")


# Evidence


def test_a_stored_fact_is_explained_by_the_system_that_never_saw_it(done: Audit) -> None:
    graph = done.crossfit.folds.graph
    for i in (0, 40, 101):
        fact = done.collected.facts[i]
        system = done.crossfit.systems[int(done.crossfit.folds.fold[i])]
        found = done.explain(fact)
        assert found.stored
        for side in ("head", "tail"):
            expected = float(system.score_as(fact.unsqueeze(0), side))
            assert found.scores[side] == pytest.approx(expected, rel=1e-4, abs=1e-5)
        labels = graph.with_facts(fact.unsqueeze(0)).to_table().to_pylist()[0]
        assert done.explain(tuple(labels.values())) == found


def test_a_proposed_fact_is_explained_by_the_system_that_found_it(done: Audit) -> None:
    place = int(np.argmax(done.proposed.fold))
    fold, fact = int(done.proposed.fold[place]), done.proposed.facts[place]
    assert fold > 0
    found = done.explain(fact)
    assert not found.stored
    expected = float(done.crossfit.systems[fold].score_as(fact.unsqueeze(0), "tail"))
    assert found.scores["tail"] == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_an_unknown_name_is_an_error(done: Audit) -> None:
    with pytest.raises(DataError, match="No entity is called 'persn 001'"):
        done.explain(("persn 001", "knows", "person 002"))


def test_an_explanation_carries_the_probability(done: Audit) -> None:
    place = int(done.suspect_rows[0])
    found = done.explain(done.collected.facts[place])
    assert found.probability == done.collected.probability[place]
    assert (found.low, found.high) == (done.collected.low[place], done.collected.high[place])
    assert "Probability of being true: " in found.to_text()
    new = done.explain(("hermit", "knows", "hermit"))
    assert new.probability is None
    assert "Probability" not in new.to_text()


# Handing on


def test_an_audit_shows_itself_in_a_line_and_in_a_notebook(done: Audit, silent: Audit) -> None:
    assert repr(silent) == (
        "<Audit of people: 198 facts, verdict: order, 15 suspects, 30 missing facts>"
    )
    priors = dataclasses.replace(done.priors, beta=Interval(0.95, 0.9, 0.98))
    known = dataclasses.replace(done, name="<b>" + 100 * "x", priors=priors)
    known = called_reliable(known)
    assert "5.0% wrong (2.0% to 10.0%)" in repr(known)
    assert len(repr(known)) < 200
    shown = known._repr_html_()
    assert "<b>" not in shown
    assert "&lt;b&gt;" in shown
    assert shown.count("<tr>") == 1 + min(10, len(known.suspects)) > 1


@pytest.mark.parametrize("kind", [str, Path])
def test_files_are_written_to_a_string_or_a_path(done: Audit, tmp_path: Path, kind: type) -> None:
    done.report(kind(tmp_path / "report.html"))
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert done.write(kind(tmp_path / "all"))["facts"] == 198
    assert (tmp_path / "all" / "suspects.tsv").is_file()


def test_thresholds_are_passed_down() -> None:
    graph = graph_of(people(12))
    strict = dataclasses.replace(QUICK, thresholds=Thresholds(least_facts=73))
    with pytest.raises(DataError, match="needs at least 73"):
        audit(graph, strict)
    few = dataclasses.replace(QUICK, thresholds=Thresholds(pool_facts=20))
    assert all(len(pool.facts) <= 20 for pool in audit(graph, few).crossfit.pools.values())


def test_what_each_view_brings_is_told(done: Audit) -> None:
    one = done.views[0]
    assert (one.view, one.features) == ("embedding", 17)
    assert [each.view for each in done.views] == ["embedding", "roles", "names"]
    assert set(one.together) == set(done.crossfit.pools)
    assert all(0 <= value <= 1 for value in one.together.values())
    told = summary(done)["views"]
    assert told[0]["auroc"]["typed"]["together"] == pytest.approx(one.together["typed"], abs=1e-5)
    shown = [row.kind for row in done.report_data().views if row.view == "embedding"]
    assert shown == list(one.together)
