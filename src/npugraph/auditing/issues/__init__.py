"""Issues that need no model: what breaks a regularity of the graph, or of its names.

Each check is a function of the facts and returns a table with the columns of ``issues.tsv``. A
regularity is reported only where it is strong: 98% of the other cases keep to it, and the lower end
of Wilson's interval of that share, the score, is at least 0.95. So a clean graph gives few lines.
An issue is a reason to look, never a verdict.
"""

from __future__ import annotations

from npugraph.auditing.issues.find import CHECKS, Check, Issues, find_issues

__all__ = ["CHECKS", "Check", "Issues", "find_issues"]
