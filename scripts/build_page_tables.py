"""Puts the tables of some pages of docs/ in place, from lines of benchmarks/results.

    python scripts/build_page_tables.py            # write them
    python scripts/build_page_tables.py --check    # fail where they are not up to date

The text around the tables is written by hand. A table stands between two comments, which name it
after its function in one of benchmarks/quality/*_tables.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# A script is run from anywhere; the benchmarks are a package of the repository, not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.quality import (  # noqa: E402
    ablation_tables,
    answers_tables,
    audit_tables,
    caged_tables,
    demo_tables,
    desk_tables,
    finding_tables,
    paths_tables,
    planted_tables,
    promises_tables,
    since_tables,
)

Table = Callable[[list[dict[str, Any]]], Iterable[str]]
END = "<!-- end -->\n"


class Page(NamedTuple):
    """A page, the lines its tables are made of, and the tables."""

    path: Path
    lines: Callable[[], list[dict[str, Any]]]
    tables: tuple[Table, ...]


def of(name: str, module: Any, results: str = "", tables: tuple[Table, ...] = ()) -> Page:
    """Return the page ``docs/NAME.md``, whose results are ``results/NAME.jsonl`` or another."""
    lines = ROOT / "benchmarks" / "results" / f"{results or name}.jsonl"
    page = ROOT / "docs" / f"{name}.md"
    return Page(page, lambda: module.read(lines), tables or module.TABLES)


PAGES = (
    of("audit_figures", audit_tables, "audit"),
    of("paths_figures", paths_tables, "paths"),
    of("audit_figures", answers_tables, "answers"),
    of("audit_figures", promises_tables, "promises"),
    of("audit_figures", promises_tables, "promises_before", promises_tables.BEFORE),
    of("audit_figures", finding_tables, "finding_before"),
    of("audit_figures", demo_tables, "demo"),
    of("audit_figures", caged_tables, "caged"),
    of("review", desk_tables, "desk"),
    of("method", ablation_tables, "ablation"),
    of("method", planted_tables, "planted_share"),
    of("scale", since_tables, "since"),
)


def filled(page: Page, text: str) -> str:
    """Return the text of a page with its tables made anew."""
    lines = page.lines()
    for table in page.tables:
        begin = f"<!-- table: {table.__name__} -->\n"
        found = text.count(begin)
        if found != 1:
            raise SystemExit(
                f"{page.path}: there are {found} places for the table {table.__name__!r}, not one."
            )
        before, rest = text.split(begin)
        after = rest[rest.index(END) :]
        text = before + begin + "\n".join(table(lines)) + "\n" + after
    return text


def main() -> None:
    """Write the tables, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    for page in PAGES:
        before = page.path.read_text(encoding="utf-8")
        after = filled(page, before)
        if arguments.check and after != before:
            sys.exit(f"{page.path} is not up to date; run this without --check.")
        page.path.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
