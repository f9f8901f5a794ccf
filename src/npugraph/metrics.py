"""How well scores tell right from wrong, and how well probabilities hold.

Thin over scikit-learn, which is imported when a measure is used; a measure that does not exist
(one class is empty, nothing was given) is nan.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from npugraph.arrays import finite, probabilities, same_length
from npugraph.errors import SettingsError

Bins = Literal["count", "width"]


def auroc(positive: ArrayLike, score: ArrayLike) -> float:
    """Return the chance that a positive scores above a negative, ties counting half.

    Args:
        positive: bool [n].
        score: [n], higher means positive.

    Returns:
        The area under the ROC curve, or nan where one of the classes is empty or a score is nan.

    >>> auroc([True, False, True], [0.9, 0.1, 0.8])
    1.0
    """
    from sklearn.metrics import roc_auc_score

    label: NDArray[np.bool_] = np.asarray(positive, dtype=bool)
    value = np.asarray(score, dtype=np.float64)
    if label.all() or not label.any() or np.isnan(value).any():
        return float("nan")
    return float(roc_auc_score(label, value))


def average_precision(positive: ArrayLike, score: ArrayLike) -> float:
    """Return the mean precision at each positive, going down the scores; ties count together.

    ``sum over thresholds of (recall gained) * precision``. For the wrong facts, pass ``~true`` and
    ``1 - probability``.

    Args:
        positive: bool [n].
        score: [n], higher means positive.

    Returns:
        A number in (0, 1], or nan where there is no positive.

    >>> average_precision([True, False, True, False], [0.9, 0.8, 0.7, 0.1])
    0.8333333333333333
    """
    from sklearn.metrics import average_precision_score

    label, value = np.asarray(positive, dtype=bool), finite(score, "score", empty=True)
    same_length(label, value, "Labels and scores")
    return float(average_precision_score(label, value)) if label.any() else float("nan")


def precision_recall_at(positive: ArrayLike, score: ArrayLike, budget: int) -> tuple[float, float]:
    """Return precision and recall of the ``budget`` facts of highest score.

    Equal scores are taken in the order of the rows, as in the review lists. A budget beyond the
    number of facts takes all of them. Precision is nan without facts, recall without positives.

    >>> precision_recall_at([True, False, True, False], [0.9, 0.8, 0.7, 0.1], budget=2)
    (0.5, 0.5)
    """
    label, value = np.asarray(positive, dtype=bool), finite(score, "score", empty=True)
    same_length(label, value, "Labels and scores")
    if budget < 0:
        raise SettingsError(f"budget={budget} must be at least 0.")
    chosen = np.argsort(-value, kind="stable")[:budget]
    found, wanted = int(label[chosen].sum()), int(label.sum())
    precision = found / len(chosen) if len(chosen) else float("nan")
    return precision, found / wanted if wanted else float("nan")


def reliability_curve(
    probability: ArrayLike, true: ArrayLike, *, bins: int = 15, by: Bins = "count"
) -> pa.Table:
    """Return how often facts of about the same probability are true, one row per bin.

    Args:
        probability: [n] in [0, 1].
        true: bool [n].
        bins: most bins; empty ones are left out.
        by: ``count`` makes bins of about as many facts (equal probabilities stay together),
            ``width`` bins of equal width.

    Returns:
        Columns low, high (least and largest probability of the bin), count,
        mean_probability, share_true.
    """
    if by not in get_args(Bins):
        raise SettingsError(f"by={by!r} must be count or width.")
    if bins < 1:
        raise SettingsError(f"bins={bins} must be at least 1.")
    given = probabilities(probability)
    label = np.asarray(true, dtype=bool)
    same_length(given, label, "probability and true")
    if by == "count" and len(given):
        edges = np.unique(np.quantile(given, np.arange(1, bins) / bins, method="lower"))
        place = np.searchsorted(edges, given, side="left")
    else:
        place = np.minimum((given * bins).astype(np.int64), bins - 1)
    filled, place = np.unique(place, return_inverse=True)
    count = np.bincount(place, minlength=len(filled))
    low, high = np.full(len(filled), np.inf), np.full(len(filled), -np.inf)
    np.minimum.at(low, place, given)
    np.maximum.at(high, place, given)
    return pa.table(
        {
            "low": low,
            "high": high,
            "count": count,
            "mean_probability": np.bincount(place, given, len(filled)) / count,
            "share_true": np.bincount(place, label, len(filled)) / count,
        }
    )


def ece(probability: ArrayLike, true: ArrayLike, *, bins: int = 15, by: Bins = "count") -> float:
    """Return the expected calibration error: mean |share true - mean probability| over facts.

    Bins are those of :func:`reliability_curve`. Without facts it is nan.

    >>> ece([0.8, 0.8, 0.8, 0.8, 0.8], [True, True, True, True, False])
    0.0
    """
    curve = reliability_curve(probability, true, bins=bins, by=by)
    count = curve["count"].to_numpy()
    if count.sum() == 0:
        return float("nan")
    gap = np.abs(curve["share_true"].to_numpy() - curve["mean_probability"].to_numpy())
    return float((count * gap).sum() / count.sum())


def brier(probability: ArrayLike, true: ArrayLike) -> float:
    """Return the mean squared distance of probability [n] and truth [n]; nan without facts.

    >>> brier([1.0, 0.5], [True, False])
    0.125
    """
    given = probabilities(probability)
    label = np.asarray(true, dtype=bool)
    same_length(given, label, "probability and true")
    if not len(given):
        return float("nan")
    from sklearn.metrics import brier_score_loss

    return float(brier_score_loss(label, given, pos_label=True))
