"""Samplers: which uncollected facts stand beside each collected one in training."""

from __future__ import annotations

from npugraph.samplers.base import AllEntities, Candidates, Sampler
from npugraph.samplers.generator import Generated
from npugraph.samplers.nscaching import NSCaching
from npugraph.samplers.sans import SANS, Neighbourhoods, neighbourhoods, walk_ends, within_hops
from npugraph.samplers.uniform import Shared, Uncollected, Uniform, of_each_fact

__all__ = [
    "SANS",
    "AllEntities",
    "Candidates",
    "Generated",
    "NSCaching",
    "Neighbourhoods",
    "Sampler",
    "Shared",
    "Uncollected",
    "Uniform",
    "neighbourhoods",
    "of_each_fact",
    "walk_ends",
    "within_hops",
]
