"""The report in a real browser: it sorts, filters, opens, wraps, and does no harm."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from npugraph.names import shorten
from npugraph.report import ReportData

from .report_samples import HOSTILE, empty_report, hostile_report, realistic_report

if TYPE_CHECKING:
    from playwright.sync_api import Page

Show = Callable[..., "Page"]
DATA = realistic_report()

# Contrast of an element's text with the nearest opaque background, as WCAG 2 defines it:
# (L1 + 0.05) / (L2 + 0.05), L = 0.2126 R + 0.7152 G + 0.0722 B of the linear channels.
CONTRAST = """(selector) => {
  const channels = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const luminance = (colour) => channels(colour).slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const worst = [...document.querySelectorAll(selector)].map((element) => {
    let behind = element;
    const see = () => getComputedStyle(behind).backgroundColor;
    while (channels(see())[3] === 0 && behind.parentElement) behind = behind.parentElement;
    const style = getComputedStyle(element);
    const colour = element instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [luminance(colour), luminance(see())].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
  return worst.length ? Math.min(...worst) : null;
}"""
TEXTS = (
    "body", "h1", "h2", "h3", ".quiet", ".lead", ".warnings li", ".warnings h2", ".big", "a",
    ".figure", ".mark", ".side", "th", ".sort", "td", "button", "input", "select", "summary",
    ".groups h4", ".groups li", ".chart text", "figcaption", "dt", "button[aria-disabled=true]",
)  # fmt: skip


def column(page: Page, key: str, section: str = "suspects") -> list[str]:
    return page.locator(f"#{section} tr.fact td.c-{key}").all_inner_texts()


def sort_by(page: Page, name: str) -> None:
    page.locator("#suspects").get_by_role("button", name=name, exact=True).click()


def count_text(page: Page) -> str:
    return page.locator("#suspects [data-tool=count]").inner_text()


def test_it_opens_from_a_file_with_all_its_parts(show: Show) -> None:
    page = show(DATA)
    assert page.title() == "Audit of world – npugraph"
    assert count_text(page) == "Rows 1–25 of 300 suspects"
    assert column(page, "rank") == [str(i) for i in range(1, 26)]
    assert page.get_by_role("img").count() == 2
    assert page.get_by_role("main").count() == page.get_by_role("banner").count() == 1


def test_rows_are_the_same_with_and_without_javascript(show: Show) -> None:
    for data in (DATA, hostile_report()):
        with_script = show(data)
        without = show(data, java_script_enabled=False)
        for key in ("rank", "head", "relation", "tail", "probability", "score", "correction"):
            texts = [
                [" ".join(text.split()) for text in page.locator(f"td.c-{key}").all_text_contents()]
                for page in (with_script, without)
            ]
            assert texts[0] == texts[1]
        assert without.locator("#suspects noscript .note").is_visible()
        assert not without.locator("#suspects .tools").is_visible()
    without.locator("#suspects summary").first.click()
    assert without.locator("#suspects details li").first.is_visible()


def test_every_column_sorts_both_ways(show: Show) -> None:
    page = show(DATA)
    rows = DATA.suspects
    for name, key, value in (
        ("Score", "score", lambda row: row.score),
        ("Probability true", "probability", lambda row: row.probability.value),
        ("Rank", "rank", lambda row: rows.index(row)),
    ):
        for way, reverse in (("ascending", False), ("descending", True)):
            sort_by(page, name)
            # Python's sort is stable both ways, as ties are to stay in order of rank.
            best = sorted(rows, key=value, reverse=reverse)[:25]
            header = page.locator("#suspects th[aria-sort]")
            assert header.count() == 1
            assert header.get_attribute("aria-sort") == way
            assert header.get_attribute("data-key") == key
            ranks = [str(rows.index(row) + 1) for row in best]
            assert column(page, "rank") == ranks
    for name, key in (("Head", "head"), ("Relation", "relation"), ("Tail", "tail")):
        sort_by(page, name)
        first = column(page, key)
        sort_by(page, name)
        last = column(page, key)
        # The order is the browser's language's; case and accents do not count.
        assert first[0].casefold() <= first[-1].casefold() <= last[-1].casefold()
        assert last[0].casefold() >= last[-1].casefold()
        assert first != last


def test_rows_without_a_correction_come_last_both_ways(show: Show) -> None:
    page = show(DATA)
    page.locator("#suspects [data-tool=size]").select_option("all")
    for _ in range(2):
        sort_by(page, "Proposed correction")
        absent = [text == "none" for text in column(page, "correction")]
        assert any(absent)
        assert absent == sorted(absent)


def test_search_and_filter_together(show: Show) -> None:
    page = show(DATA)
    page.locator("#suspects [data-tool=size]").select_option("all")
    search = page.locator("#suspects [data-tool=search]")
    search.fill("  ÁMERICA zone ")
    wanted = [
        str(rank)
        for rank, row in enumerate(DATA.suspects, 1)
        if "america" in f"{row.head} {row.relation} {row.tail}".lower()
        and "zone" in f"{row.head} {row.relation} {row.tail}".lower()
    ]
    assert wanted
    assert column(page, "rank") == wanted
    assert count_text(page).endswith(f"of {len(wanted)} suspects (300 in all)")
    search.fill("")
    choice = page.locator("#suspects [data-tool=relation]")
    label = next(text for text in choice.locator("option").all_inner_texts() if "borders" in text)
    choice.select_option(label=label)
    assert set(column(page, "relation")) == {"borders"}
    assert label == f"borders ({len(column(page, 'rank'))})"
    search.fill("no such thing")
    assert page.locator("#suspects .nothing").inner_text() == "No suspects match."
    assert count_text(page) == "0 suspects (300 in all)"
    assert len(column(page, "rank", "missing")) == 25


def test_a_relation_of_the_health_table_filters_the_suspects(show: Show) -> None:
    page = show(DATA)
    link = page.locator("a[data-relation=borders]")
    number = int(link.inner_text())
    link.click()
    assert set(column(page, "relation")) == {"borders"}
    assert f"of {number} suspects" in count_text(page)


def test_pages_turn_and_keep_the_focus(show: Show) -> None:
    page = show(DATA)
    following = page.locator("#suspects [data-tool=next]")
    following.focus()
    page.keyboard.press("Enter")
    assert column(page, "rank") == [str(i) for i in range(26, 51)]
    for _ in range(20):
        page.keyboard.press("Enter")
    assert column(page, "rank")[-1] == "300"
    assert following.get_attribute("aria-disabled") == "true"
    assert following.evaluate("button => button === document.activeElement")
    assert page.locator("#suspects [data-tool=page]").inner_text() == "Page 12 of 12"


def test_evidence_opens_by_mouse(show: Show) -> None:
    page = show(DATA)
    button = page.locator("#suspects button.evidence").nth(2)
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    opened = page.locator(f"#{button.get_attribute('aria-controls')}")
    for line in DATA.suspects[2].evidence.contradicting:
        assert opened.get_by_text(line, exact=True).is_visible()
    # What was opened stays open while the list is sorted and searched.
    sort_by(page, "Score")
    page.locator("#suspects [data-tool=search]").fill(DATA.suspects[2].head)
    assert page.locator("#suspects-evidence-3").is_visible()
    page.locator("#suspects button.evidence[data-rank='3']").click()
    assert page.locator(".opened").count() == 0


def test_evidence_opens_by_keyboard(show: Show) -> None:
    page = show(DATA)
    page.locator("#suspects").get_by_role("button", name="Evidence", exact=True).focus()
    page.keyboard.press("Tab")
    focused = page.locator(":focus")
    assert focused.get_attribute("data-rank") == "1"
    assert focused.inner_text().split() == ["Why?", "Evidence", "for", "rank", "1"]
    assert focused.evaluate("b => getComputedStyle(b).outlineStyle") == "solid"
    for key, state in (("Enter", "true"), ("Space", "false"), ("Space", "true")):
        page.keyboard.press(key)
        assert focused.get_attribute("aria-expanded") == state
    page.keyboard.press("Tab")
    assert page.locator(":focus").get_attribute("data-rank") == "2"


def test_shown_rows_can_be_downloaded(show: Show, tmp_path: Path) -> None:
    page = show(DATA)
    page.locator("#suspects [data-tool=search]").fill("borders")
    with page.expect_download() as waiting:
        page.locator("#suspects [data-tool=download]").click()
    assert waiting.value.suggested_filename == "suspects.tsv"
    waiting.value.save_as(tmp_path / "suspects.tsv")
    text = (tmp_path / "suspects.tsv").read_text(encoding="utf-8")
    lines = [line.split("\t") for line in text.splitlines()]
    assert lines[0][:5] == ["rank", "head", "relation", "tail", "probability"]
    rows = [row for row in DATA.suspects if row.relation == "borders"]
    assert [line[1:4] for line in lines[1:]] == [[r.head, r.relation, r.tail] for r in rows]
    assert [float(line[4]) for line in lines[1:]] == pytest.approx(
        [row.probability.value for row in rows], rel=1e-5
    )


def test_hostile_labels_do_nothing(show: Show) -> None:
    page = show(hostile_report())
    for section in ("suspects", "missing"):
        for button in page.locator(f"#{section} button.evidence").all():
            button.click()
    page.locator("#suspects td").first.hover()
    heads = page.locator("#suspects td.c-head").all_text_contents()
    assert heads == [shorten(text) or "(empty)" for text in HOSTILE]
    cut = page.locator("#suspects td.c-head bdi[title]").all()
    long = [text for text in HOSTILE if len(text) > 80]
    assert [label.get_attribute("title") for label in cut] == [text[:1000] for text in long]
    page.locator("#suspects [data-tool=relation]").select_option(index=1)
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main iframe, main script:not([type])").count() == 0
    assert page.locator("td.c-head bdi", has_text="القاهرة").first.evaluate(
        "e => getComputedStyle(e).unicodeBidi"
    ) in ("isolate", "isolate-override")


@pytest.mark.parametrize(
    "data", [DATA, hostile_report(), empty_report()], ids=["realistic", "hostile", "empty"]
)
def test_the_page_never_scrolls_sideways(show: Show, data: ReportData) -> None:
    page = show(data)
    page.locator("details").evaluate_all("all => all.forEach((d) => { d.open = true; })")
    for button in page.locator("button.evidence").all()[:2]:
        button.click()
    for width in (320, 360, 700, 1000, 1100, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Nothing may be cut off by its own cell either.
        wide = "all => all.filter((e) => e.scrollWidth > e.clientWidth + 1).length"
        assert page.locator(".review td, .review .sort, .card").evaluate_all(wide) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(show: Show, scheme: str) -> None:
    page = show(DATA, color_scheme=scheme)
    page.locator("#suspects button.evidence").first.click()
    ratios = {selector: page.evaluate(CONTRAST, selector) for selector in TEXTS}
    assert None not in ratios.values()
    assert {name: ratio for name, ratio in ratios.items() if ratio < 4.5} == {}
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, dark[4:-1].split(","))) < 150) == (scheme == "dark")
    page.locator("#suspects tr.fact").nth(4).hover()
    assert page.evaluate(CONTRAST, "tr.fact:hover td, tr.fact:hover .quiet") >= 4.5


def test_print_is_light_and_without_controls(show: Show) -> None:
    page = show(DATA, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(CONTRAST, ".quiet, td, h2, .mark") >= 4.5
    for selector in (".contents", "#suspects .tools", "#suspects .pager", "button.evidence"):
        assert not page.locator(selector).first.is_visible()


def test_an_empty_report_works(show: Show) -> None:
    page = show(empty_report())
    assert page.get_by_text("Not told", exact=True).is_visible()
    assert page.locator("table").count() == 0
    assert page.get_by_text("No stored fact is suspicious enough to be listed.").is_visible()


def test_five_thousand_rows_can_be_searched_and_sorted(show: Show) -> None:
    many = (DATA.suspects * 17)[:5000]
    page = show(dataclasses.replace(DATA, suspects=many, missing=many))
    assert count_text(page) == "Rows 1–25 of 5,000 suspects"
    page.locator("#suspects [data-tool=search]").fill("borders")
    sort_by(page, "Head")
    sort_by(page, "Head")
    assert "(5,000 in all)" in count_text(page)
