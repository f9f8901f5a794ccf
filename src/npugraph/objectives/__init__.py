"""Objectives: from the scores of a batch to one number to minimise.

An objective sees scores, never the model: rows are collected facts, columns are candidates for
the missing side, ``target`` says which column is the collected entity itself.
"""

from __future__ import annotations

from npugraph.objectives.base import Objective, Scored
from npugraph.objectives.npu import Heads, NoisyPU, WithoutPU
from npugraph.objectives.softmax import SoftmaxN3

__all__ = ["Heads", "NoisyPU", "Objective", "Scored", "SoftmaxN3", "WithoutPU"]
