"""What a view is, and what it may be built from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from torch import Tensor

from npugraph.auditing.folds import Folds
from npugraph.auditing.settings import AuditSettings, Stage
from npugraph.graph import KnowledgeGraph
from npugraph.model import Model
from npugraph.settings import TrainSettings


@dataclass(frozen=True)
class ViewInputs:
    """All that a view may be built from.

    Attributes:
        graph: the graph as given, repeats, labels and all.
        folds: the distinct facts that are judged, and which fold each of them is in.
        settings: what is asked for.
        training: the settings of the recipe.
        out: a folder for what is trained, or None.
        say: told each stage.
    """

    graph: KnowledgeGraph
    folds: Folds
    settings: AuditSettings
    training: TrainSettings
    out: Path | None
    say: Stage


class View(Protocol):
    """One kind of evidence.

    Attributes:
        name: as in the table of views.
        columns: the names of its features.
    """

    name: str
    columns: tuple[str, ...]

    def features(self, facts: Tensor, fold: int) -> Tensor:
        """Return the features of facts [n, 3], stored or not: float32 [n, len(columns)], on a CPU.

        They are those of facts of this fold: nothing that saw the stored facts of the fold as
        true may judge them, and uncollected facts are judged in the same way.
        """


@runtime_checkable
class Ranking(View, Protocol):
    """A view with systems that score any entity: they propose missing facts and explain.

    Attributes:
        systems: by fold, a system that knows nothing of the fold's facts.
        score: the two columns, of tail and head, whose mean is the plain score.
    """

    systems: tuple[Model, ...]
    score: tuple[str, str]
