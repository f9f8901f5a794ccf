"""The pages of the desk: addresses and plain forms; a script adds keys, and nothing needs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, get_args
from urllib.parse import quote, unquote

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.routing import APIRoute

from npugraph.errors import DataError, NpugraphError
from npugraph.names import percent, shorten
from npugraph.review import AnswerIn, Card, Desk, Filters
from npugraph.review.records import Grouping, Order, check_word
from npugraph.review.web import takehome
from npugraph.review.web.app import status_of
from npugraph.review.web.forms import (
    MOST_NAMES,
    address,
    answer_of,
    described,
    field_text,
    fields,
    filters_of,
    form,
    parameters,
    query_of,
)
from npugraph.review.web.look import ANSWERS, environment, fact_words

# Facts on one page of the queue, values of a facet, answers that are listed, and beside a case.
PAGE_SIZE, FACET_SIZE, LISTED, RECENT = 50, 12, 50, 5
LONGEST_NAME = 200
COOKIE = "npugraph-reviewer"

Form = Annotated[dict[str, str], Depends(form)]


class Pages:
    """Makes the pages of one desk."""

    def __init__(self, desk: Desk, reviewer: str) -> None:
        """Show ``desk``; whoever has not said a name is ``reviewer``."""
        self.desk, self.reviewer = desk, reviewer
        self.templates = environment()

    def router(self) -> APIRouter:
        """Return what is answered under which address."""
        router = APIRouter(route_class=self._route(), include_in_schema=False)
        router.get("/")(self.first)
        router.get("/judge")(self.judge)
        router.get("/judge/{number}")(self.judge_one)
        router.post("/judge/{number}")(self.answer)
        router.post("/undo")(self.undo)
        router.post("/reviewer")(self.rename)
        router.get("/queue")(self.queue)
        router.get("/bulk")(self.bulk)
        router.post("/bulk")(self.answer_all)
        router.get("/progress")(self.progress)
        router.get("/take-home")(self.home)
        router.get("/take-home/{format}")(self.download)
        router.get("/names")(self.names)
        return router

    def _route(self) -> type[APIRoute]:
        """Return a kind of route that shows a user's error as a page."""
        pages = self

        class PageRoute(APIRoute):
            def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
                handle = super().get_route_handler()

                async def guarded(request: Request) -> Response:
                    try:
                        return await handle(request)
                    except NpugraphError as error:
                        status, sentence = status_of(error), str(error)
                        return pages.show("error", request, status=status, sentence=sentence)

                return guarded

        return PageRoute

    def show(
        self,
        template: str,
        request: Request,
        filters: Filters | None = None,
        status: int = 200,
        **context: Any,
    ) -> HTMLResponse:
        """Fill a template with what all pages have, and what this one has."""
        asked = filters or Filters()
        given = {
            "reviewer": self.who(request),
            "here": "/" + request.url.path.split("/")[1],
            "filters": asked,
            "query": query_of(asked),
            "address": address,
            "filtered": asked != Filters(),
            "said": None,
            "refused": "",
        }
        page = self.templates.get_template(f"{template}.html.j2").render({**given, **context})
        # A lone surrogate has no UTF-8 form; a question mark is better than no page.
        return HTMLResponse(page.encode("utf-8", "replace"), status)

    def who(self, request: Request) -> str:
        """Return the name of who asks."""
        return unquote(request.cookies.get(COOKIE, "")).strip()[:LONGEST_NAME] or self.reviewer

    # Who asks

    def first(self, reviewer: str = "") -> Response:
        """Begin, under the name that the address has, if it has one."""
        return self._as(reviewer) if reviewer else RedirectResponse("/judge", 303)

    def rename(self, sent: Form) -> Response:
        """Take another name for what this browser answers."""
        return self._as(sent.get("reviewer", ""))

    @staticmethod
    def _as(reviewer: str) -> Response:
        name = reviewer.strip()
        if not name or len(name) > LONGEST_NAME:
            raise DataError(f"A reviewer's name has 1 to {LONGEST_NAME} characters.")
        response = RedirectResponse("/judge", 303)
        response.set_cookie(
            COOKIE, quote(name), max_age=365 * 86400, httponly=True, samesite="strict"
        )
        return response

    # Judging

    def judge(self, request: Request) -> Response:
        """Show what is to be judged now."""
        given = parameters(request)
        filters = filters_of(given)
        card = self.desk.next(self.who(request), filters)
        return self._case(request, filters, card, said=self._said(request, given))

    def judge_one(self, request: Request, number: int) -> Response:
        """Show one fact."""
        given = parameters(request)
        card = self.desk.card(number, self.who(request))
        return self._case(request, filters_of(given), card, said=self._said(request, given))

    def _case(
        self, request: Request, filters: Filters, card: Card | None, **context: Any
    ) -> HTMLResponse:
        reviewer = self.who(request)
        context.setdefault("given", fields(card) if card else {})
        return self.show(
            "judge",
            request,
            filters,
            card=card,
            progress=self.desk.progress(reviewer),
            recent=self._listed(RECENT, reviewer),
            **context,
        )

    def _listed(self, most: int, reviewer: str = "") -> list[tuple[int, Any, str]]:
        """Return the last answers with the numbers and the words of their facts."""
        material = self.desk.material
        return [
            (material.number(answer.fact), answer, fact_words(answer, material.readable))
            for answer in self.desk.latest(reviewer, most)
        ]

    def _said(self, request: Request, given: Mapping[str, str]) -> dict[str, Any] | None:
        """Return what the address says was just done; anybody may write one, so it is looked up."""
        done, number = given.get("done", ""), given.get("of", "")
        if done == "many" and number.isdecimal():
            return {"words": f"Saved {int(number):,} answers.", "undo": True}
        if done == "undone-many" and number.isdecimal():
            return {"words": f"Took {int(number):,} answers back.", "undo": False}
        if done == "none":
            return {"words": "There is nothing to undo.", "undo": False}
        if done not in ("saved", "skipped", "undone") or not number.isdecimal():
            return None
        reviewer = self.who(request)
        card = self.desk.brief(int(number), reviewer)
        fact = " ".join(shorten(name.shown) for name in (card.head, card.relation, card.tail))
        if done != "saved":
            words = "Skipped" if done == "skipped" else "Taken back"
            return {"words": f"{words}: {fact}.", "undo": False}
        mine = [answer for answer in card.answers if answer.reviewer == reviewer]
        if not mine:
            return None
        model = "" if card.probability is None else f" The model: {percent(card.probability)} true."
        return {"words": f"Saved: {ANSWERS[mine[-1].answer]}. {fact}.{model}", "undo": True}

    def answer(self, request: Request, number: int, sent: Form) -> Response:
        """Keep an answer, and go on to the next fact."""
        filters, reviewer = filters_of(parameters(request)), self.who(request)
        if sent.get("answer") == "skip":
            self.desk.skip(reviewer, number)
            return self._on("/judge", filters, done="skipped", of=number)
        card = self.desk.card(number, reviewer)
        try:
            self.desk.answer(reviewer, number, answer_of(self.desk, card, sent))
        except DataError as error:
            # What was typed is not lost.
            page = self._case(request, filters, card, given=fields(card, sent), refused=str(error))
            page.status_code = 422
            return page
        return self._on("/judge", filters, done="saved", of=number)

    def undo(self, request: Request, sent: Form) -> Response:
        """Take the last answer back, and show its fact again."""
        filters = filters_of(parameters(request))
        saved = self.desk.undo(self.who(request), sent.get("key", ""))
        if saved is None or not saved.answers:
            return self._on("/judge", filters, done="none")
        if len(saved.answers) > 1:
            return self._on("/queue", filters, done="undone-many", of=len(saved.answers))
        return self._on(f"/judge/{saved.numbers[0]}", filters, done="undone", of=saved.numbers[0])

    @staticmethod
    def _on(place: str, filters: Filters, **more: Any) -> Response:
        return RedirectResponse(f"{place}{address({**dataclasses.asdict(filters), **more})}", 303)

    # The queue

    def queue(self, request: Request) -> Response:
        """List what passes the filters."""
        given = parameters(request)
        filters, reviewer = filters_of(given), self.who(request)
        more = {name: given.get(name, "") for name in ("order", "group", "cursor")}
        check_word("order", more["order"], ("", *get_args(Order)))
        check_word("group", more["group"], get_args(Grouping))
        page = self.desk.page(
            reviewer,
            filters,
            more["order"] or None,  # type: ignore[arg-type]
            more["group"],  # type: ignore[arg-type]
            more["cursor"],
            PAGE_SIZE,
        )
        chosen = {**dataclasses.asdict(filters), "order": more["order"], "group": more["group"]}

        def link(name: str, value: str) -> str:
            return f"/queue{address({**chosen, name: value})}"

        def grouped(name: str) -> str:
            return address({**dataclasses.asdict(filters), more["group"]: name})

        return self.show(
            "queue",
            request,
            filters,
            page=page,
            facets=self.desk.facets(reviewer, filters),
            most=FACET_SIZE,
            link=link,
            grouped=grouped,
            kept=address({**dataclasses.asdict(filters), "text": ""})[1:],
            said=self._said(request, given),
            order=more["order"],
            group=more["group"],
            cursor=more["cursor"],
        )

    def bulk(self, request: Request) -> Response:
        """Show what one answer for all would touch."""
        filters = filters_of(parameters(request))
        preview = self.desk.preview(self.who(request), filters)
        return self.show("bulk", request, filters, preview=preview, described=described(filters))

    def answer_all(self, request: Request, sent: Form) -> Response:
        """Give one answer to all facts of a filter, if they are still as many as were shown."""
        filters, reviewer = filters_of(parameters(request)), self.who(request)
        word = sent.get("answer", "")
        if word not in ("true", "false", "unsure"):
            raise DataError("Choose an answer for all: true, false or unsure.")
        shown = sent.get("count", "")
        given = AnswerIn(sent.get("key", ""), word)
        count = int(shown) if shown.isdecimal() else -1
        saved = self.desk.answer_all(reviewer, filters, given, count)
        return self._on("/queue", filters, done="many", of=len(saved.answers))

    # The rest

    def progress(self, request: Request) -> Response:
        """Show how far the review is, and what it has found."""
        return self.show(
            "progress",
            request,
            progress=self.desk.progress(self.who(request)),
            agreement=self.desk.agreement(),
            answers=self._listed(LISTED),
            learn_every=self.desk.settings.learn_every,
        )

    def home(self, request: Request) -> Response:
        """Say how to take the answers home."""
        folder, record = self.desk.material.folder, self.desk.material.record
        return self.show(
            "home",
            request,
            offers=takehome.offers(folder, record),
            round_trip=takehome.round_trip(record),
            changes=takehome.decided(folder),
        )

    def download(self, format: str) -> Response:
        """Return what an export writes."""
        return takehome.download(self.desk.material.folder, format)

    def names(self, of: str = "entity", text: str = "") -> Response:
        """Return names that hold a text, for the fields that search among them."""
        found = (self.desk.relations if of == "relation" else self.desk.entities)(text, MOST_NAMES)
        names = [{"name": name.value, "shown": field_text(name)} for name in found]
        return JSONResponse({"names": names})
