"""What may be said of a graph: the verdict that follows from the self-test.

There are three verdicts. ``reliable``: probabilities and counts hold, as far as the self-test can
show. ``order``: suspects come first, but how many of them are wrong cannot be told. ``cannot
judge``: even facts planted by the audit itself are hardly told from stored ones.

Pure functions on arrays. Nothing here knows a graph or a system.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from npugraph.auditing.statistics.evidence import TruthModel
from npugraph.auditing.statistics.self_test import CleanTest, SelfTest, told_apart
from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.calibration.class_priors import Interval

Floats = NDArray[np.floating]
Level = Literal["reliable", "order", "cannot judge"]
RELIABLE: Level = "reliable"
ORDER: Level = "order"
CANNOT_JUDGE: Level = "cannot judge"


@dataclass(frozen=True)
class Verdict:
    """What may be said.

    Attributes:
        level: the verdict.
        why: one sentence.
        helps: what would help, one sentence each.
    """

    level: Level
    why: str
    helps: tuple[str, ...] = ()

    @property
    def reliable(self) -> bool:
        """Whether counts and probabilities are shown."""
        return self.level == RELIABLE


def count_interval(value: Floats, low: Floats, high: Floats, level: float) -> Interval:
    """Return how many of some facts a reviewer should find, given the chance of each [n].

    The interval is predictive: it allows for the chances being as ``low`` or as ``high``, and for
    what a count then differs from its mean by.

    >>> count_interval(np.full(100, 0.8), np.full(100, 0.7), np.full(100, 0.9), 0.9)
    Interval(value=80.0, low=62.0, high=95.0)
    """
    from scipy.stats import binom

    count = len(value)
    if not count:
        return Interval(0.0, 0.0, 0.0)
    tail = (1 - level) / 2
    least = float(binom.ppf(tail, count, float(low.mean())))
    most = float(binom.ppf(1 - tail, count, float(high.mean())))
    middle = round(float(value.sum()), 9)
    return Interval(middle, min(least, middle), max(most, middle))


def judge_trust(
    test: SelfTest,
    model: TruthModel,
    promise: Interval,
    *,
    answered: bool = False,
    refuted: bool = False,
    clustered: bool = False,
    by_columns: bool = False,
    thresholds: Thresholds = TUNED,
) -> Verdict:
    """Return the verdict on the suspects.

    Args:
        test: the self-test.
        model: how scores become probabilities.
        promise: how many of the suspects should be wrong.
        answered: whether people's answers carry the probabilities.
        refuted: whether they speak against them.
        clustered: whether errors seem to come many per entity.
        by_columns: whether no count could be promised without the columns of the user.
        thresholds: what was tuned.
    """
    if refuted:
        return Verdict(ORDER, "The answers speak against the probabilities.", (ANSWERS,))
    if answered:
        return _by_answers(promise, thresholds)
    if test.clean is not None and test.clean.refutes:
        why = f"{_of_clean(test.clean)}: the probabilities do not hold."
        return Verdict(ORDER, why, (ANSWERS,))
    if test.planted < thresholds.least_planted:
        why = (
            f"Only {test.planted} facts could be planted to test the audit on this graph; at least "
            f"{thresholds.least_planted} are needed."
        )
        return Verdict(ORDER, why, (ANSWERS, MORE))
    # The pool is of the kinds that seem to be there, planted facts are of all.
    told = max(test.auroc, model.low_end.told)
    if told < thresholds.by_chance:
        why = (
            "Wrong facts planted by the audit itself are hardly told from stored ones here (AUROC "
            f"{told:.2f}; 0.5 is chance)."
        )
        return Verdict(CANNOT_JUDGE, why, (ANSWERS, MORE, SOURCE))
    why = CLUSTERED if clustered else _doubt(test, model, promise, thresholds)
    why = why or (BY_COLUMNS if by_columns else "")
    if why:
        return Verdict(ORDER, why, (ANSWERS, SOURCE))
    why = (
        f"{test.planted:,} wrong facts planted by the audit were told from stored ones (AUROC "
        f"{told:.2f}) and lie where the calibration has them."
    )
    return Verdict(RELIABLE, why if test.clean is None else f"{why} {_of_clean(test.clean)}.")


def _of_clean(clean: CleanTest) -> str:
    """Say how many facts of the clean part are called wrong."""
    return (
        f"Of the {clean.facts:,} facts that are known to be right {clean.called_wrong:,} would be "
        f"called wrong (about {clean.expected:,.1f} by the probabilities)"
    )


CLUSTERED = (
    "Errors seem to come many per entity: all facts of some entities are far more suspicious than "
    "others, and how many of these are wrong cannot be told."
)
BY_COLUMNS = (
    "Without the columns that you named no count could be promised. What they add changes the "
    "order; facts that the audit plants have no such columns, so it is tested by nothing."
)
ANSWERS = "Review some facts drawn at random and give the answers: --answers FILE, 20 or more."
MORE = "More facts per entity: each fact is judged by the others of its two ends."
SOURCE = "A column that says where a fact comes from: --source COLUMN, or --evidence COLUMN."


LISTED = "Judge more of the suspects, too: npugraph review DIR, or --answers FILE."


# On a single relation of a graph whose verdict is better.
OF_RELATION = Verdict(
    ORDER, "Facts of this relation are not told from wrong ones well enough for probabilities."
)


def not_taken_yet(verdict: Verdict, *, columns: bool, lacking: str) -> Verdict:
    """Return a verdict that advises nothing that was done already.

    Args:
        verdict: the verdict.
        columns: whether columns of the user are heeded.
        lacking: which answers there are too few of, as a sentence; empty where none were given,
            or nothing is lacking.
    """
    if verdict.reliable:
        return verdict
    helps = [one for one in verdict.helps if not (columns and one == SOURCE)]
    if not lacking:
        return replace(verdict, helps=tuple(helps))
    helps = [LISTED if one == ANSWERS else one for one in helps]
    return replace(verdict, why=f"{verdict.why} {lacking}", helps=tuple(helps))


def _doubt(test: SelfTest, model: TruthModel, promise: Interval, thresholds: Thresholds) -> str:
    """Return why no count is promised, or nothing."""
    low = model.low_end
    told = max(test.auroc, low.told)
    if told < thresholds.told_apart:
        return (
            "Too many stored facts look like the wrong ones that the audit planted (AUROC "
            f"{told:.2f}): true facts that no system could know are among the suspects."
        )
    if test.at_low_end_high < thresholds.alike:
        return "Planted facts do not lie where the calibration expects wrong facts to lie."
    if not model.priors.identifiable:
        return f"The share of wrong facts cannot be told. {model.priors.reason}"
    if low.supported < low.low:
        return (
            "Facts whose entities are well known are called wrong less often than others: some "
            "suspects are true facts of entities that little is known of."
        )
    if not _firm(promise, thresholds):
        # No ends of the interval: where it is too wide to be promised it often fails to hold.
        return (
            "How many of the suspects are wrong cannot be told: there are few wrong facts of the "
            "kinds that the audit can see, or true facts look like them."
        )
    return ""


def _firm(promise: Interval, thresholds: Thresholds) -> bool:
    """Tell whether a count is worth promising: hardly fewer may be found than are expected."""
    return promise.low >= max(thresholds.firm * promise.value, 1.0)


def _by_answers(promise: Interval, thresholds: Thresholds) -> Verdict:
    """Return the verdict where answers set the probabilities."""
    if not _firm(promise, thresholds):
        why = (
            f"By the answers between {promise.low:,.0f} and {promise.high:,.0f} of the suspects "
            "are wrong, which is too wide to promise a count."
        )
        return Verdict(ORDER, why, (ANSWERS,))
    return Verdict(RELIABLE, "The probabilities follow the answers that were given.")


def judge_proposed(missing_share: Interval | None, thresholds: Thresholds = TUNED) -> Verdict:
    """Return the verdict on the missing facts, by the share of the true facts that they are."""
    if missing_share is None:
        why = (
            f"Fewer than {thresholds.least_found} facts that were held out were found again among "
            "proposals."
        )
        return Verdict(CANNOT_JUDGE, why, (MORE,))
    if missing_share.low <= 0:
        why = (
            "Held-out facts are found again, but a graph that lacks nothing would look the same: "
            "how many of the proposals are true cannot be told."
        )
        return Verdict(ORDER, why)
    why = "Held-out facts are found again often enough to tell how many proposals are true."
    return Verdict(RELIABLE, why)


def judge_relations(
    model: TruthModel,
    relation: NDArray[np.int64],
    planted: tuple[Floats, NDArray[np.int64]],
    overall: Level,
    thresholds: Thresholds = TUNED,
) -> dict[int, Level]:
    """Return the verdict on each relation with enough facts, and planted ones to test it.

    Args:
        model: how scores become probabilities.
        relation: of the collected facts, [n].
        planted: scores [m] and relations [m] of facts known not to be stored.
        overall: no relation is judged better than all.
        thresholds: what was tuned.
    """
    score, of = planted
    found: dict[int, Level] = {}
    for number, count in zip(*np.unique(relation, return_counts=True), strict=True):
        mine = of == number
        if count < thresholds.judged_relation or mine.sum() < thresholds.least_planted:
            continue
        told = told_apart(model.stack.collected[relation == number], score[mine])
        if told < thresholds.by_chance or overall == CANNOT_JUDGE:
            found[int(number)] = CANNOT_JUDGE
        else:
            found[int(number)] = ORDER if told < thresholds.told_apart else overall
    return found
