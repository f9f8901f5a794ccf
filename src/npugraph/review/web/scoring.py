"""Score, predict and explain over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel

from npugraph.explaining import Explanation
from npugraph.review.questions import Questions
from npugraph.review.web.asked import ExplainIn, HeadsOf, ScoreIn, TailsOf
from npugraph.review.web.models import Predictions, Problem, ScoredFacts, as_model, mirrored

# Why a question is not answered; each has the same form.
REASONS = {
    400: "The body cannot be read as JSON.",
    401: "The token is missing or wrong.",
    403: "Another host or origin was named.",
    404: "There is no such name, number or address.",
    409: "What is served cannot answer this.",
    413: "The body is too large.",
    414: "The address is too long.",
    422: "A value is wrong; ``fields`` says which.",
}


def api_router() -> APIRouter:
    """Return an empty router of version 1: its errors are documented, it asks for the token."""
    bearer = HTTPBearer(
        auto_error=False, description="The token that was printed at the server's start."
    )
    told: dict[int | str, dict[str, Any]] = {
        status: {"model": Problem, "description": text} for status, text in REASONS.items()
    }
    return APIRouter(prefix="/v1", responses=told, dependencies=[Security(bearer)])


def scoring_router(questions: Questions) -> APIRouter:
    """Return what a run or an audit can be asked."""
    router = api_router()

    @router.post("/facts/score", response_model=mirrored(ScoredFacts), tags=["score"])
    def score(asked: ScoreIn) -> BaseModel:
        """Score facts, known or not: one out for each one in.

        An audit answers for the facts that it judged; others have neither score nor probability.
        """
        found = questions.score([fact.names() for fact in asked.facts])
        return as_model(ScoredFacts(tuple(found)))

    @router.post("/predict", response_model=mirrored(Predictions), tags=["score"])
    def predict(asked: TailsOf | HeadsOf) -> BaseModel:
        """Answer (head, relation, ?) or (?, relation, tail); of a run only, an audit says 409."""
        found = questions.predict(
            head=asked.head if isinstance(asked, TailsOf) else None,
            relation=asked.relation,
            tail=asked.tail if isinstance(asked, HeadsOf) else None,
            k=asked.k,
            only_new=asked.only_new,
        )
        return as_model(Predictions(tuple(found)))

    @router.post("/explain", response_model=mirrored(Explanation), tags=["score"])
    def explain(asked: ExplainIn) -> BaseModel:
        """Return the evidence for and against a fact, stored or not."""
        return as_model(questions.explain(asked.names(), asked.top))

    return router
