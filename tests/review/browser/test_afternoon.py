"""The desk in a real browser: a whole afternoon, hostile names, barriers, phones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from hostile_names import HOSTILE
from npugraph.cli import app
from npugraph.data.io import write_table
from npugraph.names import visible
from npugraph.review import Store
from npugraph.review.store import FILE, Answer
from review_samples import sample_audit

from .conftest import Desk, Show

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

NAMES = tuple(HOSTILE.values())
PAGES = (
    "/judge",
    "/queue",
    "/queue?group=relation",
    "/bulk?kind=missing",
    "/progress",
    "/take-home",
)

# What fingers must hit and is smaller than 44 pixels; links in a sentence are as high as that.
SMALL = """() => [...document.querySelectorAll(
    "button, input, select, textarea, summary, nav a, a.item, a.button")]
  .filter((element) => element.checkVisibility() && !element.closest("label"))
  .map((element) => [element.outerHTML.slice(0, 90), element.getBoundingClientRect()])
  .filter(([, box]) => box.height > 0 && (box.height < 43.5 || box.width < 43.5))
  .map(([text, box]) => [text, box.width, box.height])"""


def kept(folder: Path) -> list[Answer]:
    with Store.open(folder / FILE) as store:
        return store.current()


def case(page: Page) -> int:
    """Return the number of the fact that is shown."""
    action = page.locator("#answer").get_attribute("action")
    return int(re.match(r"/judge/(\d+)", action)[1])


def press(page: Page, key: str) -> None:
    """Press a key that leads from a case to another page, once the script is there."""
    page.locator("#answer").wait_for()
    page.wait_for_load_state()
    with page.expect_navigation():
        page.keyboard.press(key)


def follow(page: Page, link: Locator) -> None:
    """Click on what leads to another page, and wait for that."""
    with page.expect_navigation():
        link.click()


def said(page: Page) -> str:
    """Return what is seen to be done; the same is read out, once the script has put it there."""
    seen: str = page.locator("[data-said]").inner_text()
    assert page.locator("[data-told]:not(:empty)").text_content() == seen
    return seen


def base(page: Page) -> str:
    return re.match(r"https?://[^/]+", page.url)[0]


def test_an_afternoon(audited: Path, desk_of: Desk, show: Show) -> None:
    address = desk_of(audited, "--reviewer", "Anna", "--budget", "30")
    anna = show(address)
    assert "token" not in anna.url
    judge_twenty(anna, audited)
    correct_one(anna, audited)
    undo_and_reload(anna, audited)
    ben = second_reviewer(address, show, audited)
    read_progress(ben)
    take_home(anna, audited)


def judge_twenty(page: Page, audited: Path) -> None:
    """Filter, then judge by the keys alone; a fifth of the open queue comes blind."""
    follow(page, page.get_by_role("link", name="Queue"))
    follow(page, page.get_by_role("navigation", name="Filters").get_by_text("borders"))
    items = page.locator("a.item .words i").all_inner_texts()
    assert items
    assert set(items) == {"borders"}
    page.get_by_label("Search names").fill("franc")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert all("France" in text for text in page.locator("a.item .words").all_inner_texts())
    follow(page, page.get_by_role("link", name="clear all filters"))
    follow(page, page.get_by_role("navigation", name="Filters").get_by_text("borders"))
    follow(page, page.get_by_role("link", name="Judge these"))
    for key in "tftut":
        assert page.locator(".statement .relation").inner_text() == "borders"
        press(page, key)
    follow(page, page.get_by_role("link", name="Judge", exact=True))
    blind = 0
    for key in "ffttfufftfttfft":
        if page.locator(".blind").count():
            blind += 1
            assert page.locator(".opinion, .against, .for, .proposal").count() == 0
        press(page, key)
        assert said(page).startswith("Saved:")
    assert blind >= 3
    answers = kept(audited)
    assert len(answers) == 20
    assert {row.reviewer for row in answers} == {"Anna"}
    assert "".join(row.answer[0] for row in answers) == "tftut" + "ffttfufftfttfft"
    assert sum(row.drawn == "random" for row in answers) == blind
    assert page.locator(".beside .big").first.inner_text() == "20"


def correct_one(page: Page, audited: Path) -> None:
    """Search among the entities with the keys, add a note and how sure one is."""
    page.goto(f"{base(page)}/judge?{urlencode({'relation': 'borders', 'entity': 'France'})}")
    page.keyboard.press("n")
    page.keyboard.type("by the atlas")
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    assert page.locator("[data-badge]").inner_text() == "by the atlas · sure (95%)"
    page.keyboard.press("c")
    assert page.locator(":focus").get_attribute("id") == "new_tail"
    page.keyboard.type("belg")
    page.get_by_role("option", name="Belgium").wait_for()
    page.keyboard.press("ArrowDown")
    assert page.locator("[aria-selected=true]").inner_text() == "Belgium"
    page.keyboard.press("Enter")
    assert page.locator("#new_tail").input_value() == "Belgium"
    press(page, "Enter")
    assert said(page).startswith("Saved: Corrected.")
    last = kept(audited)[-1]
    assert (last.answer, last.new_head, last.new_tail) == ("correct", None, "Belgium")
    assert (last.note, last.confidence) == ("by the atlas", 0.95)


def undo_and_reload(page: Page, audited: Path) -> None:
    """Take the last answer back, give another, and find everything again."""
    corrected = kept(audited)[-1].fact
    press(page, "z")
    assert said(page).startswith("Taken back:")
    assert corrected not in [row.fact for row in kept(audited)]
    page.keyboard.press("r")
    assert page.locator(":focus").get_attribute("id") == "right_relation"
    press(page, "Enter")
    assert (kept(audited)[-1].fact, kept(audited)[-1].answer) == (corrected, "wrong-relation")
    follow(page, page.get_by_role("link", name="Judge", exact=True))
    before = case(page)
    page.reload()
    assert case(page) == before
    assert page.locator(".beside .big").first.inner_text() == "21"
    press(page, "s")
    assert case(page) != before
    assert len(kept(audited)) == 21


def second_reviewer(address: str, show: Show, audited: Path) -> Page:
    """Another person, another browser, the same desk; they disagree once."""
    page = show(re.sub(r"reviewer=\w+", "reviewer=Ben", address))
    assert page.locator(".who summary").inner_text().split() == ["You", "are", "Ben", "▾"][:3]
    first = kept(audited)[0]
    page.goto(f"{base(page)}/queue?state=answered&text={first.tail}")
    follow(page, page.locator("a.item").first)
    press(page, "f" if first.answer == "true" else "t")
    follow(page, page.get_by_role("link", name="Judge", exact=True))
    for _ in range(3):
        press(page, "t")
    mine = [row for row in kept(audited) if row.reviewer == "Ben"]
    assert len(mine) == 4
    return page


def read_progress(page: Page) -> None:
    follow(page, page.get_by_role("link", name="Progress"))
    assert page.locator("#share + p .big").inner_text().endswith("%")
    assert "95% interval" in page.locator("section", has=page.locator("#share")).inner_text()
    assert "Anna" in page.locator("table").last.inner_text()
    follow(page, page.get_by_role("link", name="in dispute"))
    assert page.locator("a.item").count() >= 1


def take_home(page: Page, audited: Path) -> None:
    """Download the patch, apply it, take it back: the file is as it was, byte for byte."""
    follow(page, page.get_by_role("link", name="Take it home"))
    assert "npugraph export" in page.locator(".take code").first.inner_text()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download A patch").click()
    facts, patch = audited.parent / "facts.tsv", audited.parent / "patch.json"
    download.value.save_as(patch)
    before = facts.read_bytes()
    cleaned, back = audited.parent / "cleaned.tsv", audited.parent / "back.tsv"
    with page.expect_download() as download:
        page.get_by_role("link", name="Download The cleaned graph").click()
    for words in (
        ("apply", patch, facts, "--out", cleaned),
        ("revert", patch, cleaned, "--out", back),
    ):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, (done.output, done.exception)
    assert cleaned.read_bytes() == Path(download.value.path()).read_bytes() != before
    assert back.read_bytes() == facts.read_bytes() == before
    gone = [row.fact for row in kept(audited) if row.answer == "false" and row.reviewer == "Anna"]
    lines = cleaned.read_text(encoding="utf-8").splitlines()
    assert sum("\t".join(fact) in lines for fact in gone) <= 1, "one of them is in dispute"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, desk_of: Desk) -> tuple[Path, str]:
    """A folder in which entities, a relation and a source have names that mean harm."""
    folder = tmp_path_factory.mktemp("hostile") / "audit"
    sample_audit(folder, stored=80, missing=20, source=True)
    table = pyarrow.parquet.read_table(folder / "posterior.parquet")
    heads = list(dict.fromkeys(table["head"].to_pylist()))
    new = dict(zip(heads, NAMES, strict=False)) | {"knows": NAMES[0], "document 1": NAMES[1]}
    for name in ("head", "relation", "source"):
        column = pa.array([new.get(text, text) for text in table[name].to_pylist()])
        table = table.set_column(table.column_names.index(name), name, column)
    write_table(table, folder / "posterior.parquet")
    for name in ("suspects.tsv", "issues.tsv"):
        (folder / name).unlink()
    address = desk_of(folder, "--random-share", "0", "--reviewer", "<b>Eve</b>")
    return folder, address


def test_names_are_text_whatever_they_hold(hostile: tuple[Path, str], show: Show) -> None:
    _, address = hostile
    page = show(address)
    for name in NAMES:
        page.goto(f"{base(page)}/queue?{urlencode({'entity': name})}")
        assert page.locator("a.item").count() >= 4, name
        follow(page, page.locator("a.item").first)
        shown = page.locator(".statement .end").first.inner_text()
        whole = " ".join(visible(name).split())
        assert shown == whole if len(name) <= 80 else len(shown) <= 80
        press(page, "f")
        # The filter, with its name, went along.
        assert page.get_by_role("link", name="see the list").count() == 1
    page.goto(f"{base(page)}/judge?{urlencode({'entity': HOSTILE['long']})}")
    page.locator(".whole summary").first.click()
    assert page.locator(".whole pre").first.inner_text() == HOSTILE["long"]
    for place in PAGES:
        page.goto(base(page) + place)
        assert "hacked" not in page.title()
        assert page.locator("main img, main script, main b > h1").count() == 0
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, place


def test_a_hostile_name_can_be_chosen_and_is_kept_exactly(
    hostile: tuple[Path, str], show: Show
) -> None:
    folder, address = hostile
    page = show(address)
    for part, kind in (("three", "newlines"), ("padded", "space"), ("<script>", "script")):
        page.goto(f"{base(page)}/judge")
        page.keyboard.press("c")
        page.keyboard.type(part)
        page.get_by_role("option").first.wait_for()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        press(page, "Enter")
        assert kept(folder)[-1].new_tail == HOSTILE[kind]
        assert kept(folder)[-1].reviewer == "<b>Eve</b>"


def test_it_works_without_a_script(hostile: tuple[Path, str], show: Show) -> None:
    folder, address = hostile
    page = show(address, java_script_enabled=False)
    before = len(kept(folder))
    first = case(page)
    follow(page, page.get_by_role("button", name="False"))
    assert case(page) != first
    page.locator("summary", has_text="Correct to").click()
    page.get_by_role("combobox", name="Tail").fill("town 00001")
    page.keyboard.press("Enter")
    assert len(kept(folder)) == before + 1, "Enter must not give the first answer"
    follow(page, page.get_by_role("button", name="Save the correction"))
    assert kept(folder)[-1].new_tail == "town 00001"
    follow(page, page.get_by_role("button", name="Undo").first)
    assert len(kept(folder)) == before + 1


def test_keys_are_shown_and_can_be_turned_off(hostile: tuple[Path, str], show: Show) -> None:
    folder, address = hostile
    page = show(address)
    before, first = len(kept(folder)), case(page)
    page.keyboard.press("?")
    overlay = page.get_by_role("dialog", name="Keys")
    assert overlay.is_visible()
    page.keyboard.press("t")
    overlay.get_by_label("Use single keys").uncheck()
    page.keyboard.press("Escape")
    assert not overlay.is_visible()
    page.keyboard.press("t")
    page.wait_for_timeout(100)
    assert (case(page), len(kept(folder))) == (first, before)
    page.reload()
    page.keyboard.press("t")
    page.wait_for_timeout(100)
    assert case(page) == first
    # A field takes letters as letters.
    page.get_by_role("button", name="Keys").click()
    overlay.get_by_label("Use single keys").check()
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.keyboard.type("tfu")
    assert page.locator("textarea").input_value() == "tfu"
    assert len(kept(folder)) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_barriers(
    hostile: tuple[Path, str], show: Show, axe: str, scheme: str, width: int
) -> None:
    _, address = hostile
    phone = {"has_touch": True, "is_mobile": True} if width < 500 else {}
    page = show(address, width=width, color_scheme=scheme, **phone)
    for place in (*PAGES, "/queue?kind=nonsense", "panels"):
        if place == "panels":
            page.goto(f"{base(page)}/judge")
            page.locator("summary", has_text="Correct to").click()
            page.get_by_role("combobox", name="Tail").fill("town")
            page.get_by_role("option").first.wait_for()
        else:
            page.goto(base(page) + place)
        page.evaluate(axe)
        found = page.evaluate("axe.run().then((found) => found.violations)")
        assert [(one["id"], [n["html"][:200] for n in one["nodes"]]) for one in found] == [], place


def test_a_phone_has_room_for_fingers(hostile: tuple[Path, str], show: Show) -> None:
    _, address = hostile
    page = show(address, width=390, height=844, has_touch=True, is_mobile=True)
    for place in PAGES:
        page.goto(base(page) + place)
        assert page.evaluate(SMALL) == [], place
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, place
