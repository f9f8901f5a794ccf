"""The graph of the demo: the bundled one with wrong facts planted."""

from __future__ import annotations

import dataclasses

import torch

from npugraph.data.datasets import load
from npugraph.data.perturb import PerturbSettings, Truth, perturb
from npugraph.graph import KnowledgeGraph

# Shares of the facts of train and valid that are planted, one end wrong: by anything, and by an
# entity of that role. Nothing is removed.
RATE = 0.025


def planted_world(seed: int = 0) -> tuple[KnowledgeGraph, Truth]:
    """Return the bundled graph with wrong facts planted, and which they are.

    >>> graph, truth = planted_world()
    >>> len(truth.planted)
    194
    """
    half = PerturbSettings(rate=RATE, added_share=1.0, noise="one-sided", seed=seed)
    splits, first = perturb(load("world").split(), half)
    splits, second = perturb(splits, dataclasses.replace(half, noise="typed", seed=seed + 1))
    assert first.origin is not None
    assert second.origin is not None
    planted = torch.cat([first.planted, second.planted])
    origin = torch.cat([first.origin, second.origin])
    splits = dataclasses.replace(splits, name="world with planted errors")
    return splits.whole(), Truth(planted, first.removed, origin)
