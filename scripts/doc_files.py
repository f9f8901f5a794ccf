"""What the scripts that build pages share: the results, grids, CSV, writing and checking."""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npugraph.bench.plan import BenchPlan, packaged
from npugraph.bench.store import Store
from npugraph.bench.summary import Lines, Row, rows

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
BENCH = RESULTS / "bench"
# In the order of the paper; plans that are not named here follow by name.
ORDER = ("table-0.3", "sweep-rates", "ablation", "k-sweep", "alpha-sweep", "twitter", "clean")
# A check of the machinery, not a result.
LEFT_OUT = ("smoke",)
# Longest line of text on a page; grids may be wider.
WIDTH = 100


@dataclass(frozen=True)
class Everything:
    """All plans of the bench and what they gave."""

    plans: list[BenchPlan]
    results: Lines
    costs: Lines
    rows: list[Row]

    @classmethod
    def read(cls, folder: Path) -> Everything:
        """Read the packaged plans in the order of the page, and the lines of results."""
        names = [name for name in packaged() if name not in LEFT_OUT]
        known = [name for name in ORDER if name in names]
        plans = [BenchPlan.read(name) for name in (*known, *(n for n in names if n not in ORDER))]
        store = Store(folder)
        results, costs = store.results(), store.costs()
        every = [row for plan in plans for row in rows(plan, results, costs)]
        return cls(plans, results, costs, every)


def grid(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    every = [columns, ["---"] * len(columns), *lines]
    return "\n".join(
        f"| {' | '.join(' '.join(cell.split()).replace('|', '') for cell in line)} |"
        for line in every
    )


def csv_text(columns: Sequence[str], lines: Iterable[Mapping[str, Any]]) -> str:
    """Return lines as CSV; a column that a line does not have is empty."""
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, restval="", extrasaction="raise", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def paragraph(text: str, bullet: bool = False) -> str:
    """Break a text into lines; as a bullet, the later ones are indented."""
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        initial_indent="- " if bullet else "",
        subsequent_indent="  " if bullet else "",
        break_long_words=False,
        break_on_hyphens=False,
    )


def stale(files: Mapping[Path, str]) -> list[Path]:
    """Return the files that are not as they would be made now.

    The style of HTML pages belongs to the package and may change without them.
    """
    return [
        path
        for path, text in files.items()
        if not path.is_file() or _content(path.read_text(encoding="utf-8")) != _content(text)
    ]


def _content(text: str) -> str:
    if not text.startswith("<!doctype html>"):
        return text
    return re.sub(r"<style>.*?</style>|sha256-[\w+/=]+", "", text, flags=re.DOTALL)


def asked_to_check(description: str | None) -> bool:
    """Read the command line, which may hold --check."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail where it is not up to date")
    return bool(parser.parse_args().check)


def check(files: Mapping[Path, str]) -> None:
    """End with the names of the files that are not up to date, if there are any."""
    old = [path.relative_to(ROOT).as_posix() for path in stale(files)]
    if old:
        sys.exit(f"Not up to date: {', '.join(old)}. Run the script without --check.")


def write(files: Mapping[Path, str], folder: Path) -> None:
    """Write files, and remove what else is in the folder that is all theirs."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path not in files:
            path.unlink()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
