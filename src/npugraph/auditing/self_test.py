"""Plant a few wrong facts before the folds are cut, so that the audit can test itself.

The planted facts are trained on and judged as stored ones are, so what becomes of them shows what
becomes of errors of their kind in this very graph. They are known to be wrong, are in no list, and
count nowhere.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from npugraph.arrays import first_of_each
from npugraph.auditing.folds import Folds, Planted
from npugraph.auditing.out_of_fold import CrossFit
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.statistics.evidence import TruthModel
from npugraph.auditing.statistics.self_test import SelfTest, check_clean, run_self_test
from npugraph.data.corrupt import FAMILIES, draw_pool
from npugraph.data.corrupt.draw import facts_of_few_heads
from npugraph.graph import TripleIndex
from npugraph.seeds import generator


def plant(folds: Folds, known: TripleIndex, settings: AuditSettings) -> Folds:
    """Return the folds with facts of the self-test planted: some of each kind, as many in each.

    Args:
        folds: of the stored facts.
        known: all facts of the input, those known to be wrong among them; none is planted, nor
            what a system may have seen before.
        settings: ``self_test`` is the share of the stored facts that is planted, of all kinds
            together. Zero plants nothing.
    """
    wanted = per_kind(len(folds.graph), settings)
    if not wanted:
        return folds
    if folds.seen is not None:
        both = torch.cat([known.facts(), folds.seen])
        known = TripleIndex(both, known.num_entities, known.num_relations)
    facts, kinds = folds.graph.facts[:0], []
    for kind in settings.tested:
        rng = generator(settings.seed, "self-test", kind)
        source = folds.graph.facts
        if kind == "one-source":
            # As many stored facts as false ones: about half of what the source says is wrong.
            source = facts_of_few_heads(source, wanted, rng)
        # Twice as many as wanted: what is stored drops out.
        rows = torch.randint(len(source), (2 * wanted,), generator=rng)
        drawn, _ = draw_pool(source[rows], known, kind, rng, source_share=1.0)
        joined = torch.cat([facts, drawn])
        joined = joined[first_of_each(known.codes(joined))][: len(facts) + wanted]
        kinds += [kind] * (len(joined) - len(facts))
        facts = joined
    fold = torch.randperm(len(facts), generator=generator(settings.seed, "self-test folds"))
    return replace(folds, planted=Planted(facts, tuple(kinds), fold % folds.count))


def per_kind(count: int, settings: AuditSettings) -> int:
    """Return how many facts of each kind are planted among ``count`` stored ones."""
    share = settings.self_test * count / len(settings.tested)
    return min(round(share), settings.thresholds.most_planted)


def self_test(
    crossfit: CrossFit,
    model: TruthModel,
    clean: NDArray[np.bool_],
    settings: AuditSettings,
    about: NDArray[np.bool_] | None = None,
) -> SelfTest:
    """Judge the planted facts, each family by what the pools of the others taught.

    ``clean`` says which collected facts [n] are believed to be right, ``about`` which ones the
    planted facts are told from.
    """
    found = run_self_test(
        model,
        crossfit.collected.arrays(),
        {kind: pool.arrays() for kind, pool in crossfit.pools.items()},
        {kind: judged.arrays() for kind, judged in crossfit.planted.items()},
        FAMILIES,
        about=about,
        thresholds=settings.thresholds,
        seed=settings.seed,
    )
    probability, _, high = model.probability(model.stack.collected, collected=True)
    return replace(found, clean=check_clean(probability, high, clean, settings.thresholds))
