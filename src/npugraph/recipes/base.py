"""What a recipe is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from npugraph.graph import KnowledgeGraph
from npugraph.settings import TrainSettings
from npugraph.training import Training


@dataclass(frozen=True)
class Recipe:
    """A named system: its settings with their defaults, and how its parts are built.

    Attributes:
        name: as given on the command line.
        summary: one line on what it is.
        source: the paper it follows.
        settings: the dataclass of its settings.
        build: makes the training from (settings, the graph of training facts).
    """

    name: str
    summary: str
    source: str
    settings: type[TrainSettings]
    build: Callable[[Any, KnowledgeGraph], Training]
