"""The tables of the audit's page are those of its results."""

from __future__ import annotations

import pytest

from script_files import load_script


def test_the_tables_are_up_to_date() -> None:
    builder = load_script("build_audit_docs")
    written = builder.PAGE.read_text(encoding="utf-8")
    assert written == builder.page(written), "run: python scripts/build_audit_docs.py"
    assert "| fb15k-237 | random, 0.5 | 10 |" in written


def test_a_table_without_a_place_is_an_error() -> None:
    builder = load_script("build_audit_docs")
    with pytest.raises(SystemExit, match="0 places for the table 'detection'"):
        builder.page("no table here")
