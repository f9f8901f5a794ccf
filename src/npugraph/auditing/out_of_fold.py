"""Judge every fact by a system that never saw it.

A system trained on a wrong fact learns it by heart. So the facts are cut into folds; for each
fold a system is trained on the others, and only that system judges the facts of the fold, and a
pool of uncollected facts to compare them with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from npugraph.auditing.features import FEATURES, Comparer
from npugraph.auditing.folds import Folds
from npugraph.auditing.missing import propose
from npugraph.auditing.pools import KINDS, fold_pool
from npugraph.auditing.settings import AuditSettings, Stage
from npugraph.auditing.statistics.evidence import FactArrays
from npugraph.data.corrupt import Noise
from npugraph.errors import RunError
from npugraph.fitting import fit
from npugraph.graph import TripleIndex
from npugraph.model import Model
from npugraph.recipes import get_recipe
from npugraph.seeds import generator, number
from npugraph.settings import TrainSettings
from npugraph.training.run_folder import Run


@dataclass(frozen=True)
class Judged:
    """Facts with the features a system gave them that was not trained on them.

    Attributes:
        facts: int64 [n, 3].
        fold: int64 [n].
        features: float32 [n, len(FEATURES)].
        replaced: int64 [n], which end of a fact of a pool was replaced: 0, 2, or -1, no single end.
    """

    facts: Tensor
    fold: Tensor
    features: Tensor
    replaced: Tensor

    @classmethod
    def join(cls, parts: Sequence[Judged]) -> Judged:
        """Return the facts of several folds, one after the other."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in names))

    def select(self, rows: Tensor) -> Judged:
        """Return some of the facts."""
        return Judged(self.facts[rows], self.fold[rows], self.features[rows], self.replaced[rows])

    def arrays(self) -> FactArrays:
        """Return them as arrays; the plain score is the mean of those of both questions."""
        columns = [FEATURES.index("score_tail"), FEATURES.index("score_head")]
        return FactArrays(
            self.features.numpy(),
            self.fold.numpy(),
            self.facts[:, 1].numpy(),
            self.features[:, columns].mean(1).numpy(),
            self.replaced.numpy(),
        )


@dataclass(frozen=True)
class CrossFit:
    """The collected facts of a graph, and uncollected ones, judged out of fold.

    Attributes:
        folds: which fold each fact is in.
        systems: by fold, the system that was not trained on it.
        collected: the collected facts, in key order.
        pools: uncollected facts by kind.
        proposed: what each system would answer; facts of its own fold may be among it.
        planted: the facts of the self-test by kind, judged as the collected ones are.
    """

    folds: Folds
    systems: tuple[Model, ...]
    collected: Judged
    pools: dict[Noise, Judged]
    proposed: Judged
    planted: dict[Noise, Judged] = field(default_factory=dict)


def fit_systems(
    folds: Folds,
    settings: AuditSettings,
    training: TrainSettings,
    out: Path | None,
    say: Stage,
) -> tuple[Model, ...]:
    """Train one system per fold on the facts of the others.

    Args:
        folds: which fold each fact is in.
        settings: what is asked for.
        training: the recipe's settings; every fold has a seed of its own.
        out: a folder for one run per fold; a run that is there is gone on with.
        say: told each epoch.
    """
    say("training", {"epochs": training.epochs * folds.count})
    return tuple(
        _fit_fold(folds, fold, settings, training, out, say) for fold in range(folds.count)
    )


def _fit_fold(
    folds: Folds,
    fold: int,
    settings: AuditSettings,
    training: TrainSettings,
    out: Path | None,
    say: Stage,
) -> Model:
    """Train the system of one fold; its seed follows from the seed and the fold."""
    own = replace(training, seed=number(settings.seed, "fold", fold) % 2**31)
    splits = folds.splits(fold, settings.thresholds.valid_share, settings.seed)
    folder = None if out is None else out / "folds" / f"fold-{fold + 1}"
    resume = folder is not None and (folder / "settings.json").is_file()
    if folder is not None and resume:
        try:
            Run.open(folder).check_same(get_recipe(settings.recipe).name, own, splits)
        except RunError as error:
            raise RunError(
                f"{folder} belongs to another graph, or to other folds, settings or seed; repeat "
                f"what was asked for then, or write to another folder. ({error})"
            ) from None
    fitted = fit(
        splits,
        settings.recipe,
        own,
        folder,
        resume=resume,
        report=lambda record: say("epoch", {"fold": fold, **record}),
    )
    return fitted.system


def judge_out_of_fold(
    folds: Folds, systems: tuple[Model, ...], settings: AuditSettings
) -> CrossFit:
    """Judge every fact, the pools and the proposals by the system that never saw them."""
    index = folds.index()
    parts = [
        _judge_fold(folds, fold, systems[fold], index, settings) for fold in range(folds.count)
    ]
    place = torch.cat([torch.nonzero(folds.fold == fold).squeeze(1) for fold in range(folds.count)])
    return CrossFit(
        folds,
        systems,
        Judged.join([part.collected for part in parts]).select(torch.argsort(place)),
        {kind: Judged.join([part.pools[kind] for part in parts]) for kind in KINDS},
        Judged.join([part.proposed for part in parts]),
        _by_kind(folds, Judged.join([part.planted for part in parts])),
    )


def _by_kind(folds: Folds, planted: Judged) -> dict[Noise, Judged]:
    """Divide the planted facts, which stand fold by fold, by their kind."""
    if folds.planted is None:
        return {}
    order = torch.argsort(folds.planted.fold, stable=True).tolist()
    kinds = [folds.planted.kind[place] for place in order]
    return {
        kind: planted.select(torch.tensor([one == kind for one in kinds]))
        for kind in dict.fromkeys(folds.planted.kind)
    }


@dataclass(frozen=True)
class _Part:
    """What the system of one fold judged."""

    collected: Judged
    pools: dict[Noise, Judged]
    proposed: Judged
    planted: Judged


def _judge_fold(
    folds: Folds, fold: int, system: Model, index: TripleIndex, settings: AuditSettings
) -> _Part:
    thresholds, seed = settings.thresholds, settings.seed
    # Counts and roles come from the other folds alone, the validation facts among them.
    others = folds.others(fold)
    comparer = Comparer(system, others, settings.compared, generator(seed, "compare", fold))

    def judged(facts: Tensor, replaced: Tensor | None = None) -> Judged:
        where = torch.full((len(facts),), fold)
        ends = torch.full_like(where, -1) if replaced is None else replaced
        return Judged(facts, where, comparer.features(facts).cpu(), ends)

    mine = folds.graph.facts[folds.fold == fold]
    most = thresholds.pool_facts // folds.count
    pools = {
        kind: judged(*fold_pool(mine, index, kind, fold, most, seed, system)) for kind in KINDS
    }
    proposed = mine[:0]
    if settings.missing:
        wanted = thresholds.candidates_per_missing * settings.missing // folds.count
        proposed = propose(
            system,
            others,
            fold,
            folds.count,
            per_question=settings.per_question,
            most=max(wanted, thresholds.least_candidates),
            role_entities=thresholds.role_entities,
        )
    tested = mine[:0]
    if folds.planted is not None:
        tested = folds.planted.facts[folds.planted.fold == fold]
    return _Part(judged(mine), pools, judged(proposed), judged(tested))
