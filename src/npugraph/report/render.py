"""Fill the page: rows as JSON for the script, the first of them as HTML for everyone else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from npugraph.data.io import written_whole
from npugraph.errors import writing
from npugraph.names import SHOWN, counted, shorten
from npugraph.report import charts, formats
from npugraph.report.data import (
    INTERVAL,
    Coefficient,
    Estimate,
    FactRow,
    RelationHealth,
    ReportData,
)

# Rows of a review list on one page, and so the rows that are readable without JavaScript.
PAGE_SIZE = 25
# Up to this many rows a reader may ask for all at once; more would make typing slow.
ALL_ROWS = 1000
# Characters of a cut name that are shown when the pointer rests on it.
TITLE = 1000
# Relations that are shown at once; the others are a click away.
RELATIONS_SHOWN = 10
# Beside a correction that makes a fact which is there already.
STORED_NOTE = "stored already: take this fact out"
# The groups of evidence: field of Evidence, heading.
GROUPS = {
    "contradicting": "Speaks against it",
    "supporting": "Speaks for it",
    "usual": "What is usual",
    "alternatives": "What would fit better",
}
# Characters that could end a script element or start a comment in it; JSON may escape any.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}

# The place after a sign at which a long label may break; script.js has the same.
_JOINT = re.compile(r"(?<=[/_#:.])(?=[^/_#:.])")


def write_report(data: ReportData, path: Path) -> None:
    """Write the report to ``path`` as UTF-8; equal data give equal bytes."""
    # A lone surrogate has no UTF-8 form; a question mark is better than no report.
    page = render_report(data).encode("utf-8", "replace")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as temporary:
        temporary.write_bytes(page)


def render_report(data: ReportData) -> str:
    """Return the report as one HTML document that needs no other file.

    >>> from npugraph.report import GraphSummary, Health, Provenance
    >>> page = render_report(ReportData(
    ...     GraphSummary("toy", 0, 0, 0), Provenance("complex-n3", 0, 5), Health(None, "No facts.")
    ... ))
    >>> page.startswith("<!doctype html>"), "No facts." in page
    (True, True)
    """
    style, script = _asset("style.css"), _asset("script.js")
    share = None if data.health.wrong is None else data.health.wrong.value
    tested = data.assessment and data.assessment.reliability
    template = _environment().get_template("template.html.j2")
    page: str = template.render(
        data=data,
        style=Markup(style),
        script=Markup(script),
        policy=_policy(style, script),
        level=f"{INTERVAL:.0%}",
        page_size=PAGE_SIZE,
        all_rows=ALL_ROWS,
        name_shown=SHOWN,
        name_title=TITLE,
        stored_note=STORED_NOTE,
        relations_shown=RELATIONS_SHOWN,
        groups=GROUPS,
        suspects=_row_views(data.suspects),
        missing=_row_views(data.missing),
        names=_long_names,
        shown_names=lambda rows: _shown_names(data.names, rows),
        relations=_relation_views(data),
        share_scale=_share_scale([r.wrong for r in data.health.by_relation]),
        headline_scale=_share_scale([data.health.wrong]),
        coefficient_scale=_coefficient_scale(data.collection),
        reliability_chart=data.reliability and charts.reliability_chart(data.reliability),
        tested_chart=tested and charts.reliability_chart(tested, "tested"),
        yield_chart=data.yield_curve and charts.yield_chart(data.yield_curve, share),
        wrong_share=share,
    )
    return page


@cache
def _asset(name: str) -> str:
    # Text mode turns CRLF into LF, as the browser does before it checks the hash.
    return (files("npugraph.report") / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "embedded_json": embedded_json,
        "breakable": breakable,
        "shorten": shorten,
        "percent": formats.percent,
        "percent_range": formats.percent_range,
        "decimal": formats.decimal,
        "decimal_range": formats.decimal_range,
    }
    environment.globals |= {"count": counted, "range_bar": charts.range_bar}
    return environment


def embedded_json(value: Any) -> Markup:
    r"""Write JSON that is safe inside a script element.

    >>> str(embedded_json({"head": "</script>"}))
    '{"head":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_UNSAFE))


def breakable(text: str) -> Markup:
    """Escape a label and let it break after the signs that join the words of paths and IRIs.

    >>> str(breakable("a/b_c & d"))
    'a/<wbr>b_<wbr>c &amp; d'
    """
    return Markup("<wbr>").join(_JOINT.split(text))


def _policy(style: str, script: str) -> str:
    """Allow the page's own style and script by their hashes, and nothing else."""

    def source(text: str) -> str:
        digest = hashlib.sha256(text.encode("utf-8")).digest()
        return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"

    return "; ".join(
        [
            "default-src 'none'",
            f"style-src {source(style)}",
            f"script-src {source(script)}",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _row_views(rows: Sequence[FactRow]) -> list[dict[str, Any]]:
    """Return one plain record per row: the script and the template show the same strings."""
    views = []
    for rank, row in enumerate(rows, start=1):
        chance = row.probability
        view: dict[str, Any] = {
            "rank": rank,
            "head": row.head,
            "relation": row.relation,
            "tail": row.tail,
            "probability": None if chance is None else _short(chance.value),
            "low": None if chance is None else _short(chance.low),
            "high": None if chance is None else _short(chance.high),
            "shown": "not told" if chance is None else formats.percent(chance.value),
            "interval": "" if chance is None else formats.percent_range(chance),
            "score": _short(row.score),
            "scoreShown": formats.decimal(row.score),
            "mark": row.mark,
            "side": row.correction.side if row.correction else "",
            "correction": row.correction.label if row.correction else None,
            "stored": bool(row.correction and row.correction.stored),
            "evidence": {
                name: list(getattr(row.evidence, name))
                for name in GROUPS
                if getattr(row.evidence, name)
            },
        }
        views.append(view)
    return views


def _shown_names(names: Mapping[str, str], rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return how the names in some rows are shown, where not as they are."""
    found = {row[key] for row in rows for key in ("head", "relation", "tail", "correction")}
    return {name: names[name] for name in sorted(found - {None}) if name in names}


def _long_names(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the rows with long names as numbers, and these names: each is in the page once.

    The script puts the names back, so that search, sorting and the TSV have them whole.
    """
    number: dict[str, int] = {}

    def stored(name: str | None) -> str | int | None:
        if name is None or len(name) <= SHOWN:
            return name
        return number.setdefault(name, len(number))

    columns = ("head", "relation", "tail", "correction")
    kept = [{**row, **{column: stored(row[column]) for column in columns}} for row in rows]
    return {"rows": kept, "names": list(number)}


def _short(value: float | None) -> float | None:
    # Six digits are more than anyone reads, and keep a list of thousands small.
    return None if value is None else float(f"{value:.6g}")


def _relation_views(data: ReportData) -> list[dict[str, Any]]:
    """Return the relations, the most wrong facts first, unknown ones last."""
    listed = Counter(row.relation for row in data.suspects)

    def order(relation: RelationHealth) -> tuple[bool, float, int, str]:
        wrong = 0.0 if relation.wrong is None else relation.wrong.value * relation.facts
        return relation.wrong is None, -wrong, -relation.facts, relation.relation

    return [
        {"health": relation, "listed": listed[relation.relation]}
        for relation in sorted(data.health.by_relation, key=order)
    ]


def _share_scale(estimates: Sequence[Estimate | None]) -> tuple[float, float]:
    """Return the ends of the axis that fits all shares: 0 and a round number, at most 1."""
    tops = [max(e.value, e.high or 0.0) for e in estimates if e is not None]
    return 0.0, min(1.0, formats.nice_ticks(max(tops, default=1.0))[-1])


def _coefficient_scale(coefficients: Sequence[Coefficient]) -> tuple[float, float]:
    """Return the ends of an axis that is even about 0, so that signs can be compared."""
    ends = [
        abs(number)
        for c in coefficients
        for number in (c.value.value, c.value.low, c.value.high)
        if number is not None
    ]
    reach = formats.nice_ticks(max(ends, default=1.0))[-1]
    return -reach, reach
