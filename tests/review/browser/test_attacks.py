"""What a page of another server on this machine can do in a browser that has the desk open.

Cookies know no ports, so such a page is the nearest that an attacker gets: its requests carry the
desk's cookie.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from npugraph.review import Store
from npugraph.review.store import FILE
from review_samples import sample_audit

from .conftest import Desk

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FORM = """<form method="post" action="{desk}/judge/3">
<input name="key" value="stolen"><input name="answer" value="false"><button>Win</button></form>
<a href="{desk}/queue">A link</a>"""
# Returns "loaded" or "refused" for an element that asks for something of the desk.
LOADED = """([tag, address]) => new Promise((done) => {
  const element = document.createElement(tag);
  element.onload = () => done("loaded");
  element.onerror = () => done("refused");
  element.src = address;
  document.body.append(element);
})"""
SENT = """async ([address, mode, type, body]) => {
  const headers = type ? {"Content-Type": type} : {};
  try {
    const answer = await fetch(address, {
      method: body ? "POST" : "GET", credentials: "include", mode, headers, body,
    });
    return answer.type === "opaque" ? "opaque" : await answer.text();
  } catch { return "refused"; }
}"""
ANSWER = '{"reviewer": "x", "number": 3, "key": "stolen", "answer": "false"}'


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ThreadingHTTPServer]:
    """Another server on this machine; ``page`` is all that it has."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802 - the library's name
            body = self.server.page.encode()  # type: ignore[attr-defined]
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_audit(tmp_path_factory.mktemp("attacked") / "audit").folder


@pytest.fixture(scope="module")
def address(desk_of: Desk, folder: Path) -> str:
    return desk_of(folder)


@pytest.fixture(params=["127.0.0.1", "localhost"], ids=["same site", "another site"])
def attacker(
    request: pytest.FixtureRequest, browser: Browser, address: str, elsewhere: ThreadingHTTPServer
) -> Iterator[Page]:
    """A page of another server, in a browser that has opened the desk."""
    context = browser.new_context()
    context.new_page().goto(address)
    assert context.cookies()
    elsewhere.page = FORM.format(desk=_own(address))  # type: ignore[attr-defined]
    page = context.new_page()
    page.goto(f"http://{request.param}:{elsewhere.server_port}/")
    yield page
    context.close()


def _own(address: str) -> str:
    return f"http://{urlsplit(address).netloc}"


def test_nothing_is_sent_read_framed_or_embedded(
    attacker: Page, address: str, folder: Path
) -> None:
    desk = _own(address)
    for mode, kind in (("no-cors", "text/plain"), ("cors", "application/json"), ("no-cors", "")):
        sent = attacker.evaluate(SENT, [f"{desk}/v1/answers", mode, kind, ANSWER])
        assert sent in ("refused", "opaque")
    read = attacker.evaluate(SENT, [f"{desk}/v1/queue?reviewer=x", "cors", "", None])
    assert read == "refused"
    for tag, path in (("script", "/v1/queue?reviewer=x"), ("img", "/static/icon.svg")):
        assert attacker.evaluate(LOADED, [tag, f"{desk}{path}"]) == "refused"
    attacker.evaluate(LOADED, ["iframe", f"{desk}/queue"])
    assert attacker.frames[-1].locator("#main").count() == 0
    attacker.locator("button").click()
    attacker.wait_for_load_state()
    assert "Another site" in attacker.content() or "token" in attacker.content()
    with Store.open(folder / FILE) as store:
        assert store.since() == []


def test_a_link_from_the_same_site_opens_the_desk(
    browser: Browser, address: str, elsewhere: ThreadingHTTPServer
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    elsewhere.page = FORM.format(desk=_own(address))  # type: ignore[attr-defined]
    page.goto(f"http://127.0.0.1:{elsewhere.server_port}/")
    page.locator("a").click()
    assert page.locator("h1").inner_text() == "The queue"
    context.close()


def test_another_name_for_this_machine_gets_nothing(browser: Browser, address: str) -> None:
    """DNS rebinding: a stranger's name leads to the desk."""
    port = urlsplit(address).port
    context = browser.new_context()
    answer = context.request.get(address, headers={"Host": f"evil.example:{port}"})
    assert answer.status == 403
    assert not context.cookies()
    context.close()
