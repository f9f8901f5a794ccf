"""What the pages are sent: addresses with filters, forms with answers; they may hold anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from fastapi import Request

from npugraph.errors import DataError
from npugraph.names import shorten, visible
from npugraph.review import AnswerIn, Card, Desk, Facet, Filters, Name
from npugraph.review.web.look import CONFIDENCES

# Fields of one form, and names that are offered.
MOST_FIELDS, MOST_NAMES = 50, 12
FILTERS = tuple(field.name for field in dataclasses.fields(Filters))
SIDES = ("head", "relation", "tail")


async def form(request: Request) -> dict[str, str]:
    """Read a form that a browser sent; of a field that is there twice, the last counts."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise DataError(f"The form has more than {MOST_FIELDS} fields.") from None


def parameters(request: Request) -> dict[str, str]:
    """Return what an address asks for; ``with`` holds, encoded, what a field cannot hold."""
    given = dict(request.query_params)
    return {**dict(parse_qsl(given.pop("with", ""))), **given}


def filters_of(given: Mapping[str, str]) -> Filters:
    """Return the filters of an address; what is no filter is left."""
    return Filters(**{name: given[name] for name in FILTERS if given.get(name)})  # type: ignore[arg-type]


def address(given: Mapping[str, Any]) -> str:
    """Write parameters as the end of an address; empty ones are left out.

    >>> address({"relation": "in & out", "text": ""}), address({})
    ('?relation=in+%26+out', '')
    """
    kept = urlencode({name: value for name, value in given.items() if value not in ("", None)})
    return f"?{kept}" if kept else ""


def query_of(filters: Filters) -> str:
    """Write filters as the end of an address."""
    return address(dataclasses.asdict(filters))


def described(filters: Filters) -> str:
    """Say in words which facts pass some filters."""
    parts = [
        f"{name} {shorten(value)!r}" for name, value in dataclasses.asdict(filters).items() if value
    ]
    return f"All facts with {', '.join(parts)}." if parts else "All facts of the queue."


def fields(card: Card, sent: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what the fields of a card's form hold: what was sent, or the fact as it is."""
    sent = sent or {}
    given = {
        f"new_{side}": sent.get(f"new_{side}", field_text(getattr(card, side))) for side in SIDES
    }
    return {
        **given,
        **{name: sent.get(name, "") for name in ("right_relation", "note", "confidence")},
        "unknown": sent.get("unknown") == "yes",
        "open": sent.get("answer") == "correct",
        "side": card.correction.side if card.correction else "tail",
    }


def field_text(name: Name | Facet) -> str:
    """Return a name as a text field can hold it."""
    return shorten(visible(name.shown))


def answer_of(desk: Desk, card: Card, sent: Mapping[str, str]) -> AnswerIn:
    """Make the answer of a form; names that are unknown or unclear are refused by a sentence."""
    said = sent.get("answer", "")
    new: dict[str, str | None] = dict.fromkeys(SIDES)
    if said == "proposed":
        if card.correction is None:
            raise DataError("No correction is proposed for this fact; say what is right.")
        if card.correction.stored:
            # What was meant is there: nothing is put in the place of this fact.
            said = "false"
        else:
            said, new[card.correction.side] = "correct", card.correction.name.name
    elif said == "wrong-relation":
        new["relation"] = _chosen(desk, "right_relation", sent, Name("", ""))
    elif said == "correct":
        for side in SIDES:
            new[side] = _chosen(desk, f"new_{side}", sent, getattr(card, side))
    confidence = sent.get("confidence", "")
    if confidence not in ("", *(value for value, _ in CONFIDENCES)):
        raise DataError(f"The confidence {shorten(confidence)!r} is none of those offered.")
    return AnswerIn(
        key=sent.get("key", ""),
        answer=said,
        new_head=new["head"],
        new_relation=new["relation"],
        new_tail=new["tail"],
        confidence=float(confidence) if confidence else None,
        note=sent.get("note", "").strip(),
    )


def _chosen(desk: Desk, field: str, sent: Mapping[str, str], now: Name) -> str | None:
    """Return the name that a field says, None where it was left as it is."""
    text, exact = sent.get(field, "").strip(), sent.get(f"{field}_exact", "")
    if exact:
        return unquote(exact)
    if not text or text in (field_text(now).strip(), now.name.strip()):
        return None
    relation = field.endswith("relation")
    found = (desk.relations if relation else desk.entities)(text, MOST_NAMES)
    same = [one for one in found if one.value == text]
    same = same or [one for one in found if text in (one.shown, field_text(one))]
    if len(same) == 1:
        return same[0].value
    if not same and sent.get("unknown") == "yes":
        return text
    kind = "relation" if relation else "entity"
    what = "Several names are shown as" if same else f"There is no {kind}"
    near = ", ".join(repr(shorten(one.value)) for one in (same or found)[:5])
    hint = f"write one of {near}" if near else "search by a part of the name"
    raise DataError(f"{what} {shorten(text)!r}; {hint}.")
