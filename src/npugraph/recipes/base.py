"""What a recipe is, and what may be searched for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from npugraph.errors import SettingsError
from npugraph.graph import KnowledgeGraph
from npugraph.settings import TrainSettings
from npugraph.training.batch_loss import Training


@dataclass(frozen=True)
class Choices:
    """One of a few values, in no order.

    >>> print(Choices((0.1, 0.01)))
    one of 0.1, 0.01
    """

    values: tuple[str | int | float | bool, ...]

    def __post_init__(self) -> None:
        """Refuse an empty choice."""
        if not self.values:
            raise SettingsError("A choice without values cannot be searched; give at least one.")

    def __str__(self) -> str:
        return "one of " + ", ".join(_word(value) for value in self.values)


@dataclass(frozen=True)
class Range:
    """Any number from low to high, both included.

    >>> print(Range(0, 0.5))
    0 to 0.5
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        """Refuse ends in the wrong order."""
        _check_ends(self.low, self.high)

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class LogRange:
    """Any number from low to high, every order of magnitude as likely as another.

    >>> print(LogRange(1e-4, 0.1))
    0.0001 to 0.1, in powers
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        """Refuse ends in the wrong order, and ends that have no logarithm."""
        _check_ends(self.low, self.high)
        if self.low <= 0:
            raise SettingsError(f"low={self.low} of a range in powers must be more than 0.")

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}, in powers"


@dataclass(frozen=True)
class Whole:
    """A whole number from low to high, both included.

    >>> print(Whole(1, 5))
    1 to 5, whole
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        """Refuse ends in the wrong order."""
        _check_ends(self.low, self.high)

    def __str__(self) -> str:
        return f"{self.low} to {self.high}, whole"


Dimension = Choices | Range | LogRange | Whole


def describe_space(space: Mapping[str, Dimension]) -> list[dict[str, Any]]:
    """Return name, kind, bounds and a text of every searched setting, for tables and JSON.

    >>> describe_space({"margin": Range(1, 5)})
    [{'name': 'margin', 'kind': 'Range', 'low': 1, 'high': 5, 'text': '1 to 5'}]
    """
    return [
        {"name": name, "kind": type(dim).__name__, **asdict(dim), "text": str(dim)}
        for name, dim in space.items()
    ]


def _check_ends(low: float, high: float) -> None:
    # Written so that a nan is refused, too.
    if not float("-inf") < low <= high < float("inf"):
        raise SettingsError(f"A range from {low} to {high} is empty or has no end.")


def _word(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Recipe:
    """A named system: its settings with their defaults, and how its parts are built.

    Attributes:
        name: as given on the command line.
        summary: one line on what it is.
        source: the paper it follows.
        settings: the dataclass of its settings.
        build: makes the training from (settings, the graph of training facts).
        parts: what it is made of, one short phrase each: encoder, scorer, sampler, objective,
            posterior. A part that it does not have is not there.
        space: what ``npugraph tune`` searches: setting to values. Empty: nothing to search.
    """

    name: str
    summary: str
    source: str
    settings: type[TrainSettings]
    build: Callable[[Any, KnowledgeGraph], Training]
    parts: Mapping[str, str] = field(default_factory=dict, hash=False)
    space: Mapping[str, Dimension] = field(default_factory=dict, hash=False)
