"""The view near: walks along the other folds' facts."""

from __future__ import annotations

import numpy as np
import torch

from audit_samples import anonymous
from npugraph.auditing.folds import Folds
from npugraph.auditing.views.near import NearView, walk


def two_rings(size: int) -> np.ndarray:
    """Two rings without a link between them, of ``size`` entities each."""
    ring = np.arange(size)
    one = np.stack([ring, np.zeros_like(ring), (ring + 1) % size], 1)
    return np.concatenate([one, one + [size, 0, size]])


def test_what_is_linked_by_short_walks_is_near() -> None:
    facts = two_rings(50)
    reached = walk(facts, 100, seed=0)

    def cosine(a: int, b: int) -> list[float]:
        return [float(x[a] @ x[b]) for x in reached]

    for x in reached:
        np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, rtol=1e-5)
    # Two steps apart: the walks meet, the more the longer they are.
    assert cosine(0, 2)[0] > 0.1
    assert cosine(0, 2)[2] > cosine(0, 2)[0]
    apart = np.array([cosine(a, 50 + b) for a in range(0, 50, 5) for b in range(0, 50, 5)])
    assert abs(apart.mean()) < 0.05
    assert np.abs(apart).max() < 0.6


def test_hubs_make_nothing_near() -> None:
    """Every entity is linked to entity 0; entities 1 and 2 have another neighbour in common."""
    others = np.arange(1, 60)
    star = np.stack([others, np.zeros_like(others), np.zeros_like(others)], 1)
    reached = walk(np.concatenate([star, [[1, 0, 60], [2, 0, 60]]]), 61, seed=0)[1]
    assert float(reached[1] @ reached[2]) > float(np.median(reached[3:60] @ reached[1])) + 0.1


def test_own_facts_are_not_walked_along() -> None:
    facts = torch.tensor([[0, 0, 1], [2, 0, 3], [1, 0, 2], [3, 0, 0]])
    graph = anonymous(facts, 4, 1)
    index = graph.index()
    fold = torch.tensor([0, 1, 1, 1])
    view = NearView(Folds(graph.with_facts(index.facts()), fold, 2), seed=0)
    mine = index.facts()[fold == 0]
    alone = walk(index.facts()[fold == 1].numpy(), 4, seed=0)
    found = view.features(mine, 0)
    assert found.shape == (1, len(view.columns))
    assert found.dtype == torch.float32
    assert len(alone) == len(view.columns)
    # The link of the fact itself is not there: the same walks with it come out nearer.
    whole = walk(index.facts().numpy(), 4, seed=0)
    head, _, tail = mine[0].tolist()
    assert float(whole[0][head] @ whole[0][tail]) > float(alone[0][head] @ alone[0][tail])
