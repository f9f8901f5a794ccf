"""The audit: a graph in; suspect facts, missing facts and probabilities out.

Every collected fact is judged by a system that never saw it, compared with pools of uncollected
facts, and given the probability that it is true, with the two priors estimated.

The stages, in order: settings and presets, cost, folds, out_of_fold (with features, pools and
missing), statistics, result, page and write. :func:`audit` in run.py has one line for each.
"""

from __future__ import annotations

from npugraph.auditing.cost import Cost, estimate_cost
from npugraph.auditing.presets import suited_settings
from npugraph.auditing.run import Audit, audit
from npugraph.auditing.settings import AuditSettings, Stage
from npugraph.auditing.thresholds import Thresholds
from npugraph.auditing.write import write_audit

__all__ = [
    "Audit",
    "AuditSettings",
    "Cost",
    "Stage",
    "Thresholds",
    "audit",
    "estimate_cost",
    "suited_settings",
    "write_audit",
]
