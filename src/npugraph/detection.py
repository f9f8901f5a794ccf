"""Measures of telling wrong facts from right ones; pure functions on arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata


def auroc(positive: ArrayLike, score: ArrayLike) -> float:
    """Return the chance that a positive scores above a negative, ties counting half.

    Args:
        positive: bool [n].
        score: [n], higher means positive.

    Returns:
        The area under the ROC curve, or nan where one of the classes is empty.

    >>> auroc([True, False, True], [0.9, 0.1, 0.8])
    1.0
    """
    label: NDArray[np.bool_] = np.asarray(positive, dtype=bool)
    ranks = rankdata(np.asarray(score, dtype=np.float64))
    num_positive = int(label.sum())
    num_negative = len(label) - num_positive
    if num_positive == 0 or num_negative == 0:
        return float("nan")
    above = float(ranks[label].sum()) - num_positive * (num_positive + 1) / 2
    return above / (num_positive * num_negative)
