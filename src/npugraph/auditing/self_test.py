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
from torch import Tensor

from npugraph.arrays import first_of_each
from npugraph.auditing.folds import Folds, Planted
from npugraph.auditing.out_of_fold import CrossFit
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.statistics.evidence import TruthModel
from npugraph.auditing.statistics.self_test import SelfTest, check_clean, run_self_test
from npugraph.data.corrupt import FAMILIES, HEAD, TAIL, draw_pool
from npugraph.data.corrupt.draw import facts_of_few_heads
from npugraph.data.corrupt.replace import draw_ends
from npugraph.graph import KnowledgeGraph, Side, TripleIndex
from npugraph.model import Model
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
        joined = joined[first_of_each(known.key(joined))][: len(facts) + wanted]
        kinds += [kind] * (len(joined) - len(facts))
        facts = joined
    fold = torch.randperm(len(facts), generator=generator(settings.seed, "self-test folds"))
    return replace(folds, planted=Planted(facts, tuple(kinds), fold % folds.count))


def per_kind(count: int, settings: AuditSettings) -> int:
    """Return how many facts of each kind are planted among ``count`` stored ones."""
    share = settings.self_test * count / len(settings.tested)
    return min(round(share), settings.thresholds.most_planted)


def self_test(
    crossfit: CrossFit, model: TruthModel, clean: NDArray[np.bool_], settings: AuditSettings
) -> SelfTest:
    """Judge the planted facts, each family by what the pools of the others taught.

    ``clean`` says which collected facts [n] are believed to be right.
    """
    found = run_self_test(
        model,
        crossfit.collected.arrays(),
        {kind: pool.arrays() for kind, pool in crossfit.pools.items()},
        {kind: judged.arrays() for kind, judged in crossfit.planted.items()},
        FAMILIES,
        thresholds=settings.thresholds,
        seed=settings.seed,
    )
    probability, _, high = model.probability(model.stack.collected, collected=True)
    return replace(
        found,
        corrected=corrected_share(crossfit, settings),
        clean=check_clean(probability, high, clean, settings.thresholds),
    )


@torch.no_grad()
def corrected_share(crossfit: CrossFit, settings: AuditSettings) -> float:
    """Return the share of right ones among corrections: an end of stored facts is replaced.

    The system of a fact's own fold never saw it. A correction is the best answer of either side
    that is seen in the role, if it is not stored; the right one is what stood there.
    """
    folds, right, proposed = crossfit.folds, 0, 0
    wanted = settings.thresholds.corrected_facts // folds.count
    for fold, system in enumerate(crossfit.systems):
        rng = generator(settings.seed, "corrections", fold)
        mine = folds.graph.facts[folds.fold == fold]
        facts = mine[torch.randperm(len(mine), generator=rng)[:wanted]]
        ends = draw_ends(len(facts), rng).tolist()
        entity = torch.randint(folds.graph.num_entities, (len(facts),), generator=rng).tolist()
        system.eval()
        for fact, end, other in zip(facts, ends, entity, strict=True):
            wrong = fact.clone()
            wrong[end] = other
            best = _best_repair(system, folds.graph, wrong, fact)
            proposed += best is not None
            right += best == (end, int(fact[end]))
    return right / proposed if proposed else 0.0


def _best_repair(
    system: Model, graph: KnowledgeGraph, wrong: Tensor, original: Tensor
) -> tuple[int, int] | None:
    """Return the end and the entity that a wrong fact [3] is best repaired by, or None."""
    own = graph.facts[graph.facts[:, 1] == wrong[1]]
    own = own[(own != original).any(1)]
    options = []
    for end in (HEAD, TAIL):
        known = wrong[TAIL - end]
        role = torch.unique(torch.cat([own[:, end], original[[end]]]))
        asked = known.to(system.device).unsqueeze(0)
        side: Side = "head" if end == HEAD else "tail"
        relation = wrong[1].to(system.device).unsqueeze(0)
        scores = system.score_among(asked, relation, side, role.to(system.device))[0].cpu()
        scores[(role == wrong[end]) | (role == known)] = -torch.inf
        best = int(scores.argmax())
        stored = ((own[:, end] == role[best]) & (own[:, TAIL - end] == known)).any()
        if not stored and torch.isfinite(scores[best]):
            options.append((float(scores[best]), end, int(role[best])))
    return max(options)[1:] if options else None
