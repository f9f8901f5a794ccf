"""Desks that listen, for tests in a browser: one small audit per session, real commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from npugraph.cli import app
from npugraph.data.datasets import load

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FACT = ("head", "relation", "tail")
RELATIONS = ("borders", "in_continent", "capital_of", "uses_currency")
PLANTED = (
    ("France", "borders", "Japan"),
    ("Peru", "in_continent", "Europe"),
    ("Vienna", "capital_of", "Chile"),
    ("Kenya", "uses_currency", "Iceland Krona"),
)
SMALL = (
    "--set", "d=8", "--set", "epochs=2", "--set", "search=false", "--device", "cpu", "--folds", "2",
    "--budget", "40", "--set", "missing=40", "--set", "explained=5",
)  # fmt: skip

Desk = Callable[..., str]
Show = Callable[..., "Page"]


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an audit of a part of the bundled graph; ``facts.tsv`` is beside it."""
    place = tmp_path_factory.mktemp("afternoon")
    table = load("world").to_table()
    names = zip(*(table[name].to_pylist() for name in FACT), strict=True)
    rows = [row for row in names if row[1] in RELATIONS][::3]
    lines = ["\t".join(row) for row in (FACT, *rows, *PLANTED)]
    (place / "facts.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["audit", place / "facts.tsv", "--out", place / "audit", *SMALL]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, (done.output, done.exception)
    return place / "audit"


@pytest.fixture(scope="module")
def desk_of() -> Iterator[Desk]:
    """Start the command on a folder; return the address that it prints."""
    started: list[subprocess.Popen[str]] = []

    def start(folder: Path, *options: str) -> str:
        words = ["review", str(folder), "--no-browser", "--port", "0", *options]
        process = subprocess.Popen(
            [sys.executable, "-m", "npugraph", *words],
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        started.append(process)
        assert process.stdout is not None
        word, _, address = process.stdout.readline().strip().partition(" ")
        assert word == "Open", "The command ended before it listened."
        return address

    yield start
    for process in started:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) in (0, 130)


@pytest.fixture
def show(browser: Browser) -> Iterator[Show]:
    """Open an address; afterwards nothing may have been logged, or asked for elsewhere."""
    opened: list[tuple[Page, str, list[str], list[str]]] = []

    def open_page(address: str, width: int = 1280, height: int = 860, **context: Any) -> Page:
        view = {"width": width, "height": height}
        page = browser.new_context(viewport=view, reduced_motion="reduce", **context).new_page()
        page.set_default_timeout(15_000)
        problems: list[str] = []
        requests: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on("request", lambda request: requests.append(request.url))
        parts = urlsplit(address)
        opened.append((page, f"{parts.scheme}://{parts.netloc}/", problems, requests))
        page.goto(address)
        return page

    yield open_page
    for page, own, problems, requests in opened:
        page.context.close()
        # The page of an error says so to the browser, too.
        assert [text for text in problems if "status of 422" not in text] == []
        assert {url for url in requests if not url.startswith(own)} == set()
