"""The audit: a graph in; suspect facts, missing facts and probabilities out.

Every collected fact is judged by a system that never saw it, compared with pools of uncollected
facts, and given the probability that it is true, with the two priors estimated.
"""

from __future__ import annotations

from npugraph.auditing.result import Audit, Stage, audit
from npugraph.auditing.settings import AuditSettings, Plan, make_plan, suited_settings
from npugraph.auditing.write import write_audit

__all__ = [
    "Audit",
    "AuditSettings",
    "Plan",
    "Stage",
    "audit",
    "make_plan",
    "suited_settings",
    "write_audit",
]
