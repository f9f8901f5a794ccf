"""The tables of the pages are those of the results."""

from __future__ import annotations

from types import ModuleType

import pytest

from script_files import load_script


@pytest.fixture
def builder() -> ModuleType:
    return load_script("build_page_tables")


def test_the_tables_are_up_to_date(builder: ModuleType) -> None:
    for page in builder.PAGES:
        written = page.path.read_text(encoding="utf-8")
        assert written == builder.filled(page, written), "run: python scripts/build_page_tables.py"
    audit, paths, *_ = (page.path.read_text(encoding="utf-8") for page in builder.PAGES)
    assert "| fb15k-237 | random, 0.5 | 10 |" in audit
    assert "| fb15k-237 | 0.3 | path | 0, 1, 2 |" in paths


def test_a_table_without_a_place_is_an_error(builder: ModuleType) -> None:
    with pytest.raises(SystemExit, match="0 places for the table 'detection'"):
        builder.filled(builder.PAGES[0], "no table here")
