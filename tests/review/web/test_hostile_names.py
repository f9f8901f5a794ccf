"""Names, notes and reviewers that are markup, quotes, null bytes: pages show them as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet
import pytest
from starlette.testclient import TestClient

from hostile_names import HOSTILE
from npugraph.names import shorten, visible
from npugraph.review import Desk
from npugraph.review.web.app import create_app
from npugraph.review.web.pages import Pages
from review_samples import sample_audit

from .conftest import ACCESS

NAMES = tuple(HOSTILE.values())


class Parsed(HTMLParser):
    """What a browser makes of a page: its elements, their attributes, the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def harmless(page: str, place: str) -> Parsed:
    """Check that no name became an element, a handler or a link."""
    found = Parsed(page)
    assert not found.tags & {"img", "iframe", "object", "embed", "style", "base"}, place
    scripts = re.findall(r"<script[^>]*>[^<]*", page, re.IGNORECASE)
    assert scripts == ['<script src="/static/desk.js" defer>'], place
    for name, value in found.attributes:
        assert not name.startswith("on"), (place, name)
        assert name != "style", place
        if name in ("href", "src", "action", "formaction"):
            assert urlsplit(value).scheme in ("", "http", "https"), (place, value)
            assert not value.startswith("//"), (place, value)
    # A field holds what was typed; the text around it is made visible.
    assert not re.search("[\x00\u202a-\u202e\u2066-\u2069]", found.text), place
    return found


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk whose first facts have hostile heads, relations, tails and sources."""
    folder = sample_audit(tmp_path / "audit", source=True, stored=60, missing=6).folder
    table = pyarrow.parquet.read_table(folder / "posterior.parquet")
    for column in ("head", "relation", "tail", "source"):
        values = table[column].to_pylist()
        values[: len(NAMES)] = NAMES
        place = table.column_names.index(column)
        table = table.set_column(place, column, pa.array(values, pa.string()))
    pyarrow.parquet.write_table(table, folder / "posterior.parquet")
    for name in ("suspects.tsv", "issues.tsv"):
        (folder / name).unlink()
    with Desk.open(folder, {"random_share": 0.0}) as opened:
        yield opened


@pytest.fixture
def browser(desk: Desk) -> TestClient:
    client = TestClient(
        create_app(ACCESS, [Pages(desk, "Ann").router()]),
        base_url=ACCESS.url,
        headers={"Accept": "text/html", "Sec-Fetch-Site": "same-origin"},
    )
    assert client.get("/", params={"token": ACCESS.token}).status_code == 200
    return client


@pytest.mark.parametrize("number", range(len(NAMES)), ids=HOSTILE.keys())
def test_a_hostile_name_is_text_on_every_page(browser: TestClient, desk: Desk, number: int) -> None:
    name = NAMES[number]
    asked = {"key": f"k{number}", "answer": "correct", "new_tail": name + "!", "unknown": "yes"}
    answered = browser.post(f"/judge/{number}", data={**asked, "note": name})
    assert answered.status_code == 200
    harmless(answered.text, "answered")
    shown = shorten(visible(name))
    for place, given in (
        (f"/judge/{number}", {}),
        ("/queue", {"entity": name}),
        ("/queue", {"relation": name, "group": "entity"}),
        ("/queue", {"source": name}),
        ("/queue", {"text": name}),
        ("/bulk", {"entity": name}),
        ("/progress", {}),
    ):
        page = browser.get(place, params=given)
        assert page.status_code == 200, place
        found = harmless(page.text, place)
        if place.startswith("/judge"):
            assert " ".join(shown.split()) in " ".join(found.text.split())
    assert desk.answers()[0].note == name.strip()


def test_a_hostile_reviewer_is_text(browser: TestClient, desk: Desk) -> None:
    for name in NAMES:
        if len(name) > 200:
            continue
        page = browser.post("/reviewer", data={"reviewer": name})
        assert page.status_code == 200
        harmless(page.text, name)
        browser.post("/judge/20", data={"key": f"as {name}", "answer": "unsure"})
        harmless(browser.get("/progress").text, name)
