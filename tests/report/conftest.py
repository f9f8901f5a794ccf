"""Opens reports in the browser that the report's tests drive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from npugraph.report import ReportData, write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class Opened:
    """A page with a report in it, and what went wrong on it."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.problems.append(message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self.problems.append(dialog.message))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri())


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Open a report from its file; afterwards, nothing may have been logged or requested."""
    opened: list[Opened] = []

    def open_report(data: ReportData, width: int = 1280, **context: Any) -> Page:
        path = tmp_path / "report.html"
        write_report(data, path)
        view = {"width": width, "height": 800}
        page = browser.new_context(viewport=view, reduced_motion="reduce", **context).new_page()
        opened.append(Opened(page, path))
        return page

    yield open_report
    for item in opened:
        item.page.context.close()
        assert item.problems == []
        # The file itself, and the blob of a download, which never leaves the browser.
        assert [url.split(":")[0] for url in item.requests[:1]] == ["file"]
        assert all(url.startswith("blob:") for url in item.requests[1:])
