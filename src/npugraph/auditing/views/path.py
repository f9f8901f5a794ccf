"""The view ``path``: systems without entity vectors, which judge a fact by the paths beside it.

It has no vector to learn a fact by heart with, so every fact may be evidence for all others; a fact
is judged with its own edges hidden, and those of a group of facts of its fold. But relations learn
a little of the very facts that were asked in training: on small graphs a wrong fact that was
trained on looks more plausible than one that was not. So two systems are trained, each on the facts
of every other fold, and judge the rest, along the edges of all.

A fact that is not stored is judged in the place of one that is: a fact of the fold that answers one
of its two questions is hidden, or any, with its group. Otherwise the stored fact that a fact of a
pool was made of would speak against it, and nothing speaks so against a stored one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from npugraph.auditing.folds import Folds
from npugraph.auditing.presets import path_settings
from npugraph.auditing.trainings import OnDemand
from npugraph.auditing.views.base import ViewInputs
from npugraph.auditing.views.embedding import fit_systems
from npugraph.errors import SettingsError
from npugraph.graph import SIDES
from npugraph.model import Model
from npugraph.recipes.path.judging import JudgingModel
from npugraph.seeds import generator
from npugraph.triples import wrapped_key

# What JudgingModel.judge says of a fact, by the name of its column.
VALUES = {"score": "raw", "all": "among_all", "new": "among_new"}


class PathView:
    """Judges each fact by the paths between its ends, its own edges hidden."""

    name = "path"
    columns = tuple(f"{value}_{side}" for side in SIDES for value in VALUES)
    score = ("score_tail", "score_head")

    def __init__(
        self, folds: Folds, halves: Sequence[JudgingModel], seed: int, mrr: float = math.nan
    ) -> None:
        """Judge by systems whose edges are all facts that are judged, the planted ones too.

        Args:
            folds: which fold each fact is in.
            halves: the systems of the even and of the odd folds, trained on the facts of the other.
            seed: groups follow from it.
            mrr: of validation, the mean of the systems.
        """
        self.folds = folds
        self.index = folds.index()
        self.mrr = mrr
        self.fold = _fold_of(folds)
        order = _by_fold(self.fold, generator(seed, "path groups"))

        def ready(half: int) -> JudgingModel:
            system = halves[half].eval()
            system.regroup(order)
            return system

        self.halves = OnDemand(len(halves), ready)
        # By fold, the weights of its half along the facts of the other folds.
        self.systems = OnDemand(folds.count, self._of_fold)

    def _of_fold(self, fold: int) -> Model:
        return self.halves[half_of(fold)].on_graph(self.folds.others(fold)).eval()

    def features(self, facts: Tensor, fold: int, more: Tensor | None = None) -> Tensor:
        """Return the values of both questions of facts [n, 3]: float32 [n, 6]."""
        place = self.index.places(facts)
        place = torch.where(place < 0, self._stand_ins(facts, fold), place)
        system = self.halves[half_of(fold)]
        found = system.judge(facts.to(system.device), beside=place.to(system.device))
        values = [getattr(found, name) for name in VALUES.values()]
        return torch.stack(values, -1).transpose(0, 1).flatten(1).float().cpu()

    def _stand_ins(self, facts: Tensor, fold: int) -> Tensor:
        """Return for each fact [n, 3] the number of a fact of the fold with a question of its own.

        Where there is none it is any of the fold, the same one whenever the fact is asked about.
        """
        mine = torch.nonzero(self.fold == fold).squeeze(1)
        stored = self.index.facts()[mine]
        entities, relations = self.index.num_entities, self.index.num_relations
        found = mine[wrapped_key(facts, entities, relations) * 2654435761 % 2**31 % len(mine)]
        for end in (2, 0):
            asked, known = (part[:, end] * relations + part[:, 1] for part in (facts, stored))
            known, order = known.sort(stable=True)
            at = torch.searchsorted(known, asked.contiguous()).clamp(max=len(known) - 1)
            found = torch.where(known[at] == asked, mine[order[at]], found)
        return found


def _fold_of(folds: Folds) -> Tensor:
    """Return the fold of every fact of ``folds.index()``, the planted ones too: int64 [n]."""
    index = folds.index()
    fold = torch.empty(len(index), dtype=torch.int64)
    fold[index.places(folds.graph.facts)] = folds.fold
    if folds.planted is not None:
        fold[index.places(folds.planted.facts)] = folds.planted.fold
    return fold


def _by_fold(fold: Tensor, rng: torch.Generator) -> Tensor:
    """Return the numbers of all facts [n], fold by fold, in random order within each."""
    order = torch.randperm(len(fold), generator=rng)
    return order[torch.argsort(fold[order], stable=True)]


def path_view(inputs: ViewInputs) -> PathView:
    """Train one system on the facts of every other fold, and one on those of the rest."""
    folds = inputs.folds
    everything = folds.graph.with_facts(folds.index().facts())
    recipe, training = path_settings(everything, inputs.settings, inputs.training)
    own = replace(inputs, folds=halves_of(folds), training=training)
    since = inputs.since
    if since is not None and training is not inputs.training:
        own = replace(own, training=since.settings_of("path", training))
    # Without a name that they never met, systems of paths are as good on a graph that has grown.
    trains = since is None or bool(since.changes.relations)
    systems = fit_systems(own, "path", "path", recipe, trains=trains)

    def along_all(half: int) -> JudgingModel:
        system = systems[half]
        if not isinstance(system, JudgingModel):
            raise SettingsError(f"The recipe {recipe} has no paths to judge by; take path.")
        moved = system.on_graph(everything)
        assert isinstance(moved, JudgingModel)
        return moved

    halves = OnDemand(len(systems), along_all)
    return PathView(folds, halves, inputs.settings.seed, systems.mrr)


def half_of(fold: int) -> int:
    """Return which of the two systems judges a fold; both are numbered from 0."""
    return fold % 2


def halves_of(folds: Folds) -> Folds:
    """Return two folds: the even ones, and the odd ones."""
    planted = folds.planted
    if planted is not None:
        planted = replace(planted, fold=planted.fold % 2)
    return replace(folds, fold=folds.fold % 2, count=2, planted=planted)
