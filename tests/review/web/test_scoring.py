"""Score, predict and explain over HTTP say what the Python API says, whatever the names."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

import npugraph
from hostile_names import HOSTILE, facts
from npugraph.explaining import Explanation
from npugraph.review.questions import Prediction, Scored
from npugraph.review.web.asked import MOST_FACTS
from npugraph.review.web.models import mirrored

FACT = {"head": "person 1", "relation": "knows", "tail": "person 2"}
JSON = {"Content-Type": "application/json"}


def plain(record: Any) -> Any:
    """Return a record as JSON has it."""
    return json.loads(json.dumps(dataclasses.asdict(record)))


def test_scores_are_those_of_the_python_api(run_client: TestClient, run_folder: Path) -> None:
    asked = [*facts()[:5], ("nobody", "knows", "person 1")]
    body = {"facts": [dict(zip(FACT, fact, strict=True)) for fact in asked]}
    found = run_client.post("/v1/facts/score", json=body).json()["facts"]
    right = npugraph.score(run_folder, asked, device="cpu").to_pylist()
    assert [{name: row[name] for name in right[0]} for row in found] == right
    assert found[-1]["score"] is None
    assert found[0]["score"] is not None
    assert found[0]["collected"]


def test_predictions_are_those_of_the_python_api(run_client: TestClient, run_folder: Path) -> None:
    for known in ({"head": "person 1"}, {"tail": "person 1"}):
        asked: dict[str, Any] = {**known, "relation": "knows", "k": 3, "only_new": True}
        found = run_client.post("/v1/predict", json=asked).json()["predictions"]
        assert found == npugraph.predict(run_folder, **asked, device="cpu").to_pylist()
        assert len(found) == 3


def test_a_question_has_one_empty_place(run_client: TestClient) -> None:
    for asked in (FACT, {"relation": "knows"}, {"head": "person 1", "tail": "person 2"}):
        response = run_client.post("/v1/predict", json=asked)
        assert response.status_code == 422
        assert response.json()["fields"]


def test_evidence_is_that_of_the_python_api(run_client: TestClient, run_folder: Path) -> None:
    found = run_client.post("/v1/explain", json={**FACT, "top": 2})
    right = npugraph.explain(run_folder, *FACT.values(), top=2, device="cpu")
    assert found.json() == plain(right)


def test_evidence_has_the_form_that_is_documented(run_client: TestClient) -> None:
    forms = run_client.get("/openapi.json").json()
    form = {"$ref": "#/components/schemas/Explanation", "components": forms["components"]}
    found = run_client.post("/v1/explain", json=FACT).json()
    assert found["usage"]
    Draft202012Validator(form).validate(found)


def test_an_audit_answers_for_what_it_judged(audit_client: TestClient, audit_folder: Path) -> None:
    new = {**FACT, "head": "nobody"}
    body = {"facts": [FACT, new, dict(zip(FACT, facts()[0], strict=True))]}
    judged, unknown, empty = audit_client.post("/v1/facts/score", json=body).json()["facts"]
    assert judged["collected"]
    assert unknown == {**dict.fromkeys(judged), **new, "collected": False}
    # JSON has no word for what is not a number.
    assert empty["score"] is None
    assert empty["probability"] is None
    assert empty["low"] == 0.8
    found = audit_client.post("/v1/explain", json=FACT).json()
    right = npugraph.explain(audit_folder, *FACT.values(), device="cpu")
    assert found == plain(right)
    assert found["probability"] == judged["probability"]
    # Known names, and a fact that nobody judged.
    new = {**FACT, "tail": "person 9"}
    right = npugraph.explain(audit_folder, *new.values(), device="cpu")
    assert audit_client.post("/v1/explain", json=new).json() == plain(right)


def test_an_audit_says_that_it_predicts_nothing(audit_client: TestClient) -> None:
    response = audit_client.post("/v1/predict", json={"head": "person 1", "relation": "knows"})
    assert response.status_code == 409
    assert "npugraph fit" in response.json()["error"]


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_names_go_through_as_text(run_client: TestClient, name: str) -> None:
    (row,) = [fact for fact in facts() if fact[1] == name]
    fact = dict(zip(FACT, row, strict=True))
    scored = run_client.post("/v1/facts/score", json={"facts": [fact]}).json()["facts"][0]
    assert {key: scored[key] for key in FACT} == fact
    assert scored["score"] is not None
    response = run_client.post("/v1/explain", json=fact)
    assert response.json()["fact"] == list(row)
    assert response.headers["content-type"] == "application/json"
    asked = {"head": fact["head"], "relation": name, "k": 40}
    found = run_client.post("/v1/predict", json=asked).json()["predictions"]
    assert set(HOSTILE.values()) <= {row["label"] for row in found}


@settings(max_examples=20)
@given(st.lists(st.text(min_size=1, max_size=50), min_size=3, max_size=3))
def test_any_text_is_answered_with_itself(run_client: TestClient, names: list[str]) -> None:
    fact = dict(zip(FACT, names, strict=True))
    scored = run_client.post("/v1/facts/score", json={"facts": [fact]}).json()["facts"][0]
    assert {key: scored[key] for key in FACT} == fact
    assert run_client.post("/v1/explain", json=fact).status_code in (200, 404)


def test_an_unknown_name_is_answered_with_near_ones(run_client: TestClient) -> None:
    for path in ("explain", "predict"):
        asked = {**FACT, "head": "persn 1"}
        if path == "predict":
            del asked["tail"]
        response = run_client.post(f"/v1/{path}", json=asked)
        assert response.status_code == 404
        assert "Did you mean 'person 1'" in response.json()["error"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("", 422),
        ("{", 400),
        ("[" * 100_000, 400),
        ('{"facts": []}', 422),
        ('{"facts": [{"head": "\\ud800", "relation": "r", "tail": "t"}]}', 422),
        ('{"\\ud800": 1}', 422),
        ('{"facts": [{"head": 1, "relation": "r", "tail": "t"}]}', 422),
        ('{"facts": [{"head": "", "relation": "r", "tail": "t"}]}', 422),
        ('{"facts": NaN}', 422),
        (json.dumps({"facts": [FACT] * (MOST_FACTS + 1)}), 422),
        (json.dumps({"facts": [FACT], "other": 1}), 422),
        ("1" * 5000, 400),
        ("x" * 2**21, 413),
    ],
    ids=range(13),
)
def test_what_cannot_be_read_is_refused_with_a_sentence(
    run_client: TestClient, body: str, status: int
) -> None:
    response = run_client.post("/v1/facts/score", content=body, headers=JSON)
    assert response.status_code == status
    assert response.json()["error"].endswith(".")
    assert len(response.content) < 2000


def test_a_body_that_is_not_called_json_is_not_read(run_client: TestClient) -> None:
    # A form of another site can send these without asking first.
    content = json.dumps({"facts": [FACT]})
    for headers in (
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {},
    ):
        response = run_client.post("/v1/facts/score", content=content, headers=headers)
        assert response.status_code == 422


def test_a_model_is_made_of_the_record_alone() -> None:
    for record in (Scored, Prediction, Explanation):
        schema = mirrored(record).model_json_schema(mode="serialization")
        fields = [field.name for field in dataclasses.fields(record)]
        assert list(schema["properties"]) == fields
        assert schema["additionalProperties"] is False
        missing = [n for n in fields if "description" not in schema["properties"][n]]
        assert not missing
