"""Where errors come many per entity: facts of entities that stand out are listed first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npugraph.arrays import Ints
from npugraph.auditing.columns import ENDS
from npugraph.auditing.judgement import Judgement
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.statistics.clusters import standing_out
from npugraph.auditing.statistics.columns import LIMIT
from npugraph.graph import KnowledgeGraph
from npugraph.names import shorten

# Entities that a sentence names.
NAMED = 5


@dataclass(frozen=True)
class Cluster:
    """Entities whose facts stand out.

    Attributes:
        end: ``head`` or ``tail``, where they stand.
        entities: their numbers, the most suspicious first [g].
        facts: how many facts each of them has there [g].
    """

    end: str
    entities: Ints
    facts: Ints

    def sentence(self, graph: KnowledgeGraph) -> str:
        """Say who stands out, and what to do about it."""
        label = graph.readable
        names = ", ".join(
            f"{shorten(label(graph.entities.label(int(entity))))} ({count:,} facts)"
            for entity, count in zip(self.entities[:NAMED], self.facts[:NAMED], strict=True)
        )
        more = len(self.entities) - NAMED
        others = f" and {more:,} more" if more > 0 else ""
        return (
            f"As {self.end}s, {len(self.entities):,} entities have facts that are far more "
            f"suspicious than others of the same relations: {names}{others}. Errors seem to come "
            "many per entity, so their facts are listed first; look at them together."
        )


def judge_clusters(
    judged: Judgement, settings: AuditSettings
) -> tuple[Judgement, tuple[Cluster, ...]]:
    """Return a judgement that takes facts of entities that stand out for suspicious, and these.

    Where a source was named, or nothing stands out, the judgement stays as it is. About half of
    such facts may be right all the same, so nothing is promised of the list: see ``judge_trust``.
    """
    if settings.source is not None:
        return judged, ()
    facts = judged.facts.numpy()
    among, found = np.zeros(len(facts), dtype=bool), []
    for end, column in ENDS.items():
        entity = facts[:, column]
        standing = standing_out(judged.score, facts[:, 1], entity, settings.thresholds)
        if len(standing):
            count = np.bincount(entity)[standing]
            found.append(Cluster(end, standing, count))
            among |= np.isin(entity, standing)
    if not found:
        return judged, ()
    return judged.with_odds(np.where(among, LIMIT, 1.0)), tuple(found)
