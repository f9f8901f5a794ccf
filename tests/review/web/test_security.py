"""Every rule of the guard: what it refuses, and that its neighbour is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import APIRouter, Request
from starlette.testclient import TestClient

from npugraph.errors import DataError, OutputError, RunError, SettingsError, UnknownNameError
from npugraph.review.web import app as application
from npugraph.review.web.app import create_app, page_templates
from npugraph.review.web.security import Access, Guard, new_token

PORT = 8765
HERE = f"http://127.0.0.1:{PORT}"
TOKEN = "a-token-for-these-tests"
ACCESS = Access(PORT, TOKEN, largest=1000)
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PAGE = {"Accept": "text/html,*/*"}
ERRORS = {
    "data": DataError,
    "name": UnknownNameError,
    "run": RunError,
    "disk": OutputError,
    "bug": ZeroDivisionError,
}


def made() -> Guard:
    router = APIRouter()

    @router.get("/")
    def first() -> str:
        return "the first page"

    @router.post("/v1/echo")
    async def echo(request: Request) -> int:
        return len(await request.body())

    @router.get("/v1/number/{number}")
    def number(number: int) -> int:
        return number

    @router.get("/fails/{kind}")
    def fails(kind: str) -> None:
        raise ERRORS[kind]("This is the sentence.")

    return create_app(ACCESS, [router])


def client(**headers: str) -> TestClient:
    return TestClient(
        made(),
        base_url=HERE,
        headers=headers,
        follow_redirects=False,
        raise_server_exceptions=False,
    )


@pytest.fixture
def stranger() -> TestClient:
    """Somebody without the token."""
    return client()


@pytest.fixture
def program() -> TestClient:
    """A program that was given the token."""
    return client(**BEARER)


@pytest.fixture
def browser() -> TestClient:
    """A browser that opened the URL that was printed at the start."""
    opened = client()
    assert opened.get("/", params={"token": TOKEN}).status_code == 303
    return opened


def sentence(response: Any, status: int) -> str:
    """Check that it is an error in the one form; return what it says."""
    assert response.status_code == status
    body = response.json()
    assert set(body) == {"status", "error", "fields"}
    assert body["status"] == status
    assert body["error"].endswith(".")
    return body["error"]


# The token


@pytest.mark.parametrize("path", ["/", "/v1/number/3", "/static/desk.css", "/nothing", "/docs"])
def test_nothing_is_answered_without_the_token(stranger: TestClient, path: str) -> None:
    response = stranger.get(path)
    assert "token" in sentence(response, 401)
    assert response.headers["www-authenticate"] == "Bearer"
    assert sentence(stranger.post("/v1/echo", content=b"x"), 401)


@pytest.mark.parametrize(
    "value",
    [f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer ", "Bearer é"],
)
def test_a_token_that_is_almost_right_is_wrong(stranger: TestClient, value: str) -> None:
    headers = {"Authorization": value.encode()}
    assert sentence(stranger.get("/v1/number/3", headers=headers), 401)


def test_a_program_sends_the_token_in_a_header(program: TestClient) -> None:
    assert program.get("/v1/number/3").json() == 3
    assert program.post("/v1/echo", content=b"four").json() == 4


def test_a_person_is_told_in_words(stranger: TestClient) -> None:
    response = stranger.get("/", headers=PAGE)
    assert response.status_code == 401
    assert response.headers["content-type"].startswith("text/plain")
    assert "open the URL printed" in response.text


def test_what_can_be_asked_is_told_without_a_token_but_not_to_another_host(
    stranger: TestClient,
) -> None:
    assert stranger.get("/openapi.json").json()["info"]["title"] == "npugraph"
    assert sentence(stranger.get("/openapi.json", headers={"Host": "evil.example"}), 403)
    assert sentence(stranger.get("/openapi.json/"), 401)


def test_the_url_with_the_token_sets_a_cookie_and_leaves_the_address(
    stranger: TestClient,
) -> None:
    response = stranger.get("/", params={"token": TOKEN, "text": "a b&c"})
    assert response.status_code == 303
    assert response.headers["location"] == "/?text=a+b%26c"
    cookie = response.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    assert str(PORT) in cookie.split("=")[0]
    assert stranger.get("/").json() == "the first page"


def test_the_url_takes_the_token_at_the_first_page_only(stranger: TestClient) -> None:
    for path in ("/v1/number/3", "/static/x", "//evil.example"):
        assert sentence(stranger.get(f"{HERE}{path}", params={"token": TOKEN}), 401)
    assert sentence(stranger.get("/", params={"token": f"{TOKEN}x"}), 401)
    assert sentence(stranger.post("/", params={"token": TOKEN}), 401)
    assert not stranger.cookies


def test_a_cookie_of_another_server_is_none(stranger: TestClient) -> None:
    name, _ = ACCESS.cookie
    for value in (Access(PORT, new_token()).cookie[1], TOKEN, ""):
        assert sentence(stranger.get("/", headers={"Cookie": f"{name}={value}"}), 401)


def test_a_token_that_can_be_guessed_is_refused() -> None:
    for token in ("", "short", "a" * 15, "with a space in it", "x" * 20 + "\n", "é" * 20):
        with pytest.raises(SettingsError, match="16 characters"):
            Access(PORT, token)
    assert Access(PORT).token != Access(PORT).token
    assert TOKEN not in repr(ACCESS)


# The place


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        "127.0.0.1:80",
        f"127.0.0.1.evil.example:{PORT}",
        f"0.0.0.0:{PORT}",
        f"user@127.0.0.1:{PORT}",
        "",
    ],
)
def test_another_host_is_refused_token_or_not(program: TestClient, host: str) -> None:
    assert "Host" in sentence(program.get("/v1/number/3", headers={"Host": host}), 403)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_this_machine_has_three_names(program: TestClient, name: str) -> None:
    assert program.get("/v1/number/3", headers={"Host": f"{name}:{PORT}"}).json() == 3


def test_two_hosts_are_refused(program: TestClient) -> None:
    twice = [("Host", f"127.0.0.1:{PORT}"), ("Host", "evil.example"), *BEARER.items()]
    assert sentence(program.get("/v1/number/3", headers=twice), 403)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1",
        "http://127.0.0.1:3000",
        f"https://127.0.0.1:{PORT}",
        f"http://localhost:{PORT}",
        f"http://127.0.0.1:{PORT}.evil.example",
        "null",
    ],
)
def test_a_page_of_another_origin_is_refused(
    program: TestClient, browser: TestClient, origin: str
) -> None:
    headers = {"Origin": origin}
    for who in (program, browser):
        assert "Another site" in sentence(who.post("/v1/echo", headers=headers), 403)
        assert "Another site" in sentence(who.get("/v1/number/3", headers=headers), 403)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_may_link_here_and_no_more(
    browser: TestClient, program: TestClient, site: str
) -> None:
    embedded = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    followed = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    assert sentence(browser.get("/v1/number/3", headers=embedded), 403)
    assert browser.get("/", headers=followed).status_code == 200
    for who in (browser, program):
        assert sentence(who.post("/v1/echo", headers=followed), 403)


def test_by_cookie_only_our_own_page_changes_anything(browser: TestClient) -> None:
    assert browser.get("/v1/number/3").json() == 3
    assert "Another site" in sentence(browser.post("/v1/echo", content=b"x"), 403)
    own_script = {"Origin": HERE}
    own_form = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    for headers in (own_script, own_form):
        assert browser.post("/v1/echo", content=b"x", headers=headers).json() == 1


# The headers


def answers(program: TestClient) -> Iterator[Any]:
    """Answers of every kind: a page, the API, refusals, errors, a redirect."""
    yield program.get("/", headers={"Authorization": "none"})
    yield program.get("/")
    yield program.get("/openapi.json")
    yield program.get("/", params={"token": TOKEN})
    yield program.get("/", headers={"Host": "evil.example"})
    yield program.get("/nothing")
    yield program.get("/fails/data")
    yield program.get("/fails/bug")
    yield program.post("/v1/echo", content=b"x" * 1001)


def test_every_answer_keeps_the_browser_from_running_or_framing_it(program: TestClient) -> None:
    seen = set()
    for response in answers(program):
        seen.add(response.status_code)
        policy = dict(
            part.split(" ", 1) for part in response.headers["content-security-policy"].split("; ")
        )
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["form-action"] == "'self'"
        assert "unsafe" not in str(policy)
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["cross-origin-resource-policy"] == "same-origin"
        assert response.headers["cross-origin-opener-policy"] == "same-origin"
        assert response.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in response.headers
    assert seen == {200, 303, 401, 403, 404, 413, 422, 500}


# Sizes


def test_a_large_body_is_refused_whether_its_length_is_told_or_not(program: TestClient) -> None:
    def pieces() -> Iterator[bytes]:
        yield from [b"x" * 500] * 3

    assert program.post("/v1/echo", content=b"x" * 1000).json() == 1000
    assert "1,000 bytes" in sentence(program.post("/v1/echo", content=b"x" * 1001), 413)
    assert "1,000 bytes" in sentence(program.post("/v1/echo", content=pieces()), 413)
    false_length = {"Content-Length": "9" * 5000}
    assert sentence(program.post("/v1/echo", content=b"x", headers=false_length), 413)


def bare(scope: dict[str, Any], body: bytes | None = None) -> dict[str, Any]:
    """Send what no client would; return the first message of the answer."""
    sent: list[Any] = []

    async def receive() -> Any:
        assert body is not None, "The body was read."
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(made()(scope, receive, send))
    return dict(sent[0])


def request(path: str, **more: Any) -> dict[str, Any]:
    host = (b"host", f"127.0.0.1:{PORT}".encode())
    asked = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": [host]}
    return {**asked, **more}


def test_a_long_address_is_refused() -> None:
    for length, status in ((100_000, 401), (2**18 + 1, 414)):
        query = b"x" * length
        assert bare(request("/v1/echo", query_string=query), b"")["status"] == status
        assert bare(request("/", raw_path=query), b"")["status"] == status


def test_who_has_no_token_is_refused_before_a_body_is_read() -> None:
    assert bare(request("/v1/echo"))["status"] == 401


def test_half_a_form_of_who_went_away_is_not_answered() -> None:
    messages = [
        {"type": "http.request", "body": b"answer=true", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    bearer = (b"authorization", BEARER["Authorization"].encode())
    asked = request("/v1/echo")
    asked["headers"].append(bearer)
    asyncio.run(made()(asked, receive, send))
    assert not sent


def test_a_web_socket_is_closed() -> None:
    assert bare({"type": "websocket"}) == {"type": "websocket.close", "code": 1008}


# Paths and errors


@pytest.mark.parametrize(
    "name",
    ["../security.py", "..%2Fsecurity.py", "%2e%2e/app.py", "/etc/passwd", "%00", "a%0Ab", "."],
)
def test_no_path_of_a_request_is_opened(
    program: TestClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("A file was opened.")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("io.open", refuse)
    monkeypatch.setattr("os.open", refuse)
    monkeypatch.setattr("os.stat", refuse)
    assert sentence(program.get(f"/static/{name}"), 404)


def test_every_error_is_a_sentence_with_a_status(program: TestClient) -> None:
    for kind, status in (("data", 422), ("name", 404), ("run", 409), ("disk", 503)):
        assert sentence(program.get(f"/fails/{kind}"), status) == "This is the sentence."
    told = sentence(program.get("/fails/bug"), 500)
    assert "This is the sentence." not in told
    assert "openapi" in sentence(program.get("/nothing"), 404)
    response = program.put("/v1/echo")
    assert sentence(response, 405)
    assert response.headers["allow"] == "POST"
    response = program.get("/v1/number/three")
    assert "path.number" in sentence(response, 422)
    assert response.json()["fields"] == ["path.number"]


def test_text_that_utf8_cannot_hold_is_still_an_answer() -> None:
    assert application.problem(422, "\ud800.").status_code == 422


def test_templates_escape_names_and_miss_no_variable() -> None:
    environment = page_templates()
    name = "<script>alert('x')</script>"
    shown = environment.from_string('<b title="{{ name }}">{{ name }}</b>').render(name=name)
    assert "<script>" not in shown
    assert "'" not in shown
    with pytest.raises(Exception, match="absent"):
        environment.from_string("{{ absent }}").render()
