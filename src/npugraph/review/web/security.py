"""Who is answered, and what a browser may do with the answer.

The server listens on the loopback address, but every page that a browser of this machine has open
can send requests there, and a name of a stranger's domain may be made to point there (DNS
rebinding). So, in this order, a request is answered only where

1. its Host is this server by a name of this machine,
2. no page of another origin made it (Origin, Sec-Fetch-Site),
3. it has the token: in the header ``Authorization: Bearer TOKEN``, or as the cookie that the URL
   with the token sets; by cookie, what changes something must also say that our own page asks,
4. its body is not too large; it is read here, so that nobody else need count.

Every answer, a refusal too, has the headers that keep a browser from running or framing anything.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from npugraph.errors import SettingsError

LOOPBACK = "127.0.0.1"
# Answered without a token: it says what can be asked, and nothing about the data.
PUBLIC = "/openapi.json"
SAFE = ("GET", "HEAD", "OPTIONS")
LEAST_TOKEN = 16
# Bytes: a few long names, each byte written as three.
LONGEST_ADDRESS = 2**18
CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def new_token() -> str:
    """Return a token that nobody guesses."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Access:
    """Who is answered.

    Attributes:
        port: where the server listens.
        token: what a request must have.
        largest: bytes that a request's body has at most.
    """

    port: int
    token: str = field(default_factory=new_token, repr=False)
    largest: int = 2**20

    def __post_init__(self) -> None:
        """Refuse a token that can be guessed, or that a URL or a header cannot carry."""
        if not re.fullmatch(rf"[A-Za-z0-9_.~-]{{{LEAST_TOKEN},}}", self.token):
            raise SettingsError(
                f"The token must have {LEAST_TOKEN} characters or more, of letters, digits and "
                "- . _ ~; leave it out, and one is drawn."
            )

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"http://{LOOPBACK}:{self.port}/"

    @property
    def hosts(self) -> frozenset[str]:
        """What a request's Host may say."""
        names = (LOOPBACK, "localhost", "[::1]")
        bare = names if self.port == 80 else ()
        return frozenset((*bare, *(f"{name}:{self.port}" for name in names)))

    @property
    def cookie(self) -> tuple[str, str]:
        """Name and value of the cookie.

        Cookies know no ports: the name keeps two servers apart, and another server on this machine
        that is visited sees a value from which the token cannot be told.
        """
        value = hmac.new(self.token.encode(), b"cookie", hashlib.sha256).hexdigest()
        return f"npugraph-{self.port}", value


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered: the status and one sentence."""

    status: int
    sentence: str


WRONG_HOST = Refusal(403, "The Host is not this server; use the URL printed at its start.")
OTHER_ORIGIN = Refusal(403, "Another site's page made this request; only this server's own may.")
NO_TOKEN = Refusal(
    401,
    "The token is missing or wrong: open the URL printed at the server's start, or send the header "
    "'Authorization: Bearer TOKEN'.",
)


class Guard:
    """Stands before the application: refuses what it should not see, and adds the headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        """Guard ``app`` for who has ``access``."""
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refusal = _too_long(scope) or self._other_place(headers, scope["method"])
        if refusal is None and self._opens(scope):
            await self._welcome(scope)(scope, receive, send)
            return
        if refusal is None and scope["path"] != PUBLIC:
            refusal = self._without_token(headers, scope["method"])
        if refusal is None:
            body = await self._body(headers, receive)
            if body is None:
                return
            if isinstance(body, bytes):
                await self.app(scope, _replayed(body, receive), send)
                return
            refusal = body
        await refused(refusal, scope)(scope, receive, send)

    def _other_place(self, headers: Headers, method: str) -> Refusal | None:
        """Refuse what was meant for another server, or made by another site's page."""
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or hosts[0] not in self.access.hosts:
            return WRONG_HOST
        site = headers.get("sec-fetch-site", "none")
        for origin in headers.getlist("origin"):
            # Browsers write "null" for a form of a page that sends no referrer, such as ours.
            own = origin == f"http://{hosts[0]}" or (origin == "null" and site == "same-origin")
            if not own:
                return OTHER_ORIGIN
        # A link on another page may lead here; nothing else of it may.
        followed = method in SAFE and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("same-origin", "none") and not followed:
            return OTHER_ORIGIN
        return None

    def _without_token(self, headers: Headers, method: str) -> Refusal | None:
        """Refuse who has neither the token nor the cookie."""
        for value in headers.getlist("authorization"):
            scheme, _, token = value.partition(" ")
            if scheme.lower() == "bearer" and _same(token.strip(), self.access.token):
                return None
        name, value = self.access.cookie
        given = cookie_parser("; ".join(headers.getlist("cookie"))).get(name, "")
        if not _same(given, value):
            return NO_TOKEN
        # A browser sends the cookie by itself: our page must be known to have asked.
        asked = "origin" in headers or headers.get("sec-fetch-site") == "same-origin"
        return None if method in SAFE or asked else OTHER_ORIGIN

    def _opens(self, scope: Scope) -> bool:
        """Tell whether this is the URL that was printed at the start."""
        if scope["method"] != "GET" or scope["path"] != "/":
            return False
        return any(_same(value, self.access.token) for value in _query(scope).get("token", ()))

    def _welcome(self, scope: Scope) -> Response:
        """Set the cookie, and take the token out of the address and the browser's history."""
        rest = [(key, value) for key, values in _query(scope).items() for value in values]
        kept = urlencode([(key, value) for key, value in rest if key != "token"])
        response = Response(status_code=303, headers={"Location": f"/?{kept}" if kept else "/"})
        name, value = self.access.cookie
        response.set_cookie(name, value, path="/", httponly=True, samesite="strict")
        return response

    async def _body(self, headers: Headers, receive: Receive) -> bytes | Refusal | None:
        """Read the whole body; refuse it as soon as it is known to be too large.

        None where the sender went away: half a form must not be taken for a whole one.
        """
        largest = self.access.largest
        too_large = Refusal(
            413, f"The request has more than {largest:,} bytes; send less of it at once."
        )
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared[:20]) > largest:
            return too_large
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > largest:
                return too_large
            if not message.get("more_body", False):
                return bytes(body)


def _too_long(scope: Scope) -> Refusal | None:
    """Refuse an address that no names can fill."""
    if len(scope.get("raw_path") or b"") + len(scope["query_string"]) <= LONGEST_ADDRESS:
        return None
    return Refusal(414, f"The address has more than {LONGEST_ADDRESS:,} bytes; ask for less.")


def refused(refusal: Refusal, scope: Scope) -> Response:
    """Return a refusal: one sentence for a person, one object for a program."""
    status, sentence = refusal.status, refusal.sentence
    extra = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if "text/html" in Headers(scope=scope).get("accept", "") and scope["method"] == "GET":
        return PlainTextResponse(f"{sentence}\n", status, extra)
    return JSONResponse({"status": status, "error": sentence, "fields": []}, status, extra)


def _same(given: str, right: str) -> bool:
    """Compare in a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode())


def _query(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    text = scope["query_string"].decode("latin-1")
    for key, value in parse_qsl(text, keep_blank_values=True, errors="replace"):
        found.setdefault(key, []).append(value)
    return found


def _with_headers(send: Send) -> Send:
    """Add the headers to every answer; one that has its own for a name keeps it."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Hand on a body that was read already."""
    left = [body]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again
