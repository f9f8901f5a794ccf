"""Search for the settings of a recipe that do best on the validation facts.

    study.db     the Optuna study: every trial with its settings, its learning curve and its end
    trials.tsv   one row per trial
    best.json    the settings of the best trial, for ``npugraph fit --settings``

The validation MRR decides. The test facts and the hidden truth are taken away before the first
trial starts, so that no trial can look at them.

Optuna is imported where it is needed; the rest of the package does without it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npugraph.data.io import write_text
from npugraph.data.sources import GraphLike, load_splits
from npugraph.display import Shown
from npugraph.errors import (
    DataError,
    NpugraphError,
    OutputError,
    RunError,
    SettingsError,
    writing,
)
from npugraph.fitting import fit, leave_out_wrong
from npugraph.graph import Splits
from npugraph.recipes import get_recipe
from npugraph.recipes.base import Choices, Dimension, LogRange, Recipe, Whole
from npugraph.seeds import number
from npugraph.settings import TrainSettings, as_path, make_settings
from npugraph.training.loop import choose_device
from npugraph.training.run_folder import fingerprint

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

log = logging.getLogger(__name__)

Report = Callable[[dict[str, Any]], object]
COLUMNS = ("trial", "state", "valid_mrr", "best_epoch", "epochs", "seconds")
ENDS = ("complete", "pruned", "failed")


@dataclass(frozen=True)
class Search:
    """What is searched.

    Attributes:
        recipe: what was given: a name, a file or a Recipe.
        space: the searched settings: the recipe's, less those that the user fixed.
        fixed: the settings that all trials share, where they are not the recipe's defaults.
        seed: the trials follow from it.
    """

    recipe: str | os.PathLike[str] | Recipe
    space: Mapping[str, Dimension]
    fixed: Mapping[str, Any]
    seed: int

    @property
    def name(self) -> str:
        """The recipe's own name."""
        return get_recipe(self.recipe).name

    def settings(self, chosen: Mapping[str, Any]) -> TrainSettings:
        """Return the settings of a trial, given the values of the searched ones."""
        return make_settings(get_recipe(self.recipe).settings, {**self.fixed, **chosen})

    def identity(self, graph: str) -> dict[str, Any]:
        """Return what all trials of a study must share; the device is each worker's own."""
        return {
            "recipe": self.name,
            "graph": graph,
            "seed": self.seed,
            "set": {name: value for name, value in self.fixed.items() if name != "device"},
            "space": {name: str(dimension) for name, dimension in self.space.items()},
        }


@dataclass(frozen=True, repr=False)
class Tuned(Shown):
    """How a study stands.

    Attributes:
        search: what was searched.
        best: the settings of the best trial.
        valid_mrr: its validation MRR.
        trials: one row per trial, as in trials.tsv.
        folder: where best.json and trials.tsv are.
    """

    search: Search
    best: TrainSettings
    valid_mrr: float
    trials: list[dict[str, Any]]
    folder: Path

    def shown(self) -> tuple[str, Mapping[str, object]]:
        """Show the best settings."""
        best = {name: getattr(self.best, name) for name in self.search.space}
        rows = {"trials": len(self.trials), "validation MRR": self.valid_mrr, **best}
        return f"Tuned {self.search.name}", {**rows, "folder": self.folder}


def plan(
    recipe: str | os.PathLike[str] | Recipe,
    changes: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Search:
    """Return what would be searched; a setting that the user changed is not searched any more.

    >>> sorted(plan("npugraph", {"beta": "0.96"}).space)
    ['alpha', 'learning_rate', 'negatives']
    """
    chosen = get_recipe(recipe)
    if changes is not None and not isinstance(changes, Mapping):
        raise SettingsError(f"changes={changes!r:.60} must be a dict of settings.")
    settings = make_settings(chosen.settings, {"seed": seed, **(changes or {})})
    fixed = {name: getattr(settings, name) for name in ("seed", *(changes or {}))}
    space = {name: values for name, values in chosen.space.items() if name not in fixed}
    if not space:
        why = "every setting it could search is fixed" if chosen.space else "it has no search space"
        raise SettingsError(f"There is nothing to tune in recipe {chosen.name!r}: {why}.")
    choose_device(settings.device)
    return Search(recipe, space, fixed, seed)


def tune(
    graph: GraphLike,
    recipe: str | os.PathLike[str] | Recipe,
    out: str | os.PathLike[str],
    trials: int = 20,
    *,
    changes: Mapping[str, Any] | None = None,
    storage: str | None = None,
    seed: int = 0,
    timeout: float | None = None,
    report: Report | None = None,
) -> Tuned:
    """Search a recipe's space by TPE; trials worse than the median at their epoch are cut short.

    A study that exists is continued. Trial n follows from the seed, n and the trials before it,
    so that a study that was stopped and continued has the trials of an unbroken one. All trials
    train with the same seed. A trial that fails is recorded and does not stop the study.

    Args:
        graph: what ``load_graph`` takes; its test facts and its hidden truth are never looked at.
        recipe: a name of RECIPES, a Python file with a variable RECIPE, or a Recipe.
        out: the folder of the study.
        trials: how many trials the study has in the end, those of earlier calls included.
        changes: settings that all trials share; they are not searched.
        storage: an Optuna storage URL that many workers may share; study.db in ``out`` where None.
        seed: of the search and of each training.
        timeout: minutes after which no further trial starts.
        report: called after every epoch and every trial with how far the study is.

    Returns:
        The study, once it has as many trials as asked for or the time is up.
    """
    check_optuna()
    search = plan(recipe, changes, seed)
    if not isinstance(trials, int) or trials < 1:
        raise SettingsError(f"trials={trials!r} must be a whole number of at least 1.")
    out = as_path(out, "the folder of the study")
    blind = leave_out_wrong(_without_test(load_splits(graph, seed)))
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with contextlib.nullcontext() if storage else _alone(out), _storage_errors(out):
        worker = _Worker(_open_study(search, blind, out, storage), search, blind, out, report)
        if storage is None:
            # Nobody else works on our own file: what is still running in it was killed.
            worker.put_back_killed()
        worker.announce(None, "waiting")
        while worker.has_work(trials) and not _is_over(started, timeout):
            worker.run()
        return worker.result()


def check_optuna() -> None:
    """Say what to do where Optuna is not installed."""
    try:
        import optuna
    except ImportError:
        raise SettingsError("Tuning needs Optuna: pip install 'npugraph[tune]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def _is_over(started: float, timeout: float | None) -> bool:
    return timeout is not None and time.monotonic() - started >= 60 * timeout


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Refuse a second worker on a study's own file; a worker that dies lets go of it."""
    try:
        import fcntl
    except ImportError:  # Windows: there the user must see to it.
        yield
        return
    with (out / "study.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(
                f"Another process is tuning in {out}; for many workers give all of them one "
                "--storage, and each a folder of its own."
            ) from None
        yield


@contextlib.contextmanager
def _storage_errors(out: Path) -> Iterator[None]:
    """Turn what a database says of a full or broken disk into a sentence."""
    from optuna.exceptions import StorageInternalError

    try:
        yield
    except StorageInternalError as error:
        why = str(error.__cause__ or error).strip().split("\n")[0]
        raise OutputError(f"The study of {out} cannot be written ({why}).") from None


def _without_test(splits: Splits) -> Splits:
    """Return the graph with no test facts and no hidden truth."""
    if len(splits.valid) == 0:
        raise DataError(
            f"{splits.name} has no validation facts to judge settings by; add a valid file."
        )
    return replace(splits, test=splits.train.with_facts(splits.train.facts[:0]), truth=None)


def _open_study(search: Search, splits: Splits, out: Path, storage: str | None) -> Study:
    """Create or open the study, and refuse one that was made for something else."""
    place = storage or f"sqlite:///{(out / 'study.db').resolve()}"
    # A shared storage may hold many studies; our own file has one.
    study = _create(search, place, f"{search.name} on {splits.name}" if storage else "npugraph")
    wanted = json.loads(json.dumps(search.identity(fingerprint(splits))))
    found = study.user_attrs.get("identity", wanted)
    # An address may hold a password.
    where = "that storage" if storage else str(out)
    remedy = "continue it as it was begun, take another folder, or replace it with --overwrite"
    for name, value in wanted.items():
        if found.get(name) == value:
            continue
        if name == "graph":
            raise RunError(f"The study in {where} is of another graph; {remedy}.")
        raise RunError(
            f"The study in {where} was made with {name}={found.get(name)}, not {value}; {remedy}."
        )
    study.set_user_attr("identity", wanted)
    return study


def _create(search: Search, place: str, name: str) -> Study:
    import optuna

    # The first quarter of the epochs tells little; nPUGraph's self-training begins after it.
    warmup = search.settings({}).epochs // 4
    pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=warmup)
    sampler: Any = _Sampler(search.seed)
    attempts = 3
    while True:
        attempts -= 1
        try:
            return optuna.create_study(
                storage=place,
                sampler=sampler,
                pruner=pruner,
                study_name=name,
                direction="maximize",
                load_if_exists=True,
            )
        # A URL can be wrong in as many ways as there are databases.
        except Exception as error:
            if attempts == 0:
                why = str(error).strip().split("\n")[0] or type(error).__name__
                raise RunError(f"The storage {place} cannot be used ({why}).") from None
            # Workers that start together get in each other's way while the tables are made.
            time.sleep(0.5)


class _Sampler:
    """TPE whose draws for a trial follow from the seed and the trial's place alone.

    Optuna's own seed is used up from trial to trial, and is not stored: a continued study would
    begin with the draws of its first trials again.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.tpe = self._begin(0)

    def _begin(self, place: int) -> Any:
        from optuna.samplers import TPESampler

        return TPESampler(seed=number(self.seed, "tune", place) % 2**32)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self.tpe = self._begin(place_of(study, trial))
        self.tpe.before_trial(study, trial)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tpe, name)


def place_of(study: Study, trial: FrozenTrial) -> int:
    """Return the place of a trial in an unbroken study: trials that were begun again count once."""
    again: int | None = trial.user_attrs.get("again")
    if again is not None:
        return again
    earlier = study.get_trials(deepcopy=False)[: trial.number]
    return sum("again" not in other.user_attrs for other in earlier)


def distribution(dimension: Dimension) -> Any:
    """Return Optuna's form of a searched setting."""
    from optuna import distributions

    if isinstance(dimension, Choices):
        return distributions.CategoricalDistribution(dimension.values)
    if isinstance(dimension, Whole):
        return distributions.IntDistribution(dimension.low, dimension.high)
    log = isinstance(dimension, LogRange)
    return distributions.FloatDistribution(dimension.low, dimension.high, log=log)


class _Worker:
    """Runs trials of a study one after the other."""

    def __init__(
        self, study: Study, search: Search, splits: Splits, out: Path, report: Report | None
    ) -> None:
        self.study = study
        self.search = search
        self.splits = splits
        self.out = out
        self.report = report
        self.rows = self._rows()

    def _trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def _rows(self) -> list[dict[str, Any]]:
        return [trial_row(trial) for trial in self._trials()]

    def has_work(self, trials: int) -> bool:
        """Tell whether the study lacks trials, or has one that is to be begun again."""
        known = self._trials()
        begun = sum("again" not in trial.user_attrs for trial in known)
        return begun < trials or any(trial.state.name == "WAITING" for trial in known)

    def put_back_killed(self) -> None:
        """End the trials that nobody runs any more, and queue their settings again."""
        for trial in self._trials():
            if trial.state.name == "RUNNING":
                self._put_back(trial.number)

    def _put_back(self, which: int) -> None:
        from optuna.trial import TrialState

        trial = self._trials()[which]
        place = place_of(self.study, trial)
        self.study.tell(which, state=TrialState.FAIL)
        self.study.enqueue_trial(trial.params, user_attrs={"again": place})

    def run(self) -> None:
        """Run one trial to its end and write the study's files."""
        from optuna import TrialPruned
        from optuna.trial import TrialState

        space = {name: distribution(values) for name, values in self.search.space.items()}
        trial = self.study.ask(space)
        try:
            self.study.tell(trial, self._train(trial))
        except TrialPruned:
            self.study.tell(trial, state=TrialState.PRUNED)
        # What other settings may cure: no number as loss, parts that do not fit, no memory left.
        except (NpugraphError, RuntimeError) as error:
            trial.set_user_attr("error", str(error).strip().split("\n")[0] or repr(error))
            self.study.tell(trial, state=TrialState.FAIL)
        except BaseException:
            self._put_back(trial.number)
            raise
        self.rows = self._rows()
        self._write()
        row = self.rows[trial.number]
        log.info("trial %d %s, valid MRR %s", trial.number, row["state"], row["valid_mrr"])
        self.announce(trial.number, row["state"])

    def _train(self, trial: Trial) -> float:
        from optuna import TrialPruned

        settings = self.search.settings(trial.params)

        def report(record: dict[str, Any]) -> None:
            epoch, best = record["epoch"], record["progress_best_mrr"]
            self.announce(trial.number, "running", epoch=epoch, valid_mrr=best)
            if "valid_mrr" not in record:
                return
            if not math.isfinite(record["valid_mrr"]):
                raise RunError(f"The validation MRR is not a number in epoch {epoch}.")
            trial.report(record["valid_mrr"], epoch)
            if trial.should_prune() and not record["progress_finished"]:
                raise TrialPruned

        return fit(self.splits, self.search.recipe, settings, report=report).progress.best_mrr

    def announce(self, trial: int | None, state: str, **more: Any) -> None:
        """Tell the caller how far the study is."""
        if self.report is None:
            return
        best = self._best()
        done = [row for row in self.rows if row["state"] in ENDS]
        so_far = {"done": len(done), "best_mrr": best and best["valid_mrr"]}
        self.report({"trial": trial, "state": state, **so_far, **more})

    def _best(self) -> dict[str, Any] | None:
        complete = [row for row in self.rows if row["state"] == "complete"]
        # The first of equals.
        return max(complete, key=lambda row: row["valid_mrr"], default=None)

    def _write(self) -> None:
        write_text(self.out / "trials.tsv", trials_table(self.rows, list(self.search.space)))
        best = self._best()
        if best is not None:
            settings = asdict(self.search.settings(best["settings"]))
            write_text(self.out / "best.json", json.dumps(settings, indent=2) + "\n")

    def result(self) -> Tuned:
        """Return the study as it stands; without one complete trial there is no result."""
        self.rows = self._rows()
        self._write()
        best = self._best()
        if best is None:
            errors = [row["error"] for row in self.rows if row["error"]]
            why = f" The first that failed said: {errors[0]}" if errors else ""
            raise RunError(f"No trial of the study in {self.out} came to its end.{why}")
        settings = self.search.settings(best["settings"])
        return Tuned(self.search, settings, best["valid_mrr"], self.rows, self.out)


def trial_row(trial: FrozenTrial) -> dict[str, Any]:
    """Return what a person wants to know of a trial.

    ``valid_mrr`` is the best so far where a trial was cut short. A trial is ``stopped`` where it
    was interrupted; it was begun again under another number.
    """
    error = trial.user_attrs.get("error", "")
    state = {"FAIL": "failed" if error else "stopped"}.get(trial.state.name)
    curve = trial.intermediate_values
    top = max(curve, key=lambda epoch: curve[epoch], default=None)
    return {
        "trial": trial.number,
        "state": state or trial.state.name.lower(),
        "valid_mrr": None if top is None else curve[top],
        "best_epoch": top,
        "epochs": max(curve, default=None),
        "seconds": None if trial.duration is None else round(trial.duration.total_seconds(), 2),
        "settings": dict(trial.params),
        "error": error,
    }


def trials_table(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Return the rows as tab-separated text with a header; a missing value is an empty field."""
    lines: list[list[Any]] = [[*COLUMNS, *names, "error"]]
    for row in rows:
        chosen = [row["settings"].get(name) for name in names]
        lines.append([*(row[column] for column in COLUMNS), *chosen, row["error"]])
    return "".join("\t".join(map(_field, line)) + "\n" for line in lines)


def _field(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else " ".join(str(value).split())
