"""tune: repeats itself, resumes, prunes, survives failures, and never looks at the test facts."""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from npugraph.cli import main
from npugraph.errors import DataError, RunError, SettingsError
from npugraph.fitting import fit
from npugraph.graph import KnowledgeGraph, Splits, Vocabulary
from npugraph.recipes import RECIPES
from npugraph.recipes.base import Choices, Dimension, LogRange, Range, Whole
from npugraph.settings import make_settings, read_settings
from npugraph.tuning import ENDS, Tuned, distribution, plan, tune

optuna = pytest.importorskip("optuna")

FIXED = {"d": "4", "epochs": "3", "validate_every": "1", "batch_size": "128", "device": "cpu"}
SEARCHED = ["learning_rate", "n3"]


@pytest.fixture(scope="module")
def splits() -> Splits:
    """Thirty entities in six groups; a relation leads from each group to the next."""
    pairs = [(i, j) for i in range(30) for j in range(30) if (j // 5 - i // 5) % 6 == 1]
    facts = [[i, 0, j] for i, j in pairs] + [[j, 1, i] for i, j in pairs]
    entities = Vocabulary.of([f"e{i:02}" for i in range(30)], "entity")
    graph = KnowledgeGraph(entities, Vocabulary.of(["to", "from"]), torch.tensor(facts))
    return dataclasses.replace(graph, name="groups").split(valid_share=0.2, test_share=0.2)


@pytest.fixture(scope="module")
def study(splits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    """Four trials, never stopped."""
    out = tmp_path_factory.mktemp("tune") / "whole"
    return tune(splits, "complex-n3", out, 4, changes=FIXED)


def ended(tuned: Tuned) -> list[tuple[Any, ...]]:
    """Return settings and figures of the trials that came to an end, without their times."""
    names = ("state", "valid_mrr", "best_epoch", "epochs", "settings", "error")
    return [tuple(row[n] for n in names) for row in tuned.trials if row["state"] in ENDS]


def searching(monkeypatch: pytest.MonkeyPatch, **space: Dimension) -> None:
    """Let complex-n3 have another search space."""
    recipe = dataclasses.replace(RECIPES["complex-n3"], space=space)
    monkeypatch.setitem(RECIPES, "complex-n3", recipe)


# --- what is searched


def test_a_fixed_setting_is_not_searched() -> None:
    search = plan("complex-n3", FIXED, seed=3)
    assert list(search.space) == SEARCHED
    made = search.settings({"n3": 0.5})
    assert (made.d, made.seed, made.n3, made.learning_rate) == (4, 3, 0.5, 0.1)  # type: ignore[attr-defined]
    assert plan("complex-n3", {"seed": "5"}, seed=3).fixed["seed"] == 5


@pytest.mark.parametrize(
    ("recipe", "changes", "message"),
    [
        ("random", {}, "it has no search space"),
        ("inverse-rule", {"min_support": 2, "subsumption": True}, "is fixed"),
        ("rotate", {"gama": 1}, "Did you mean 'gamma'"),
        ("rotatee", {}, "Did you mean 'rotate'"),
        ("rotate", {"epochs": 0}, "too small"),
        ("rotate", {"device": "cuda:99" if torch.cuda.is_available() else "cuda"}, "device"),
    ],
)
def test_mistakes_are_found_before_anything_runs(
    recipe: str, changes: dict[str, Any], message: str
) -> None:
    if torch.cuda.is_available() and "device" in changes:
        pytest.skip("this machine has a GPU")
    with pytest.raises(SettingsError, match=message):
        plan(recipe, changes)


def test_dimensions_become_optunas() -> None:
    made = distribution(LogRange(1e-3, 1.0))
    assert (made.low, made.high, made.log) == (1e-3, 1.0, True)
    assert distribution(Range(0.0, 0.5)).log is False
    made = distribution(Whole(2, 7))
    assert (made.low, made.high, type(made).__name__) == (2, 7, "IntDistribution")
    assert distribution(Choices(("a", True, 1.5))).choices == ("a", True, 1.5)


# --- the study


def test_the_best_trial_by_validation_is_found(study: Tuned) -> None:
    rows = study.trials
    assert [row["trial"] for row in rows] == [0, 1, 2, 3]
    assert {row["state"] for row in rows} == {"complete"}
    assert study.valid_mrr == max(row["valid_mrr"] for row in rows)
    space = RECIPES["complex-n3"].space
    for row in rows:
        assert set(row["settings"]) == set(SEARCHED)
        for name, value in row["settings"].items():
            assert space[name].low <= value <= space[name].high  # type: ignore[union-attr]
    assert len({row["settings"]["n3"] for row in rows}) == 4


def test_fit_takes_the_best_settings_and_gets_the_same_figure(study: Tuned, splits: Splits) -> None:
    values = read_settings(study.folder / "best.json")
    settings = make_settings(RECIPES["complex-n3"].settings, values)
    assert settings == study.best
    fitted = fit(splits, "complex-n3", settings)
    assert fitted.progress.best_mrr == study.valid_mrr
    row = max(study.trials, key=lambda r: r["valid_mrr"])
    assert row["best_epoch"] == fitted.progress.best_epoch


def test_the_table_has_a_row_for_every_trial(study: Tuned) -> None:
    lines = [x.split("\t") for x in (study.folder / "trials.tsv").read_text().splitlines()]
    head = ["trial", "state", "valid_mrr", "best_epoch", "epochs", "seconds", *SEARCHED, "error"]
    assert lines[0] == head
    for line, row in zip(lines[1:], study.trials, strict=True):
        assert len(line) == len(head)
        assert float(line[2]) == row["valid_mrr"]
        assert [float(cell) for cell in line[6:8]] == [row["settings"][n] for n in SEARCHED]


def test_same_seed_same_trials_and_another_seed_other_ones(
    study: Tuned, splits: Splits, tmp_path: Path
) -> None:
    again = tune(splits, "complex-n3", tmp_path / "again", 4, changes=FIXED)
    assert ended(again) == ended(study)
    assert again.best == study.best
    other = tune(splits, "complex-n3", tmp_path / "other", 1, changes=FIXED, seed=1)
    assert other.trials[0]["settings"] != study.trials[0]["settings"]
    assert other.best.seed == 1


class Forbidden:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"looked at the test facts: {name}")

    def __len__(self) -> int:
        raise AssertionError("counted the test facts")


def test_the_test_facts_are_never_looked_at(study: Tuned, splits: Splits, tmp_path: Path) -> None:
    test: Any = Forbidden()
    hidden = dataclasses.replace(splits, test=test, truth=tmp_path / "not there.tsv")
    with pytest.raises(AssertionError):
        len(hidden.test)
    assert ended(tune(hidden, "complex-n3", tmp_path / "s", 4, changes=FIXED)) == ended(study)


# --- resuming


def test_a_study_goes_on_to_the_number_of_trials_in_total(
    study: Tuned, splits: Splits, tmp_path: Path
) -> None:
    out = tmp_path / "study"
    first = tune(splits, "complex-n3", out, 2, changes=FIXED)
    assert ended(first) == ended(study)[:2]
    whole = tune(splits, "complex-n3", out, 4, changes=FIXED)
    assert ended(whole) == ended(study)
    less = tune(splits, "complex-n3", out, 2, changes=FIXED)
    assert len(less.trials) == 4


def test_an_interrupted_trial_is_begun_again(study: Tuned, splits: Splits, tmp_path: Path) -> None:
    def stop(record: dict[str, Any]) -> None:
        if (record["trial"], record.get("epoch")) == (2, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(splits, "complex-n3", tmp_path, 4, changes=FIXED, report=stop)
    whole = tune(splits, "complex-n3", tmp_path, 4, changes=FIXED)
    assert [row["state"] for row in whole.trials] == [
        "complete",
        "complete",
        "stopped",
        "complete",
        "complete",
    ]
    assert ended(whole) == ended(study)


def test_a_killed_trial_is_begun_again(study: Tuned, splits: Splits, tmp_path: Path) -> None:
    tune(splits, "complex-n3", tmp_path, 1, changes=FIXED)
    name, url = "npugraph", f"sqlite:///{tmp_path / 'study.db'}"
    space = {n: distribution(d) for n, d in plan("complex-n3", FIXED).space.items()}
    # As a kill leaves it: one trial with settings, one that did not come so far.
    killed = optuna.load_study(study_name=name, storage=url, sampler=optuna.samplers.TPESampler())
    params = killed.ask(space).params
    killed.ask()
    whole = tune(splits, "complex-n3", tmp_path, 4, changes=FIXED)
    states = [row["state"] for row in whole.trials]
    assert states == ["complete", "stopped", "stopped", *["complete"] * 3]
    assert whole.trials[3]["settings"] == params
    # The first ten trials are drawn evenly, whatever came before them.
    assert ended(whole)[2:] == ended(study)[2:]


def test_another_search_does_not_go_on_with_a_study(study: Tuned, splits: Splits) -> None:
    less = dataclasses.replace(splits, train=splits.train.select(torch.arange(100)))
    for graph, recipe, changes, seed, message in (
        (splits, "complex-n3", FIXED, 1, "seed=0, not 1"),
        (splits, "complex-n3", {**FIXED, "epochs": "5"}, 0, "set="),
        (splits, "complex-n3", {**FIXED, "n3": "0.1"}, 0, "set="),
        (less, "complex-n3", FIXED, 0, "is of another graph"),
        (splits, "rotate", FIXED, 0, "recipe=complex-n3, not rotate"),
    ):
        with pytest.raises(RunError, match=message):
            tune(graph, recipe, study.folder, 9, changes=changes, seed=seed)
    # The device is not what a study is about.
    tune(splits, "complex-n3", study.folder, 4, changes={**FIXED, "device": "auto"})


def test_one_worker_a_study_file(splits: Splits, tmp_path: Path) -> None:
    def second(record: dict[str, Any]) -> None:
        with pytest.raises(RunError, match="Another process is tuning"):
            tune(splits, "complex-n3", tmp_path, 9, changes=FIXED)
        raise KeyboardInterrupt

    pytest.importorskip("fcntl")
    with pytest.raises(KeyboardInterrupt):
        tune(splits, "complex-n3", tmp_path, 9, changes=FIXED, report=second)


def test_workers_share_a_storage(study: Tuned, splits: Splits, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    tune(splits, "complex-n3", tmp_path / "a", 3, changes=FIXED, storage=url)
    both = tune(splits, "complex-n3", tmp_path / "b", 4, changes=FIXED, storage=url)
    assert ended(both) == ended(study)
    assert not (tmp_path / "b" / "study.db").exists()
    assert len((tmp_path / "a" / "trials.tsv").read_text().splitlines()) == 4
    assert len((tmp_path / "b" / "trials.tsv").read_text().splitlines()) == 5
    with pytest.raises(RunError, match="nosql://x cannot be used"):
        tune(splits, "complex-n3", tmp_path, 1, changes=FIXED, storage="nosql://x")


# --- trials that end early


def test_a_failed_trial_is_recorded_and_the_study_goes_on(
    splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searching(monkeypatch, learning_rate=Choices((0.1, 1e38)))
    tuned = tune(splits, "complex-n3", tmp_path, 6, changes=FIXED, seed=1)
    states = [row["state"] for row in tuned.trials]
    assert {"failed", "complete"} == set(states)
    assert "complete" in states[states.index("failed") :]
    for row in tuned.trials:
        assert (row["settings"]["learning_rate"] == 1e38) == (row["state"] == "failed")
        assert ("not a number" in row["error"]) == (row["state"] == "failed")
    assert tuned.best.learning_rate == 0.1
    assert "not a number" in (tmp_path / "trials.tsv").read_text()


def test_a_study_whose_trials_all_fail_says_why(
    splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searching(monkeypatch, learning_rate=Choices((1e38,)))
    with pytest.raises(RunError, match=r"No trial .* said: The loss is not a number"):
        tune(splits, "complex-n3", tmp_path, 2, changes=FIXED)
    assert len((tmp_path / "trials.tsv").read_text().splitlines()) == 3
    assert not (tmp_path / "best.json").exists()


def test_hopeless_trials_are_cut_short(
    splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searching(monkeypatch, learning_rate=Choices((0.2, 1e-7)))
    changes = {**FIXED, "epochs": "8"}
    tuned = tune(splits, "complex-n3", tmp_path, 8, changes=changes, seed=6)
    pruned = [row for row in tuned.trials if row["state"] == "pruned"]
    assert pruned
    assert all(row["settings"]["learning_rate"] == 1e-7 for row in pruned)
    # Not before a quarter of the epochs, and not before five trials are complete.
    assert all(2 <= row["epochs"] < 8 for row in pruned)
    before = tuned.trials[: pruned[0]["trial"]]
    assert len(before) >= 5
    url = f"sqlite:///{tmp_path / 'study.db'}"
    trials = optuna.load_study(study_name="npugraph", storage=url).trials
    for row in pruned:
        epoch = row["epochs"]
        earlier = [t for t in trials[: row["trial"]] if t.state.name == "COMPLETE"]
        median = statistics.median(t.intermediate_values[epoch] for t in earlier)
        assert row["valid_mrr"] < median


def test_no_trial_starts_when_the_time_is_up(splits: Splits, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="No trial"):
        tune(splits, "complex-n3", tmp_path, 3, changes=FIXED, timeout=0)
    tuned = tune(splits, "complex-n3", tmp_path, 1, changes=FIXED, timeout=60)
    assert len(tuned.trials) == 1


def test_what_cannot_be_tuned_is_refused(
    splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = dataclasses.replace(splits, valid=splits.valid.select(torch.arange(0)))
    with pytest.raises(DataError, match="no validation facts"):
        tune(nothing, "complex-n3", tmp_path, 1)
    with pytest.raises(SettingsError, match="trials=0"):
        tune(splits, "complex-n3", tmp_path, 0)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SettingsError, match=r"pip install 'npugraph\[tune\]'"):
        tune(splits, "complex-n3", tmp_path, 1)


# --- the command line


def command(capsys: Any, monkeypatch: Any, *words: object) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["npugraph", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    return int(stop.value.code or 0), shown.out, shown.err


def test_tune_on_the_command_line(capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    words = ["tune", "--recipe", "complex-n3", "--trials", 2, "--out", tmp_path / "tuned"]
    for name, value in {**FIXED, "epochs": 2, "batch_size": 512}.items():
        words += ["--set", f"{name}={value}"]
    code, out, err = command(capsys, monkeypatch, *words, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["graph"] == "world"
    assert result["states"] == {"complete": 2}
    assert result["valid_mrr"] == max(row["valid_mrr"] for row in result["trials"])
    assert set(result["best"]) == set(SEARCHED)
    code, out, err = command(capsys, monkeypatch, *words)
    assert code == 0
    assert f"{result['valid_mrr']:.4f}" in out
    best = tmp_path / "tuned" / "best.json"
    assert f"--settings {best}" in err
    words = ["fit", "--settings", best, "--out", tmp_path / "run", "--json"]
    code, out, _ = command(capsys, monkeypatch, *words)
    assert code == 0
    assert json.loads(out)["valid_mrr"] == result["valid_mrr"]


def test_mistakes_on_the_command_line(capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    words = ["tune", "no-such-graph", "--out", tmp_path, "--set", "n33=1"]
    code, _, err = command(capsys, monkeypatch, *words)
    # The setting is wrong before any graph is looked for.
    assert (code, err) == (2, "error: There is no setting 'n33'. Did you mean 'n3'?\n")
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = command(capsys, monkeypatch, "tune", "--out", tmp_path)
    assert (code, err) == (2, "error: Tuning needs Optuna: pip install 'npugraph[tune]'.\n")
