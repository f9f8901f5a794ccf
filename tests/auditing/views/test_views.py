"""What holds for every view."""

from __future__ import annotations

from typing import get_args

import pytest
from typer.testing import CliRunner

from npugraph.auditing import AuditSettings
from npugraph.auditing.settings import ViewName
from npugraph.auditing.views import VIEWS
from npugraph.cli import app
from npugraph.errors import SettingsError
from npugraph.settings import make_settings


def test_the_table_has_every_name() -> None:
    assert set(VIEWS) == set(get_args(ViewName))


def test_the_help_names_every_view() -> None:
    shown = CliRunner().invoke(app, ["audit", "--help"], env={"COLUMNS": "200"}).output
    assert f"Kinds of evidence: {', '.join(get_args(ViewName))}." in shown


def test_names_stand_with_commas_between_on_the_command_line() -> None:
    assert make_settings(AuditSettings, {"views": "embedding"}).views == ("embedding",)
    assert make_settings(AuditSettings, {"views": ""}).views == ()


def test_unknown_and_repeated_views_are_refused() -> None:
    with pytest.raises(SettingsError, match="views='embeding' must be one of embedding"):
        make_settings(AuditSettings, {"views": "embeding"})
    with pytest.raises(SettingsError, match="views=embedding,embedding has a view twice"):
        AuditSettings(views=("embedding", "embedding"))
    with pytest.raises(SettingsError, match="views=roles,pairs: none of them can rank entities"):
        AuditSettings(views=("roles", "pairs"))
