"""A table as one HTML page that needs no other file; its style is that of the audit's report."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from npugraph.bench.layout import Table
from npugraph.bench.render import IMPOSSIBLE, shared_heads


def to_html(table: Table) -> str:
    """Return a table as one HTML page; equal tables give equal bytes."""
    style = _asset("npugraph.report", "style.css") + _asset("npugraph.bench", "table.css")
    style = " ".join(style.split())
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    page: str = (
        _environment()
        .get_template("table.html.j2")
        .render(
            table=table,
            style=Markup(style),
            # The page's own style by its hash, and nothing else.
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'",
            shared_heads=shared_heads,
            impossible=IMPOSSIBLE,
        )
    )
    # Line ends between elements mean nothing, and hundreds of rows have thousands of them.
    return re.sub(r">\s*\n\s*<", "><", page) + "\n"


@cache
def _asset(package: str, name: str) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(lambda name: _asset("npugraph.bench", name)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
