"""Which views suit a graph: those that bring more than they cost."""

from __future__ import annotations

from npugraph.auditing.settings import AuditSettings, ViewName, has_paths
from npugraph.auditing.views.names import carry
from npugraph.auditing.views.parts import is_sparse
from npugraph.graph import KnowledgeGraph

# With more entities than this, views that hold something per entity for good stay out by default.
MOST_ENTITIES = 500_000


def suited_views(graph: KnowledgeGraph, settings: AuditSettings) -> tuple[ViewName, ...]:
    """Return the views that are asked for, or those that suit the graph.

    They are that of the recipe, and those that need no training: ``near`` where facts are few,
    ``names`` where the names carry something.
    """
    if settings.views:
        return settings.views
    views: tuple[ViewName, ...] = ("path" if has_paths(settings.recipe) else "embedding", "roles")
    if graph.num_entities > MOST_ENTITIES:
        return views
    # Neither repeats nor the order of the rows may change what is taken.
    distinct = graph.with_facts(graph.index().facts())
    if is_sparse(len(distinct), graph.num_entities):
        views = (*views, "near")
    return (*views, "names") if carry(distinct, settings.seed) else views
