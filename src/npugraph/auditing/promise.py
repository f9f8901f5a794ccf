"""Which facts are suspects, and how many of them should be wrong."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from npugraph.auditing.clusters import Cluster
from npugraph.auditing.judgement import Judgement
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.statistics.evidence import TruthModel
from npugraph.auditing.statistics.review_lists import find_suspect_facts
from npugraph.auditing.statistics.self_test import SelfTest
from npugraph.auditing.statistics.verdict import Verdict, count_interval, judge_trust
from npugraph.calibration.class_priors import Interval

Bools = NDArray[np.bool_]
Floats = NDArray[np.floating]
Ints = NDArray[np.int64]


def find_suspects(
    judged: Judgement,
    protected: Bools,
    probability: Floats,
    *,
    budget: int | None = None,
    target_precision: float | None = None,
) -> Ints:
    """Return the places of suspects among judged facts, most suspicious first.

    Args:
        judged: what the places are among.
        protected: which of them are no suspects [n].
        probability: by which they are chosen [n]; the score orders what is equal.
        budget: so many at most.
        target_precision: as many as keep this expected share of wrong ones.
    """
    numbered = pa.table({"fact": np.arange(len(judged.facts))})
    listed = find_suspect_facts(
        numbered,
        probability,
        score=judged.score,
        protected=protected,
        budget=budget,
        target_precision=target_precision,
    )
    rows: Ints = listed["row"].to_numpy().copy()
    return rows


def promised_suspects(judged: Judgement, protected: Bools, beta: float, budget: int) -> Ints:
    """Return the places of the suspects where probabilities hold, at most ``budget``.

    They end where a fact is as probable as any: at ``beta``, the share of true facts.
    """
    rows = find_suspects(judged, protected, judged.probability, budget=budget)
    return rows[judged.probability[rows] < beta]


def wrong_among(judged: Judgement, rows: Ints, level: float) -> Interval:
    """Return how many of some judged facts a reviewer should find wrong."""
    value, low, high = (1 - end[rows] for end in (judged.probability, judged.high, judged.low))
    return count_interval(value, low, high, level)


def before_answers(
    stored: Judgement,
    protected: Bools,
    test: SelfTest,
    model: TruthModel,
    settings: AuditSettings,
    clusters: tuple[Cluster, ...] = (),
    *,
    by_columns: bool = False,
) -> Verdict:
    """Return the verdict on what is said without answers.

    Args:
        stored: judgement of the collected facts; what is known to be wrong may follow.
        protected: which of the collected facts are no suspects [n].
        test: the self-test.
        model: how scores become probabilities.
        settings: what is asked for.
        clusters: entities whose facts stand out.
        by_columns: whether no count could be promised without the columns of the user.
    """
    collected = stored.first(len(protected))
    rows = promised_suspects(collected, protected, model.priors.beta.value, settings.budget)
    promise = wrong_among(collected, rows, settings.thresholds.level)
    return judge_trust(
        test,
        model,
        promise,
        clustered=bool(clusters),
        by_columns=by_columns,
        thresholds=settings.thresholds,
    )
