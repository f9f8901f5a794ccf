"""The report as a document: escaping, structure, numbers, and what it refuses."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape

from npugraph.errors import DataError, OutputError
from npugraph.names import shorten
from npugraph.report import (
    Assessment,
    Correction,
    Estimate,
    Evidence,
    FactRow,
    GraphSummary,
    Health,
    PlantedCheck,
    Provenance,
    RelationHealth,
    Reliability,
    ReliabilityBin,
    ReportData,
    YieldPoint,
    charts,
    formats,
    render_report,
    settings_rows,
    write_report,
)
from npugraph.report.render import PAGE_SIZE, breakable, embedded_json
from npugraph.settings import TrainSettings

from .report_samples import HOSTILE, empty_report, hostile_report, realistic_report

VOID = {"meta", "input", "br", "wbr", "link", "img", "hr"}
LABELS = st.text(max_size=40)


class Page(HTMLParser):
    """A strict reader: every element must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[tuple[str, str]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.text = ""
        self._cell: list[str] | None = None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "td":
            self._cell, self._class = [], dict(attrs).get("class") or ""
        if tag in ("script", "style"):
            (self.scripts if tag == "script" else self.styles).append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "td" and self._cell is not None:
            self.cells.append((self._class, "".join(self._cell).strip()))
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] == "style":
            self.styles[-1] += data
        else:
            self.text += data
            if self._cell is not None:
                self._cell.append(data)


def one_row(**changes: object) -> ReportData:
    row = FactRow("a", "r", "b", Estimate(0.2, 0.1, 0.3), -1.5)
    return dataclasses.replace(empty_report(), suspects=(dataclasses.replace(row, **changes),))


@pytest.mark.parametrize(
    "data",
    [empty_report(), realistic_report(60, 30), hostile_report(), one_row()],
    ids=["empty", "realistic", "hostile", "one"],
)
def test_the_page_is_well_formed_and_asks_for_nothing(data: ReportData) -> None:
    page = Page(render_report(data))
    names = Counter(tag for tag, _ in page.tags)
    assert names["html"] == names["main"] == names["h1"] == 1
    assert not names["img"]
    assert not names["link"]
    assert not names["iframe"]
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.tags:
        for name in ("aria-labelledby", "aria-controls"):
            assert set((attrs.get(name) or "").split()) <= set(ids)
        if "href" in attrs:
            assert (attrs["href"] or "").removeprefix("#") in ids
        assert not any(name.startswith("on") or name in ("src", "style") for name in attrs)


def test_the_policy_allows_the_page_s_own_style_and_script_only() -> None:
    page = Page(render_report(realistic_report(5, 5)))
    metas = [attrs for tag, attrs in page.tags if tag == "meta"]
    policy = next(a["content"] for a in metas if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.split(" ", 1) for rule in (policy or "").split("; "))

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert rules["default-src"] == "'none'"
    assert rules["style-src"] == source(page.styles[0])
    assert rules["script-src"] == source(page.scripts[-1])
    assert "unsafe" not in (policy or "")


def test_the_page_shows_where_it_comes_from_and_no_date() -> None:
    data = realistic_report(5, 5)
    page = Page(render_report(data))
    for part in ("world", "recipe complex-n3", "seed 0", "5 folds", data.provenance.version):
        assert part in page.text
    assert "60" in [text.split()[0] for _, text in page.cells if "not the default" in text]
    assert not re.search(r"\b20\d\d-\d\d", page.text)
    assert render_report(data) == render_report(realistic_report(5, 5))


def test_hostile_text_stays_text_everywhere() -> None:
    page = Page(render_report(hostile_report()))
    assert Counter(tag for tag, _ in page.tags)["script"] == 3
    for text in HOSTILE:
        assert shorten(text) in page.text
    for script in page.scripts[:-1]:
        assert "<" not in script
        payload = json.loads(script)
        heads = [row["head"] for row in payload["rows"]]
        whole = [payload["names"][h] if isinstance(h, int) else h for h in heads]
        assert whole == list(HOSTILE)


def test_a_long_name_is_in_the_page_once_however_many_facts_it_is_in() -> None:
    name = "x" * 200_000 + "end"
    row = dataclasses.replace(
        hostile_report().suspects[0], head=name, tail=name, correction=Correction("head", name)
    )
    page = render_report(dataclasses.replace(empty_report(), suspects=(row,) * 60))
    assert len(page) < 500_000
    parsed = Page(page)
    payload = json.loads(parsed.scripts[0])
    assert payload["names"] == [name]
    assert {(r["head"], r["tail"], r["correction"]) for r in payload["rows"]} == {(0, 0, 0)}
    assert dict(parsed.cells)["c-head"] == shorten(name)
    assert len(shorten(name)) == 80


@pytest.mark.parametrize("stored", [True, False])
def test_a_correction_says_whether_its_fact_is_stored(stored: bool) -> None:
    page = Page(render_report(one_row(correction=Correction("tail", "Austria", stored))))
    row = json.loads(page.scripts[0])["rows"][0]
    assert (row["correction"], row["stored"]) == ("Austria", stored)
    assert ("take this fact out" in dict(page.cells)["c-correction"]) == stored


@settings(max_examples=30)
@given(LABELS, LABELS, LABELS, st.lists(LABELS, max_size=3))
def test_any_label_comes_back_as_it_was(
    head: str, relation: str, tail: str, lines: list[str]
) -> None:
    evidence = Evidence(supporting=tuple(lines))
    data = one_row(
        head=head, relation=relation, tail=tail, evidence=evidence,
        correction=Correction("tail", head),
    )  # fmt: skip
    page = Page(render_report(data))
    row = json.loads(page.scripts[0])["rows"][0]
    assert (row["head"], row["relation"], row["tail"]) == (head, relation, tail)
    assert row["evidence"] == ({"supporting": lines} if lines else {})
    cells = dict(page.cells)
    for name, label in (("c-head", head), ("c-relation", relation), ("c-tail", tail)):
        assert cells[name] == (label.strip() if label else "(empty)")


@given(st.recursive(LABELS, lambda inner: st.lists(inner) | st.dictionaries(LABELS, inner)))
def test_embedded_json_is_json_without_markup(value: object) -> None:
    text = str(embedded_json(value))
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")


@given(LABELS)
def test_breaks_change_no_text(label: str) -> None:
    assert str(breakable(label)).replace("<wbr>", "") == str(escape(label))


def test_labels_that_have_no_utf8_form_do_not_stop_the_report(tmp_path: Path) -> None:
    write_report(one_row(head="lone \ud800 half"), tmp_path / "r.html")
    assert "lone ? half" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_only_the_first_page_is_html_and_all_rows_are_data() -> None:
    page = Page(render_report(realistic_report(70, 3)))
    ranks = [text for name, text in page.cells if name == "c-rank"]
    assert ranks == [str(i) for i in (*range(1, PAGE_SIZE + 1), 1, 2, 3)]
    rows = [json.loads(script)["rows"] for script in page.scripts[:2]]
    assert [len(part) for part in rows] == [70, 3]
    assert "first 25 of 70 suspects" in " ".join(page.text.split())
    assert sum(name == "c-correction" for name, _ in page.cells) == PAGE_SIZE


def test_health_says_the_share_or_why_there_is_none() -> None:
    known = " ".join(Page(render_report(realistic_report(5, 5))).text.split())
    assert "3.9% of the stored facts are estimated to be wrong, about 158 of 4,045." in known
    assert "90% interval: 3.1 – 4.8%." in known
    unknown = Page(render_report(empty_report())).text
    assert "Not told" in unknown
    assert "The graph has no facts." in unknown
    assert "wrong at the" not in known
    tails = dataclasses.replace(empty_report(), health=Health(Estimate(0.5), wrong_end="tail"))
    said = " ".join(Page(render_report(tails)).text.split())
    assert "Most wrong facts seem to be wrong at the tail." in said
    without = dataclasses.replace(empty_report(), health=Health(Estimate(0.5)))
    assert "No interval was estimated." in Page(render_report(without)).text


def test_relations_come_by_wrong_facts_and_unknown_ones_last() -> None:
    relations = (
        RelationHealth("unknown", 900),
        RelationHealth("small", 10, Estimate(0.9)),
        RelationHealth("large", 1000, Estimate(0.1)),
    )
    data = dataclasses.replace(empty_report(), health=Health(Estimate(0.1), by_relation=relations))
    text = Page(render_report(data)).text
    assert text.index("large") < text.index("small") < text.index("unknown")
    assert "no estimate" in text


def test_counts_are_those_that_are_promised() -> None:
    told = Assessment(
        "reliable", "Because.", wrong=Estimate(41, 30, 50), true=Estimate(20.4, 10, 30)
    )
    data = dataclasses.replace(realistic_report(80, 40), assessment=told)
    text = " ".join(Page(render_report(data)).text.split())
    assert "80 suspects of which about 41 should be wrong (90% interval: 30 to 50)." in text
    assert "40 missing facts of which about 20 should be true (90% interval: 10 to 30)." in text
    silent = dataclasses.replace(data, assessment=Assessment("order", "Because.", ("Labels.",)))
    text = " ".join(Page(render_report(silent)).text.split())
    assert "80 suspects in the list; how many of them are wrong cannot be told." in text
    assert "how many are wrong cannot be told Because." in text
    assert "should be" not in text


def test_the_reliability_of_the_self_test_stands_beside_the_promise() -> None:
    curve = Reliability((ReliabilityBin(0.25, Estimate(0.5, 0.25, 0.75), 7_123),), "By planted.")
    told = Assessment("reliable", "Because.", wrong=Estimate(41, 30, 50), reliability=curve)
    page = render_report(dataclasses.replace(realistic_report(80, 40), assessment=told))
    begins, ends = page.index('id="verdict"'), page.index('id="health"')
    assert begins < page.index('id="tested-title"') < ends
    # The truth that the demo knows has a plot of its own, with ids of its own.
    assert page.count('id="reliability-title"') == page.count('id="tested-title"') == 1
    text = " ".join(Page(page).text.split())
    assert "Does the promise hold in the self-test?" in text
    assert "7,123" in text
    assert "By planted." in text
    silent = dataclasses.replace(told, reliability=None)
    page = render_report(dataclasses.replace(realistic_report(80, 40), assessment=silent))
    assert "tested-title" not in page


def test_a_probability_that_is_not_told_is_not_shown() -> None:
    data = realistic_report(3, 0)
    rows = tuple(dataclasses.replace(row, probability=None) for row in data.suspects)
    page = Page(render_report(dataclasses.replace(data, suspects=rows)))
    assert page.text.count("not told") == 3


def test_the_share_of_missing_facts_is_shown_where_known() -> None:
    plain = empty_report()
    text = " ".join(Page(render_report(plain)).text.split())
    assert "facts of these kinds are not stored" not in text
    known = dataclasses.replace(plain.health, missing=Estimate(0.25, 0.2, 0.4))
    text = " ".join(Page(render_report(dataclasses.replace(plain, health=known))).text.split())
    assert "About 25% of the true facts of these kinds are not stored" in text
    assert "20 – 40%" in text


def test_planted_and_removed_facts_are_shown_where_known() -> None:
    data = dataclasses.replace(
        empty_report(), planted=PlantedCheck(40, 30, 60), removed=PlantedCheck(0, 0, 0)
    )
    text = " ".join(Page(render_report(data)).text.split())
    assert "30 of 40 planted errors are in the list of 60 suspects." in text
    assert "Precision 50% Recall 75%" in text
    assert "Precision no list Recall none planted" in text
    assert "Planted errors" not in Page(render_report(empty_report())).text


def test_empty_parts_say_so() -> None:
    text = Page(render_report(empty_report())).text
    for part in (
        "No stored fact is suspicious enough",
        "No missing fact is probable enough",
        "could not be checked",
        "no review list",
        "No collection model",
        "No settings",
    ):
        assert part in text


def test_charts_put_points_where_their_numbers_say() -> None:
    # Worked out by hand: the plot covers [64, 466] x [40, 294], y downwards.
    chart = charts.reliability_chart(
        Reliability((ReliabilityBin(0.25, Estimate(0.5, 0.25, 0.75), 4),))
    )
    assert '<circle class="dot" cx="164.5" cy="167.0" r="8.0"/>' in chart
    assert 'class="whisker" d="M164.5 230.5V103.5"' in chart
    points = (YieldPoint(50, Estimate(25.0, 20.0, 30.0), 40), YieldPoint(100, Estimate(50.0)))
    drawn = charts.yield_chart(points, wrong_share=0.1)
    assert 'class="line" d="M64.0 294.0L265.0 167.0L466.0 40.0"' in drawn
    assert 'class="line observed" d="M64.0 294.0L265.0 90.8"' in drawn
    assert 'class="band" d="M64.0 294.0L265.0 141.6L265.0 192.4Z"' in drawn
    assert 'class="guide" d="M64.0 294.0L466.0 243.2"' in drawn
    assert "about 50 are expected" in drawn


def test_the_line_of_random_review_stays_inside_the_plot() -> None:
    drawn = charts.yield_chart((YieldPoint(100, Estimate(10.0)),), wrong_share=0.5)
    assert 'class="guide" d="M64.0 294.0L144.4 40.0"' in drawn


@given(st.floats(-5, 5), st.floats(0, 3), st.floats(0, 3))
def test_range_bars_stay_on_their_track(value: float, below: float, above: float) -> None:
    drawn = charts.range_bar(Estimate(value, value - below, value + above), -5.0, 5.0)
    places = [float(x) for x in re.findall(r'(?:x|cx)="([0-9.]+)%"', drawn)]
    assert all(2 <= place <= 98 for place in places)
    assert f'cx="{2 + 96 * (value + 5) / 10:.1f}%"' in drawn


@given(st.floats(1e-6, 1e9))
def test_ticks_are_few_round_and_cover(high: float) -> None:
    ticks = formats.nice_ticks(high)
    assert ticks[0] == 0
    assert 2 <= len(ticks) <= 6
    assert ticks[-1] >= high * (1 - 1e-9)
    step = ticks[1]
    assert ticks[-1] - step <= high
    assert f"{step:.0e}"[0] in "125"


@given(st.floats(0, 1))
def test_percent_is_close_and_never_certain(share: float) -> None:
    text = formats.percent(share)
    if text in ("<0.1%", ">99.9%"):
        assert share < 0.001 or share > 0.999
    else:
        assert abs(float(text[:-1]) / 100 - share) <= 0.0050001
        assert text not in ("0%", "0.0%", "100%", "100.0%")


@given(st.floats(-1e12, 1e12))
def test_decimal_keeps_the_number(value: float) -> None:
    back = float(formats.decimal(value).replace("−", "-").replace(",", ""))
    assert back == pytest.approx(value, rel=0.006, abs=0.00501)


def test_signed_zero_has_no_sign() -> None:
    assert formats.decimal(-0.0) == "0.00"


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_cannot_be_shown_are_refused(bad: float) -> None:
    with pytest.raises(DataError, match="finite"):
        Estimate(bad)
    with pytest.raises(DataError, match="finite"):
        Estimate(0.5, bad, 0.7)
    with pytest.raises(DataError, match="finite"):
        FactRow("a", "r", "b", Estimate(0.5), bad)


def test_records_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(DataError, match="two ends or none"):
        Estimate(0.5, low=0.4)
    with pytest.raises(DataError, match="turned round"):
        Estimate(0.5, 0.6, 0.4)
    with pytest.raises(DataError, match=r"\('a', 'r', 'b'\).*\[0, 1\]"):
        FactRow("a", "r", "b", Estimate(1.2), 0.0)
    with pytest.raises(DataError, match="relation 'r'"):
        RelationHealth("r", 3, Estimate(0.1, -0.1, 0.2))
    with pytest.raises(DataError, match="not identifiable"):
        Health(None)
    with pytest.raises(DataError, match="31 planted"):
        PlantedCheck(40, 31, 30)
    with pytest.raises(DataError, match="negative"):
        GraphSummary("g", -1, 0, 0)
    with pytest.raises(DataError, match="negative"):
        YieldPoint(5, Estimate(-1.0))
    points = (YieldPoint(5, Estimate(1)), YieldPoint(5, Estimate(2)))
    with pytest.raises(DataError, match="must rise"):
        ReportData(
            GraphSummary("g", 1, 1, 1), Provenance("x", 0, 5), Health(None, "?"),
            yield_curve=points,
        )  # fmt: skip


def test_settings_rows_mark_what_was_changed() -> None:
    rows = {row.name: row for row in settings_rows(TrainSettings(seed=7))}
    assert rows["seed"].changed
    assert rows["seed"].value == "7"
    assert not rows["epochs"].changed
    assert set(rows) == {field.name for field in dataclasses.fields(TrainSettings)}


def test_write_makes_folders_and_explains_failures(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write_report(empty_report(), path)
    assert path.read_bytes() == render_report(empty_report()).encode()
    assert b"\r" not in path.read_bytes()
    with pytest.raises(OutputError, match="cannot be written"):
        write_report(empty_report(), path / "below" / "a-file.html")
