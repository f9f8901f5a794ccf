"""The benchmark of the issues counts lines that are about planted facts."""

from __future__ import annotations

from benchmarks.quality.issues import hits
from npugraph.auditing.issues import find_issues


def test_a_line_counts_where_either_fact_is_planted() -> None:
    rows = [(f"p{i}", "in", f"t{i % 9}") for i in range(90)]
    rows += [(f"p{i}", "above", f"p{i + 1}") for i in range(89)]
    rows += [("p3", "in", "t8"), ("p2", "above", "p1"), ("p5", "above", "p5")]
    issues = find_issues(rows)
    assert hits(issues, set()) == {
        "self-loop": (1, 0),
        "both-ways": (1, 0),
        "second-tail": (1, 0),
    }
    assert hits(issues, {("p3", "in", "t8")})["second-tail"] == (1, 1)
    # The fact that was stored first may be the planted one.
    assert hits(issues, {("p3", "in", "t3")})["second-tail"] == (1, 1)
    assert hits(issues, {("p1", "above", "p2")})["both-ways"] == (1, 1)
