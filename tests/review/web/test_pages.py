"""The pages without a browser: plain forms and addresses do all that matters."""

from __future__ import annotations

import dataclasses
import html
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, quote

import pytest
from starlette.testclient import TestClient

from npugraph.data.io import ReadOptions, digest
from npugraph.errors import OutputError
from npugraph.graph import InputFile
from npugraph.patching.inputs import input_record
from npugraph.review import AnswerIn, Desk, Filters
from npugraph.review.export import FORMATS
from npugraph.review.web.app import create_app
from npugraph.review.web.forms import filters_of, query_of
from npugraph.review.web.pages import Pages
from npugraph.review.web.security import Access
from review_samples import Sample, sample_audit

PORT = 8765
TOKEN = "a-token-for-these-tests"


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return sample_audit(tmp_path / "audit", source=True)


@pytest.fixture
def desk(sample: Sample) -> Iterator[Desk]:
    with Desk.open(sample.folder, {"random_share": 0.0}) as desk:
        yield desk


def visitor(desk: Desk) -> TestClient:
    """Return a browser without a script that has opened the printed address."""
    client = TestClient(
        create_app(Access(PORT, TOKEN), [Pages(desk, "Ann").router()]),
        base_url=f"http://127.0.0.1:{PORT}",
        headers={"Accept": "text/html", "Sec-Fetch-Site": "same-origin"},
    )
    assert client.get(f"/?token={TOKEN}").status_code == 200
    return client


@pytest.fixture
def ann(desk: Desk) -> TestClient:
    return visitor(desk)


def text_of(page: str) -> str:
    """Return what a reader sees, roughly."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def key_of(page: str) -> str:
    return re.search(r'name="key" value="([^"]+)"', page)[1]


def judged(page: str) -> int:
    return int(re.search(r'id="answer" method="post" action="/judge/(\d+)', page)[1])


def send(client: TestClient, page: str, answer: str, **fields: str) -> str:
    """Answer what a page shows; return the page that follows."""
    given = {"key": key_of(page), "answer": answer, **fields}
    return client.post(f"/judge/{judged(page)}", data=given).text


def test_an_answer_is_kept_and_the_next_fact_comes(ann: TestClient, desk: Desk) -> None:
    first = ann.get("/judge").text
    second = send(ann, first, "false", note=" why not ", confidence="0.8")
    assert judged(second) != judged(first)
    assert "Saved: False." in text_of(second)
    (answer,) = desk.answers()
    assert (answer.reviewer, answer.answer, answer.note) == ("Ann", "false", "why not")
    assert (answer.confidence, answer.drawn) == (0.8, "chosen")
    assert answer.probability == pytest.approx(desk.brief(judged(first), "Ann").probability)


def test_a_form_sent_twice_is_kept_once(ann: TestClient, desk: Desk) -> None:
    page = ann.get("/judge").text
    send(ann, page, "true")
    send(ann, page, "true")
    assert len(desk.answers()) == 1


def test_skip_undo_and_nothing_to_undo(ann: TestClient, desk: Desk) -> None:
    first = ann.get("/judge").text
    second = send(ann, first, "skip")
    assert "Skipped" in text_of(second)
    assert not desk.answers()
    send(ann, second, "true")
    undone = ann.post("/undo", data={"key": "u1"}).text
    assert judged(undone) == judged(second)
    assert "Taken back" in text_of(undone)
    assert not desk.answers()
    assert "nothing to undo" in text_of(ann.post("/undo", data={"key": "u2"}).text)


def test_a_fact_is_corrected_by_names_as_they_are_shown(ann: TestClient, desk: Desk) -> None:
    page = ann.get("/judge").text
    head, relation, _ = desk.material.names(judged(page))
    send(ann, page, "correct", new_head=head, new_relation=relation, new_tail="town 00007")
    (answer,) = desk.answers()
    assert (answer.answer, answer.new_head, answer.new_tail) == ("correct", None, "town 00007")


def test_a_name_that_is_not_there_is_refused_and_what_was_typed_stays(
    ann: TestClient, desk: Desk
) -> None:
    page = ann.get("/judge").text
    refused = send(ann, page, "correct", new_tail="town 0000", note="as typed")
    assert "There is no entity 'town 0000'; write one of 'town 0000" in text_of(refused)
    assert "as typed" in refused
    assert not desk.answers()
    send(ann, refused, "correct", new_tail="Atlantis", unknown="yes")
    assert desk.answers()[0].new_tail == "Atlantis"


def test_the_chosen_name_counts_and_not_what_is_shown(ann: TestClient, desk: Desk) -> None:
    page = ann.get("/judge").text
    exact = quote("two\nlines & <b>")
    send(ann, page, "wrong-relation", right_relation="two␊lines", right_relation_exact=exact)
    assert desk.answers()[0].new_relation == "two\nlines & <b>"


def test_the_proposed_correction_is_taken_by_one_button(ann: TestClient, desk: Desk) -> None:
    number = next(n for n, fix in desk.material.corrections.items() if not fix.stored)
    page = ann.get(f"/judge/{number}").text
    assert "Perhaps the tail should be" in text_of(page)
    send(ann, page, "proposed")
    assert desk.answers()[0].new_tail == "town 00001"


def test_a_fact_whose_right_form_is_stored_is_called_false(ann: TestClient, desk: Desk) -> None:
    number = next(n for n, fix in desk.material.corrections.items() if fix.stored)
    page = ann.get(f"/judge/{number}").text
    shown = text_of(page)
    assert "Perhaps the tail should be town 00002" in shown
    assert "that fact is stored already" in shown
    assert "Yes, this one is false" in shown
    send(ann, page, "proposed")
    answer = desk.answers()[0]
    assert (answer.answer, answer.new_tail) == ("false", None)


def test_what_the_model_thinks_is_hidden_until_the_answer(sample: Sample) -> None:
    with Desk.open(sample.folder, {"random_share": 1.0, "agreement_share": 0.0}) as desk:
        ann = visitor(desk)
        page = ann.get("/judge").text
        assert "Drawn at random." in text_of(page)
        case = page[page.index("<article") : page.index("</article>")]
        assert "Probability" not in case
        assert "%" not in case
        assert "place" not in text_of(case)
        after = text_of(send(ann, page, "true"))
        assert re.search(r"Saved: True\. .* The model: [\d<>.]+% true\.", after)


def test_filters_go_along_and_facets_count(ann: TestClient, desk: Desk) -> None:
    page = text_of(ann.get("/queue", params={"relation": "knows", "kind": "stored"}).text)
    assert "100 facts" in page
    judge = ann.get("/judge", params={"relation": "knows"}).text
    assert desk.material.names(judged(judge))[1] == "knows"
    done = ann.post(
        f"/judge/{judged(judge)}?relation=knows", data={"key": key_of(judge), "answer": "true"}
    )
    assert done.url.params["relation"] == "knows"
    assert desk.material.names(judged(done.text))[1] == "knows"
    around = re.search(r'href="(/queue\?entity=[^"]+)"', done.text)[1]
    head = desk.material.names(judged(done.text))[0]
    assert f"of {head}" in text_of(ann.get(around).text)
    nothing = ann.get("/judge", params={"text": "no such name"}).text
    assert "Nothing here is left to judge" in nothing
    assert "No fact passes this filter" in ann.get("/queue?text=no+such+name").text


def test_pages_groups_and_the_search_keep_the_other_filters(ann: TestClient) -> None:
    first = ann.get("/queue?group=relation&kind=stored").text
    assert text_of(first).count("Answer this group") == 1
    following = re.search(r'href="([^"]+cursor=[^"]+)"', first)[1]
    assert "group=relation" in following
    assert ann.get(html.unescape(following)).status_code == 200
    kept = re.search(r'name="with" value="([^"]*)"', first)[1]
    searched = ann.get("/queue", params={"with": html.unescape(kept), "text": "town 00003"}).text
    assert "Missing facts" in text_of(searched)
    assert 'aria-current="true"' in searched


def test_all_facts_of_a_filter_are_answered_and_taken_back_at_once(
    ann: TestClient, desk: Desk
) -> None:
    name = desk.material.names(0)[0]
    preview = ann.get("/bulk", params={"entity": name}).text
    count = int(re.search(r'name="count" value="(\d+)"', preview)[1])
    assert f"Answer {count} facts at once" in text_of(preview)
    assert not desk.answers()
    given = {"key": key_of(preview), "answer": "true", "count": str(count)}
    stale = ann.post("/bulk", params={"entity": name}, data={**given, "count": "1"})
    assert stale.status_code == 422
    assert "look at the preview again" in text_of(stale.text)
    done = ann.post("/bulk", params={"entity": name}, data=given).text
    assert f"Saved {count} answers." in text_of(done)
    assert len(desk.answers()) == count
    undone = ann.post("/undo", data={"key": "u"}).text
    assert f"Took {count} answers back." in text_of(undone)
    assert not desk.answers()
    assert ann.post("/bulk", data={**given, "answer": "correct"}).status_code == 422


def test_reviewers_have_names_of_their_own(ann: TestClient, desk: Desk) -> None:
    bob = visitor(desk)
    bob.post("/reviewer", data={"reviewer": "  Bob Ω "})
    for client, word in ((ann, "true"), (bob, "false")):
        client.post("/judge/7", data={"key": f"{word} 7", "answer": word})
    assert {row.reviewer for row in desk.answers()} == {"Ann", "Bob Ω"}
    assert "1 dispute waits" in text_of(ann.get("/progress").text)
    third = visitor(desk).get("/?reviewer=Eve").text
    assert "You are Eve" in text_of(third)
    assert judged(third) == 7
    assert "Reviewers disagree" in third
    assert "Bob Ω" not in third
    assert ann.post("/reviewer", data={"reviewer": " "}).status_code == 422


def test_progress_has_share_agreement_and_answers(sample: Sample) -> None:
    with Desk.open(sample.folder, {"random_share": 1.0, "agreement_share": 0.0}) as desk:
        ann = visitor(desk)
        assert "Not told yet" in ann.get("/progress").text
        for place in range(25):
            card = desk.next("Ann")
            word = "false" if sample.wrong[card.number] else "true"
            desk.answer("Ann", card.number, AnswerIn(str(place), word))
        desk.settle()
        text = text_of(ann.get("/progress").text)
        share = desk.estimate()
    assert f"{share.wrong} of 25 facts drawn evenly from 400 are wrong" in text
    assert "25 of 50 planned; 25 left." in text
    assert "rest on 2" in text


def test_the_desk_says_when_the_interval_is_narrow_enough(sample: Sample) -> None:
    with Desk.open(sample.folder, {"estimate": 0.2}) as desk:
        ann = visitor(desk)
        for place in range(200):
            card = desk.next("Ann")
            if card is None:
                break
            word = "false" if sample.wrong[card.number] else "true"
            desk.answer("Ann", card.number, AnswerIn(str(place), word))
        share = desk.estimate()
        text = text_of(ann.get("/judge").text)
    assert "Narrow enough" in text
    assert f"It took {share.answers} answers." in text


def test_answers_are_taken_home_as_files(ann: TestClient, desk: Desk) -> None:
    folder = desk.material.folder
    rows = [desk.material.names(number) for number in range(desk.material.num_stored)]
    facts = folder.parent / "facts.tsv"
    facts.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    how = dataclasses.asdict(ReadOptions(header=False))
    record = input_record([InputFile(facts, digest(facts), how)], folder)
    (folder / "audit.json").write_text(json.dumps({**desk.material.record, "input": record}))
    assert "No answer changes the graph yet" in ann.get("/take-home").text
    ann.post("/judge/0", data={"key": "k", "answer": "false"})
    page = text_of(ann.get("/take-home").text)
    assert "1 fact goes, 0 change, 0 come." in page
    for format in FORMATS:
        assert f"--format {format} " in page
    cleaned = ann.get("/take-home/graph")
    assert cleaned.headers["content-disposition"] == "attachment; filename*=UTF-8''facts.tsv"
    assert cleaned.content == facts.read_bytes().split(b"\n", 1)[1]
    archive = zipfile.ZipFile(io.BytesIO(ann.get("/take-home/kgx").content))
    assert sorted(archive.namelist()) == ["edges.tsv", "nodes.tsv"]
    assert ann.get("/take-home/nonsense").status_code == 422
    assert ann.get("/take-home/..%2Faudit.json").status_code in (404, 422)


def test_errors_are_pages_with_a_sentence(
    ann: TestClient, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in ("/judge/99999", "/queue?kind=nonsense", "/queue?order=x", "/queue?cursor=x"):
        answer = ann.get(address)
        assert answer.status_code == (404 if "99999" in address else 422), address
        assert "This is not possible" in answer.text
    assert ann.post("/judge/3", data={"key": "k", "answer": "perhaps"}).status_code == 422
    assert (
        ann.post("/judge/3", data={"key": "k", "answer": "true", "confidence": "2"}).status_code
        == 422
    )
    many = ann.post("/judge/3", data={f"f{i}": "" for i in range(60)})
    assert "more than 50 fields" in many.text

    def full(*_: object) -> None:
        raise OutputError("answers.sqlite cannot be written: the disk is full.")

    monkeypatch.setattr(desk, "answer", full)
    answer = ann.post("/judge/3", data={"key": "k", "answer": "true"})
    assert answer.status_code == 503
    assert "the disk is full" in answer.text


def test_names_are_searched(ann: TestClient) -> None:
    names = ann.get("/names", params={"of": "entity", "text": "TOWN 00007"}).json()["names"]
    assert names == [{"name": "town 00007", "shown": "town 00007"}]
    assert ann.get("/names?of=relation&text=know").json()["names"][0]["name"] == "knows"


def test_no_page_has_inline_script_or_style_or_reaches_outside(ann: TestClient) -> None:
    for place in ("/judge", "/queue", "/bulk", "/progress", "/take-home"):
        page = ann.get(place).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! src=\"/static/)", page), place
        outside = re.findall(r'(?:src|href|action)="(?!/|#)([^"]*)"', page)
        assert not outside, (place, outside)
        for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
            assert ann.get(address).status_code == 200, address


def test_filters_survive_their_addresses() -> None:

    given = Filters(relation="a&b=\n\x00?", text="ü ", state="open")
    assert filters_of(dict(parse_qsl(query_of(given)[1:]))) == given
