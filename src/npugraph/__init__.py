"""npugraph: find the wrong and the missing facts of a knowledge graph.

The names below are imported on first use, so that ``import npugraph`` stays light.

>>> import npugraph
>>> world = npugraph.load_graph()
>>> world.name
'world'
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from npugraph.version import __version__

if TYPE_CHECKING:
    from npugraph.auditing import Audit, AuditSettings, audit
    from npugraph.data.io import read_graph, read_splits
    from npugraph.data.sources import load_graph
    from npugraph.errors import DataError, NpugraphError, RunError, SettingsError
    from npugraph.fitting import Fitted, fit, load
    from npugraph.graph import KnowledgeGraph, Splits, TripleIndex, Vocabulary
    from npugraph.ranking.evaluate import evaluate
    from npugraph.ranking.ranks import rank
    from npugraph.recipes import RECIPES

# The package logs what it does and prints nothing; whoever wants to see it adds a handler.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "RECIPES",
    "Audit",
    "AuditSettings",
    "DataError",
    "Fitted",
    "KnowledgeGraph",
    "NpugraphError",
    "RunError",
    "SettingsError",
    "Splits",
    "TripleIndex",
    "Vocabulary",
    "__version__",
    "audit",
    "evaluate",
    "fit",
    "load",
    "load_graph",
    "rank",
    "read_graph",
    "read_splits",
]

# Where each public name lives; a name must not be that of a module of this package.
_HOME = {
    "auditing": ("Audit", "AuditSettings", "audit"),
    "data.sources": ("load_graph",),
    "errors": ("DataError", "NpugraphError", "RunError", "SettingsError"),
    "ranking.evaluate": ("evaluate",),
    "graph": ("KnowledgeGraph", "Splits", "TripleIndex", "Vocabulary"),
    "data.io": ("read_graph", "read_splits"),
    "ranking.ranks": ("rank",),
    "recipes": ("RECIPES",),
    "fitting": ("Fitted", "fit", "load"),
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"npugraph.{module}"), name)
    raise AttributeError(f"module 'npugraph' has no attribute {name!r}")
