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
    from npugraph.asking import evaluate, explain, predict, score
    from npugraph.auditing import Audit, AuditSettings, audit
    from npugraph.auditing.issues import Issues, find_issues
    from npugraph.calibration.calibrate import Calibration, calibrate
    from npugraph.calibration.class_priors import Priors
    from npugraph.data.io import ReadOptions, read_graph, read_splits
    from npugraph.data.perturb import PerturbSettings, perturb
    from npugraph.data.sources import load_graph
    from npugraph.errors import DataError, NpugraphError, RunError, SettingsError
    from npugraph.fitting import Fitted, fit, load
    from npugraph.graph import KnowledgeGraph, Splits, TripleIndex, Vocabulary
    from npugraph.ranking.evaluate import Evaluation
    from npugraph.ranking.ranks import rank
    from npugraph.recipes import RECIPES
    from npugraph.recipes.base import Recipe
    from npugraph.tuning import Tuned, tune

# The package logs what it does and prints nothing; whoever wants to see it adds a handler.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# Where each public name lives; a name must not be that of a module of this package.
_HOME = {
    "asking": ("evaluate", "explain", "predict", "score"),
    "auditing": ("Audit", "AuditSettings", "audit"),
    "auditing.issues": ("Issues", "find_issues"),
    "calibration.calibrate": ("Calibration", "calibrate"),
    "calibration.class_priors": ("Priors",),
    "data.io": ("ReadOptions", "read_graph", "read_splits"),
    "data.perturb": ("PerturbSettings", "perturb"),
    "data.sources": ("load_graph",),
    "errors": ("DataError", "NpugraphError", "RunError", "SettingsError"),
    "fitting": ("Fitted", "fit", "load"),
    "graph": ("KnowledgeGraph", "Splits", "TripleIndex", "Vocabulary"),
    "ranking.evaluate": ("Evaluation",),
    "ranking.ranks": ("rank",),
    "recipes": ("RECIPES",),
    "recipes.base": ("Recipe",),
    "tuning": ("Tuned", "tune"),
}

__all__ = [
    "RECIPES",
    "Audit",
    "AuditSettings",
    "Calibration",
    "DataError",
    "Evaluation",
    "Fitted",
    "Issues",
    "KnowledgeGraph",
    "NpugraphError",
    "PerturbSettings",
    "Priors",
    "ReadOptions",
    "Recipe",
    "RunError",
    "SettingsError",
    "Splits",
    "TripleIndex",
    "Tuned",
    "Vocabulary",
    "__version__",
    "audit",
    "calibrate",
    "evaluate",
    "explain",
    "find_issues",
    "fit",
    "load",
    "load_graph",
    "perturb",
    "predict",
    "rank",
    "read_graph",
    "read_splits",
    "score",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"npugraph.{module}"), name)
    raise AttributeError(f"module 'npugraph' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, imported or not yet."""
    return sorted(__all__)
