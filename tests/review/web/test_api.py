"""The desk over HTTP: a program reviews as a person does, and hears the same as Python."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from hostile_names import HOSTILE
from npugraph.errors import OutputError
from npugraph.review import AnswerIn, Desk, Filters
from npugraph.review.web.asked import FiltersIn, SaidIn

ANN = {"reviewer": "ann"}


def plain(record: Any) -> Any:
    """Return a record as JSON has it."""
    return json.loads(json.dumps(dataclasses.asdict(record)))


def said(client: TestClient, number: int, key: str, answer: str = "false", **more: Any) -> Any:
    body = {**ANN, "number": number, "key": key, "answer": answer, **more}
    return client.post("/v1/answers", json=body)


def documented(client: TestClient, path: str, asked: dict[str, Any]) -> None:
    """Check that an answer has the form that the OpenAPI promises."""
    forms = client.get("/openapi.json").json()
    answer = client.get(path, params=asked)
    template = re.sub(r"[0-9]+$", "{number}", path)
    told = forms["paths"][template]["get"]["responses"][str(answer.status_code)]
    form = told["content"]["application/json"]["schema"]
    whole = {**form, "components": forms["components"]}
    Draft202012Validator(whole).validate(answer.json())


def error_of(response: Any, status: int) -> str:
    assert response.status_code == status, response.text
    assert response.json()["status"] == status
    return str(response.json()["error"])


# The queue


def test_pages_follow_one_another_to_the_last(desk_client: TestClient, desk: Desk) -> None:
    asked = {**ANN, "kind": "stored", "relation": "knows", "size": 30, "order": "teaches"}
    seen: list[int] = []
    cursor = ""
    for _ in range(20):
        page = desk_client.get("/v1/queue", params={**asked, "cursor": cursor}).json()
        seen += [card["number"] for card in page["cards"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert len(seen) == len(set(seen)) == page["total"] == 100
    filters = Filters(kind="stored", relation="knows")
    whole = desk.page("ann", filters, "teaches", size=500)
    assert seen == [card.number for card in whole.cards]


def test_a_page_is_that_of_the_python_api(desk_client: TestClient, desk: Desk) -> None:
    asked = {**ANN, "group_by": "relation", "size": 3, "text": "person 0000"}
    found = desk_client.get("/v1/queue", params=asked).json()
    assert found == plain(desk.page("ann", Filters(text="person 0000"), None, "relation", size=3))
    assert found["cards"]
    facets = desk_client.get("/v1/queue/facets", params=ANN).json()
    assert facets == plain(desk.facets("ann"))
    found = desk_client.get("/v1/entities", params={"text": "town 0000", "limit": 2}).json()
    assert found == {"names": [plain(one) for one in desk.entities("town 0000", 2)]}
    found = desk_client.get("/v1/relations", params={"text": "in"}).json()
    assert {one["value"] for one in found["names"]} == {"lives in", "born in"}


def test_what_is_drawn_comes_blind_until_it_is_answered(desk_client: TestClient) -> None:
    blind = 0
    for place in range(12):
        card = desk_client.get("/v1/queue/next", params=ANN).json()["card"]
        shown = desk_client.get(f"/v1/cards/{card['number']}", params=ANN).json()
        assert shown["blind"] == card["blind"]
        if card["blind"]:
            blind += 1
            assert card["probability"] is None
            assert shown["evidence"] is None
        said(desk_client, card["number"], str(place))
        after = desk_client.get(f"/v1/cards/{card['number']}", params=ANN).json()
        assert not after["blind"]
        assert after["probability"] is not None
    assert blind > 0


def test_a_fact_that_is_not_there_is_404(desk_client: TestClient) -> None:
    assert "no fact number 460" in error_of(desk_client.get("/v1/cards/460", params=ANN), 404)
    assert "no fact number 460" in error_of(said(desk_client, 460, "k"), 404)
    asked = {**ANN, "number": 2**53}
    assert error_of(desk_client.post("/v1/answers/skip", json=asked), 404)


def test_wrong_questions_name_the_field(desk_client: TestClient) -> None:
    for asked, field in (
        ({}, "query.reviewer"),
        ({**ANN, "kind": "odd"}, "query.kind"),
        ({**ANN, "cursor": "-1"}, "query.cursor"),
        ({**ANN, "cursor": "٣"}, "query.cursor"),
        ({**ANN, "size": "501"}, "query.size"),
        ({**ANN, "unheard": "1"}, "query.unheard"),
        ({"reviewer": "x" * 201}, "query.reviewer"),
    ):
        response = desk_client.get("/v1/queue", params=asked)
        assert error_of(response, 422)
        assert response.json()["fields"] == [field]


# Answers


def test_an_answer_is_kept_once_and_can_be_taken_back(desk_client: TestClient, desk: Desk) -> None:
    first = said(desk_client, 3, "k", confidence=0.8, note="seen it")
    assert first.status_code == 200
    assert first.json() == plain(desk.answer("ann", 3, AnswerIn("k", "false"))) | {
        "repeated": False
    }
    assert said(desk_client, 3, "k").json()["repeated"]
    (kept,) = desk_client.get("/v1/answers").json()["answers"]
    assert (kept["answer"], kept["confidence"], kept["note"]) == ("false", 0.8, "seen it")
    undo = {**ANN, "key": "u"}
    undone = desk_client.post("/v1/answers/undo", json=undo).json()
    assert undone["saved"]["numbers"] == [3]
    assert desk_client.post("/v1/answers/undo", json={**ANN, "key": "v"}).json() == {"saved": None}
    assert desk_client.get("/v1/answers").json() == {"answers": [], "next_cursor": ""}


def test_what_contradicts_the_desk_is_a_conflict(desk_client: TestClient) -> None:
    said(desk_client, 3, "k")
    assert "belongs to another answer" in error_of(said(desk_client, 4, "k"), 409)
    assert "right instead" in error_of(said(desk_client, 4, "l", "correct"), 409)
    assert "no other fact" in error_of(said(desk_client, 4, "m", "true", new_tail="x"), 409)
    saved = said(desk_client, 4, "n", "correct", new_tail="town 00001")
    assert saved.json()["answers"][0]["new_tail"] == "town 00001"


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_kept_as_it_is(desk_client: TestClient, name: str) -> None:
    who = name[:200]
    body = {"reviewer": who, "number": 5, "key": who, "answer": "correct", "new_tail": name}
    assert desk_client.post("/v1/answers", json={**body, "note": name}).status_code == 200
    (kept,) = desk_client.get("/v1/answers", params={"reviewer": who}).json()["answers"]
    assert (kept["reviewer"], kept["new_tail"], kept["note"]) == (who, name, name)
    card = desk_client.get("/v1/cards/5", params={"reviewer": who}).json()
    assert card["answers"] == [kept]
    for field in ("relation", "source", "issue", "text", "entity"):
        page = desk_client.get("/v1/queue", params={**ANN, field: name})
        assert page.json()["total"] == 0


def test_answers_are_paged(desk_client: TestClient) -> None:
    for number in range(7):
        said(desk_client, number, f"k{number}", "true")
    seen, cursor = [], ""
    for _ in range(5):
        asked = {"size": 3, "cursor": cursor}
        page = desk_client.get("/v1/answers", params=asked).json()
        seen += [row["key"] for row in page["answers"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert seen == [f"k{number}" for number in range(7)]
    whole = desk_client.get("/v1/answers", params={"size": 7}).json()
    assert (len(whole["answers"]), whole["next_cursor"]) == (7, "")


def test_many_are_answered_as_the_preview_said(desk_client: TestClient) -> None:
    filters = {**ANN, "entity": "person 00003"}
    count = desk_client.get("/v1/answers/preview", params=filters).json()["count"]
    assert count == 4
    body = {**filters, "key": "b", "answer": "true", "count": count + 1}
    assert "look at the preview" in error_of(desk_client.post("/v1/answers/bulk", json=body), 409)
    saved = desk_client.post("/v1/answers/bulk", json={**body, "count": count}).json()
    assert len(saved["answers"]) == count
    undone = desk_client.post("/v1/answers/undo", json={**ANN, "key": "u"}).json()
    assert len(undone["saved"]["answers"]) == count


def test_a_skipped_fact_is_not_served_again(desk_client: TestClient) -> None:
    number = desk_client.get("/v1/queue/next", params=ANN).json()["card"]["number"]
    response = desk_client.post("/v1/answers/skip", json={**ANN, "number": number})
    assert response.status_code == 204
    assert response.content == b""
    assert desk_client.get("/v1/queue/next", params=ANN).json()["card"]["number"] != number


def test_a_full_disk_is_a_sentence(
    desk_client: TestClient, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OutputError("The disk is full. Nothing was lost.")

    monkeypatch.setattr(desk.store, "add", full)
    assert "Nothing was lost" in error_of(said(desk_client, 3, "k"), 503)


# Figures


def test_the_figures_are_those_of_the_python_api(desk_client: TestClient, desk: Desk) -> None:
    assert desk_client.get("/v1/estimate").json()["share"] is None
    for place in range(10):
        card = desk_client.get("/v1/queue/next", params=ANN).json()["card"]
        said(desk_client, card["number"], str(place), "true")
    progress = desk_client.get("/v1/progress", params=ANN).json()
    assert progress == plain(desk.progress("ann"))
    assert progress["mine"] == 10
    estimate = desk_client.get("/v1/estimate").json()
    assert estimate == {"share": plain(desk.estimate()), "wanted": None, "enough": False}
    assert desk_client.get("/v1/agreement").json() == plain(desk.agreement())


def test_the_questions_have_the_fields_of_the_records() -> None:
    for model, record, more in (
        (FiltersIn, Filters, {"reviewer"}),
        (SaidIn, AnswerIn, {"reviewer"}),
    ):
        fields = {field.name: field.default for field in dataclasses.fields(record)}
        assert model.model_fields.keys() == fields.keys() | more
        for name, default in fields.items():
            if default is not dataclasses.MISSING:
                assert model.model_fields[name].default == default


def test_answers_have_the_form_that_is_documented(desk_client: TestClient) -> None:
    for number, reviewer in ((1, "ann"), (2, "ann"), (1, "bob")):
        body = {"reviewer": reviewer, "number": number, "key": f"{reviewer}{number}"}
        desk_client.post("/v1/answers", json={**body, "answer": "true"})
    filters = {**ANN, "group_by": "entity"}
    for path, asked in (
        ("/v1/queue", filters),
        ("/v1/queue/next", ANN),
        ("/v1/queue/facets", ANN),
        ("/v1/cards/1", ANN),
        ("/v1/entities", {"text": "town"}),
        ("/v1/answers", {}),
        ("/v1/answers/preview", ANN),
        ("/v1/estimate", {}),
        ("/v1/progress", ANN),
        ("/v1/agreement", {}),
    ):
        documented(desk_client, path, asked)
    assert desk_client.get("/v1/agreement").json()["pairs"][0]["facts"] == 1


def test_an_address_says_all_methods_that_it_takes(desk_client: TestClient) -> None:
    for path, methods in (("/v1/answers", "GET, POST"), ("/v1/cards/3", "GET")):
        response = desk_client.put(path)
        assert error_of(response, 405)
        assert response.headers["allow"] == methods
