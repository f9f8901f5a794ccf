"""The part of the report on issues, and names that are shown by their labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from npugraph.errors import DataError
from npugraph.report import IssueGroup, IssueRow, ReportData, render_report

from .report_samples import HOSTILE, empty_report, realistic_report

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROW = IssueRow(0.97, ("Paris", "twin of", "Paris"), "80 of the 80 others do not.")


def with_issues() -> ReportData:
    groups = (
        IssueGroup("self-loop", "Facts from an entity to itself", 12, (ROW,)),
        IssueGroup("single", "Entities in one fact only", 1, (ROW,), information=True),
    )
    return dataclasses.replace(empty_report(), issues=groups)


def with_names() -> ReportData:
    """A report in which the first suspect has a label and a short relation."""
    data = realistic_report(suspects=3, missing=0)
    first = dataclasses.replace(data.suspects[0], head="http://x/Q1", relation="http://x/in")
    names = {"http://x/Q1": "Vienna", "http://x/in": "located in"}
    return dataclasses.replace(data, suspects=(first, *data.suspects[1:]), names=names)


def test_each_kind_has_its_count_and_the_first_of_its_occurrences() -> None:
    page = render_report(with_issues())
    assert "Facts from an entity to itself: 12" in page
    assert "80 of the 80 others do not." in page
    assert "And 11 more in issues.tsv, kind self-loop." in page
    assert page.count("(information)") == 1
    assert page.count("more in issues.tsv") == 1
    assert '<a href="#issues">' in page


def test_a_graph_without_issues_is_said_to_have_none() -> None:
    assert "No issue was found." in render_report(empty_report())
    assert "No issue was found." not in render_report(with_issues())


def test_a_score_lies_between_0_and_1() -> None:
    with pytest.raises(DataError, match="does not lie in"):
        IssueRow(1.2, (), "")


def test_labels_are_shown_and_names_are_exported(show: Callable[..., Page], tmp_path: Path) -> None:
    page = show(with_names())
    cell = page.locator("#suspects td.c-head .label").first
    assert cell.inner_text() == "Vienna"
    assert cell.get_attribute("title") == "http://x/Q1"
    assert "located in (1)" in page.locator("#suspects [data-tool=relation]").inner_text()
    for words in ("vienna", "http://x/Q1"):
        page.locator("#suspects [data-tool=search]").fill(words)
        assert page.locator("#suspects [data-tool=count]").inner_text().startswith("Rows 1–1 of 1")
    with page.expect_download() as waiting:
        page.locator("#suspects [data-tool=download]").click()
    waiting.value.save_as(tmp_path / "rows.tsv")
    lines = (tmp_path / "rows.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[1].split("\t")[1:3] == ["http://x/Q1", "http://x/in"]


def test_hostile_labels_are_text(show: Callable[..., Page]) -> None:
    data = with_names()
    page = show(dataclasses.replace(data, names={"http://x/Q1": HOSTILE[0]}))
    assert page.locator("#suspects td.c-head .label").first.inner_text() == HOSTILE[0]
    assert page.evaluate("window.hacked") is None


def test_labels_are_shown_without_javascript(show: Callable[..., Page]) -> None:
    page = show(with_names(), java_script_enabled=False)
    assert page.locator("#suspects td.c-head .label").first.inner_text() == "Vienna"
