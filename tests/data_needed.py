"""What happens where the data that a test needs is not there."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def data_required() -> bool:
    """Tell whether tests must not be skipped for want of data.

    NPUGRAPH_REQUIRE_DATA says so by 1 or 0; without it, continuous integration (CI=true) does.
    """
    told = os.environ.get("NPUGRAPH_REQUIRE_DATA")
    if told is not None:
        return told == "1"
    return os.environ.get("CI", "").lower() in ("1", "true")


def data_absent(reason: str) -> NoReturn:
    """Skip the test, or fail it where data is required."""
    if data_required():
        pytest.fail(f"Data is required here, but this test {reason}")
    pytest.skip(reason)
