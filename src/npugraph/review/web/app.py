"""The application: the guard, the files that pages need, and one form for every error."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException

from npugraph.errors import NpugraphError, OutputError, RunError, UnknownNameError
from npugraph.names import shorten
from npugraph.review.web.models import Problem
from npugraph.review.web.security import Access, Guard
from npugraph.version import __version__

log = logging.getLogger(__name__)

# A sentence in the place of the one word that the framework has.
WORDS = {
    400: "The body of the request cannot be read as JSON.",
    404: "There is nothing at this address; /openapi.json lists what there is.",
    405: "This address does not take this method; /openapi.json says which it takes.",
}


# What pages are made of; a browser that may not guess must be told.
KINDS = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
# Fields of a request that an error names at most.
NAMED = 10


def create_app(access: Access, routers: Sequence[APIRouter]) -> Guard:
    """Make the application; the guard stands before all of it, its errors too.

    Args:
        access: who is answered.
        routers: what is answered: the API's, the pages'.
    """
    app = FastAPI(
        title="npugraph",
        version=__version__,
        summary="Facts of a knowledge graph: judge, score and explain them.",
        docs_url=None,
        redoc_url=None,
        # A path is one address: nothing is redirected.
        redirect_slashes=False,
    )
    app.include_router(_static())
    for router in routers:
        app.include_router(router)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(NpugraphError, _user_error)
    app.add_exception_handler(Exception, _unexpected)
    return Guard(app, access)


@cache
def page_templates() -> Environment:
    """Return the templates of the pages: everything is escaped, a missing name is an error."""
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _static() -> APIRouter:
    """Serve the files in ``static``: read now, by name, so that no request opens a path."""
    folder = Path(__file__).parent / "static"
    held = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    # One look for the report and the desk.
    held["report.css"] = (files("npugraph.report") / "style.css").read_bytes()
    router = APIRouter()

    @router.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in held:
            raise HTTPException(404)
        kind = KINDS.get(PurePosixPath(name).suffix, "application/octet-stream")
        return Response(held[name], media_type=kind, headers={"Cache-Control": "no-cache"})

    return router


def problem(status: int, sentence: str, fields: Sequence[str] = ()) -> JSONResponse:
    """Return an error in the one form that all errors have."""
    body = Problem(status=status, error=_text(sentence), fields=[_text(name) for name in fields])
    return JSONResponse(body.model_dump(), status)


def _text(given: str) -> str:
    """Return a text that UTF-8 can hold: half of a surrogate pair becomes a question mark."""
    return given.encode("utf-8", "replace").decode()


async def _invalid(_: Request, error: Exception) -> Response:
    """Say which fields are wrong; what was sent is not repeated, it may be anything."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        return problem(400, WORDS[400])
    fields = [".".join(shorten(str(part)) for part in one["loc"]) for one in found]
    return problem(422, f"{fields[0]}: {found[0]['msg']}.", fields[:NAMED])


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = error.status_code
    response = problem(status, WORDS.get(status) or str(error.detail))
    response.headers.update(error.headers or {})
    if status == 405 and (methods := _methods(request)):
        response.headers["Allow"] = ", ".join(methods)
    return response


def _methods(request: Request) -> list[str]:
    """Return what an address of the API takes; the framework tells of its first route alone."""
    told = request.app.openapi()["paths"].items()
    path = request.url.path
    same = [ways for name, ways in told if re.fullmatch(re.sub(r"{\w+}", "[^/]+", name), path)]
    return sorted({method.upper() for ways in same for method in ways})


def status_of(error: Exception) -> int:
    """Return the status of a user's error that a program can act on."""
    kinds = {UnknownNameError: 404, RunError: 409, OutputError: 503}
    return next((number for kind, number in kinds.items() if isinstance(error, kind)), 422)


async def _user_error(_: Request, error: Exception) -> Response:
    return problem(status_of(error), str(error))


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("%s failed", request.url.path, exc_info=error)
    return problem(500, "The server made a mistake; its terminal says more.")
