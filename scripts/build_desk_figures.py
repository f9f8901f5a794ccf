"""Make the pictures of docs/review.md: the desk on the demo's graph, judged by who knows it.

    make demo
    python scripts/build_desk_figures.py [AUDIT_DIR]

The folder is copied first, so that no answer stays in it. Needs the extras review and dev, and
Chromium.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from npugraph.data.datasets import load
from npugraph.review import AnswerIn, Desk

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
DESKTOP = {"viewport": {"width": 1200, "height": 800}}
PHONE = {
    "viewport": {"width": 390, "height": 780},
    "device_scale_factor": 1.5,
    "has_touch": True,
    "is_mobile": True,
}
# A picture in a page may not be larger.
LARGEST = 150_000
ANSWERS, BUDGET = 140, 200
QUEUE = "queue?group=relation&kind=suspect&state=open"


def main() -> None:
    """Judge some facts, open the pages and write the pictures."""
    from playwright.sync_api import sync_playwright

    given = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out/demo")
    found = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place) / "audit"
        shutil.copytree(given, folder, ignore=shutil.ignore_patterns("answers.sqlite*"))
        judge(folder)
        with served(folder) as address:
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
            write("desk-judge", [picture(browser, address, "judge", "light", DESKTOP)])
            write("desk-queue", [picture(browser, address, QUEUE, "light", DESKTOP)])
            write("desk-progress-dark", [picture(browser, address, "progress", "dark", DESKTOP)])
            both = [picture(browser, address, "judge", s, PHONE) for s in ("light", "dark")]
            write("desk-phone", both)
            browser.close()


def judge(folder: Path) -> None:
    """Answer as two people who know the bundled graph, and disagree twice."""
    world = load("world").to_table()
    columns = (world[name].to_pylist() for name in ("head", "relation", "tail"))
    true, again = set(zip(*columns, strict=True)), 0
    with Desk.open(folder, {"agreement_share": 0.2, "budget": BUDGET}) as desk:
        for place in range(ANSWERS):
            reviewer = ("Anna", "Ben")[place % 3 == 2]
            card = desk.next(reviewer)
            assert card is not None
            again += card.why == "agreement"
            right = (card.head.name, card.relation.name, card.tail.name) in true
            mistaken = card.why == "agreement" and again in (3, 6)
            word = "true" if right != mistaken else "false"
            desk.answer(reviewer, card.number, AnswerIn(f"figure {place}", word))
        desk.settle()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Run the desk on a folder; yields the address that it prints."""
    words = ["review", str(folder), "--no-browser", "--port", "0", "--reviewer", "Anna"]
    words += ["--budget", str(BUDGET)]
    command = [sys.executable, "-m", "npugraph", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1]
        process.terminate()


def picture(
    browser: Browser, address: str, page: str, scheme: Any, context: dict[str, Any]
) -> Image.Image:
    """Return a page as it is seen."""
    opened = browser.new_context(color_scheme=scheme, reduced_motion="reduce", **context)
    shown = opened.new_page()
    shown.goto(address)
    # A case that has evidence, and not one that hides it.
    while page == "judge" and not shown.locator(".against li").count():
        shown.keyboard.press("s")
        shown.wait_for_url("**done=skipped**")
        shown.wait_for_load_state()
    if page != "judge":
        shown.goto(f"{address.split('?')[0]}{page}")
    shot = shown.screenshot(animations="disabled")
    opened.close()
    return Image.open(io.BytesIO(shot)).convert("RGB")


def write(name: str, pictures: list[Image.Image]) -> None:
    """Write pictures side by side, in few colours."""
    gap = 24 * (len(pictures) - 1)
    size = (sum(one.width for one in pictures) + gap, pictures[0].height)
    whole = Image.new("RGB", size, "white")
    left = 0
    for one in pictures:
        whole.paste(one, (left, 0))
        left += one.width + gap
    path = FIGURES / f"{name}.png"
    whole.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    assert path.stat().st_size < LARGEST, f"{path} is too large"
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
