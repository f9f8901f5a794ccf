"""Which views suit a graph: those that bring more than they cost."""

from __future__ import annotations

from npugraph.auditing.settings import AuditSettings, ViewName, has_paths
from npugraph.auditing.views.names import carry
from npugraph.graph import KnowledgeGraph

# With more entities than this, views that hold something per entity for good stay out by default.
MOST_ENTITIES = 500_000


def suited_views(graph: KnowledgeGraph, settings: AuditSettings) -> tuple[ViewName, ...]:
    """Return the views that are asked for, or those that suit the graph.

    They are that of the recipe, and those that are counted without any training: ``names`` only
    where the names carry something.
    """
    if settings.views:
        return settings.views
    views: tuple[ViewName, ...] = ("path" if has_paths(settings.recipe) else "embedding", "roles")
    if graph.num_entities > MOST_ENTITIES:
        return views
    views = (*views, "near")
    return (*views, "names") if carry(graph, settings.seed) else views
