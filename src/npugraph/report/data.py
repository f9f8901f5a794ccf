"""What a report shows: plain frozen records, filled by the audit and free of any model.

Shares and probabilities lie in [0, 1]; intervals are central 90% intervals; higher scores are more
plausible. Labels and sentences are text, never markup: the page escapes all of it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from npugraph.errors import DataError
from npugraph.report.issues import IssueGroup
from npugraph.version import __version__

# Every interval of the report covers this share.
INTERVAL = 0.9


@dataclass(frozen=True)
class Estimate:
    """A number with its 90% interval; ``low`` and ``high`` are both given or both None.

    The interval need not hold the value: a percentile interval of a skewed bootstrap may not.

    >>> Estimate(0.04, 0.03, 0.05).has_interval
    True
    """

    value: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        for name, number in (("value", self.value), ("low", self.low), ("high", self.high)):
            if number is not None and not math.isfinite(number):
                raise DataError(
                    f"An estimate has {name}={number}; give a finite number, "
                    "or no estimate where there is none."
                )
        if (self.low is None) != (self.high is None):
            raise DataError(
                f"An interval of a report has two ends or none, not low={self.low} "
                f"and high={self.high}."
            )
        if self.low is not None and self.high is not None and self.low > self.high:
            raise DataError(f"The interval [{self.low}, {self.high}] of a report is turned round.")

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval to show."""
        return self.low is not None


@dataclass(frozen=True)
class GraphSummary:
    """The audited graph: its name and its sizes."""

    name: str
    facts: int
    entities: int
    relations: int

    def __post_init__(self) -> None:
        """Refuse negative sizes."""
        _check_counts(self, "facts", "entities", "relations")


@dataclass(frozen=True)
class Setting:
    """One row of the settings table; ``changed`` marks a value that is not the default."""

    name: str
    value: str
    help: str = ""
    changed: bool = False


@dataclass(frozen=True)
class Provenance:
    """How the result was made; it holds no date, so that equal runs give equal files."""

    recipe: str
    seed: int
    folds: int
    settings: tuple[Setting, ...] = ()
    version: str = __version__


@dataclass(frozen=True)
class RelationHealth:
    """One relation: how many stored facts, and the share of them that is wrong (None: unknown)."""

    relation: str
    facts: int
    wrong: Estimate | None = None

    def __post_init__(self) -> None:
        """Refuse a share outside [0, 1]."""
        _check_counts(self, "facts")
        _check_share(self.wrong, f"The share of wrong facts of relation {self.relation!r}")


@dataclass(frozen=True)
class Health:
    """The estimated shares of wrong and of missing facts.

    Attributes:
        wrong: share of all stored facts that is wrong, or None where it is not identifiable.
        reason: why it is not identifiable, as a sentence; needed where ``wrong`` is None.
        by_relation: the same for each relation, in any order.
        missing: share of the true facts that is not stored, or None where it cannot be told.
        wrong_end: the end, head or tail, at which most wrong facts are wrong, or None.
    """

    wrong: Estimate | None
    reason: str = ""
    by_relation: tuple[RelationHealth, ...] = ()
    missing: Estimate | None = None
    wrong_end: str | None = None

    def __post_init__(self) -> None:
        """A missing estimate must say why."""
        _check_share(self.wrong, "The share of wrong facts")
        _check_share(self.missing, "The share of missing facts")
        if self.wrong is None and not self.reason.strip():
            raise DataError(
                "The share of wrong facts is None without a reason; say in Health.reason why it "
                "is not identifiable."
            )


@dataclass(frozen=True)
class Evidence:
    """Short sentences on one fact, in four groups; any of them may be empty.

    Attributes:
        supporting: what speaks for the fact.
        contradicting: what speaks against it.
        usual: what facts of this kind look like.
        alternatives: facts that fit better, best first.
    """

    supporting: tuple[str, ...] = ()
    contradicting: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Correction:
    """A proposed repair: put ``label`` in the place of the fact's ``side``.

    Where the fact that this makes is ``stored`` already, there is nothing to put there.
    """

    side: Literal["head", "relation", "tail"]
    label: str
    stored: bool = False


@dataclass(frozen=True)
class FactRow:
    """One fact of a review list; its rank is its place in the list.

    Attributes:
        head: label of the head.
        relation: label of the relation.
        tail: label of the tail.
        probability: that the fact is true, in [0, 1]; None where that cannot be told.
        score: of the model, higher is more plausible.
        correction: proposed repair of a suspect, or None.
        evidence: shown on demand.
        mark: a short word shown beside the fact, such as ``planted`` in the demo.
    """

    head: str
    relation: str
    tail: str
    probability: Estimate | None
    score: float
    correction: Correction | None = None
    evidence: Evidence = field(default_factory=Evidence)
    mark: str = ""

    def __post_init__(self) -> None:
        """Refuse a probability outside [0, 1] and a score that cannot be sorted."""
        fact = f"({self.head!r}, {self.relation!r}, {self.tail!r})"
        _check_share(self.probability, f"The probability of {fact}")
        if not math.isfinite(self.score):
            raise DataError(f"The score of {fact} is {self.score}; a report needs finite scores.")


@dataclass(frozen=True)
class ReliabilityBin:
    """Facts of similar predicted probability: its mean, the observed share of true ones, n."""

    predicted: float
    observed: Estimate
    count: int

    def __post_init__(self) -> None:
        """Refuse shares outside [0, 1]."""
        _check_counts(self, "count")
        _check_share(Estimate(self.predicted), "The predicted probability of a reliability bin")
        _check_share(self.observed, "The observed share of a reliability bin")


@dataclass(frozen=True)
class Reliability:
    """The reliability plot; ``source`` is a sentence on where the observed truth comes from."""

    bins: tuple[ReliabilityBin, ...]
    source: str = ""


@dataclass(frozen=True)
class YieldPoint:
    """Wrong facts among the first ``budget`` suspects.

    Attributes:
        budget: facts reviewed.
        expected: wrong facts the posterior expects among them, with its interval.
        observed: wrong facts that really are among them, where the truth is known.
    """

    budget: int
    expected: Estimate
    observed: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be counted."""
        _check_counts(self, "budget")
        numbers = (self.expected.value, self.expected.low, self.observed)
        if any(number is not None and not 0 <= number < math.inf for number in numbers):
            raise DataError(f"A count of the yield curve at budget {self.budget} is negative.")


@dataclass(frozen=True)
class Coefficient:
    """One coefficient of the collection model, with a sentence on what it means."""

    name: str
    value: Estimate
    meaning: str = ""


@dataclass(frozen=True)
class ViewRow:
    """What a kind of evidence brings against one kind of false facts.

    Attributes:
        view: the kind of evidence.
        features: how many numbers it gives a fact.
        kind: the kind of false facts.
        together: AUROC of stored facts against these, by all views.
        without: by all others; None where there is no other.
        alone: by this view alone.
    """

    view: str
    features: int
    kind: str
    together: float
    without: float | None
    alone: float


@dataclass(frozen=True)
class FamilyRow:
    """Planted facts of one family: how many, and how well they were told from stored ones."""

    family: str
    planted: int
    auroc: float
    called_wrong: float


@dataclass(frozen=True)
class Assessment:
    """The verdict, which the report begins with.

    Attributes:
        level: ``reliable``, ``order`` or ``cannot judge``.
        why: a sentence.
        helps: what would help, a sentence each.
        missing_level: the verdict on the missing facts.
        missing_why: a sentence.
        wrong: how many suspects should be wrong, or None where nothing is promised.
        true: how many missing facts should be true, likewise.
        families: the self-test, by family.
        next: commands to go on with, each with what it does.
        reliability: the curve of the self-test, or None where there are no probabilities.
    """

    level: str
    why: str
    helps: tuple[str, ...] = ()
    missing_level: str = ""
    missing_why: str = ""
    wrong: Estimate | None = None
    true: Estimate | None = None
    families: tuple[FamilyRow, ...] = ()
    next: tuple[tuple[str, str], ...] = ()
    reliability: Reliability | None = None


@dataclass(frozen=True)
class PlantedCheck:
    """What the demo knows: ``found`` of the ``planted`` facts are among the ``listed`` ones.

    >>> check = PlantedCheck(planted=40, found=30, listed=60)
    >>> check.precision, check.recall
    (0.5, 0.75)
    """

    planted: int
    found: int
    listed: int

    def __post_init__(self) -> None:
        """Refuse counts that contradict each other."""
        _check_counts(self, "planted", "found", "listed")
        if self.found > min(self.planted, self.listed):
            raise DataError(
                f"{self.found} planted facts cannot be found among {self.listed} listed and "
                f"{self.planted} planted ones."
            )

    @property
    def precision(self) -> float | None:
        """Share of the list that was planted; None for an empty list."""
        return self.found / self.listed if self.listed else None

    @property
    def recall(self) -> float | None:
        """Share of the planted facts that is in the list; None where none was planted."""
        return self.found / self.planted if self.planted else None


@dataclass(frozen=True)
class ReportData:
    """All of one report.

    Attributes:
        graph: what was audited.
        provenance: how.
        health: the estimated share of wrong facts.
        suspects: stored facts that may be wrong, most suspicious first.
        missing: facts that are not stored but probably true, most probable first.
        reliability: how far the probabilities can be trusted, or None where no truth is known.
        yield_curve: wrong facts against facts reviewed, budgets rising.
        collection: coefficients of the collection model.
        warnings: sentences on why the result should not be trusted; shown at the top.
        planted: the demo's planted errors against the suspects, or None.
        removed: the demo's removed true facts against the missing facts, or None.
        issues: what was found without a model, by kind.
        names: how names are shown (labels, short IRIs), where not as they are.
        views: what each kind of evidence brings.
        assessment: the verdict, or None where there is none.
    """

    graph: GraphSummary
    provenance: Provenance
    health: Health
    suspects: tuple[FactRow, ...] = ()
    missing: tuple[FactRow, ...] = ()
    reliability: Reliability | None = None
    yield_curve: tuple[YieldPoint, ...] = ()
    collection: tuple[Coefficient, ...] = ()
    warnings: tuple[str, ...] = ()
    planted: PlantedCheck | None = None
    removed: PlantedCheck | None = None
    issues: tuple[IssueGroup, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    views: tuple[ViewRow, ...] = ()
    assessment: Assessment | None = None

    def __post_init__(self) -> None:
        """Refuse a yield curve that runs backwards."""
        budgets = [point.budget for point in self.yield_curve]
        if any(b <= a for a, b in zip(budgets, budgets[1:], strict=False)):
            raise DataError(f"The budgets of the yield curve must rise, but are {budgets[:12]}.")


def settings_rows(settings: Any) -> tuple[Setting, ...]:
    """Return the settings table of a settings dataclass: name, value, help, changed or not.

    >>> from npugraph.settings import TrainSettings
    >>> settings_rows(TrainSettings(epochs=3))[0]
    Setting(name='epochs', value='3', help='passes over the training facts', changed=True)
    """
    rows = []
    for item in dataclasses.fields(settings):
        value = getattr(settings, item.name)
        # A field without a default has nothing to differ from.
        default = value if item.default is dataclasses.MISSING else item.default
        rows.append(
            Setting(item.name, str(value), str(item.metadata.get("help", "")), value != default)
        )
    return tuple(rows)


def _check_counts(record: Any, *names: str) -> None:
    for name in names:
        if getattr(record, name) < 0:
            kind = type(record).__name__
            raise DataError(f"{kind}.{name}={getattr(record, name)} is negative; it is a count.")


def _check_share(estimate: Estimate | None, what: str) -> None:
    if estimate is None:
        return
    for number in (estimate.value, estimate.low, estimate.high):
        if number is not None and not 0 <= number <= 1:
            raise DataError(f"{what} has {number}; a share lies in [0, 1].")
