"""How the pages write things: words for what the desk says, filters for names and numbers."""

from __future__ import annotations

import secrets
from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from npugraph.names import SHOWN, counted, shorten, visible
from npugraph.report import Estimate, formats
from npugraph.report.charts import range_bar
from npugraph.report.render import breakable
from npugraph.review import Answer, Card, Share
from npugraph.review.web.app import page_templates

PLACES = (
    ("/judge", "Judge"),
    ("/queue", "Queue"),
    ("/progress", "Progress"),
    ("/take-home", "Take it home"),
)
ANSWERS = {
    "true": "True",
    "false": "False",
    "unsure": "Unsure",
    "wrong-relation": "Wrong relation",
    "correct": "Corrected",
}
STATES = {
    "open": "open",
    "right": "judged right",
    "wrong": "judged wrong",
    "unsure": "unsure",
    "dispute": "in dispute",
    "known": "known before the review",
}
WHY = {
    "": "",
    "suspect": "Suspect",
    "missing": "Missing fact",
    "random": "Drawn at random",
    "agreement": "A second look",
    "dispute": "Reviewers disagree",
}
# Values of filters as a reader knows them.
WORDS = {
    **STATES,
    "stored": "Stored facts",
    "suspect": "Suspects",
    "missing": "Missing facts",
    "answered": "answered",
    "skipped": "skipped by you",
    "mine": "answered by you",
}
# What a reviewer may say of an own answer: the value that is kept, the words.
CONFIDENCES = (
    ("0.99", "certain (99%)"),
    ("0.95", "sure (95%)"),
    ("0.8", "fairly sure (80%)"),
    ("0.6", "a guess (60%)"),
)
KEYS = (
    (("T",), "true"),
    (("F",), "false"),
    (("U",), "unsure"),
    (("R",), "wrong relation: both ends exist; Enter saves"),
    (("C",), "correct to …: type, choose with ↓ and Enter; Enter again saves"),
    (("A",), "accept the proposed correction"),
    (("S",), "skip"),
    (("Z",), "undo your last answer"),
    (("N",), "write a note; Esc leaves the field"),
    (("1", "2", "3", "4"), "how sure you are, from certain to a guess"),
    (("Esc",), "close what is open"),
    (("?",), "this list"),
)


@cache
def environment() -> Environment:
    """Return the templates with the words, filters and drawings that they use."""
    made = page_templates()
    made.filters |= {
        "visible": visible,
        "shorten": shorten,
        "breakable": breakable,
        "percent": formats.percent,
        "corrected": corrected,
    }
    made.globals |= {
        "ANSWERS": ANSWERS,
        "STATES": STATES,
        "WHY": WHY,
        "WORDS": WORDS,
        "CONFIDENCES": CONFIDENCES,
        "KEYS": KEYS,
        "SHOWN": SHOWN,
        "places": PLACES,
        "count": counted,
        # New for every form: sent twice, an answer is kept once.
        "key": lambda: secrets.token_urlsafe(16),
        "chance_bar": chance_bar,
        "share_bar": share_bar,
    }
    return made


def chance_bar(card: Card) -> Markup:
    """Draw the probability of a card with its interval, from 0 to 1."""
    assert card.probability is not None
    return range_bar(Estimate(card.probability, card.low, card.high), 0.0, 1.0)


def share_bar(share: Share) -> Markup:
    """Draw the share of wrong facts with its interval, from 0 to a round number."""
    top = formats.nice_ticks(max(share.high, share.value, 0.01))[-1]
    return range_bar(Estimate(share.value, share.low, share.high), 0.0, min(top, 1.0))


def corrected(answer: Answer) -> str:
    """Write what a corrected fact should say."""
    parts = zip(answer.fact, (answer.new_head, answer.new_relation, answer.new_tail), strict=True)
    return " ".join(shorten(new or old) for old, new in parts)


def fact_words(answer: Answer, shown: Any = shorten) -> str:
    """Write the fact of an answer in one line; ``shown`` writes a name."""
    return visible(" ".join(shown(name) for name in answer.fact))
