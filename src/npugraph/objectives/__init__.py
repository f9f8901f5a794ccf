"""Objectives: from the scores of a batch to one number to minimise.

An objective sees scores, never the model: rows are collected facts, columns are candidates for
the missing side, ``target`` says which column is the collected entity itself.
"""

from __future__ import annotations

from npugraph.objectives.adversarial import SelfAdversarial
from npugraph.objectives.base import Objective, Scored
from npugraph.objectives.confidence import ConfidenceMSE
from npugraph.objectives.logistic import Logistic, SmoothedLogistic
from npugraph.objectives.margin import Margin
from npugraph.objectives.pu_risk import PURisk
from npugraph.objectives.reduce import power_penalty
from npugraph.objectives.softmax import SoftmaxN3

__all__ = [
    "ConfidenceMSE",
    "Logistic",
    "Margin",
    "Objective",
    "PURisk",
    "Scored",
    "SelfAdversarial",
    "SmoothedLogistic",
    "SoftmaxN3",
    "power_penalty",
]
