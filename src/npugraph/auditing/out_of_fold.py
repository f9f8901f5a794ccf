"""Judge every fact by what never saw it.

What was trained on a wrong fact knows it by heart. So the facts are cut into folds, and each view
judges the facts of a fold by what never saw them, and a pool of uncollected facts to compare them
with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from npugraph.auditing.folds import Folds
from npugraph.auditing.judged import Judged
from npugraph.auditing.judging import judge_folds, judged_as, ranking_view
from npugraph.auditing.material import Material
from npugraph.auditing.views import View, ViewInputs
from npugraph.data.corrupt import Noise
from npugraph.model import Model


@dataclass(frozen=True)
class CrossFit:
    """The collected facts of a graph, and uncollected ones, judged out of fold.

    Attributes:
        folds: which fold each fact is in.
        systems: by fold, the system that was not trained on it.
        views: what judged the facts.
        collected: the collected facts, in key order.
        pools: uncollected facts by kind.
        proposed: what each system would answer; facts of its own fold may be among it.
        known_wrong: the stored facts that are known to be wrong, which nothing was trained on.
        planted: the facts of the self-test by kind, judged as the collected ones are.
    """

    folds: Folds
    systems: Sequence[Model]
    views: tuple[View, ...]
    collected: Judged
    pools: dict[Noise, Judged]
    proposed: Judged
    known_wrong: Judged
    planted: dict[Noise, Judged] = field(default_factory=dict)


def judge_out_of_fold(
    inputs: ViewInputs, views: tuple[View, ...], known_wrong: Tensor | None = None
) -> CrossFit:
    """Judge every fact, the pools and the proposals by what never saw them.

    Stored facts that are known to be wrong [k, 3] are in no fold; each is judged as if in one.
    What was judged before, in the same folder by the same systems, is read again.
    """
    folds, settings = inputs.folds, inputs.settings
    wrong = folds.graph.facts[:0] if known_wrong is None else known_wrong
    parts = judge_folds(Material(inputs, views, wrong))
    place = torch.cat([torch.nonzero(folds.fold == fold).squeeze(1) for fold in range(folds.count)])
    return CrossFit(
        folds,
        ranking_view(views).systems,
        views,
        Judged.join([part.collected for part in parts]).select(torch.argsort(place)),
        {kind: Judged.join([part.pools[kind] for part in parts]) for kind in settings.kinds},
        Judged.join([part.proposed for part in parts]),
        Judged.join([part.known_wrong for part in parts]).select(
            torch.argsort(torch.argsort(judged_as(wrong, folds.count), stable=True))
        ),
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
