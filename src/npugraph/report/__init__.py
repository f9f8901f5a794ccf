"""The audit's report: one HTML file that opens anywhere and asks the network for nothing."""

from npugraph.report.data import (
    INTERVAL,
    Coefficient,
    Correction,
    Estimate,
    Evidence,
    FactRow,
    GraphSummary,
    Health,
    PlantedCheck,
    Provenance,
    RelationHealth,
    Reliability,
    ReliabilityBin,
    ReportData,
    Setting,
    ViewRow,
    YieldPoint,
    settings_rows,
)
from npugraph.report.issues import IssueGroup, IssueRow
from npugraph.report.render import render_report, write_report

__all__ = [
    "INTERVAL",
    "Coefficient",
    "Correction",
    "Estimate",
    "Evidence",
    "FactRow",
    "GraphSummary",
    "Health",
    "IssueGroup",
    "IssueRow",
    "PlantedCheck",
    "Provenance",
    "RelationHealth",
    "Reliability",
    "ReliabilityBin",
    "ReportData",
    "Setting",
    "ViewRow",
    "YieldPoint",
    "render_report",
    "settings_rows",
    "write_report",
]
