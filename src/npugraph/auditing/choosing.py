"""Settings that validation chooses."""

from __future__ import annotations

from dataclasses import replace

from npugraph.auditing.presets import SEARCH, Tried
from npugraph.auditing.trainings import Train, begin_run
from npugraph.auditing.views import ViewInputs
from npugraph.seeds import number
from npugraph.settings import TrainSettings
from npugraph.training.run_folder import Run


def choose_training(inputs: ViewInputs) -> tuple[TrainSettings, Tried]:
    """Let the validation MRR on the first fold choose among a few settings; return what was tried.

    Each try is a run folder of its own.
    """
    settings, training, home = inputs.settings, inputs.training, inputs.home
    splits = inputs.folds.splits(0, settings.thresholds.search_valid_share, settings.seed)
    inputs.say("choosing", {"systems": len(SEARCH), "epochs": training.epochs})
    jobs = []
    for place, values in enumerate(SEARCH):
        folder = home.path / "trials" / f"trial-{place + 1}"
        one = replace(training, **values, seed=number(settings.seed, "choose") % 2**31)
        begin_run(folder, splits, settings.recipe, one)
        jobs.append(Train(folder, settings.recipe, {"fold": place}, home.checkpoint_seconds))
    inputs.run(jobs)
    tried = [
        (values, Run.open(job.folder).progress().best_mrr)
        for values, job in zip(SEARCH, jobs, strict=True)
    ]
    best = max(tried, key=lambda pair: pair[1])[0]
    return replace(training, **best), tuple(tried)
