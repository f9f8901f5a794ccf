"""What a view is, and what it may be built from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from npugraph.auditing.folds import Folds
from npugraph.auditing.home import Home
from npugraph.auditing.settings import AuditSettings, Stage
from npugraph.auditing.since import Since
from npugraph.auditing.tasks import InProcess, Job, Tasks
from npugraph.model import Model
from npugraph.settings import TrainSettings


def _nothing(_: str, __: dict[str, Any]) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class ViewInputs:
    """All that a view may be built from.

    Attributes:
        folds: the distinct facts that are judged, and which fold each of them is in.
        settings: what is asked for.
        training: the settings of the recipe.
        home: the folder for what is trained.
        tasks: who trains it; None: it is trained already.
        say: told each stage.
        since: what systems start from, where there is an earlier audit.
    """

    folds: Folds
    settings: AuditSettings
    training: TrainSettings
    home: Home = field(default_factory=Home)
    tasks: Tasks | None = field(default_factory=InProcess)
    say: Stage = _nothing
    since: Since | None = None

    def run(self, jobs: Sequence[Job]) -> None:
        """Have jobs done, whoever does them."""
        if self.tasks is not None:
            self.tasks.run(jobs, self.say)


class View(Protocol):
    """One kind of evidence.

    Attributes:
        name: as in the table of views.
        columns: the names of its features.
    """

    name: str
    columns: tuple[str, ...]

    def features(self, facts: Tensor, fold: int, more: Tensor | None = None) -> Tensor:
        """Return the features of facts [n, 3], stored or not: float32 [n, len(columns)], on a CPU.

        They are those of facts of this fold: nothing that saw the stored facts of the fold as
        true may judge them, and uncollected facts are judged in the same way.

        Args:
            facts: what is judged.
            fold: the number of the fold.
            more: float32 [n, 2], answers to the question of the tail, and to that of the head, that
                count as stored beside those that are; None: no more. What is no count may heed it
                or not.
        """


@runtime_checkable
class Ranking(View, Protocol):
    """A view with systems that score any entity: they propose missing facts and explain.

    Attributes:
        systems: by fold, a system that knows nothing of the fold's facts.
        score: the two columns, of tail and head, whose mean is the plain score.
        mrr: of validation, the mean of the systems.
    """

    systems: Sequence[Model]
    score: tuple[str, str]
    mrr: float
