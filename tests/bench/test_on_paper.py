"""What is told of graphs that nobody has trained on here: counted, and the same on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.speed import on_paper
from npugraph.training.memory import FACT_BYTES

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


def test_the_page_has_the_tables() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    for line in [*on_paper.lookup_lines(), *on_paper.path_lines()]:
        assert line in page, "run: python -m benchmarks.speed.on_paper"


def test_what_is_counted() -> None:
    assert on_paper.FACT_BYTES == FACT_BYTES
    # 86 million entities: 44 GB of vectors, and 86 million sums.
    freebase = 4 * 86_054_151
    assert on_paper.table_bytes(freebase) == pytest.approx(44.06e9 + 0.344e9, rel=1e-3)
    assert on_paper.ranks(freebase) == 1
    assert on_paper.ranks(10**9) > 1
    assert on_paper.ranks(10**10) == 0
    assert [on_paper.duration(s) for s in (0.0059, 0.05, 90, 7200)] == [
        "5.9 ms", "50 ms", "90 s", "2.0 h",
    ]  # fmt: skip
