"""Samplers: which uncollected facts stand beside each collected one in training."""

from __future__ import annotations

from npugraph.samplers.base import AllEntities, Candidates, Sampler
from npugraph.samplers.uniform import Uncollected, Uniform, collected

__all__ = ["AllEntities", "Candidates", "Sampler", "Uncollected", "Uniform", "collected"]
