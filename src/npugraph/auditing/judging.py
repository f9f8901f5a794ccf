"""Judge one fold by what never saw it: a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from npugraph.auditing.judged import Judged, Part, has_part
from npugraph.auditing.material import Material
from npugraph.auditing.missing import propose
from npugraph.auditing.pools import fold_pool, further_answers
from npugraph.auditing.settings import Stage
from npugraph.auditing.views import Ranking, View
from npugraph.data.corrupt import Noise
from npugraph.model import Model
from npugraph.seeds import generator


@dataclass(frozen=True)
class Judge:
    """Judge a fold and write what was judged.

    Attributes:
        material: what to judge by.
        fold: its number.
    """

    material: Material
    fold: int

    @property
    def needs(self) -> Path:
        """The facts, where others read them."""
        return self.material.folder / "facts.parquet"

    @property
    def result(self) -> Path:
        """The file of what was judged."""
        return self.material.inputs.home.path / "judged" / f"fold-{self.fold + 1}.safetensors"

    def __str__(self) -> str:
        return f"judge fold {self.fold + 1}"

    def is_done(self) -> bool:
        """Tell whether the fold was judged before, by the same."""
        return has_part(self.result, self.material.key)

    def run(self, say: Stage) -> None:
        """Judge it."""
        judge_fold(self.material, self.fold).save(self.result, self.material.key)
        say("judged", {"fold": self.fold})

    def read(self) -> Part:
        """Return what was judged."""
        kinds, views = self.material.inputs.settings.kinds, self.material.views
        return Part.read(self.result, kinds, columns_of(views), score_of(views))


def judge_folds(material: Material) -> list[Part]:
    """Judge all folds, whoever does it; what was judged before is read again."""
    inputs, tasks = material.inputs, material.inputs.tasks
    jobs = [Judge(material, fold) for fold in range(inputs.folds.count)]
    left = [job for job in jobs if not job.is_done()]
    if left and tasks is not None and tasks.workers:
        material.write()
    inputs.run(left)
    material.remove()
    return [job.read() for job in jobs]


def columns_of(views: tuple[View, ...]) -> tuple[str, ...]:
    """Return the names of the features of all views."""
    return tuple(f"{view.name}.{column}" for view in views for column in view.columns)


def score_of(views: tuple[View, ...]) -> tuple[str, ...]:
    """Return the columns whose mean is the plain score."""
    ranking = ranking_view(views)
    return tuple(f"{ranking.name}.{column}" for column in ranking.score)


def judged_as(known_wrong: Tensor, count: int) -> Tensor:
    """Return as facts of which of ``count`` folds those in no fold [k, 3] are judged: [k]."""
    return torch.arange(len(known_wrong)) % count


def ranking_view(views: tuple[View, ...]) -> Ranking:
    """Return the first view that can rank entities."""
    # The settings have refused views without one.
    return next(view for view in views if isinstance(view, Ranking))


def judge_fold(material: Material, fold: int) -> Part:
    """Judge the facts of a fold, its pools, and what its system proposes."""
    folds, settings, views = material.inputs.folds, material.inputs.settings, material.views
    columns, score = columns_of(views), score_of(views)
    system = ranking_view(views).systems[fold]
    ends_of_others = folds.others(fold).facts[:, [0, 2]].flatten()
    degree = torch.bincount(ends_of_others, minlength=folds.graph.num_entities)

    def judged(facts: Tensor, replaced: Tensor | None = None, more: Tensor | None = None) -> Judged:
        where = torch.full((len(facts),), fold)
        ends = torch.full_like(where, -1) if replaced is None else replaced
        features = torch.cat([view.features(facts, fold, more) for view in views], 1)
        support = degree[facts[:, [0, 2]]].min(1).values
        return Judged(facts, where, features, ends, support, columns, score)

    stored, known = folds.graph.facts, folds.not_drawn()
    # Roles are those of stored facts: planted ones would put entities where none belongs.
    index = folds.graph.index()
    mine = stored[folds.fold == fold]
    # A large graph needs no pool of its own size.
    most = min(settings.thresholds.pool_facts // folds.count, len(mine))

    def pool(kind: Noise) -> Judged:
        facts, replaced = fold_pool(stored, index, kind, fold, most, settings.seed, system)
        fresh = ~known.contains(facts)
        facts, replaced = facts[fresh], replaced[fresh]
        if kind != "crowded":
            return judged(facts, replaced)
        rng = generator(settings.seed, "further answers", fold)
        more = further_answers(facts, replaced, 1 - 1 / folds.count, rng)
        return judged(facts, replaced, more)

    pools = {kind: pool(kind) for kind in settings.kinds}
    proposed = judged(_proposed(material, fold, system))
    tested = mine[:0]
    if folds.planted is not None:
        tested = folds.planted.facts[folds.planted.fold == fold]
    wrong = material.known_wrong
    wrong = wrong[judged_as(wrong, folds.count) == fold]
    return Part(judged(mine), pools, proposed, judged(tested), judged(wrong))


def _proposed(material: Material, fold: int, system: Model) -> Tensor:
    """Return candidates for missing facts [m, 3], of the questions of one fold."""
    folds, settings = material.inputs.folds, material.inputs.settings
    if not settings.most_missing:
        return folds.graph.facts[:0]
    thresholds = settings.thresholds
    wanted = thresholds.candidates_per_missing * settings.most_missing // folds.count
    return propose(
        system,
        folds.others(fold),
        fold,
        folds.count,
        per_question=settings.per_question,
        most=max(wanted, thresholds.least_candidates),
        role_entities=thresholds.role_entities,
        beside=None if folds.new is None else folds.graph.facts[folds.new],
    )
