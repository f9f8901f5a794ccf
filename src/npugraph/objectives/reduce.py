"""What the objectives share: telling candidates from collected entities, and taking means."""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph.objectives.base import Scored


def split(scored: Scored) -> tuple[Tensor, Tensor, Tensor]:
    """Return all scores [b, c], those of the collected facts [b], and which columns are rivals.

    A rival, bool [b, c], is a column that counts and is not the collected entity itself. Scores
    of half precision become float32: log-sigmoids of them lose what decides.
    """
    scores = scored.scores.float() if scored.scores.dtype.itemsize < 4 else scored.scores
    target = scored.target.unsqueeze(1)
    counts = scored.counts
    rivals = torch.ones_like(scores, dtype=torch.bool) if counts is None else counts
    return scores, scores.gather(1, target).squeeze(1), rivals.scatter(1, target, False)


def rival_mean(values: Tensor, rivals: Tensor) -> Tensor:
    """Return the mean of each row of values [b, c] over its rivals: [b], 0 where it has none.

    >>> rival_mean(torch.tensor([[1.0, 3.0, 9.0]]), torch.tensor([[True, True, False]])).tolist()
    [2.0]
    """
    return (values * rivals).sum(1) / rivals.sum(1).clamp(min=1)


def rival_share(scores: Tensor, rivals: Tensor, temperature: float) -> Tensor:
    """Return softmax(temperature * scores) of each row [b, c] over its rivals, without gradient.

    A row without a rival is all 0.

    >>> rival_share(torch.tensor([[1.0, 9.0, 1.0]]), torch.tensor([[True, False, True]]), 1.0)
    tensor([[0.5000, 0.0000, 0.5000]])
    """
    level = temperature * scores.detach()
    # Not -inf: a row without a rival would be nan.
    return level.masked_fill(~rivals, torch.finfo(level.dtype).min).softmax(1) * rivals


def fact_mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean over facts [b], by their weights [b] where they have any.

    >>> fact_mean(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 1.0])).item()
    2.0
    """
    if weight is None:
        return values.mean()
    return (values * weight).sum() / weight.sum()


def power_penalty(factors: tuple[Tensor, ...], power: int) -> Tensor:
    """Return the mean over facts of ``|h|^p + |r|^p + |t|^p``, summed over coordinates."""
    sums = torch.stack([(part**power).sum() for part in factors])
    return sums.sum() / len(factors[0])
