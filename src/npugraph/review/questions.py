"""Questions to a folder that stays open: score, predict and explain, by a run or by an audit.

What was trained is loaded once. Questions come from several threads; one is answered at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from npugraph import asking
from npugraph.errors import RunError
from npugraph.explaining import Explanation
from npugraph.fitting import Fitted, load

Fact = tuple[str, str, str]
FACT = ("head", "relation", "tail")


@dataclass(frozen=True)
class Scored:
    """A fact and what is thought of it.

    Attributes:
        head: its name; ``relation`` and ``tail`` likewise, as they were asked for.
        relation: name of the relation.
        tail: name of the tail.
        score: higher is more plausible; null where a name is unknown, or where an audit did not
            judge the fact.
        probability: that it is true; null where the recipe has none, or the audit's verdict
            allows none.
        low: lower end of its 90% interval; null where there is none.
        high: upper end.
        collected: whether the fact is stored.
    """

    head: str
    relation: str
    tail: str
    score: float | None
    probability: float | None
    low: float | None
    high: float | None
    collected: bool


@dataclass(frozen=True)
class Prediction:
    """An entity that answers a question.

    Attributes:
        rank: place, from 1.
        label: name of the entity.
        score: higher is more plausible.
        known: whether the answer is a known fact.
    """

    rank: int
    label: str
    score: float
    known: bool


class Questions(Protocol):
    """What a run and an audit can be asked."""

    def score(self, facts: Sequence[Fact]) -> list[Scored]:
        """Score facts: one out for each one in."""

    def predict(
        self, *, head: str | None, relation: str | None, tail: str | None, k: int, only_new: bool
    ) -> list[Prediction]:
        """Answer (head, relation, ?) or (?, relation, tail), best first."""

    def explain(self, fact: Fact, top: int) -> Explanation:
        """Return the evidence for and against a fact."""


def open_questions(folder: Path, device: str = "auto", *, trust: bool = False) -> Questions:
    """Open a run folder or the folder of an audit.

    Args:
        folder: what fit or audit wrote.
        device: where the system goes.
        trust: execute the run's own recipe file although it has changed.
    """
    if (folder / "audit.json").is_file():
        return AuditQuestions(folder, device, trust)
    return RunQuestions(load(folder, device, trust=trust))


class RunQuestions:
    """Questions to what was fitted."""

    def __init__(self, fitted: Fitted) -> None:
        """Ask ``fitted``."""
        self.fitted, self._one = fitted, Lock()

    def score(self, facts: Sequence[Fact]) -> list[Scored]:
        """Score facts by the system; a row with an unknown name has no score."""
        with self._one:
            rows = asking.score(self.fitted, list(facts)).to_pylist()
        return [_scored(fact, row) for fact, row in zip(facts, rows, strict=True)]

    def predict(
        self, *, head: str | None, relation: str | None, tail: str | None, k: int, only_new: bool
    ) -> list[Prediction]:
        """Rank all entities in the empty place."""
        with self._one:
            found = asking.predict(
                self.fitted, head=head, relation=relation, tail=tail, k=k, only_new=only_new
            )
        return [Prediction(**row) for row in found.to_pylist()]

    def explain(self, fact: Fact, top: int) -> Explanation:
        """Return the evidence by the system and by the facts it was trained on."""
        with self._one:
            return asking.explain(self.fitted, *fact, top=top)


class AuditQuestions:
    """Questions to an audit: what it judged; it has a system per fold, and none for new facts."""

    def __init__(self, folder: Path, device: str, trust: bool) -> None:
        """Ask the audit in ``folder``; nothing is read before the first question."""
        self.folder, self._one = folder, Lock()
        self._explainer = asking.AuditExplainer(folder, device=device, trust=trust)

    @cached_property
    def _judged(self) -> pa.Table:
        return pyarrow.parquet.read_table(self.folder / "posterior.parquet")

    def score(self, facts: Sequence[Fact]) -> list[Scored]:
        """Look facts up among those that the audit judged, stored or proposed."""
        with self._one:
            mask: Any = None
            for place, name in enumerate(FACT):
                asked = pa.array({fact[place] for fact in facts}, pa.string())
                same = pc.is_in(self._judged[name], value_set=asked)
                mask = same if mask is None else pc.and_(mask, same)
            rows = self._judged.filter(mask).to_pylist()
        # Of rows that repeat a fact the first is the one that explain takes.
        found = {tuple(row[name] for name in FACT): row for row in reversed(rows)}
        return [_scored(fact, found.get(fact, {})) for fact in facts]

    def predict(
        self, *, head: str | None, relation: str | None, tail: str | None, k: int, only_new: bool
    ) -> list[Prediction]:
        """Refuse: no one system of an audit has seen all facts."""
        raise RunError(
            "An audit has a system per fold, and none that answers questions; serve a run of "
            "'npugraph fit' instead. The facts that the audit proposes are in missing.tsv."
        )

    def explain(self, fact: Fact, top: int) -> Explanation:
        """Return the evidence; a stored fact is ranked by the system that never saw it."""
        with self._one:
            return self._explainer.explain(fact, top)


def _scored(fact: Fact, row: dict[str, Any]) -> Scored:
    """Make a record of a row; what is no finite number is left out."""

    def number(name: str) -> float | None:
        value = row.get(name)
        return value if value is not None and math.isfinite(value) else None

    return Scored(
        *fact,
        score=number("score"),
        probability=number("probability"),
        low=number("low"),
        high=number("high"),
        collected=bool(row.get("collected")),
    )
