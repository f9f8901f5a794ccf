"""The browser that some tests drive; they are skipped where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(__file__).parents[1] / "out" / "axe-core" / "axe.min.js"


def _absent(reason: str) -> None:
    """Skip, or fail where the browser is required, as in continuous integration."""
    if os.environ.get("NPUGRAPH_REQUIRE_BROWSER") == "1":
        pytest.fail(f"NPUGRAPH_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def axe() -> str:
    """The text of axe-core, which looks for what keeps people from using a page."""
    if not AXE.is_file():
        _absent(f"axe-core is not in {AXE}: fetch it with 'make axe'")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _absent("the package playwright is not installed: pip install playwright")
    given = os.environ.get("NPUGRAPH_CHROMIUM")
    found = given or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None or not Path(found).is_file():
        _absent(
            f"no browser was found as {given or ', '.join(NAMES)}: install chromium, "
            "or set NPUGRAPH_CHROMIUM to its path"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
