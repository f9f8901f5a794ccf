"""Plant a few wrong facts before the folds are cut, so that the audit can test itself.

The planted facts are trained on and judged as stored ones are, so what becomes of them shows what
becomes of errors of their kind in this very graph. They are known to be wrong, are in no list, and
count nowhere.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from npugraph.arrays import first_of_each
from npugraph.auditing.folds import Folds, Planted
from npugraph.auditing.pools import KINDS
from npugraph.auditing.settings import AuditSettings
from npugraph.data.corrupt import draw_pool
from npugraph.graph import TripleIndex
from npugraph.seeds import generator


def plant(folds: Folds, known: TripleIndex, settings: AuditSettings) -> Folds:
    """Return the folds with facts of the self-test planted: some of each kind, as many in each.

    Args:
        folds: of the stored facts.
        known: all facts of the input, those known to be wrong among them; none is planted.
        settings: ``self_test`` is the share of the stored facts that is planted, of all kinds
            together. Zero plants nothing.
    """
    wanted = per_kind(len(folds.graph), settings)
    if not wanted:
        return folds
    facts, kinds = folds.graph.facts[:0], []
    for kind in KINDS:
        rng = generator(settings.seed, "self-test", kind)
        # Twice as many as wanted: what is stored drops out.
        rows = torch.randint(len(folds.graph), (2 * wanted,), generator=rng)
        drawn, _ = draw_pool(folds.graph.facts[rows], known, kind, rng)
        joined = torch.cat([facts, drawn])
        joined = joined[first_of_each(known.key(joined))][: len(facts) + wanted]
        kinds += [kind] * (len(joined) - len(facts))
        facts = joined
    fold = torch.randperm(len(facts), generator=generator(settings.seed, "self-test folds"))
    return replace(folds, planted=Planted(facts, tuple(kinds), fold % folds.count))


def per_kind(count: int, settings: AuditSettings) -> int:
    """Return how many facts of each kind are planted among ``count`` stored ones."""
    share = settings.self_test * count / len(KINDS)
    return min(round(share), settings.thresholds.most_planted)
