"""The desk over HTTP, for programs: the queue, the answers and what they say of the graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query
from pydantic import BaseModel

from npugraph.errors import DataError, UnknownNameError
from npugraph.review import Agreement, Card, Desk, Facets, Page, Preview, Progress, Saved
from npugraph.review.web import asked as ask
from npugraph.review.web.models import (
    AnswerPage,
    Estimate,
    Found,
    Problem,
    Served,
    Undone,
    as_model,
    mirrored,
)
from npugraph.review.web.scoring import api_router

# Where something is written, that may fail.
SAVING: dict[int | str, dict[str, Any]] = {
    503: {"model": Problem, "description": "It could not be kept; nothing was changed."}
}
NumberPath = Annotated[int, Path(ge=0, le=2**53, description="Number of the fact.")]


def desk_router(desk: Desk) -> APIRouter:
    """Return what the desk can be asked and told."""
    router = api_router()
    _add_queue(router, desk)
    _add_answers(router, desk)
    _add_figures(router, desk)
    return router


def _add_queue(router: APIRouter, desk: Desk) -> None:
    """Add what is to be judged."""

    @router.get("/queue", response_model=mirrored(Page), tags=["queue"])
    def queue(asked: Annotated[ask.PageIn, Query()]) -> BaseModel:
        """Return some of the facts that pass filters, in order; without their evidence."""
        return as_model(
            desk.page(
                asked.reviewer,
                asked.filters(),
                asked.order,
                asked.group_by,
                asked.cursor,
                asked.size,
            )
        )

    @router.get("/queue/next", response_model=mirrored(Served), tags=["queue"])
    def next_card(asked: Annotated[ask.FiltersIn, Query()]) -> BaseModel:
        """Return what a reviewer should judge now; the same until it is answered or skipped."""
        return as_model(Served(desk.next(asked.reviewer, asked.filters())))

    @router.get("/queue/facets", response_model=mirrored(Facets), tags=["queue"])
    def facets(asked: Annotated[ask.FiltersIn, Query()]) -> BaseModel:
        """Return what can be filtered by, and how many facts that leaves."""
        return as_model(desk.facets(asked.reviewer, asked.filters()))

    @router.get("/cards/{number}", response_model=mirrored(Card), tags=["queue"])
    def card(number: NumberPath, asked: Annotated[ask.ReviewerIn, Query()]) -> BaseModel:
        """Return a fact with its evidence; blind where it was served so and is not answered."""
        return as_model(desk.card(number, asked.reviewer))

    @router.get("/entities", response_model=mirrored(Found), tags=["queue"])
    def entities(asked: Annotated[ask.SearchIn, Query()]) -> BaseModel:
        """Find entities by a part of their name."""
        return as_model(Found(desk.entities(asked.text, asked.limit)))

    @router.get("/relations", response_model=mirrored(Found), tags=["queue"])
    def relations(asked: Annotated[ask.SearchIn, Query()]) -> BaseModel:
        """Find relations by a part of their name."""
        return as_model(Found(desk.relations(asked.text, asked.limit)))


def _add_answers(router: APIRouter, desk: Desk) -> None:
    """Add what reviewers say."""

    @router.get("/answers", response_model=mirrored(AnswerPage), tags=["answers"])
    def answers(asked: Annotated[ask.AnswersIn, Query()]) -> BaseModel:
        """Return the answers that hold, oldest first, of one reviewer or of all."""
        # One more than asked for tells whether another page follows.
        found = desk.answers(asked.reviewer, int(asked.cursor or 0), asked.size + 1)
        page = found[: asked.size]
        return as_model(AnswerPage(page, str(page[-1].id) if len(found) > len(page) else ""))

    @router.post("/answers", response_model=mirrored(Saved), responses=SAVING, tags=["answers"])
    def answer(asked: ask.OneAnswerIn) -> BaseModel:
        """Keep an answer; it is safe on the disk when this returns."""
        with _conflicts():
            return as_model(desk.answer(asked.reviewer, asked.number, asked.said()))

    @router.post(
        "/answers/undo", response_model=mirrored(Undone), responses=SAVING, tags=["answers"]
    )
    def undo(asked: ask.UndoIn) -> BaseModel:
        """Take back what a reviewer said last; after a bulk answer, all of it."""
        with _conflicts():
            return as_model(Undone(desk.undo(asked.reviewer, asked.key)))

    @router.post("/answers/skip", status_code=204, responses=SAVING, tags=["answers"])
    def skip(asked: ask.SkipIn) -> None:
        """Put a fact aside for this reviewer; others may still get it."""
        desk.skip(asked.reviewer, asked.number)

    @router.get("/answers/preview", response_model=mirrored(Preview), tags=["answers"])
    def preview(asked: Annotated[ask.FiltersIn, Query()]) -> BaseModel:
        """Tell what one answer about all facts that pass filters would touch."""
        return as_model(desk.preview(asked.reviewer, asked.filters()))

    @router.post(
        "/answers/bulk", response_model=mirrored(Saved), responses=SAVING, tags=["answers"]
    )
    def bulk(asked: ask.BulkIn) -> BaseModel:
        """Give all facts that pass filters the same answer, all of them or none."""
        with _conflicts():
            saved = desk.answer_all(asked.reviewer, asked.filters(), asked.said(), asked.count)
            return as_model(saved)


def _add_figures(router: APIRouter, desk: Desk) -> None:
    """Add what the answers amount to."""

    @router.get("/estimate", response_model=mirrored(Estimate), tags=["figures"])
    def estimate() -> BaseModel:
        """Return the share of wrong facts among all that are stored, with its interval."""
        progress = desk.progress("")
        return as_model(Estimate(progress.share, progress.estimate, progress.enough))

    @router.get("/progress", response_model=mirrored(Progress), tags=["figures"])
    def progress(asked: Annotated[ask.ReviewerIn, Query()]) -> BaseModel:
        """Return how far the review is."""
        return as_model(desk.progress(asked.reviewer))

    @router.get("/agreement", response_model=mirrored(Agreement), tags=["figures"])
    def agreement() -> BaseModel:
        """Return how far reviewers agree who judged the same facts."""
        return as_model(desk.agreement())


@contextmanager
def _conflicts() -> Iterator[None]:
    """Say 409 to what has the right form and contradicts what the desk knows."""
    try:
        yield
    except UnknownNameError:
        raise
    except DataError as error:
        raise HTTPException(409, str(error)) from None
