"""The review desk: judge the facts of an audit, learn from every answer."""

from __future__ import annotations

from npugraph.review.cards import Card, Issue, Name, Neighbour
from npugraph.review.desk import Desk
from npugraph.review.records import (
    Agreement,
    AnswerIn,
    DeskSettings,
    Facet,
    Facets,
    Filters,
    Group,
    Page,
    Preview,
    Progress,
    Saved,
    Share,
)
from npugraph.review.store import Answer, NewAnswer, Store

__all__ = [
    "Agreement",
    "Answer",
    "AnswerIn",
    "Card",
    "Desk",
    "DeskSettings",
    "Facet",
    "Facets",
    "Filters",
    "Group",
    "Issue",
    "Name",
    "Neighbour",
    "NewAnswer",
    "Page",
    "Preview",
    "Progress",
    "Saved",
    "Share",
    "Store",
]
