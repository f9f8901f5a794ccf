"""The view ``path``: one system without entity vectors, which judges a fact by the paths beside it.

It cannot learn a fact by heart, so it is trained once, on all facts, and judges each of them with
its own edges hidden, and those of a group of facts of the same fold.

A fact that is not stored is judged in the place of one that is: a fact of the fold that answers one
of its two questions is hidden, or any, with its group. Otherwise the stored fact that a fact of a
pool was made of would speak against it, and nothing speaks so against a stored one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from npugraph.auditing.folds import Folds
from npugraph.auditing.presets import path_settings
from npugraph.auditing.views.base import ViewInputs
from npugraph.auditing.views.embedding import fit_or_resume
from npugraph.errors import SettingsError
from npugraph.graph import SIDES, KnowledgeGraph, Splits
from npugraph.model import Model
from npugraph.recipes.path.model import PathModel
from npugraph.seeds import generator, number

# What PathModel.judge says of a fact, by the name of its column.
VALUES = {"score": "raw", "all": "among_all", "new": "among_new"}


class PathView:
    """Judges each fact by the paths between its ends, its own edges hidden."""

    name = "path"
    columns = tuple(f"{value}_{side}" for side in SIDES for value in VALUES)
    score = ("score_tail", "score_head")

    def __init__(self, folds: Folds, system: PathModel, seed: int) -> None:
        """Judge by a system whose edges are all facts that are judged, the planted ones too."""
        self.folds = folds
        self.index = folds.index()
        self.system = system.eval()
        self.fold = _fold_of(folds)
        rng = generator(seed, "path groups")
        system.regroup(_by_fold(self.fold, rng))

    @cached_property
    def systems(self) -> tuple[Model, ...]:
        """By fold, the same weights along the facts of the others."""
        return tuple(
            self.system.on_graph(self.folds.others(fold)).eval() for fold in range(self.folds.count)
        )

    def features(self, facts: Tensor, fold: int) -> Tensor:
        """Return the values of both questions of facts [n, 3]: float32 [n, 6]."""
        place = self.index.places(facts)
        place = torch.where(place < 0, self._stand_ins(facts, fold), place)
        device = self.system.device
        found = self.system.judge(facts.to(device), beside=place.to(device))
        values = [getattr(found, name) for name in VALUES.values()]
        return torch.stack(values, -1).transpose(0, 1).flatten(1).float().cpu()

    def _stand_ins(self, facts: Tensor, fold: int) -> Tensor:
        """Return for each fact [n, 3] the number of a fact of the fold with a question of its own.

        Where there is none it is any of the fold, the same one whenever the fact is asked about.
        """
        mine = torch.nonzero(self.fold == fold).squeeze(1)
        stored = self.index.facts()[mine]
        found = mine[self.index.key(facts) * 2654435761 % 2**31 % len(mine)]
        relations = self.index.num_relations
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
    """Train one system on all facts but those that choose its best epoch; these are edges, too."""
    settings, folds = inputs.settings, inputs.folds
    everything = folds.graph.with_facts(folds.index().facts())
    recipe, training = path_settings(everything, settings, inputs.training)
    training = replace(training, seed=number(settings.seed, "path") % 2**31)
    inputs.say("training", {"view": "path", "systems": 1, "epochs": training.epochs})
    fitted = fit_or_resume(
        _splits(everything, settings.thresholds.valid_share, settings.seed),
        recipe,
        training,
        None if inputs.out is None else inputs.out / "path",
        lambda record: inputs.say("epoch", {"fold": 0, **record}),
    )
    if not isinstance(fitted.system, PathModel):
        raise SettingsError(f"The recipe {recipe} has no paths to judge by; take path.")
    return PathView(folds, fitted.system.on_graph(everything), settings.seed)


def _splits(graph: KnowledgeGraph, valid_share: float, seed: int) -> Splits:
    """Return what the system is trained and validated on; nothing is held out."""
    order = torch.randperm(len(graph), generator=generator(seed, "valid", "path"))
    cut = max(1, round(valid_share * len(order)))
    valid, train = order[:cut], order[cut:].sort().values
    none = order[:0]
    return Splits("path", graph.select(train), graph.select(valid), graph.select(none))
