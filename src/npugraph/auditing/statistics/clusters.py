"""Entities whose facts stand out: where errors come many per entity.

A page that was misread, a key that was mixed up, two entities that were taken for one: such errors
support one another, so none of them is among the most suspicious facts of a graph. But all facts of
the entity together are more suspicious than those of others.

The suspicion of a fact is its place among all facts by score, from 0 to 1, beyond what is usual for
its relation. The mean over the facts of an entity is compared with the median over all entities,
beside how much such means spread: the spread of most of them, by their median absolute deviation,
and what chance adds where facts are few. A few entities stand out on any graph, since some are
harder to know than others. So this speaks only where those that do have many facts together.

Pure functions on arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from npugraph.arrays import Ints, same_length
from npugraph.auditing.statistics.columns import pooled
from npugraph.auditing.thresholds import TUNED, Thresholds

# The standard deviation of a normal distribution beside its median absolute deviation.
NORMAL = 1.4826


def standing_out(
    score: NDArray[np.floating], relation: Ints, entity: Ints, thresholds: Thresholds = TUNED
) -> Ints:
    """Return the entities whose facts stand out, the most suspicious first; none where few do.

    Args:
        score: of the facts [n]; higher is more plausible.
        relation: of the facts [n].
        entity: at one end of the facts [n].
        thresholds: what was tuned.
    """
    same_length(score, relation, "score and relation")
    same_length(score, entity, "score and entity")
    nobody = np.zeros(0, dtype=np.int64)
    labels, place, count = np.unique(entity, return_inverse=True, return_counts=True)
    enough = count >= thresholds.cluster_facts
    if enough.sum() < thresholds.cluster_facts:
        return nobody
    suspicion = 0.5 - rankdata(score) / len(score)
    suspicion -= pooled(suspicion, relation)[0]
    mean = np.bincount(place, suspicion) / count
    middle = float(np.median(mean[enough]))
    by_chance = suspicion.var() / count
    spread = (NORMAL * float(np.median(np.abs(mean[enough] - middle)))) ** 2
    between = max(spread - float(np.median(by_chance[enough])), 0.0)
    beyond = (mean - middle) / np.sqrt(between + by_chance)
    found = enough & (beyond >= thresholds.cluster_beyond)
    found &= mean - middle >= thresholds.cluster_excess
    if count[found].sum() < thresholds.cluster_share * len(score):
        return nobody
    order = np.argsort(-beyond[found], kind="stable")
    chosen: Ints = labels[found][order]
    return chosen
