"""The trainings of an audit: a run folder says what to train, and a job trains it.

Systems are opened from their folders when they are asked for, one at a time: those of all folds
need not fit the memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from npugraph.auditing.home import Home
from npugraph.auditing.settings import Stage
from npugraph.errors import RunError
from npugraph.fitting import fit, load
from npugraph.graph import Splits
from npugraph.model import Model
from npugraph.recipes import find_recipe, get_recipe
from npugraph.settings import TrainSettings, make_settings
from npugraph.training.run_folder import Run
from npugraph.training.warm import Start

T = TypeVar("T")


@dataclass(frozen=True)
class Train:
    """Train what a run folder says: a job.

    Attributes:
        folder: the run folder, which was begun.
        recipe: as it was asked for.
        told: what the progress says beside each epoch, such as the fold.
        checkpoint_seconds: least time between two checkpoints.
        start: the run folder whose weights it starts from; None: it starts anew.
        trains: False takes these weights as they are.
    """

    folder: Path
    recipe: str
    told: dict[str, Any]
    checkpoint_seconds: float = 0.0
    start: Path | None = None
    trains: bool = True

    @property
    def needs(self) -> Path:
        """The settings of the run."""
        return self.folder / "settings.json"

    def __str__(self) -> str:
        return f"train {self.folder}"

    def run(self, say: Stage) -> None:
        """Train to the end, from the last checkpoint where there is one."""
        run = Run.open(self.folder)
        if not run.progress().finished:
            settings = make_settings(get_recipe(self.recipe).settings, run.settings)
            start = None if self.start is None else Start(Run.open(self.start), self.trains)
            fit(
                run.splits(),
                self.recipe,
                settings,
                self.folder,
                resume=True,
                report=lambda line: say("epoch", {**self.told, **line}),
                checkpoint_seconds=self.checkpoint_seconds,
                start=start,
            )
        say("trained", self.told)


def begin_run(folder: Path, splits: Splits, recipe: str, settings: TrainSettings) -> None:
    """Write what is to be trained into a run folder, unless it is there; refuse another one."""
    found = find_recipe(recipe)
    if not (folder / "settings.json").is_file():
        whole = splits.without_wrong()
        Run.create(folder, found.recipe.name, settings, whole, found.origin.record())
        return
    try:
        Run.open(folder).check_same(found.recipe.name, settings, splits)
    except RunError as error:
        raise RunError(
            f"{folder} belongs to another graph, or to other folds, settings or seed; repeat "
            f"what was asked for then, or write to another folder. ({error})"
        ) from None


class OnDemand(Sequence[T], Generic[T]):
    """Items that are made when they are asked for; only the last ones are kept."""

    def __init__(self, count: int, make: Callable[[int], T], keep: int = 1) -> None:
        """Make items of numbers 0..count - 1 by ``make``; ``keep`` of them are held at most."""
        self._count, self._make, self._keep = count, make, keep
        self._held: OrderedDict[int, T] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        """Return an item, or a tuple of several."""
        if isinstance(place, slice):
            return tuple(self[one] for one in range(self._count)[place])
        place = range(self._count)[place]
        if place not in self._held:
            # An old one goes before a new one comes.
            while len(self._held) >= self._keep:
                self._held.popitem(last=False)
            self._held[place] = self._make(place)
        self._held.move_to_end(place)
        return self._held[place]


class Systems(OnDemand[Model]):
    """The trained systems of run folders."""

    def __init__(
        self, home: Home, folders: Sequence[Path], recipe: str, device: str, keep: int = 1
    ) -> None:
        """Open them when they are asked for; ``home`` stays as long as they do."""
        self._home, self._folders = home, folders
        super().__init__(
            len(folders), lambda place: load(folders[place], device, recipe=recipe).system, keep
        )

    @property
    def mrr(self) -> float:
        """Of validation, the mean of their best epochs."""
        best = [Run.open(folder).progress().best_mrr for folder in self._folders]
        return sum(best) / len(best)
