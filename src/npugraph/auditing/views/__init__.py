"""Views: kinds of evidence about facts, each judged by what never saw the fact.

A view gives every fact a few numbers. All views together are the features from which the audit
learns one score. The table below has all of them; to add one, write a file beside this one, give
its name to ``ViewName`` in settings.py, and add its builder here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from npugraph.auditing.settings import ViewName
from npugraph.auditing.views.base import Ranking, View, ViewInputs
from npugraph.auditing.views.embedding import embedding_view
from npugraph.auditing.views.names import names_view
from npugraph.auditing.views.near import near_view
from npugraph.auditing.views.pairs import pairs_view
from npugraph.auditing.views.path import path_view
from npugraph.auditing.views.roles import roles_view
from npugraph.auditing.views.suited import suited_views

__all__ = ["VIEWS", "Ranking", "View", "ViewInputs", "build_views", "suited_views"]

VIEWS: Mapping[ViewName, Callable[[ViewInputs], View]] = {
    "embedding": embedding_view,
    "names": names_view,
    "near": near_view,
    "pairs": pairs_view,
    "path": path_view,
    "roles": roles_view,
}


def build_views(inputs: ViewInputs, names: tuple[ViewName, ...]) -> tuple[View, ...]:
    """Build some views, in the order of their names; trains what they need."""
    return tuple(VIEWS[name](inputs) for name in names)
